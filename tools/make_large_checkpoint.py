#!/usr/bin/env python3
"""Writes a denoiser of random weights, full size or smaller, to measure conversion and loading with. numpy only; a panel of numbers at a time.

    make_large_checkpoint.py OUT_FOLDER [--format bf16|fp8] [--layers 34] [--hidden 4608] [--intermediate 12288] [--llm-features 53248]
                             [--in-channels 128] [--adaln 512]

The full size is 18.6 GB in bf16, 9.3 GB in fp8 (matrices in e4m3 with a scale per row, the rest in bf16). OUT_FOLDER gets
diffusion_pytorch_model.safetensors and config.json, official (fused) names.
"""
import argparse
import json
import pathlib
import struct

import numpy as np
from formats.codecs import e4m3_encode

PANEL = 1 << 24  # numbers drawn at a time
HEAD_DIM = 256


def shapes(o):
    d = o.hidden
    yield "embed_image_indicator.weight", (2, d)
    for name, out, inner in (("input_proj", d, o.in_channels), ("llm_cond_proj", d, o.llm_features), ("t_embedding.mlp_in", d, d), ("t_embedding.mlp_out", d, d),
                             ("adaln_proj", o.adaln, d), ("final_layer.linear", o.in_channels, d), ("final_layer.adaln_modulation", d, o.adaln)):
        yield f"{name}.weight", (out, inner)
        yield f"{name}.bias", (out,)
    yield "llm_cond_norm.weight", (o.llm_features,)
    for i in range(o.layers):
        at = f"layers.{i}."
        yield at + "attention.qkv.weight", (3 * d, d)
        yield at + "attention.o.weight", (d, d)
        yield at + "attention.norm_q.weight", (HEAD_DIM,)
        yield at + "attention.norm_k.weight", (HEAD_DIM,)
        yield at + "feed_forward.w1.weight", (o.intermediate, d)
        yield at + "feed_forward.w3.weight", (o.intermediate, d)
        yield at + "feed_forward.w2.weight", (d, o.intermediate)
        for norm in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
            yield f"{at}{norm}.weight", (d,)
        yield at + "adaln_modulation.weight", (4 * d, o.adaln)
        yield at + "adaln_modulation.bias", (4 * d,)


def tensors(o):
    """(name, dtype, shape, bytes of one number)"""
    for name, shape in shapes(o):
        if o.format == "fp8" and len(shape) == 2 and not name.startswith("embed"):
            yield name, "F8_E4M3", shape, 1
            yield name.removesuffix(".weight") + ".weight_scale", "F32", (shape[0], 1), 4
        else:
            yield name, "BF16", shape, 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--format", choices=("bf16", "fp8"), default="bf16")
    for name, value in (("layers", 34), ("hidden", 4608), ("intermediate", 12288), ("llm-features", 53248), ("in-channels", 128), ("adaln", 512)):
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    header, offset = {}, 0
    for name, dtype, shape, width in tensors(o):
        size = width * int(np.prod(shape))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    o.out.mkdir(parents=True, exist_ok=True)
    # One panel of Gaussian numbers, read from a place that moves by an odd step: random enough to quantise, a hundred times faster than drawing all.
    panel_size = min(PANEL, o.layers * o.hidden * o.intermediate)
    normal = np.random.default_rng(1).standard_normal(2 * panel_size, np.float32)
    bf16 = ((normal * np.float32(0.02)).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    e4m3 = e4m3_encode(normal * np.float32(64)) if o.format == "fp8" else None
    with open(o.out / "diffusion_pytorch_model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = 0
        for _, dtype, shape, _ in tensors(o):
            left = int(np.prod(shape))
            if dtype == "F32":
                file.write(np.full(left, 0.02 / 64, np.float32).tobytes())
                continue
            while left:
                count = min(left, panel_size)
                file.write((e4m3 if dtype == "F8_E4M3" else bf16)[start : start + count].tobytes())
                left -= count
                start = (start + 1234577) % panel_size
    (o.out / "config.json").write_text(json.dumps({
        "_class_name": "Ideogram4Transformer2DModel", "num_layers": o.layers, "num_attention_heads": o.hidden // HEAD_DIM, "attention_head_dim": HEAD_DIM,
        "intermediate_size": o.intermediate, "adaln_dim": o.adaln, "in_channels": o.in_channels, "llm_features_dim": o.llm_features, "rope_theta": 5000000,
        "mrope_section": [24, 20, 20], "norm_eps": 1e-5}, indent=1))
    print(f"{o.out}: {offset / 1e9:.2f} GB")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes a denoiser of random bf16 weights, full size or smaller, to measure conversion and loading with. numpy only; a row panel at a time.

    make_large_checkpoint.py OUT_FOLDER [--layers 34] [--hidden 4608] [--intermediate 12288] [--llm-features 53248]

The full size is 18.6 GB. OUT_FOLDER gets diffusion_pytorch_model.safetensors and config.json, official (fused) names.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

PANEL = 1 << 24  # numbers drawn at a time


def shapes(o):
    d = o.hidden
    yield "embed_image_indicator.weight", (2, d)
    for name, out, inner in (("input_proj", d, 128), ("llm_cond_proj", d, o.llm_features), ("t_embedding.mlp_in", d, d), ("t_embedding.mlp_out", d, d),
                             ("adaln_proj", 512, d), ("final_layer.linear", 128, d), ("final_layer.adaln_modulation", d, 512)):
        yield f"{name}.weight", (out, inner)
        yield f"{name}.bias", (out,)
    yield "llm_cond_norm.weight", (o.llm_features,)
    for i in range(o.layers):
        at = f"layers.{i}."
        yield at + "attention.qkv.weight", (3 * d, d)
        yield at + "attention.o.weight", (d, d)
        yield at + "attention.norm_q.weight", (256,)
        yield at + "attention.norm_k.weight", (256,)
        yield at + "feed_forward.w1.weight", (o.intermediate, d)
        yield at + "feed_forward.w3.weight", (o.intermediate, d)
        yield at + "feed_forward.w2.weight", (d, o.intermediate)
        for norm in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
            yield f"{at}{norm}.weight", (d,)
        yield at + "adaln_modulation.weight", (4 * d, 512)
        yield at + "adaln_modulation.bias", (4 * d,)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    for name, value in (("layers", 34), ("hidden", 4608), ("intermediate", 12288), ("llm-features", 53248)):
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    header, offset = {}, 0
    for name, shape in shapes(o):
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    o.out.mkdir(parents=True, exist_ok=True)
    # One panel of Gaussian numbers, read from a place that moves by an odd step: random enough to quantise, a hundred times faster than drawing all.
    panel = (np.random.default_rng(1).standard_normal(2 * PANEL, np.float32) * np.float32(0.02)).view(np.uint32)
    panel = (panel >> np.uint32(16)).astype(np.uint16)
    with open(o.out / "diffusion_pytorch_model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = 0
        for _, shape in shapes(o):
            left = int(np.prod(shape))
            while left:
                count = min(left, PANEL)
                file.write(panel[start : start + count].tobytes())
                left -= count
                start = (start + 1234577) % PANEL
    (o.out / "config.json").write_text(json.dumps({
        "_class_name": "Ideogram4Transformer2DModel", "num_layers": o.layers, "num_attention_heads": o.hidden // 256, "attention_head_dim": 256,
        "intermediate_size": o.intermediate, "adaln_dim": 512, "in_channels": 128, "llm_features_dim": o.llm_features, "rope_theta": 5000000,
        "mrope_section": [24, 20, 20], "norm_eps": 1e-5}, indent=1))
    print(f"{o.out}: {offset / 1e9:.2f} GB")


if __name__ == "__main__":
    main()

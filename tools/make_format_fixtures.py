#!/usr/bin/env python3
"""Writes the golden tiny models in every checkpoint dialect that people have, with the weights that each dialect's published rule gives back.

    make_format_fixtures.py OUT [--golden FOLDER] [--cross-check]

OUT/<dialect>/<component>/ holds the weights and config.json, OUT/<dialect>/expected.safetensors the dequantised float32 weights as
"<component>/<module>" (module as the file names it, without a prefix), OUT/manifest.json what was written. --cross-check also runs the reference
packages (safetensors, gguf, bitsandbytes), if installed, over the same files, and fails on a difference.
"""
import argparse
import json
import pathlib
import shutil
import sys

import numpy as np
from formats import codecs as c
from formats.containers import Stored, as_float, read_safetensors, stored, text, write_gguf, write_safetensors

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRANCHES = {"transformer": "conditional", "unconditional_transformer": "unconditional"}
SENSITIVE = ("embed_image_indicator", "t_embedding", "llm_cond_proj", "adaln_proj", "final_layer", "input_proj")
TRANSFORMER_FILE = "diffusion_pytorch_model.safetensors"


# ---- the source ----
class Model:
    """A golden folder: float32 weights by official (fused) name; the text encoder under its own names."""

    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        self.split = {b: {n: as_float(t) for n, t in read_safetensors(folder / b / TRANSFORMER_FILE)[0].items()} for b in BRANCHES}
        self.fused = {b: fuse(tensors) for b, tensors in self.split.items()}
        encoder, _ = read_safetensors(folder / "text_encoder" / "model.safetensors")
        self.text_encoder = {n: as_float(t) for n, t in encoder.items() if not n.startswith("visual.")}


def fuse(tensors):
    fused = {}
    for name, value in tensors.items():
        if ".attention.to_q." in name:
            parts = [tensors[name.replace("to_q", f"to_{p}")] for p in "qkv"]
            fused[name.replace("to_q", "qkv")] = np.concatenate(parts)
        elif ".attention.to_out.0." in name:
            fused[name.replace("to_out.0", "o")] = value
        elif ".attention.to_" not in name:
            fused[name] = value
    return fused


def is_linear(name, value):
    return name.endswith(".weight") and value.ndim == 2 and "embed" not in name.split(".")[-2]


# ---- one tensor in one format: (stored tensors by suffix of the module, dequantised weight) ----
def fp8(shape):
    def encode(w):
        limit = np.maximum(np.abs(w).max(axis=1), np.float32(1e-12)) if shape in ("row", "column") else np.abs(w).max(keepdims=True).reshape(1)
        scale = (limit / np.float32(448)).astype(np.float32)
        codes = c.e4m3_encode(w / scale[:, None])
        kept = {"row": scale.shape, "column": (-1, 1), "one": (1,), "scalar": ()}[shape]
        scale = scale.reshape(kept)
        return {"weight": stored("F8_E4M3", codes), "weight_scale": stored("F32", scale)}, c.e4m3_decode(codes, scale)

    return encode


def fp8_cast(w):
    codes = c.e4m3_encode(w)
    return {"weight": stored("F8_E4M3", codes)}, c.e4m3_decode(codes, np.float32(1))


def nf4(nested):
    def encode(w):
        packed, absmax = c.nf4_encode(w)
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(w.shape)}
        out = {"weight": stored("U8", packed), "weight.quant_map": stored("F32", c.NF4_MAP)}
        if nested:
            codes, nested_map, nested_absmax, offset = c.nested_encode(absmax)
            out |= {"weight.absmax": stored("U8", codes), "weight.nested_absmax": stored("F32", nested_absmax), "weight.nested_quant_map": stored("F32", nested_map)}
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": float(offset)}
            absmax = c.nested_decode(codes, nested_map, nested_absmax, offset)
        else:
            out["weight.absmax"] = stored("F32", absmax)
        out["weight.quant_state.bitsandbytes__nf4"] = text(state)
        return out, c.nf4_decode(packed, absmax, w.shape)

    return encode


def int8(group=0, scale_shape="column", marker=None):
    """marker(group) is the JSON beside the weight, or None."""

    def encode(w):
        own = c.largest_group(w.shape[1], group) if group else 0
        turned = c.rotate(w, own) if own else w
        codes, scale = c.int8_encode_tensor(turned) if scale_shape == "scalar" else c.int8_encode_rows(turned)
        kept = np.asarray(scale).reshape({"scalar": (), "row": -1, "column": (-1, 1)}[scale_shape])
        out = {"weight": stored("I8", codes), "weight_scale": stored("F32", kept)}
        if marker and marker(own) is not None:
            out["comfy_quant"] = text(marker(own))
        back = c.int8_decode(codes, scale)
        return out, c.rotate(back, own) if own else back

    return encode


def comfy_marker(group):
    return {"format": "int8_tensorwise"} | ({"convrot": True, "convrot_groupsize": group} if group else {})


def fast_marker(group):
    return {"convrot": True, "convrot_groupsize": group, "per_row": True} if group else {"convrot": False, "per_row": True}


def smoothing(w, seed):
    """A smoothing vector as a calibration would give it: s = max|x|^0.5 / max|w|^0.5, with activation maxima spread over two decades."""
    x = np.exp2(np.random.default_rng(seed).uniform(-3, 3, w.shape[1]))
    return np.sqrt(x / np.maximum(np.abs(w).max(axis=0), 1e-5)).astype(np.float32)


# ---- one dialect: tensors of a component and the weights to expect ----
def convert(weights, encode, only=lambda n: True, plain="BF16", extra=None):
    """Every linear that `only` accepts through `encode`, everything else as `plain`."""
    tensors, expected = {}, {}
    for name, value in weights.items():
        module = name.removesuffix(".weight")
        if encode and is_linear(name, value) and only(module):
            parts, expected[module] = encode(value)
            tensors |= {f"{module}.{suffix}": t for suffix, t in parts.items()}
            if extra:
                tensors |= {f"{module}.{s}": t for s, t in extra.items()}
        else:
            tensors[name] = stored(plain, value)
            if is_linear(name, value):
                expected[module] = as_float(tensors[name])
    return tensors, expected


class Fixtures:
    def __init__(self, out):
        self.out, self.dialects = out, []

    def add(self, name, model, component, tensors, expected, prefix="", metadata=None, shards=0, file=None, base=None):
        folder = self.out / name / component
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(model.folder / component / "config.json", folder / "config.json")
        tensors = {prefix + n: t for n, t in tensors.items()}
        usual = "model.safetensors" if component == "text_encoder" else TRANSFORMER_FILE
        if shards:
            self.write_shards(folder, usual, tensors, shards)
        elif file and file.endswith(".gguf"):
            write_gguf(folder / file, tensors, metadata)
        else:
            write_safetensors(folder / (file or usual), tensors, metadata)
        self.remember(name, model, component, expected, prefix, base)

    def remember(self, name, model, component, expected, prefix="", base=None, path=None, branch=None):
        entry = next((d for d in self.dialects if d["name"] == name), None)
        if entry is None:
            entry = {"name": name, "model": model.name, "components": []}
            self.dialects.append(entry)
        entry["components"].append({"component": component, "prefix": prefix} | ({"base": base} if base else {}) | ({"path": path, "branch": branch} if path else {}))
        file = self.out / name / "expected.safetensors"
        known = read_safetensors(file)[0] if len(entry["components"]) > 1 else {}
        write_safetensors(file, known | {f"{component}/{m}": stored("F32", w) for m, w in expected.items()})

    @staticmethod
    def write_shards(folder, usual, tensors, shards):
        stem, names = usual.removesuffix(".safetensors"), sorted(tensors)
        index = {}
        for i in range(shards):
            part = {n: tensors[n] for n in names[i::shards]}
            file = f"{stem}-{i + 1:05d}-of-{shards:05d}.safetensors"
            write_safetensors(folder / file, part)
            index |= {n: file for n in part}
        (folder / f"{usual}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def quantization_metadata(tensors, layers):
    del tensors
    return {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers})}


def add_plain(out, tiny):
    for name, plain, source, prefix, shards in (
        ("bf16_fused", "BF16", tiny.fused, "", 0), ("f16_fused", "F16", tiny.fused, "", 0), ("f32_split", "F32", tiny.split, "", 0),
        ("bf16_prefix_model", "BF16", tiny.fused, "model.diffusion_model.", 0), ("bf16_prefix_short", "BF16", tiny.fused, "diffusion_model.", 0),
        ("bf16_sharded", "BF16", tiny.split, "", 3)):
        for branch in BRANCHES:
            out.add(name, tiny, branch, *convert(source[branch], None, plain=plain), prefix=prefix, shards=shards)


def add_fp8(out, tiny):
    for shape in ("row", "column", "one", "scalar"):
        for branch in BRANCHES:
            out.add(f"fp8_{shape}", tiny, branch, *convert(tiny.fused[branch], fp8(shape)))
    out.add("fp8_row", tiny, "text_encoder", *convert(tiny.text_encoder, fp8("row")))
    for branch in BRANCHES:  # ComfyUI: marker, a scale of the activations that we do not need, a prefix
        extra = {"comfy_quant": text({"format": "float8_e4m3fn"}), "input_scale": stored("F32", np.float32(0.25))}
        tensors, expected = convert(tiny.fused[branch], fp8("scalar"), only=lambda m: not m.startswith(SENSITIVE), extra=extra)
        out.add("fp8_comfy", tiny, branch, tensors, expected, prefix="model.diffusion_model.")
        # older ComfyUI: another name for the scale, and a marker of the whole file
        tensors, expected = convert(tiny.fused[branch], fp8("scalar"), only=lambda m: not m.startswith(SENSITIVE))
        tensors = {n.replace(".weight_scale", ".scale_weight"): t for n, t in tensors.items()} | {"scaled_fp8": stored("F8_E4M3", c.e4m3_encode(np.zeros(2, np.float32)))}
        out.add("fp8_comfy_older", tiny, branch, tensors, expected, prefix="model.diffusion_model.")
        # a plain cast, without any scale
        out.add("fp8_cast", tiny, branch, *convert(tiny.fused[branch], fp8_cast, only=lambda m: not m.startswith(SENSITIVE)))


def add_nf4(out, tiny):
    for name, source, nested in (("nf4", tiny.fused, False), ("nf4_nested", tiny.fused, True), ("nf4_split", tiny.split, False)):
        for branch in BRANCHES:
            out.add(name, tiny, branch, *convert(source[branch], nf4(nested)))
    out.add("nf4", tiny, "text_encoder", *convert(tiny.text_encoder, nf4(False)))


def add_int8(out, tiny, wide):
    keep = lambda m: not m.startswith(SENSITIVE)  # noqa: E731
    for name, encode in (("int8_scalar", int8(0, "scalar", comfy_marker)), ("int8_row", int8(0, "column", comfy_marker)),
                         ("int8_convrot", int8(16, "column", comfy_marker)), ("int8_convrot_row", int8(16, "row", comfy_marker)),
                         ("int8_convrot_scalar", int8(16, "scalar", comfy_marker)), ("int8_fast", int8(64, "column", fast_marker))):
        for branch in BRANCHES:
            out.add(name, tiny, branch, *convert(tiny.fused[branch], encode, only=keep))
    for branch in BRANCHES:
        # every layer its own group: 224 columns take 16 where 256 take 256
        out.add("int8_convrot_256", wide, branch, *convert(wide.fused[branch], int8(256, "column", comfy_marker), only=keep), prefix="model.diffusion_model.")
        out.add("lightx2v", tiny, branch, *convert(tiny.split[branch], int8(0, "column"), only=keep))
        # the header knows the format and the tensors do not
        tensors, expected = convert(tiny.fused[branch], int8(16, "column"), only=keep)
        layers = {n.removesuffix(".weight"): comfy_marker(16) for n, t in tensors.items() if t.type == "I8"}
        out.add("int8_header_only", tiny, branch, tensors, expected, metadata=quantization_metadata(tensors, layers))
        # the header contradicts the tensors: another group, another format, and a layer that is not quantised at all
        tensors, expected = convert(tiny.fused[branch], int8(16, "column", comfy_marker), only=keep)
        layers = {n.removesuffix(".weight"): comfy_marker(256) for n, t in tensors.items() if t.type == "I8"}
        layers |= {"layers.0.attention.o": {"format": "float8_e4m3fn"}, "input_proj": comfy_marker(0)}
        out.add("int8_header_lies", tiny, branch, tensors, expected, metadata=quantization_metadata(tensors, layers))


def add_transformer_lab(out, tiny):
    """One file with both branches, laid over a folder of another precision. The direction of `smooth` is not documented: both exist here."""
    for name, inverse in (("w8a8_smooth", False), ("w8a8_smooth_inverse", True)):
        tensors, expected = {}, {}
        for number, (branch, key) in enumerate(BRANCHES.items()):
            expected[branch] = {}
            for i, (full, w) in enumerate(tiny.fused[branch].items()):
                module = full.removesuffix(".weight")
                if not is_linear(full, w):
                    continue
                at = f"{key}.{module}"
                if module == "layers.1.feed_forward.w2":  # protected
                    tensors[f"{at}.weight"] = stored("BF16", w)
                    expected[branch][module] = w
                    continue
                smooth = smoothing(w, 100 * number + i)
                codes, scale = c.int8_encode_rows(w * smooth)
                kept = (np.float32(1) / smooth) if inverse else smooth
                tensors |= {f"{at}.wq": stored("I8", codes), f"{at}.ws": stored("F32", scale if i % 2 else scale[:, None]), f"{at}.smooth": stored("F32", kept)}
                back = c.int8_decode(codes, scale)
                expected[branch][module] = back * kept if inverse else back / kept
                if f"{module}.bias" in tiny.fused[branch]:
                    tensors[f"{at}.bias"] = stored("BF16", tiny.fused[branch][f"{module}.bias"])
        path = f"{name}/ideogram4-int8-w8a8.safetensors"
        write_safetensors(out.out / path, tensors)
        for branch, key in BRANCHES.items():
            out.remember(name, tiny, branch, expected[branch], base="fp8_row", path=path, branch=key)


SDCPP_QUANTISED = ("adaln_modulation", "attention.o", "attention.qkv", "feed_forward")
LLAMA_NAMES = (("language_model.embed_tokens", "token_embd"), ("language_model.norm", "output_norm"), ("language_model.layers.", "blk."),
               ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"), ("self_attn.q_norm", "attn_q_norm"),
               ("self_attn.k_norm", "attn_k_norm"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
               ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"))


def llama_name(name):
    for ours, theirs in LLAMA_NAMES:
        name = name.replace(ours, theirs)
    return name


def gguf_tensor(kind, w):
    """`kind` where its block divides the columns, else Q8_0, else F16; vectors are F32. (tensor, float32 values)"""
    if w.ndim == 1:
        return stored("F32", w), w
    for candidate in (kind, "Q8_0") if kind in c.GGUF_BLOCK else ():
        if w.shape[1] % c.GGUF_BLOCK[candidate] == 0:
            raw = c.GGUF_ENCODE[candidate](w.astype(np.float32))
            return Stored(candidate, w.shape, raw), c.GGUF_DECODE[candidate](raw, w.shape)
    tensor = stored(kind if kind in ("F16", "BF16", "F32") else "F16", w)
    return tensor, as_float(tensor)


def add_gguf(out, tiny, wide):
    for kind in ("Q8_0", "Q4_0", "Q4_K", "F16", "BF16"):
        name = f"gguf_{kind.lower()}"
        model = wide if kind == "Q4_K" else tiny
        for branch in BRANCHES:
            tensors, expected = {}, {}
            for full, w in model.fused[branch].items():
                module = full.removesuffix(".weight")
                chosen = kind if full.startswith("layers.") and any(p in full for p in SDCPP_QUANTISED) else "BF16"
                tensors[full], values = gguf_tensor(chosen, w)
                if is_linear(full, w):
                    expected[module] = values
            out.add(name, model, branch, tensors, expected, file=f"{branch}-{kind}.gguf", metadata={"general.architecture": "sd", "general.file_type": 7})
        tensors, expected = {}, {}
        for full, w in model.text_encoder.items():
            tensors[llama_name(full)], values = gguf_tensor(kind, w)
            if w.ndim == 2:
                expected[full.removesuffix(".weight").removeprefix("language_model.")] = values
        metadata = {"general.architecture": "qwen3vl", "general.name": "tiny", "qwen3vl.block_count": 36, "qwen3vl.rope.freq_base": 5e6, "general.quantized": True,
                    "tokenizer.ggml.tokens": [f"token {i}" for i in range(423)], "tokenizer.ggml.token_type": [1] * 423}
        out.add(name, model, "text_encoder", tensors, expected, file=f"text-encoder-{kind}.gguf", metadata=metadata)


# ---- the reference packages over the same bytes ----
def same(what, ours, theirs):
    if not np.array_equal(np.asarray(ours, np.float32), np.asarray(theirs, np.float32)):
        worst = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max()
        sys.exit(f"cross-check: {what} differs, by at most {worst:g}")


def cross_check(out, tiny, wide):
    done = []
    try:
        from safetensors.numpy import load_file
    except ImportError:
        pass
    else:
        for path in sorted(out.rglob("*.safetensors")):
            own, _ = read_safetensors(path)
            if any(t.type in ("BF16", "F8_E4M3") for t in own.values()):
                from safetensors import safe_open  # numpy has no such dtype: open and compare names and shapes
                with safe_open(path, "np") as file:
                    assert {n: list(file.get_slice(n).get_shape()) for n in file.keys()} == {n: list(t.shape) for n, t in own.items()}, path
            else:
                theirs = load_file(path)
                for name, tensor in own.items():
                    assert np.array_equal(theirs[name], tensor.array), (path, name)
        done.append("safetensors")
    try:
        import gguf
        from gguf import quants
    except ImportError:
        pass
    else:
        for path in sorted(out.rglob("*.gguf")):
            for tensor in gguf.GGUFReader(path).tensors:
                if tensor.tensor_type.name in c.GGUF_BLOCK:
                    rows = np.asarray(tensor.data)
                    shape = [int(n) for n in reversed(tensor.shape)]
                    same(f"{path} {tensor.name}", c.GGUF_DECODE[tensor.tensor_type.name](rows.tobytes(), shape), quants.dequantize(rows, tensor.tensor_type))
        for kind in ("Q8_0", "Q4_0"):
            w = wide.fused["transformer"]["layers.0.attention.qkv.weight"]
            theirs = quants.quantize(w, gguf.GGMLQuantizationType[kind])
            same(f"{kind} of the reference writer", c.GGUF_DECODE[kind](theirs.tobytes(), w.shape), quants.dequantize(theirs, gguf.GGMLQuantizationType[kind]))
        done.append("gguf")
    try:
        import bitsandbytes.functional as bnb
        import torch
    except ImportError:
        pass
    else:
        for nested in (False, True):
            w = tiny.fused["transformer"]["layers.0.attention.qkv.weight"]
            packed, state = bnb.quantize_4bit(torch.from_numpy(w.copy()), blocksize=64, quant_type="nf4", compress_statistics=nested)
            absmax = state.absmax.numpy()
            if nested:
                absmax = c.nested_decode(absmax, state.state2.code.numpy(), state.state2.absmax.numpy(), state.offset.item())
            ours = c.nf4_decode(packed.numpy(), absmax, w.shape, state.code.numpy())
            same(f"NF4 (nested {nested}) of bitsandbytes", ours, bnb.dequantize_4bit(packed, state).numpy())
            same("the NF4 table", c.NF4_MAP, state.code.numpy())
        done.append("bitsandbytes")
        codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
        ours = c.e4m3_decode(np.arange(256, dtype=np.uint8), np.float32(1))
        finite = np.isfinite(codes)
        same("the e4m3 table of torch", ours[finite], codes[finite])
        x = np.random.default_rng(1).standard_normal(100000).astype(np.float32) * 30
        same("e4m3 rounding of torch", c.e4m3_decode(c.e4m3_encode(x), np.float32(1)), torch.from_numpy(x).to(torch.float8_e4m3fn).float().numpy())
        done.append("torch")
    print(f"cross-check: equal to {', '.join(done) if done else 'nothing: none of safetensors, gguf, bitsandbytes is installed'}")
    return bool(done)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--golden", type=pathlib.Path, default=ROOT / "tests" / "golden" / "data")
    parser.add_argument("--cross-check", action="store_true")
    options = parser.parse_args()
    tiny, wide = Model(options.golden / "tiny-hd64"), Model(options.golden / "tiny-hd256")
    for group in (4, 16, 64, 256):  # the steps are the matrix
        x = np.random.default_rng(group).standard_normal((3, 2 * group)).astype(np.float32)
        product = (x.reshape(3, 2, group).astype(np.float64) @ c.rotation_matrix(group)).reshape(3, -1)
        assert np.abs(c.rotate(x, group) - product).max() < 1e-5
    out = Fixtures(options.out)
    add_plain(out, tiny)
    add_fp8(out, tiny)
    add_nf4(out, tiny)
    add_int8(out, tiny, wide)
    add_transformer_lab(out, tiny)
    add_gguf(out, tiny, wide)
    (options.out / "manifest.json").write_text(json.dumps({"dialects": out.dialects}, indent=1))
    print(f"{len(out.dialects)} dialects in {options.out}")
    if options.cross_check and not cross_check(options.out, tiny, wide):
        sys.exit(1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What quantising costs, through the front door: `octavo quantize`, then `octavo generate --precision w8a8 --dump`. numpy only.

    quantize_error.py PROGRAM [--json FILE] [--keep FOLDER] [MODEL:GROUP ...]        default: both golden models:16, the demo model:64, mid:256

Every model as it is and with an outlier planted (one channel of every block's norms made 50 times as large, the weights that read it divided by as
much: the same function), each as plain int8, rotated (ConvRot), smoothed, and both. Two errors:
  layers    ‖ŷ - y‖ / ‖y‖ of every int8 layer's output on calibration rows, from the report; root mean square over the layers, and the worst
  velocity  after guidance 7, at the first step (so both sides see the same latents), against float32
"mid" is a random denoiser pair of hidden 1024 and 8 layers, made here and not kept, with the demo model's other parts.
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = "diffusion_pytorch_model.safetensors"
DENOISERS = ("transformer", "unconditional_transformer")
GUIDANCE = 7.0
FACTOR, CHANNEL = 50.0, 5
PROMPTS = ("two red squares and a blue star on a white background", "a green circle in the lower left corner on a black background")
DTYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I8": np.int8, "U8": np.uint8, "BF16": np.uint16}


def read(path):
    """{name: array}; bf16 becomes float32."""
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(raw, DTYPES[entry["dtype"]], offset=8 + length + begin, count=int(np.prod(entry["shape"]))).reshape(entry["shape"])
        tensors[name] = (array.astype(np.uint32) << np.uint32(16)).view(np.float32) if entry["dtype"] == "BF16" else array
        assert end - begin == array.nbytes
    return tensors


def read_all(folder):
    return {name: array for path in sorted(folder.glob("*.safetensors")) for name, array in read(path).items()}


def write(path, tensors):
    """float32 arrays; uint16 arrays are bf16."""
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "BF16" if array.dtype == np.uint16 else "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def link_others(model, target):
    """Everything but the denoisers' weights."""
    shutil.copytree(model, target, ignore=lambda folder, names: [name for name in names if pathlib.Path(folder).name in DENOISERS and "safetensors" in name])


def plant_outlier(model, target):
    """In exact arithmetic the same network; stored as float32, so that the quotients are good to 2^-24."""
    link_others(model, target)
    for part in DENOISERS:
        tensors = {name: np.array(array, np.float32) for name, array in read_all(model / part).items()}
        for name, array in tensors.items():
            if not name.startswith("layers."):
                continue
            if name.endswith(("attention_norm1.weight", "ffn_norm1.weight")):
                array[CHANNEL] *= FACTOR
            elif name.endswith((".to_q.weight", ".to_k.weight", ".to_v.weight", ".qkv.weight", ".w1.weight", ".w3.weight")):
                array[:, CHANNEL] /= FACTOR
        write(target / part / FILE, tensors)


def make_mid(target, hidden=1024, layers=8, heads=16, intermediate=2816, adaln=256):
    """Gaussian weights of variance 1 / inputs, norms 1, biases small."""
    demo = ROOT / "models" / "demo"
    link_others(demo, target)
    for seed, part in enumerate(DENOISERS):
        config = json.loads((demo / part / "config.json").read_text())
        config.update(num_layers=layers, num_attention_heads=heads, attention_head_dim=hidden // heads, intermediate_size=intermediate, adaln_dim=adaln)
        (target / part / "config.json").write_text(json.dumps(config))
        draw, tensors = np.random.default_rng(seed), {}

        def add(name, *shape):
            if name.endswith("norm.weight") or "norm_" in name or "norm1" in name or "norm2" in name:
                values = np.ones(shape, np.float32)
            else:
                sigma = 0.02 if len(shape) == 1 else shape[1] ** -0.5
                values = draw.standard_normal(shape, np.float32) * np.float32(sigma)
            tensors[name] = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)

        channels, features, d = config["in_channels"], config["llm_features_dim"], hidden
        add("embed_image_indicator.weight", 2, d)
        for name, out, inner in (("input_proj", d, channels), ("llm_cond_proj", d, features), ("t_embedding.mlp_in", d, d), ("t_embedding.mlp_out", d, d),
                                 ("adaln_proj", adaln, d), ("final_layer.linear", channels, d), ("final_layer.adaln_modulation", d, adaln)):
            add(f"{name}.weight", out, inner)
            add(f"{name}.bias", out)
        add("llm_cond_norm.weight", features)
        for i in range(layers):
            at = f"layers.{i}."
            add(at + "attention.qkv.weight", 3 * d, d)
            add(at + "attention.o.weight", d, d)
            for norm in ("norm_q", "norm_k"):
                add(at + f"attention.{norm}.weight", d // heads)
            add(at + "feed_forward.w1.weight", intermediate, d)
            add(at + "feed_forward.w3.weight", intermediate, d)
            add(at + "feed_forward.w2.weight", d, intermediate)
            for norm in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
                add(f"{at}{norm}.weight", d)
            add(at + "adaln_modulation.weight", 4 * d, adaln)
            add(at + "adaln_modulation.bias", 4 * d)
        write(target / part / FILE, tensors)


class Bench:
    def __init__(self, program, folder, size=128):
        self.program, self.folder, self.size = str(program), pathlib.Path(folder), size
        self.prompts = self.folder / "prompts.txt"
        self.prompts.write_text("\n".join(PROMPTS))

    def call(self, *arguments):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("OCTAVO_")}
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, env=environment, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}\n{done.stderr.decode()}")
        return done.stdout

    def velocity(self, model, precision):
        dump = self.folder / "dump.safetensors"
        self.call("generate", "--model", model, "--precision", precision, "--prompt", PROMPTS[0], "--width", self.size, "--height", self.size, "--steps", 1,
                  "--guidance", GUIDANCE, "--seed", 11, "--output", self.folder / "p.png", "--dump", dump, "--quiet")
        tensors = read(dump)
        return GUIDANCE * tensors["velocity_cond"][0].astype(np.float64) + (1 - GUIDANCE) * tensors["velocity_uncond"][0]

    def quantize(self, model, *options):
        """The errors of the int8 layers, and the model's folder."""
        out, report = self.folder / "out", self.folder / "report"
        shutil.rmtree(out, ignore_errors=True)
        self.call("quantize", model, out, "--report", report, "--calibrate", self.prompts, "--picture-size", self.size, "--picture-steps", 2, "--quiet", *options)
        layers = [layer for file in json.loads((report / "report.json").read_text())["files"] for layer in file["layers"]]
        return {f"{layer['module']}#{index}": layer["output_error"] for index, layer in enumerate(layers) if layer["quantized"]}, out

    def row(self, model, expected, *options):
        layers, out = self.quantize(model, *options)
        errors = np.array(list(layers.values()))
        velocity = self.velocity(out, "w8a8")
        return {"layers_rms": float(np.sqrt(np.mean(errors**2))), "layers_worst": float(errors.max()), "worst_layer": max(layers, key=layers.get).split("#")[0],
                "velocity": float(np.linalg.norm(velocity - expected) / np.linalg.norm(expected)), "layers": layers}

    def table(self, model, group):
        """rows[clean | outlier][plain | convrot | smooth | both]"""
        planted = self.folder / "planted"
        shutil.rmtree(planted, ignore_errors=True)
        plant_outlier(model, planted)
        rows = {}
        for name, source in (("clean", model), ("outlier", planted)):
            expected = self.velocity(source, "f32")
            rotation, smooth = ("--scheme", "convrot", "--group", group), ("--smooth", 0.5)
            rows[name] = {"plain": self.row(source, expected, "--scheme", "w8a8"), "convrot": self.row(source, expected, *rotation),
                          "smooth": self.row(source, expected, "--scheme", "w8a8", *smooth), "both": self.row(source, expected, *rotation, *smooth)}
        shutil.rmtree(planted)
        return rows


def compact(record):
    """A line per row; the layers' names once per model, their errors in that order with three digits."""
    lines = [json.dumps({key: value for key, value in record.items() if key != "models"})[:-1] + ', "models": {']
    for name, kinds in record["models"].items():
        layers = list(kinds["clean"]["plain"]["layers"])
        rows = [f'"layers": {json.dumps(layers)}']
        for kind, schemes in kinds.items():
            for scheme, row in schemes.items():
                figures = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items() if key != "layers"}
                figures["errors"] = [float(f"{row['layers'][layer]:.3g}") for layer in layers]
                rows.append(f'"{kind}, {scheme}": {json.dumps(figures)}')
        lines.append(f'"{name}": {{\n ' + ",\n ".join(rows) + "}" + ("," if name != list(record["models"])[-1] else ""))
    return "\n".join(lines) + "\n}}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=["tiny-hd64:16", "tiny-hd256:16", "demo:64", "mid:256"], metavar="MODEL:GROUP")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    record = {"tool": "tools/quantize_error.py", "guidance": GUIDANCE, "outlier": FACTOR, "models": {}}
    for word in options.models:
        name, group = word.rsplit(":", 1)
        with tempfile.TemporaryDirectory(prefix="octavo-error-") as folder:
            folder = pathlib.Path(folder)
            places = {"demo": ROOT / "models" / "demo", "mid": folder / "mid"}
            model = places.get(name, ROOT / "tests" / "golden" / "data" / name)
            if name == "mid":
                make_mid(model)
            record["models"][word] = rows = Bench(options.program.resolve(), folder).table(model, int(group))
        clean = rows["clean"]["plain"]["velocity"]
        print(f"\n{name}, G = {group}\n| | layers, rms | worst layer | velocity | against clean plain |\n|---|---:|---:|---:|---:|")
        for kind, schemes in rows.items():
            for scheme, row in schemes.items():
                print(f"| {kind}, {scheme} | {100 * row['layers_rms']:.2f} % | {100 * row['layers_worst']:.2f} % {row['worst_layer']} | "
                      f"{100 * row['velocity']:.2f} % | {row['velocity'] / clean:.2f} × |", flush=True)
    if options.json:
        options.json.write_text(compact(record))


if __name__ == "__main__":
    main()

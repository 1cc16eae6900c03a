#!/usr/bin/env python3
"""Damaged and mismatched checkpoints of every container: one clear line that names the layer or the file, nothing written."""
import json
import os
import shutil
import struct
import unittest

from program import DAMAGED, FAST, GOLDEN, INVALID, TINY, UNSUPPORTED, ProgramTest, edit_json, read_safetensors, write_safetensors

DIT = "transformer/diffusion_pytorch_model.safetensors"
LAYER = "layers.1.feed_forward.w2"


def gguf(tensors, data):
    """tensors: (name, extents outermost first, type id, offset)."""

    def text(word):
        return struct.pack("<Q", len(word)) + word.encode(errors="surrogateescape")

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
    for name, extents, kind, offset in tensors:
        head += text(name) + struct.pack("<I", len(extents)) + b"".join(struct.pack("<Q", n) for n in reversed(extents)) + struct.pack("<IQ", kind, offset)
    return head + bytes(-len(head) % 32) + data


class Damaged(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.copy_model()
        self.tensors, _ = read_safetensors(TINY / DIT)

    def generate(self, code, contains, model=None):
        arguments = [word for word in FAST if word not in ("--model", str(TINY))]
        return self.refuse(code, "generate", *arguments, "--model", model or self.model, "--prompt", "x", "--output", self.folder / "x.png", contains=contains, timeout=60)

    def every_command(self, code, contains):
        """Drawing, quantising and looking agree on what is wrong with the transformer."""
        self.generate(code, contains)
        self.refuse(code, "quantize", self.model / "transformer", self.folder / "q.safetensors", "--quiet", contains=contains, timeout=60)

    def replace(self, layer, parts):
        """Another way to store one matrix: {suffix: tensor}."""
        changed = {name: tensor for name, tensor in self.tensors.items() if name != f"{layer}.weight"}
        write_safetensors(self.model / DIT, {**changed, **{f"{layer}.{suffix}": tensor for suffix, tensor in parts.items()}})

    def int8(self, scales, marker=None):
        _, (rows, columns), _ = self.tensors[f"{LAYER}.weight"]
        parts = {"weight": ("I8", [rows, columns], bytes(rows * columns)), "weight_scale": ("F32", [scales(rows)], struct.pack("<f", 1) * scales(rows))}
        if marker is not None:
            parts["comfy_quant"] = ("U8", [len(marker)], marker.encode())
        self.replace(LAYER, parts)

    def test_a_scale_of_the_wrong_length(self):
        rows = self.tensors[f"{LAYER}.weight"][1][0]
        self.int8(lambda n: n - 1)
        self.every_command(DAMAGED, [LAYER, f"{rows - 1} entries", f"not 1 or {rows}"])

    def test_a_group_that_does_not_divide_the_inputs(self):
        columns = self.tensors[f"{LAYER}.weight"][1][1]
        for group in (256, 1024):
            self.assertNotEqual(columns % group, 0)
            self.int8(lambda n: n, json.dumps({"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": group}))
            self.every_command(DAMAGED, [LAYER, str(group), f"does not divide its {columns} inputs"])
        for group in (0, -4, 8, 2**40):
            self.int8(lambda n: n, json.dumps({"format": "int8_tensorwise", "convrot": True, "convrot_groupsize": group}))
            self.every_command(DAMAGED, [LAYER, str(group), "power of 4"])

    def test_a_marker_that_is_no_description(self):
        for marker in ("", "{", "[1]", '{"convrot": "yes"}', '{"format": 8}'):
            self.int8(lambda n: n, marker)
            self.every_command(DAMAGED, [LAYER])
        self.int8(lambda n: n, '{"format": "int3_secret"}')
        self.every_command(UNSUPPORTED, [LAYER, "int3_secret", "int8_tensorwise"])

    def test_an_unknown_dtype(self):
        rows, columns = self.tensors[f"{LAYER}.weight"][1]
        self.replace(LAYER, {"weight": ("F6_E2M3", [rows, columns], bytes(rows * columns * 6 // 8))})
        self.every_command(UNSUPPORTED, [LAYER, "F6_E2M3", "known are"])

    def test_gap_overlap_short_data(self):
        good = (TINY / DIT).read_bytes()
        (length,) = struct.unpack("<Q", good[:8])
        names = [name for name in json.loads(good[8 : 8 + length]) if name != "__metadata__"]

        def with_header(change):
            header = json.loads(good[8 : 8 + length])
            change(header)
            text = json.dumps(header).encode()
            (self.model / DIT).write_bytes(struct.pack("<Q", len(text)) + text + good[8 + length :] + bytes(64))

        def move(header):  # the last tensor begins 64 bytes later
            last = max(names, key=lambda name: header[name]["data_offsets"][0])
            header[last]["data_offsets"] = [offset + 64 for offset in header[last]["data_offsets"]]

        with_header(move)
        self.every_command(DAMAGED, ["diffusion_pytorch_model.safetensors", "gap"])
        with_header(lambda header: header[names[1]].update(data_offsets=header[names[0]]["data_offsets"]))
        self.every_command(DAMAGED, ["diffusion_pytorch_model.safetensors"])
        (self.model / DIT).write_bytes(good[:-1])
        self.every_command(DAMAGED, ["diffusion_pytorch_model.safetensors", "truncated"])

    def test_a_header_of_100_megabytes(self):
        for length in (100_000_000, 100_000_001, 1 << 33):
            with open(self.model / DIT, "wb") as file:
                file.write(struct.pack("<Q", length) + b"{")
                file.truncate(8 + min(length, 100_000_001) + 1000)  # a hole: takes no room on the disk
            self.every_command(DAMAGED, ["diffusion_pytorch_model.safetensors"])

    def test_gguf_of_unknown_type(self):
        rows, columns = self.tensors[f"{LAYER}.weight"][1]
        (self.model / DIT).unlink()
        path = self.model / "transformer" / "model.gguf"
        quantize = ["quantize", self.model / "transformer", self.folder / "q.safetensors", "--quiet"]
        path.write_bytes(gguf([(f"{LAYER}.weight", [rows, columns], 39, 0)], bytes(rows * columns)))
        self.refuse(UNSUPPORTED, *quantize, contains=[LAYER, "MXFP4", "known are"])
        self.assertIn("MXFP4", self.succeed("inspect", path).stdout.decode())
        path.write_bytes(gguf([(f"{LAYER}.weight", [rows, columns], 99, 0)], bytes(rows * columns)))
        for command in (quantize, ["inspect", path]):
            self.refuse(DAMAGED, *command, contains=["model.gguf", LAYER, "type id 99"])
        self.generate(DAMAGED, ["model.gguf", LAYER, "type id 99"])

    def test_gguf_with_a_name_that_is_no_text(self):
        (self.model / DIT).unlink()
        path = self.model / "transformer" / "model.gguf"
        for name, at in (("\udcff.weight", 0), ("layers.0.\udcc3.weight", 9), ("a\0.weight", 1)):
            path.write_bytes(gguf([("b.weight", [8, 32], 0, 0), (name, [8, 32], 0, 1024)], bytes(2048)))
            self.refuse(DAMAGED, "quantize", self.model / "transformer", self.folder / "q.safetensors", "--quiet", contains=["model.gguf", "tensor 2 of 2", f"byte {at};"])
            self.refuse(DAMAGED, "inspect", path, contains=["model.gguf", "tensor 2 of 2", f"byte {at};"])

    def test_gguf_that_is_cut_or_has_a_gap_or_an_overlap(self):
        (self.model / DIT).unlink()
        path = self.model / "transformer" / "model.gguf"
        whole = gguf([("a.weight", [8, 32], 0, 0), ("b.weight", [8, 32], 0, 1024)], bytes(2048))
        for blob, said in ((whole[:-1], "b.weight"), (whole[:40], ""), (gguf([("a.weight", [8, 32], 0, 0), ("b.weight", [8, 32], 0, 512)], bytes(2048)), "b.weight")):
            path.write_bytes(blob)
            self.every_command(DAMAGED, ["model.gguf", said])

    def test_no_unconditional_file(self):
        (self.model / "unconditional_transformer" / "diffusion_pytorch_model.safetensors").unlink()
        self.generate(INVALID, ["unconditional_transformer", "diffusion_pytorch_model"])

    def test_conditional_and_unconditional_of_different_models(self):
        shutil.rmtree(self.model / "unconditional_transformer")
        shutil.copytree(GOLDEN / "tiny-hd256" / "unconditional_transformer", self.model / "unconditional_transformer")
        self.generate(DAMAGED, ["unconditional_transformer", "different models"])

    def test_a_component_swapped_for_another(self):
        for one, other in (("vae", "transformer"), ("text_encoder", "vae"), ("transformer", "text_encoder")):
            shutil.rmtree(self.model)
            shutil.copytree(TINY, self.model)
            shutil.rmtree(self.model / one)
            shutil.copytree(TINY / other, self.model / one)
            self.generate(INVALID, [one])

    def test_absurd_sizes(self):
        """A configuration that nobody's memory could hold, or that counts below zero, is refused before anything of that size is made."""
        cases = [("transformer", key, value) for key in ("num_attention_heads", "attention_head_dim", "intermediate_size", "num_layers", "llm_features_dim", "adaln_dim")
                 for value in (-1, 0, 10**9, 10**18)]
        cases += [("text_encoder", key, value) for key in ("hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size") for value in (-1, 10**9)]
        cases += [("vae", "latent_channels", value) for value in (-1, 10**9)]
        for component, key, value in cases:
            with self.subTest(f"{component} {key} {value}"):
                before = json.loads((self.model / component / "config.json").read_text())

                def change(config):
                    target = config["text_config"] if key not in config and "text_config" in config else config
                    self.assertIn(key, target)
                    target[key] = value

                edit_json(self.model / component / "config.json", change)
                line = self.generate(DAMAGED, [])
                self.assertRegex(line, component)
                (self.model / component / "config.json").write_text(json.dumps(before))

    def test_pipes_where_files_belong(self):
        """A pipe that nobody writes to is refused at once, not waited for."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        prompt = ["generate", *FAST, "--output", "x.png"]
        self.refuse(INVALID, *prompt, "--prompt-file", pipe, contains=["--prompt-file", "regular file"], timeout=20)
        self.refuse(INVALID, *prompt, "--prompt", "x", "--noise", f"{pipe}:noise", contains=["pipe", "regular file"], timeout=20)
        self.refuse(INVALID, "inspect", pipe, contains=["pipe", "regular file"], timeout=20)
        self.refuse(INVALID, "caption", "check", pipe, contains=["pipe", "regular file"], timeout=20)
        self.refuse(INVALID, "quantize", pipe, "q.safetensors", contains=["pipe"], timeout=20)
        for name in ("model_index.json", "transformer/config.json", DIT, "tokenizer/tokenizer.json"):
            (self.model / name).unlink()
            os.mkfifo(self.model / name)
            self.generate(INVALID, [name.split("/")[-1], "regular file"])
            (self.model / name).unlink()
            shutil.copy(TINY / name, self.model / name)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""`octavo quantize`, and its files read by a reader that knows nothing but the format's description (numpy)."""
import json
import pathlib
import shutil
import struct
import subprocess
import time
import unittest

import numpy as np
from program import DEMO, FAST, INVALID, PROGRAM, TINY, ProgramTest

FILE = "diffusion_pytorch_model.safetensors"
TYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8, "BF16": np.uint16}


def read(path):
    """{name: array}, metadata. bf16 becomes float32. Checks what the container's description demands."""
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    data, tensors, ranges = raw[8 + length :], {}, []
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        ranges.append((begin, end))
        assert end - begin == np.dtype(TYPES[entry["dtype"]]).itemsize * int(np.prod(entry["shape"])), name
        assert (8 + length + begin) % np.dtype(TYPES[entry["dtype"]]).itemsize == 0, f"{name} is not aligned"
        array = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (array.astype(np.uint32) << np.uint32(16)).view(np.float32) if entry["dtype"] == "BF16" else array
    reached = 0
    for begin, end in sorted(ranges):
        assert begin == reached, "a gap or an overlap"
        reached = end
    assert reached == len(data)
    return tensors, metadata


def unrotate(w, group):
    h4 = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]) / 2
    matrix = np.ones((1, 1))
    while matrix.shape[0] < group:
        matrix = np.kron(matrix, h4)
    return (w.reshape(w.shape[0], -1, group) @ matrix).reshape(w.shape)


class Format(ProgramTest):
    def quantize(self, *arguments, source=TINY / "transformer", name="out.safetensors"):
        shown = json.loads(self.succeed("quantize", source, self.folder / name, "--json", "--quiet", *arguments).stdout)
        return shown["files"][0], *read(self.folder / name)

    def check(self, limit, shown, tensors, metadata):
        source, _ = read(TINY / "transformer" / FILE)
        layers = json.loads(metadata["_quantization_metadata"])["layers"]
        quantised = {name.removesuffix(".weight") for name, array in tensors.items() if array.dtype == np.int8}
        self.assertEqual(quantised, set(layers))
        self.assertEqual(quantised, {layer["module"] for layer in shown["layers"] if layer["quantized"]})
        self.assertGreaterEqual(len(quantised), 14)
        for module in quantised:
            codes, scale = tensors[f"{module}.weight"], tensors[f"{module}.weight_scale"]
            marker = json.loads(tensors[f"{module}.comfy_quant"].tobytes())
            self.assertEqual(marker, layers[module])
            self.assertEqual(marker["format"], "int8_tensorwise")
            self.assertEqual(scale.shape, (codes.shape[0], 1))
            self.assertEqual(scale.dtype, np.float32)
            self.assertGreaterEqual(codes.min(), -127)
            self.assertTrue((np.abs(codes).max(axis=1) == 127).all(), "the largest of each row is 127")
            group = marker["convrot_groupsize"] if marker.get("convrot") else 0
            self.assertEqual(bool(group), limit > 0)
            if group:
                self.assertEqual(codes.shape[1] % group, 0)
                self.assertLessEqual(group, limit)
                self.assertIn(group, (4, 16, 64, 256))
            w = codes.astype(np.float64) * scale
            w = unrotate(w, group) if group else w
            original = source[f"{module}.weight"].astype(np.float64)
            # Half a step in every code, carried over by the rotation, which keeps lengths.
            bound = 0.5 * np.linalg.norm(scale.repeat(codes.shape[1], 1)) * 1.0001
            self.assertLessEqual(np.linalg.norm(w - original), bound, module)
        for name, array in source.items():
            if name.removesuffix(".weight") not in quantised:
                np.testing.assert_array_equal(tensors[name], array, name)
        return quantised

    def test_plain(self):
        self.check(0, *self.quantize("--scheme", "w8a8"))

    def test_rotated(self):
        quantised = self.check(16, *self.quantize("--group", "16"))
        self.assertFalse([module for module in quantised if module.startswith(("input_proj", "t_embedding", "final_layer"))])

    def test_a_layer_takes_the_largest_group_that_divides(self):
        shown, tensors, metadata = self.quantize()  # 256 divides neither 192 nor 224 nor 48
        self.check(256, shown, tensors, metadata)
        groups = {layer["module"]: layer["group"] for layer in shown["layers"] if layer["quantized"]}
        self.assertEqual(groups["layers.0.attention.to_q"], 64)
        self.assertEqual(groups["layers.0.feed_forward.w2"], 16)
        self.assertEqual(groups["layers.0.adaln_modulation"], 16)

    def test_protect(self):
        shown, tensors, _ = self.quantize("--protect", "*.feed_forward.w2", "--protect", "layers.1.*")
        kept = {layer["module"] for layer in shown["layers"] if not layer["quantized"]}
        self.assertIn("layers.0.feed_forward.w2", kept)
        self.assertIn("layers.1.attention.to_q", kept)
        self.assertEqual(tensors["layers.1.attention.to_q.weight"].dtype, np.float32)  # bf16 in the file
        shown, _, _ = self.quantize("--protect", "none", name="all.safetensors")
        self.assertTrue(all(layer["quantized"] for layer in shown["layers"] if "embed" not in layer["module"]))

    def test_a_pattern_that_fits_nothing_is_a_warning_with_near_names(self):
        done = self.succeed("quantize", TINY / "transformer", self.folder / "o.safetensors", "--protect", "layers.0.atention.to_q")
        self.assertIn("matches no layer; near: layers.0.attention.to_", done.stderr.decode())

    def test_threads_and_repetition_do_not_change_the_file(self):
        self.quantize("--threads", "1", name="a.safetensors")
        self.quantize("--threads", "3", name="b.safetensors")
        self.assertEqual((self.folder / "a.safetensors").read_bytes(), (self.folder / "b.safetensors").read_bytes())

    def test_an_int8_file_is_not_quantised_again(self):
        _, once, _ = self.quantize("--group", "16", name="a.safetensors")
        _, twice, _ = self.quantize("--group", "64", source=self.folder / "a.safetensors", name="b.safetensors")
        self.assertEqual(once.keys(), twice.keys())
        for name in once:
            np.testing.assert_array_equal(once[name], twice[name], name)


class WholeModel(ProgramTest):
    def test_a_model_folder_draws_the_picture_of_w8a8_at_load(self):
        """Plain int8 of the block linears is the same arithmetic as --precision w8a8 on the unquantised model: the same bytes."""
        self.succeed("quantize", TINY, self.folder / "int8", "--scheme", "w8a8", "--protect", "*adaln_modulation", "--quiet")
        model = ["--model", str(self.folder / "int8"), *FAST[2:]]
        ours = self.draw("a.png", "--precision", "w8a8", model=model)
        theirs = self.draw("b.png", "--precision", "w8a8")

        def pixels(png):
            return png[png.index(b"IDAT") :]

        self.assertEqual(pixels(ours), pixels(theirs))
        self.assertLess((self.folder / "int8" / "transformer" / FILE).stat().st_size, (TINY / "transformer" / FILE).stat().st_size * 0.75)

    def test_killed_and_started_again(self):
        out = self.folder / "int8.safetensors"
        command = [PROGRAM, "quantize", str(DEMO / "transformer"), str(out), "--group", "64", "--json", "--quiet"]
        journal = pathlib.Path(f"{out}.partial.json")
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None and not (journal.exists() and journal.read_text().count("hash") >= 3):
            time.sleep(0.001)
        running.kill()
        running.wait()
        self.assertFalse(out.exists(), "it finished before it could be killed; take a larger model")
        shown = json.loads(self.succeed(*command[1:]).stdout)["files"][0]
        self.assertGreaterEqual(shown["resumed_layers"], 3)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), [out.name])
        again = self.folder / "again.safetensors"
        fresh = json.loads(self.succeed("quantize", DEMO / "transformer", again, "--group", "64", "--json", "--quiet").stdout)["files"][0]
        self.assertEqual(fresh["resumed_layers"], 0)
        self.assertEqual(fresh["layers"], shown["layers"])
        self.assertEqual(out.read_bytes(), again.read_bytes())

    def test_smoothing_is_folded_into_a_file_of_the_same_kind(self):
        prompts = self.folder / "prompts.txt"
        prompts.write_text("a red circle on a white background\n\n  \ntwo blue stars\n")
        small = self.folder / "model"
        shutil.copytree(TINY, small)
        index = json.loads((small / "model_index.json").read_text())
        index["generation_defaults"] = {"width": 64, "height": 64, "num_inference_steps": 2, "steps": 2, "guidance": 3}
        (small / "model_index.json").write_text(json.dumps(index))
        self.succeed("quantize", small, self.folder / "smooth", "--scheme", "w8a8", "--smooth", "0.5", "--calibrate", prompts, "--quiet")
        self.succeed("quantize", small, self.folder / "plain", "--scheme", "w8a8", "--quiet")
        smooth, metadata = read(self.folder / "smooth" / "transformer" / FILE)
        plain, _ = read(self.folder / "plain" / "transformer" / FILE)
        self.assertEqual(smooth.keys(), plain.keys())
        self.assertIn("smoothed with alpha 0.5", metadata["octavo.recipe"])
        # norm(h) · weight · (1 + scale) · W: the product of the norm's weight and a column of W is what it was, to half a step of int8
        for norm, module in (("attention_norm1", "attention.to_q"), ("ffn_norm1", "feed_forward.w1")):
            def product(tensors):
                at = f"layers.0.{module}"
                return tensors[f"{at}.weight"] * tensors[f"{at}.weight_scale"] * tensors[f"layers.0.{norm}.weight"]

            ours, theirs = product(smooth), product(plain)
            self.assertFalse(np.array_equal(smooth[f"layers.0.{norm}.weight"], plain[f"layers.0.{norm}.weight"]))
            self.assertLess(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs), 0.05)
        drawn = self.draw("a.png", "--precision", "w8a8", model=["--model", str(self.folder / "smooth"), *FAST[2:]])
        self.assertTrue(drawn.startswith(b"\x89PNG"))

    def test_what_is_refused(self):
        source = TINY / "transformer"
        out = self.folder / "o.safetensors"
        self.refuse(INVALID, "quantize", source, source, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", source / FILE, source / FILE, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", source, out, "--scheme", "w4a4", contains=["w4a4", "convrot, w8a8"])
        self.refuse(INVALID, "quantize", source, out, "--group", "48", contains=["48", "power of 4"])
        self.refuse(INVALID, "quantize", self.folder / "none", out, contains=["does not exist"])
        self.refuse(INVALID, "quantize", TINY, out, contains=["the output must be a folder"])
        self.refuse(INVALID, "quantize", source, "/proc/none/o.safetensors", contains=["/proc/none/o.safetensors"])
        self.refuse(INVALID, "quantize", source, contains=["out is required"])
        empty = self.folder / "empty.txt"
        empty.write_text("\n \n")
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--smooth", "0.5", "--calibrate", empty, contains=["holds no prompt"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--smooth", "0.5", contains=["--calibrate"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--smooth", "1.5", "--calibrate", empty, contains=["1.5", "0 to 1"])
        self.refuse(INVALID, "quantize", source, out, "--smooth", "0.5", "--calibrate", empty, contains=["whole model folder"])


if __name__ == "__main__":
    unittest.main()

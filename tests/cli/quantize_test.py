#!/usr/bin/env python3
"""`octavo quantize`, and its files read by a reader that knows nothing but the format's description (numpy)."""
import base64
import html.parser
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest

import numpy as np
from program import CANCELLED, DAMAGED, DEMO, FAST, INVALID, PROGRAM, TINY, UNSUPPORTED, ProgramTest, edit_json, listing, read_png, read_safetensors, write_safetensors

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


def dequantised(tensors):
    """Plain float32 tensors from a file of int8 layers, by the format's description alone."""
    plain = {}
    for name, array in tensors.items():
        module = name.removesuffix(".weight")
        if array.dtype == np.int8:
            marker = json.loads(tensors[f"{module}.comfy_quant"].tobytes())
            w = array.astype(np.float64) * tensors[f"{module}.weight_scale"]
            plain[name] = unrotate(w, marker["convrot_groupsize"]) if marker.get("convrot") else w
        elif not name.endswith((".weight_scale", ".comfy_quant")):
            plain[name] = array
    return {name: np.asarray(array, np.float32) for name, array in plain.items()}


def pixels(png):
    return png[png.index(b"IDAT") :]


def small_model(folder, side=64, steps=2):
    """A copy of the tiny model whose own settings are quick."""
    target = folder / "model"
    shutil.copytree(TINY, target)
    index = json.loads((target / "model_index.json").read_text())
    index["generation_defaults"] = {"width": side, "height": side, "steps": steps, "guidance": 3}
    (target / "model_index.json").write_text(json.dumps(index))
    return target


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

    def test_another_program_may_save_it_again(self):
        """Same tensors, other order, no metadata, not aligned: what was read is what was written."""
        _, once, _ = self.quantize("--group", "16", name="a.safetensors")
        raw, _ = read_safetensors(self.folder / "a.safetensors")
        write_safetensors(self.folder / "b.safetensors", {name: raw[name] for name in sorted(raw, key=lambda name: name[::-1])})
        _, again, _ = self.quantize(source=self.folder / "b.safetensors", name="c.safetensors")
        self.assertEqual(once.keys(), again.keys())
        for name in once:
            np.testing.assert_array_equal(once[name], again[name], name)


class WholeModel(ProgramTest):
    def velocity(self, model):
        self.succeed("generate", "--model", model, *FAST[2:], "--prompt", "x", "--precision", "f32", "--output", self.folder / "x.png", "--dump", self.folder / "d")
        tensors, _ = read_safetensors(self.folder / "d")
        return np.concatenate([np.frombuffer(tensors[name][2], np.float32) for name in ("velocity_cond", "velocity_uncond")]).astype(np.float64)

    def test_the_program_reads_the_file_as_its_description_says(self):
        """The weights that numpy made of the file, put into a plain float32 model, are the weights that the program runs."""
        ours = self.folder / "int8"
        self.succeed("quantize", TINY, ours, "--group", "16", "--protect", "none", "--quiet")
        theirs = self.folder / "plain"
        shutil.copytree(TINY, theirs)
        for part in ("transformer", "unconditional_transformer"):
            plain = dequantised(read(ours / part / FILE)[0])
            (theirs / part / FILE).unlink()
            write_safetensors(theirs / part / FILE, {name: ("F32", list(array.shape), array.tobytes()) for name, array in plain.items()})
        a, b = self.velocity(ours), self.velocity(theirs)
        # Both are float32 products of weights that differ by the last bit of an unrotation: 2^-24 a weight, a few times that after two layers.
        self.assertLess(np.linalg.norm(a - b) / np.linalg.norm(b), 1e-5)

    def test_a_model_folder_draws_the_picture_of_w8a8_at_load(self):
        """Plain int8 of the block linears is the same arithmetic as --precision w8a8 on the unquantised model: the same bytes."""
        self.succeed("quantize", TINY, self.folder / "int8", "--scheme", "w8a8", "--protect", "*adaln_modulation", "--quiet")
        model = ["--model", str(self.folder / "int8"), *FAST[2:]]
        ours = self.draw("a.png", "--precision", "w8a8", model=model)
        theirs = self.draw("b.png", "--precision", "w8a8")

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

    def test_what_was_written_is_looked_at_before_going_on(self):
        out = self.folder / "int8.safetensors"
        arguments = ["quantize", DEMO / "transformer", out, "--group", "64", "--json"]
        again = self.folder / "again.safetensors"
        self.succeed(*arguments[:2], again, *arguments[3:])

        def cut(partial):
            os.truncate(partial, partial.stat().st_size // 2)

        def overwrite(partial):
            raw = bytearray(partial.read_bytes())
            raw[len(raw) // 4 :] = bytes(len(raw) - len(raw) // 4)
            partial.write_bytes(raw)

        for damage, said in ((cut, "bytes long"), (overwrite, "no longer holds")):
            self.stop("/", *arguments)
            partial = pathlib.Path(f"{out}.partial")
            self.assertGreater(len(json.loads(pathlib.Path(f"{partial}.json").read_text())["finished"]), 0)
            damage(partial)
            done = self.succeed(*arguments)
            self.assertEqual(done.stderr.decode().count("everything is done anew"), 1, done.stderr.decode())
            self.assertIn(said, done.stderr.decode())
            self.assertEqual(json.loads(done.stdout)["files"][0]["resumed_layers"], 0)
            self.assertEqual(out.read_bytes(), again.read_bytes())
            out.unlink()

    def stop(self, line, *arguments):
        """Ctrl-C as soon as a line with this text was said."""
        running = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for said in running.stderr:
            if line in said:
                running.send_signal(signal.SIGINT)
                break
        running.stderr.read()
        running.stderr.close()
        self.assertEqual(running.wait(), CANCELLED)

    def test_stopped_while_it_calibrates(self):
        self.stop("calibration prompt 1/4", "quantize", DEMO, self.folder / "int8", "--report", self.folder / "deep" / "report")
        self.assertEqual(listing(self.folder), [])

    def test_stopped_while_it_quantises_and_started_again(self):
        arguments = ["quantize", DEMO, self.folder / "int8", "--group", "64"]
        self.stop("/", *arguments)
        self.assertTrue(list((self.folder / "int8").rglob("*.partial")), "it finished before it could be stopped; take a larger model")
        self.succeed(*arguments, "--quiet")
        self.succeed("quantize", DEMO, self.folder / "again", "--group", "64", "--quiet")
        ours, theirs = ([(path.relative_to(root), path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file()] for root in (self.folder / "int8", self.folder / "again"))
        self.assertEqual([name for name, _ in ours], [name for name, _ in theirs])
        self.assertTrue(ours == theirs)

    def test_smoothing_is_folded_into_a_file_of_the_same_kind(self):
        prompts = self.folder / "prompts.txt"
        prompts.write_text("a red circle on a white background\n\n  \ntwo blue stars\n")
        small = small_model(self.folder)
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
        # A LoRA would read the smoothed rows.
        lora = self.folder / "style.safetensors"
        matrix = np.full((2, 192), 0.1, np.float32)
        write_safetensors(lora, {"transformer.layers.0.attention.to_q.lora_A.weight": ("F32", [2, 192], matrix.tobytes()),
                                 "transformer.layers.0.attention.to_q.lora_B.weight": ("F32", [192, 2], matrix.T.tobytes())})
        for folder, refuses in (("smooth", True), ("plain", False)):
            command = ["generate", "--model", self.folder / folder, "--prompt", "x", "--output", self.folder / "x.png", "--quiet", "--lora", lora]
            if refuses:
                self.refuse(UNSUPPORTED, *command, contains=["style.safetensors", "smoothed with alpha 0.5", "without --smooth"])
                self.assertFalse((self.folder / "x.png").exists())
            else:
                self.succeed(*command)

    def test_what_is_refused(self):
        source = TINY / "transformer"
        out = self.folder / "o.safetensors"
        self.refuse(INVALID, "quantize", source, source, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", source / FILE, source / FILE, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", source, source / FILE, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", source / FILE, source, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", source, out, "--scheme", "w4a4", contains=["w4a4", "convrot, w8a8"])
        self.refuse(INVALID, "quantize", source, out, "--group", "48", contains=["48", "power of 4"])
        self.refuse(INVALID, "quantize", self.folder / "none", out, contains=["does not exist"])
        self.refuse(INVALID, "quantize", TINY, out, contains=["the output must be a folder"])
        self.refuse(INVALID, "quantize", source, "/proc/none/o.safetensors", contains=["/proc/none/o.safetensors"])
        self.refuse(INVALID, "quantize", TINY, "/proc/none", contains=["/proc/none"])
        self.refuse(INVALID, "quantize", source, contains=["OUT is missing"])
        empty = self.folder / "empty.txt"
        empty.write_text("\n \n\t\r\n")
        for asked in (["--smooth", "0.5"], ["--protect", "auto"], ["--report", self.folder / "r"]):
            self.refuse(INVALID, "quantize", TINY, self.folder / "m", *asked, "--calibrate", empty, contains=["empty.txt", "holds no prompt", "one a line"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--smooth", "0.5", "--calibrate", self.folder / "no.txt", contains=["no.txt"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--smooth", "1.5", "--calibrate", empty, contains=["1.5", "0 to 1"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--calibrate", empty, contains=["--smooth, --protect auto and --report"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--smooth", "0.5", "--calibrate", "", contains=["--calibrate ''", "built-in"])
        for count in ("0", "-2"):
            self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--threads", count, contains=["--threads " + count, "at least 1"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--picture-steps", "2", contains=["--smooth, --protect auto and --report"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--report", self.folder / "r", "--picture-size", "100", contains=["--picture-size 100", "16"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--report", self.folder / "r", "--picture-steps", "0", contains=["--picture-steps 0", "at least 1"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--budget", "3", contains=["--protect auto"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--protect", "auto", "--budget", "300", contains=["300", "0 to 100"])
        self.refuse(INVALID, "quantize", TINY, self.folder / "m", "--protect", "", contains=["--protect is empty"])
        for asked in (["--smooth", "0.5"], ["--protect", "auto"]):
            self.refuse(INVALID, "quantize", source, out, *asked, contains=["whole model folder", asked[0]])
        self.refuse(INVALID, "quantize", source, out, "--report", empty, contains=["empty.txt"])

    def test_what_is_no_model(self):
        nothing, lora, out = self.folder / "nothing.safetensors", self.folder / "lora.safetensors", self.folder / "o.safetensors"
        write_safetensors(nothing, {})
        self.refuse(INVALID, "quantize", nothing, out, "--quiet", contains=[str(nothing), "holds no tensor"])
        matrix = ("F32", [16, 16], bytes(1024))
        for one, two in (("lora_A", "lora_B"), ("lora_down", "lora_up")):
            write_safetensors(lora, {f"layers.0.attention.qkv.{part}.weight": matrix for part in (one, two)})
            self.refuse(INVALID, "quantize", lora, out, "--quiet", contains=[str(lora), f".{one}.weight", "is a LoRA", "generate --lora"])

    def test_a_link_that_leads_back_and_a_folder_that_may_not_be_read(self):
        model = small_model(self.folder)
        loop = model / "tokenizer" / "loop"
        for target in (".", "..", "../tokenizer/."):
            loop.symlink_to(target)
            self.refuse(INVALID, "quantize", model, self.folder / "out", "--quiet", contains=[str(loop), "remove it"])
            loop.unlink()
        loop.symlink_to("loop")
        self.refuse(INVALID, "quantize", model, self.folder / "out", "--quiet", contains=[str(loop), "check the path and its permissions"])
        loop.unlink()
        if os.geteuid() != 0:  # the superuser reads everything
            (model / "vae").chmod(0)
            self.addCleanup((model / "vae").chmod, 0o755)
            for command in (["quantize", model, self.folder / "out", "--quiet"], ["inspect", model]):
                self.refuse(INVALID, *command, contains=["vae"])

    def test_an_output_inside_the_input(self):
        model = small_model(self.folder)
        before = listing(self.folder)
        for out in (model / "int8", model / "vae" / "x", self.folder / "model" / ".." / "model" / "x"):
            self.refuse(INVALID, "quantize", model, out, contains=["lies inside the input"])
        link = self.folder / "link"
        link.symlink_to(model)
        self.refuse(INVALID, "quantize", model, link, contains=["input and output are the same"])
        self.refuse(INVALID, "quantize", model, link / "x", contains=["lies inside the input"])
        link.unlink()
        self.assertEqual(listing(self.folder), before)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class OutputThatIsThere(ProgramTest):
    def other_model(self, source):
        """Differs in what quantize passes on: the weights of a component, and the model's own settings."""
        other = self.folder / "other"
        shutil.copytree(source, other)
        weights = next((other / "vae").glob("*.safetensors"))
        raw = bytearray(weights.read_bytes())
        raw[-2] ^= 1
        weights.write_bytes(raw)
        edit_json(other / "model_index.json", lambda index: index["generation_defaults"].update(width=48))
        edit_json(other / "transformer" / "config.json", lambda config: config.update(note="other"))
        return other

    def test_another_model_replaces_it_whole_and_both_sources_stay(self):
        model = small_model(self.folder)
        other = self.other_model(model)
        before = contents(model), contents(other)
        for source in (model, other, other, model):
            self.succeed("quantize", source, self.folder / "again", "--quiet")
            self.succeed("quantize", source, self.folder / "fresh", "--quiet")
            self.assertEqual(contents(self.folder / "again"), contents(self.folder / "fresh"))
            shutil.rmtree(self.folder / "fresh")
        self.assertEqual((contents(model), contents(other)), before)

    def test_weights_are_linked_and_what_can_be_edited_is_a_copy(self):
        model, out = small_model(self.folder), self.folder / "out"
        self.succeed("quantize", model, out, "--quiet")
        # An earlier version linked everything.
        (out / "model_index.json").unlink()
        (out / "model_index.json").hardlink_to(model / "model_index.json")
        self.succeed("quantize", model, out, "--quiet")
        before = contents(model)
        for path in out.rglob("*"):
            if path.suffix == ".json":
                path.write_text("{}")
        self.assertEqual(contents(model), before)
        weights = next((model / "vae").glob("*.safetensors"))
        self.assertEqual(weights.stat().st_ino, (out / "vae" / weights.name).stat().st_ino)

    def test_equal_files_are_left_alone(self):
        model, out = small_model(self.folder), self.folder / "out"
        self.succeed("quantize", model, out, "--quiet")
        kept = [path for path in out.rglob("*") if path.is_file() and path.name != FILE]
        before = [path.stat().st_ino for path in kept]
        self.succeed("quantize", model, out, "--quiet")
        self.assertEqual([path.stat().st_ino for path in kept], before)

    def test_what_a_killed_copy_left_goes_and_what_is_being_written_stays(self):
        model, out = small_model(self.folder), self.folder / "out"
        self.succeed("quantize", model, out, "--quiet")
        before = listing(out)
        ended = subprocess.Popen(["true"])
        ended.wait()
        weights = next((out / "vae").glob("*.safetensors"))
        left = [path.with_name(f"{path.name}.{ended.pid}.part") for path in (weights, out / "model_index.json")]
        kept = [path.with_name(f"{path.name}.{end}.part") for path in (weights, out / "model_index.json") for end in (os.getpid(), "mine", f"{ended.pid}x")]
        for path in left + kept:
            path.write_text("x")
        self.succeed("quantize", model, out, "--quiet")
        self.assertEqual(listing(out), sorted(before + [str(path) for path in kept]))

    def test_weights_that_only_the_output_has_are_refused(self):
        model, out = small_model(self.folder), self.folder / "out"
        self.succeed("quantize", model, out, "--quiet")
        for part in ("transformer", "vae"):
            stranger = out / part / "model-00001-of-00002.safetensors"
            stranger.write_bytes(b"x")
            self.refuse(INVALID, "quantize", model, out, contains=[str(stranger), "another model", "choose another output"])
            stranger.unlink()
        shutil.rmtree(model / "unconditional_transformer")
        self.refuse(INVALID, "quantize", model, out, contains=[f"unconditional_transformer/{FILE}", "another model"])

    def test_a_link_in_the_output_does_not_lead_into_another_model(self):
        model = small_model(self.folder)
        other = self.other_model(model)
        out = self.folder / "out"
        for part in ("transformer", "vae"):
            out.mkdir()
            (out / part).symlink_to(model / part)
            before = contents(model)
            done = self.call("quantize", other, out, "--quiet")
            self.assertEqual(done.returncode, INVALID)
            self.assertRegex(done.stderr.decode(), rf"^octavo: output '[^']*/{part}': is a link, .*\n$")
            self.assertEqual(contents(model), before)
            shutil.rmtree(out)

    def test_killed_while_it_copies(self):
        model, out = small_model(self.folder), self.folder / "out"
        big = "notes.dat"
        with open(model / "vae" / big, "wb") as file:
            file.write(b"begin")
            file.truncate(100 << 20)
        running = subprocess.Popen([PROGRAM, "quantize", str(model), str(out), "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None and not list(out.glob(f"vae/{big}.*.part")):
            time.sleep(0.001)
        running.kill()
        running.wait()
        self.assertTrue(list(out.glob(f"vae/{big}.*.part")), "it finished before it could be killed; take a larger file")
        self.assertFalse((out / "vae" / big).exists())
        self.succeed("quantize", model, out, "--quiet")
        self.assertEqual((out / "vae" / big).read_bytes(), (model / "vae" / big).read_bytes())
        self.assertEqual([path for path in listing(out) if path.endswith(".part")], [])


class FullDisk(ProgramTest):
    """A limit on the size of files stands for the disk: the write that passes it fails."""

    def fail(self, limit, *arguments):
        before = listing(self.folder)
        done = subprocess.run([PROGRAM, *map(str, arguments), "--quiet"], capture_output=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        text = done.stderr.decode()
        self.assertEqual(done.returncode, DAMAGED, text)
        self.assertRegex(text, r"^octavo: output '[^']*': (writing failed|could not be completed) \(File too large\); is the disk full\?\n$")
        self.assertEqual(done.stdout, b"")
        self.assertEqual(listing(self.folder), before, "something half-written stays")

    def test_one_file(self):
        for limit in (0, 1, 5_000, 100_000):
            self.fail(limit, "quantize", TINY / "transformer", self.folder / "o.safetensors")

    def test_a_component_folder(self):
        self.fail(100_000, "quantize", TINY / "transformer", self.folder / "deep" / "er")

    def test_a_model_folder(self):
        self.fail(100_000, "quantize", TINY, self.folder / "int8")

    def test_what_was_there_stays(self):
        (self.folder / "int8" / "transformer").mkdir(parents=True)
        (self.folder / "int8" / "transformer" / FILE).write_text("older")
        (self.folder / "int8" / "mine.txt").write_text("mine")
        self.fail(100_000, "quantize", TINY, self.folder / "int8")
        self.assertEqual((self.folder / "int8" / "transformer" / FILE).read_text(), "older")

    def test_the_report(self):
        model = small_model(self.folder)
        size = max((TINY / part / FILE).stat().st_size for part in ("transformer", "unconditional_transformer"))
        done = self.succeed("quantize", model, self.folder / "x", "--report", self.folder / "r", "--quiet")
        self.assertIn(b"report.html", done.stdout)
        page = (self.folder / "r" / "report.html").stat().st_size
        largest = max((self.folder / "x" / part / FILE).stat().st_size for part in ("transformer", "unconditional_transformer"))
        shutil.rmtree(self.folder / "r")
        shutil.rmtree(self.folder / "x")
        if page > largest:  # then there is a limit that only the page passes
            self.fail((page + largest) // 2, "quantize", model, self.folder / "x", "--report", self.folder / "r")
        self.fail(size // 8, "quantize", model, self.folder / "x", "--report", self.folder / "r")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.images, self.outside, self.tables, self.text = [], [], 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "img":
            self.images.append(values["src"])
        self.tables += tag == "table"
        self.outside += [tag for name, value in attributes if name in ("href", "src", "srcset", "data", "action") and not value.startswith("data:image/png;base64,")]
        self.outside += [tag] if tag in ("link", "iframe", "object", "embed", "base") else []

    def handle_data(self, data):
        self.text += data


def ssim(a, b):
    """Wang et al. 2004 on luma, window by window."""
    x = np.arange(11) - 5
    window = np.exp(-(x[:, None] ** 2 + x[None, :] ** 2) / (2 * 1.5**2))
    window /= window.sum()
    a, b = (np.lib.stride_tricks.sliding_window_view(p @ [0.299, 0.587, 0.114], (11, 11)) for p in (a, b))
    def mean(values):
        return (values * window).sum(axis=(-2, -1))
    ma, mb = mean(a), mean(b)
    da, db = a - ma[..., None, None], b - mb[..., None, None]
    va, vb, cov = mean(da * da), mean(db * db), mean(da * db)
    c1, c2 = 2.55**2, 7.65**2
    return ((2 * ma * mb + c1) * (2 * cov + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))).mean()


class Receipt(ProgramTest):
    def make(self, *arguments, prompts=("a <red> circle & more", "two blue stars")):
        model = small_model(self.folder)
        file = self.folder / "prompts.txt"
        file.write_text("\n".join(prompts))
        self.shown = json.loads(
            self.succeed("quantize", model, self.folder / "out", "--calibrate", file, "--report", self.folder / "report", "--json", "--quiet", *arguments).stdout)
        return json.loads((self.folder / "report" / "report.json").read_text()), Page((self.folder / "report" / "report.html").read_text())

    def test_pictures_are_those_that_generate_draws_and_their_distances_are_right(self):
        report, page = self.make("--group", "16")
        self.assertEqual(page.outside, [], "the page asks for something that is not in it")
        self.assertEqual(len(page.images), 6)
        arrays = []
        for image in page.images:
            width, height, rgb, texts = read_png(base64.b64decode(image.split(",", 1)[1], validate=True))
            self.assertEqual((width, height, texts), (64, 64, {}))
            arrays.append(np.frombuffer(rgb, np.uint8).reshape(64, 64, 3).astype(np.float64))
        for index, (shown, prompt) in enumerate(zip(report["pictures"], ("a <red> circle & more", "two blue stars"))):
            before, after, difference = arrays[3 * index : 3 * index + 3]
            self.assertEqual((shown["prompt"], shown["seed"]), (prompt, index))
            for picture, model, precision in ((before, "model", "f32"), (after, "out", "w8a8")):
                png = self.folder / "again.png"
                self.succeed("generate", "--model", self.folder / model, "--precision", precision, "--prompt", prompt, "--seed", str(index), "--output", png)
                self.assertEqual(read_png(png.read_bytes())[2], picture.astype(np.uint8).tobytes())
            self.assertAlmostEqual(shown["ssim"], ssim(before, after), places=9)
            self.assertAlmostEqual(shown["psnr_db"], 10 * np.log10(255**2 / np.mean((before - after) ** 2)), places=9)
            np.testing.assert_array_equal(difference, np.clip(128 + 8 * (after - before), 0, 255))
        self.assertIn("a <red> circle & more", page.text)
        self.assertIn("difference × 8", page.text)

    def test_every_layer_is_there_with_its_error_and_its_outliers(self):
        report, page = self.make("--scheme", "w8a8")
        self.assertIn(report["verdict"], ("good", "check", "bad"))
        self.assertEqual(report["verdict"], self.shown["report"]["verdict"])
        for file, shown in zip(report["files"], self.shown["files"]):
            self.assertEqual([layer["module"] for layer in file["layers"]], [layer["module"] for layer in shown["layers"]])
            self.assertEqual(file["bytes_after"], pathlib.Path(file["path"]).stat().st_size)
            for layer in file["layers"]:
                self.assertIn(layer["module"], page.text)
                if not layer["quantized"]:
                    continue
                # Weight and activation each cost a step of absmax / 127 at most: with K <= 768 Gaussian numbers the largest is under 5 rms, so each
                # error is under 5 / 127 / sqrt(12) = 1.14 %; real rows have outliers of input max/rms times that.
                limit = np.hypot(1.14e-2, layer["input"]["outlier_ratio"] / 127 / 12**0.5)
                self.assertGreater(layer["output_error"], 1e-3, layer["module"])
                self.assertLess(layer["output_error"], 2 * limit, layer["module"])
                self.assertAlmostEqual(layer["output_snr_db"], -20 * np.log10(layer["output_error"]), places=9)
                self.assertGreaterEqual(layer["input"]["outlier_ratio"], 1)

    def test_the_worst_layers_are_kept_within_the_budget(self):
        model = small_model(self.folder)
        quick = ("--scheme", "w8a8", "--picture-size", "32", "--picture-steps", "1", "--json", "--quiet")
        for budget in (0, 10, 40):
            for out in ("plain", "auto"):
                shutil.rmtree(self.folder / out, ignore_errors=True)
            self.succeed("quantize", model, self.folder / "plain", "--scheme", "w8a8", "--quiet")
            done = self.succeed("quantize", model, self.folder / "auto", "--protect", "auto", "--budget", str(budget), *quick)
            for file in json.loads(done.stdout)["files"]:
                part = pathlib.Path(file["path"]).parent.name
                plain = (self.folder / "plain" / part / FILE).stat().st_size
                self.assertLessEqual(file["bytes_after"], plain * (1 + budget / 100))
                kept = [layer for layer in file["layers"] if layer["became"] == "kept: worst output"]
                self.assertEqual(bool(kept), budget > 0)
                room = plain * (1 + budget / 100) - file["bytes_after"]
                for layer in file["layers"]:
                    if layer["quantized"] and any(layer["output_error"] > other["output_error"] for other in kept):
                        self.assertGreater(layer["bytes_after"], room, f"{layer['module']} is worse than a kept one and would have fitted")
                tensors, _ = read(self.folder / "auto" / part / FILE)
                source, _ = read(model / part / FILE)
                for layer in kept:
                    np.testing.assert_array_equal(tensors[f"{layer['module']}.weight"], source[f"{layer['module']}.weight"])

    def test_one_file_has_a_page_without_pictures(self):
        done = self.succeed("quantize", TINY / "transformer", self.folder / "o.safetensors", "--report", self.folder / "r")
        page = Page((self.folder / "r" / "report.html").read_text())
        self.assertEqual(page.images, [])
        self.assertIn("is not a whole model folder, so nothing could be drawn", page.text)
        self.assertEqual(json.loads((self.folder / "r" / "report.json").read_text())["verdict"], "check")
        self.assertIn(b"report.html: check", done.stdout)

    def test_the_same_command_writes_the_same_page(self):
        pages = []
        for threads in ("1", "3"):
            self.make("--threads", threads)
            pages.append([(self.folder / "report" / name).read_bytes() for name in ("report.html", "report.json")])
            for name in ("model", "out", "report"):
                shutil.rmtree(self.folder / name)
        self.assertEqual(pages[0], pages[1])

    def test_built_in_prompts_are_said(self):
        done = self.succeed("quantize", small_model(self.folder), self.folder / "o", "--protect", "auto", "--picture-size", "32", "--picture-steps", "1")
        self.assertIn("calibrates with 4 built-in prompts; --calibrate FILE takes yours", done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"--protect auto: \d+ of \d+ measured layers kept in bf16")


if __name__ == "__main__":
    unittest.main()

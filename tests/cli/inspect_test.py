#!/usr/bin/env python3
"""The commands that draw nothing: inspect, devices, version, caption, help."""
import json
import unittest

from program import DAMAGED, DEMO, GOLDEN, INVALID, TINY, ProgramTest, read_safetensors, write_safetensors


class Inspect(ProgramTest):
    def test_a_model_folder_counts_what_is_in_the_files(self):
        shown = json.loads(self.succeed("inspect", "--json", DEMO).stdout)
        self.assertEqual([component["name"] for component in shown["components"]], ["tokenizer", "text_encoder", "transformer", "unconditional_transformer", "vae"])
        for component in shown["components"]:
            tensors, total = 0, 0
            for name in component["files"]:
                content, _ = read_safetensors(DEMO / component["name"] / name)
                tensors += len(content)
                total += sum(len(data) for _, _, data in content.values())
            self.assertEqual(sum(row["tensors"] for row in component["weights"]), tensors, component["name"])
            self.assertEqual(sum(row["bytes"] for row in component["weights"]), total, component["name"])

    def test_precision_says_what_is_loaded_as_what(self):
        def loaded(precision):
            shown = json.loads(self.succeed("inspect", "--json", "--precision", precision, TINY).stdout)
            rows = {(c["name"], row["what"]): row for c in shown["components"] for row in c["weights"]}
            return rows[("transformer", "block linears")]

        self.assertIn("s8", loaded("w8a8")["loaded_as"])
        self.assertIn("bf16", loaded("f32")["loaded_as"])
        self.assertIn("f8_e4m3", loaded("fp8")["loaded_as"])
        self.assertIn("4-bit blocks of 64", loaded("nf4")["loaded_as"])
        # two layers of qkv, o, w1, w2, w3, or of q, k, v, o, w1, w2, w3
        self.assertIn(loaded("f32")["tensors"], (10, 14))

    def test_layers_tell_their_dialect_and_whether_they_run_as_stored(self):
        """Of an int8 file by its own maker: the rotated layers run as they are in w8a8 and are decoded in f32; nobody converts what was left plain."""
        done = json.loads(self.succeed("quantize", TINY / "transformer", "int8", "--group", "16", "--json", "--quiet").stdout)
        quantised = {layer["module"]: layer for layer in done["files"][0]["layers"] if layer["quantized"]}
        for path, at in (("int8", lambda shown: shown["components"][0]), ("int8/diffusion_pytorch_model.safetensors", lambda shown: shown)):
            for precision in ("w8a8", "f32"):
                shown = at(json.loads(self.succeed("inspect", path, "--json", "--precision", precision).stdout))
                layers = {layer["module"]: layer for layer in shown["layers"]}
                self.assertLess(set(quantised), set(layers))
                for module, layer in layers.items():
                    if module not in quantised:
                        self.assertEqual((layer["dialect"], layer["stored"], layer["rotation_group"]), ("plain", "bf16", 0), module)
                        self.assertTrue(layer["native"], module)
                        continue
                    self.assertEqual(layer["dialect"], "ComfyUI int8_tensorwise")
                    self.assertEqual(layer["rotation_group"], 16)
                    self.assertEqual(layer["bytes"], quantised[module]["bytes_after"])
                    self.assertEqual(layer["native"], precision == "w8a8")
                    self.assertEqual(layer["reason"] == "", precision == "w8a8", layer["reason"])
        text = self.succeed("inspect", "int8", "--precision", "f32").stdout.decode()
        self.assertIn(f"not as stored: {len(quantised)} (", text)
        self.assertIn(f"ComfyUI int8_tensorwise: {len(quantised)}", text)
        self.assertIn("--precision w8a8", text)
        text = self.succeed("inspect", TINY / "transformer", "--precision", "w8a8").stdout.decode()
        self.assertIn("bf16 is converted at load", text)

    def test_blocks_that_share_a_scale(self):
        rows, columns = 4, 256
        state = json.dumps({"quant_type": "nf4", "blocksize": 128, "shape": [rows, columns]}).encode()
        write_safetensors(self.folder / "nf4.safetensors", {
            "a.weight": ("U8", [rows * columns // 2, 1], bytes(rows * columns // 2)), "a.weight.absmax": ("F32", [8], bytes(32)),
            "a.weight.quant_map": ("F32", [16], bytes(64)), "a.weight.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state),
            "b.weight": ("U4", [rows, columns], bytes(rows * columns // 2))})
        shown = json.loads(self.succeed("inspect", "nf4.safetensors", "--json").stdout)
        one, other = sorted(shown["layers"], key=lambda layer: layer["module"])
        self.assertEqual((one["dialect"], one["block"], one["bytes"], one["native"]), ("NF4 of bitsandbytes", 128, rows * columns // 2 + 32 + 64 + len(state), False))
        self.assertEqual((other["dialect"], other["native"]), ("unknown", False))
        self.assertIn("known are", other["reason"])

    def test_predicted_memory(self):
        """Weights as they are loaded plus activations: more pixels take more, int8 takes half of bf16, and the sums are those of the parts."""
        def predicted(*more, model=DEMO):
            return json.loads(self.succeed("inspect", "--json", model, *more).stdout)["predicted_memory"]

        plain = predicted()
        self.assertEqual((plain["width"], plain["height"]), (256, 256), "the model's own size")
        for stage in ("text_encoder", "drawing"):
            self.assertLessEqual(plain[stage]["weights"] + plain[stage]["activations"], plain["bytes"] + 1)
        large = predicted("--width", "1024", "--height", "512")
        self.assertEqual((large["width"], large["height"]), (1024, 512))
        self.assertEqual(large["drawing"]["weights"], plain["drawing"]["weights"])
        # The decoder's maps grow with the pixels; the rows of the text do not.
        self.assertGreater(large["drawing"]["activations"], 4 * plain["drawing"]["activations"])
        self.assertLess(large["drawing"]["activations"], 9 * plain["drawing"]["activations"])
        shown = json.loads(self.succeed("inspect", "--json", DEMO).stdout)
        blocks = sum(row["bytes"] for c in shown["components"] for row in c["weights"] if row["what"] == "block linears")
        saved = plain["drawing"]["weights"] - predicted("--precision", "w8a8")["drawing"]["weights"]
        self.assertGreater(saved, 0.48 * blocks)  # bf16 to one byte, less a scale of 4 bytes per row
        self.assertLess(saved, 0.5 * blocks)
        self.assertIn("predicted memory (VRAM on a GPU) at 256x256", self.succeed("inspect", DEMO).stdout.decode())

    def test_a_size_that_cannot_be_predicted(self):
        self.refuse(INVALID, "inspect", DEMO, "--width", "1000", contains=["inspect: --width 1000", "992, 1008"])
        self.refuse(INVALID, "inspect", DEMO, "--width", "wide", contains=["inspect: --width 'wide'"])
        self.refuse(INVALID, "inspect", DEMO / "vae", "--height", "512", contains=["whole model folder"])
        model = self.copy_model()
        (model / "vae" / "config.json").write_text("{}")
        self.assertIn("no memory is predicted: ", self.succeed("inspect", model).stdout.decode())
        self.assertIsNone(json.loads(self.succeed("inspect", model, "--json").stdout)["predicted_memory"])
        self.refuse(DAMAGED, "inspect", model, "--width", "512", contains=["vae"])

    def test_text_for_people(self):
        text = self.succeed("inspect", TINY).stdout.decode()
        for wanted in ("transformer", "block linears", "tensors", "total:"):
            self.assertIn(wanted, text)

    def test_one_component_and_one_file(self):
        self.assertIn("vae", self.succeed("inspect", TINY / "vae").stdout.decode())
        path = TINY / "vae" / "diffusion_pytorch_model.safetensors"
        shown = json.loads(self.succeed("inspect", path, "--json").stdout)
        tensors, _ = read_safetensors(path)
        self.assertEqual({t["name"]: t["shape"] for t in shown["tensors"]}, {name: shape for name, (_, shape, _) in tensors.items()})

    def test_what_is_not_there_or_not_readable(self):
        self.refuse(INVALID, "inspect", "none", contains=["'none'", "does not exist"])
        self.refuse(INVALID, "inspect", self.folder, contains=["neither model_index.json"])
        path = self.folder / "page.safetensors"
        path.write_text("<!DOCTYPE html><html></html>")
        self.refuse(DAMAGED, "inspect", path, contains=["HTML"])
        png = self.folder / "cut.png"
        png.write_bytes((GOLDEN / "demo" / "demo-expected.png").read_bytes()[:200])
        self.refuse(DAMAGED, "inspect", png, contains=["cut.png"])

    def test_a_picture_of_somebody_else(self):
        self.assertIn("no request", self.succeed("inspect", GOLDEN / "demo" / "demo-expected.png").stdout.decode())


class SmallCommands(ProgramTest):
    def test_devices(self):
        text = self.succeed("devices").stdout.decode()
        for wanted in ("cpu", "cores", "f32", "bf16", "w8a8", "cuda"):
            self.assertIn(wanted, text)
        shown = json.loads(self.succeed("devices", "--json").stdout)
        self.assertGreaterEqual(shown["cpu"]["cores"], 1)
        self.assertTrue(shown["gpus"] or shown["no_gpu_because"])

    def test_version(self):
        version = json.loads(self.succeed("version", "--json").stdout)["version"]
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertIn(f"octavo {version}", self.succeed("version").stdout.decode())
        self.assertIn(f"octavo {version}", self.succeed("--version").stdout.decode())

    def test_captions(self):
        good = '{"compositional_deconstruction":{"background":"a","elements":[]}}'
        (self.folder / "good.json").write_text(good)
        self.assertIn("nothing", self.succeed("caption", "check", "good.json").stdout.decode())
        done = self.succeed("caption", "check", "-", stdin=b'{"colour": "red"}')
        self.assertIn("warning", done.stdout.decode())
        self.assertIn("colour", done.stdout.decode())
        shown = json.loads(self.succeed("caption", "check", "-", "--json", stdin=b"not json").stdout)
        self.assertTrue(shown["warnings"])
        done = self.succeed("caption", "compact", "-", stdin='{ "z" : 1,\n "a" : [ "é", 2 ] }'.encode())
        self.assertEqual(done.stdout.decode(), '{"z":1,"a":["é",2]}')
        self.refuse(DAMAGED, "caption", "compact", "-", stdin=b"{", contains=["JSON"])
        self.refuse(INVALID, "caption", "check", "none.json", contains=["none.json"])

    def test_help_starts_with_examples(self):
        for words in ([], ["generate"], ["inspect"], ["devices"], ["caption"], ["caption", "check"], ["version"]):
            text = self.succeed(*words, "--help").stdout.decode()
            self.assertLess(text.index("Examples:"), text.index("Usage:"), words)
            self.assertIn(" ".join(["Usage: octavo", *words]) + " ", text)
        listed = self.succeed("--help").stdout.decode().split("Subcommands:")[1]
        for line in listed.strip().splitlines():
            self.assertRegex(line, r"^ *[a-z]+ +[A-Z].*\.$", "one line for each command")
        done = self.call()
        self.assertEqual(done.returncode, INVALID)
        self.assertIn(b"Examples:", done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The commands that draw nothing: inspect, devices, version, caption, help."""
import json
import unittest

from program import DAMAGED, DEMO, GOLDEN, INVALID, TINY, ProgramTest, read_safetensors


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
        listed = self.succeed("--help").stdout.decode().split("Subcommands:")[1]
        for line in listed.strip().splitlines():
            self.assertRegex(line, r"^ *[a-z]+ +[A-Z].*\.$", "one line for each command")
        done = self.call()
        self.assertEqual(done.returncode, INVALID)
        self.assertIn(b"Examples:", done.stderr)


if __name__ == "__main__":
    unittest.main()

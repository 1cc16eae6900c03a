#!/usr/bin/env python3
"""octavo generate --lora: what it reports, what the picture remembers, what it refuses."""
import json
import math
import shlex
import struct
import unittest

from program import DAMAGED, FAST, INVALID, UNSUPPORTED, ProgramTest, read_png, write_safetensors

HIDDEN, WIDTH = 192, 224  # of the tiny model


def floats(count, phase):
    return struct.pack(f"<{count}f", *(0.3 * math.sin(phase + 0.37 * i) for i in range(count)))


def pair(module, out, inner, rank=2, phase=0.0, halves=("lora_A", "lora_B")):
    down, up = halves
    return {f"{module}.{down}.weight": ("F32", [rank, inner], floats(rank * inner, phase)), f"{module}.{up}.weight": ("F32", [out, rank], floats(out * rank, phase + 1))}


class Lora(ProgramTest):
    def file(self, *pairs, name="style.safetensors"):
        tensors = {}
        for entry in pairs:
            tensors.update(entry)
        path = self.folder / name
        write_safetensors(path, tensors)
        return path

    def good(self, name="style.safetensors", phase=0.0):
        return self.file(pair("transformer.layers.0.attention.to_q", HIDDEN, HIDDEN, phase=phase),
                         pair("transformer.layers.1.feed_forward.w2", HIDDEN, WIDTH, phase=phase), name=name)

    def bad(self, code, word, *contains):
        return self.refuse(code, "generate", *FAST, "--prompt", "x", "--output", self.folder / "x.png", "--lora", word, contains=contains)

    def test_reports_keys_and_changes_the_picture(self):
        path = self.good()
        plain = self.draw("plain.png")
        done = self.succeed("generate", *FAST, "--prompt", "two red squares", "--output", self.folder / "styled.png", "--lora", f"{path}:0.8")
        self.assertIn(f"lora '{path}': 4 of 4 keys applied, strength 0.8", done.stderr.decode())
        self.assertNotEqual(read_png((self.folder / "styled.png").read_bytes())[2], read_png(plain)[2])
        self.assertEqual(read_png(self.draw("off.png", "--lora", f"{path}:0"))[2], read_png(plain)[2])
        self.assertEqual(self.draw("a.png", "--lora", path), self.draw("b.png", "--lora", f"{path}:1"), "the strength is 1 if left out")

    def test_same_bytes_whatever_the_threads(self):
        path = self.good()
        for precision in ("f32", "w8a8"):
            self.assertEqual(self.draw("a.png", "--lora", path, "--precision", precision, "--threads", 1),
                             self.draw("b.png", "--lora", path, "--precision", precision, "--threads", 3))

    def test_the_picture_remembers_and_inspect_repeats_it(self):
        first, second = self.good("first, one.safetensors"), self.good("b:c.safetensors", phase=2)
        blob = self.draw("styled.png", "--lora", f"{first}:0.8", "--lora", second)
        request = json.loads(read_png(blob)[3]["octavo"])
        self.assertEqual(request["lora"], [f"{first}:0.8", f"{second}:1"])
        text = self.succeed("inspect", self.folder / "styled.png").stdout.decode()
        command = next(line for line in text.splitlines() if line.startswith("again: "))[len("again: "):]
        words = shlex.split(command)
        self.assertEqual(words.count("--lora"), 2)
        again = self.folder / "again.png"
        self.succeed(*words[1:], "--output", again)
        self.assertEqual(again.read_bytes(), blob)

    def test_json_has_the_request(self):
        path = self.good()
        done = self.succeed("generate", *FAST, "--prompt", "x", "--output", self.folder / "x.png", "--lora", f"{path}:-0.5", "--json", "--quiet")
        self.assertEqual(done.stderr, b"")
        self.assertEqual(json.loads(done.stdout)["pictures"][0]["request"]["lora"], [f"{path}:-0.5"])

    def test_what_has_no_place_is_named(self):
        path = self.file(pair("transformer.layers.0.attention.o", HIDDEN, HIDDEN), pair("text_encoder.layers.0.q_proj", 8, 8))
        done = self.succeed("generate", *FAST, "--prompt", "x", "--output", self.folder / "x.png", "--lora", path)
        self.assertIn("2 of 4 keys applied, strength 1; without a place in this model: text_encoder.layers.0.q_proj", done.stderr.decode())

    def test_words(self):
        path = self.good()
        self.bad(INVALID, f"{path}:strong", "--lora", "'strong'", "number like 0.8")
        self.bad(INVALID, f"{path}:", "--lora", "''", "number like 0.8")
        self.bad(INVALID, f"{path}:0.8x", "--lora", "'0.8x'", "number")
        self.bad(INVALID, f"{path}:nan", "--lora", "nan", "finite")
        self.bad(INVALID, f"{path}:inf", "--lora", "inf", "finite")
        self.bad(INVALID, f"{path}:1e39", "1e+39", "float32")
        self.bad(INVALID, ":0.5", "--lora", "no file", "FILE:STRENGTH")
        self.bad(INVALID, "", "--lora", "no file")

    def test_files(self):
        self.bad(INVALID, self.folder / "none.safetensors", "none.safetensors")
        self.bad(INVALID, self.folder, str(self.folder))
        (self.folder / "page.safetensors").write_text("<!DOCTYPE html><html></html>")
        self.bad(DAMAGED, self.folder / "page.safetensors", "page.safetensors", "HTML")
        whole = self.good().read_bytes()
        (self.folder / "short.safetensors").write_bytes(whole[:-4])
        self.bad(DAMAGED, self.folder / "short.safetensors", "short.safetensors")
        empty = self.file(name="empty.safetensors")
        self.bad(INVALID, empty, "holds no LoRA", "0 tensors")

    def test_numbers_that_are_not_finite(self):
        name = "transformer.layers.0.attention.o"
        for bad in (float("nan"), float("inf")):
            entry = pair(name, HIDDEN, HIDDEN)
            dtype, shape, data = entry[f"{name}.lora_B.weight"]
            entry[f"{name}.lora_B.weight"] = (dtype, shape, data[:40] + struct.pack("<f", bad) + data[44:])
            self.bad(DAMAGED, self.file(entry), f"'{name}.lora_B.weight'", "not finite", "element 10")

    def test_too_strong_a_lora_is_not_the_fault_of_the_weights(self):
        def scaled(name, by):
            entry = pair("transformer.layers.0.attention.to_v", HIDDEN, HIDDEN)
            for key, (dtype, shape, data) in entry.items():
                entry[key] = (dtype, shape, struct.pack(f"<{len(data) // 4}f", *(by * value for value in struct.unpack(f"<{len(data) // 4}f", data))))
            return self.file(entry, name=name)

        # Both matrices times 1e4, and 1e30, are about 1e38 on numbers of about 1: a sum of some is past float32. So is 1e19 twice.
        strong = scaled("strong.safetensors", 1e4)
        words = ["generate", *FAST, "--prompt", "x", "--output", self.folder / "x.png", "--quiet"]  # found in the first step, after lines of progress
        self.refuse(INVALID, *words, "--lora", f"{strong}:1e30", contains=["--lora", f"'{strong}' with strength 1e+30", "not finite", "smaller strength", "leave it out"])
        large, off = scaled("large.safetensors", 1e19), self.good("off.safetensors")
        line = self.refuse(INVALID, *words, "--lora", f"{off}:0", "--lora", f"{strong}:0.5", "--lora", large,
                           contains=[f"'{strong}' with strength 0.5, '{large}' with strength 1", "one by one"])
        self.assertNotIn("off.safetensors", line)
        # Past float16 and far from the end of float32: neither the LoRA nor the weights are to blame.
        self.draw("wide.png", "--lora", strong, "--precision", "f32")
        self.refuse(INVALID, *words, "--lora", strong, "--precision", "fp16", contains=["--precision fp16", "65504", "--precision bf16 or f32"])

    def test_of_another_model(self):
        other = self.file(*(pair(f"transformer.transformer_blocks.{i}.attn.to_q", 64, 64) for i in range(3)))
        self.bad(INVALID, other, "only 0 of 6 keys", "'transformer.transformer_blocks.0.attn.to_q'", "nearest here: 'layers.0.attention.to_q'")
        wider = self.file(pair("transformer.layers.0.attention.to_q", 4608, 4608))
        self.bad(INVALID, wider, "[4608, 4608]", f"[{HIDDEN}, {HIDDEN}]", "another model")

    def test_relatives(self):
        entry = pair("transformer.layers.0.attention.o", HIDDEN, HIDDEN)
        entry["transformer.layers.0.attention.o.dora_scale"] = ("F32", [HIDDEN, 1], floats(HIDDEN, 0))
        self.bad(UNSUPPORTED, self.file(entry), "dora_scale", "DoRA")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""octavo bench model: wrong options are said before a GPU is asked for; without one there is one clear line. What it measures: tests/gpu/bench_model_test.cpp."""
import unittest

from program import INVALID, UNSUPPORTED, ProgramTest

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


class BenchModel(ProgramTest):
    def bad(self, *arguments, contains):
        return self.refuse(INVALID, "bench", "model", *arguments, contains=contains, env=NO_GPU)

    def test_options(self):
        self.bad("ideogram5", contains=["'ideogram5'", "ideogram4, ideogram4-tiny"])
        self.bad("--size", "1000", contains=["--size '1000'", "multiple of 16"])
        self.bad("--size", "0", contains=["--size '0'", "from 16 to 4096"])
        self.bad("--size", "8192", contains=["'8192'"])
        self.bad("--size", "768,,1024", contains=["--size '768,,1024'", "''"])
        self.bad("--size", "big", contains=["'big'"])
        self.bad("--text", "-1", contains=["--text -1", "from 0 to 2048"])
        self.bad("--text", "2049", contains=["--text 2049"])
        self.bad("--text", "abc", contains=["--text", "abc"])
        self.bad("--steps", "0", contains=["--steps 0", "from 1 to 10000"])
        self.bad("--precision", "int4", contains=["--precision 'int4'", "w8a8, bf16"])
        self.bad("--precision", "w8a8,f32", contains=["'f32'", "w8a8, bf16"])
        self.bad("--device", "cpu", contains=["--device cpu", "cuda"])
        self.bad("--colour", contains=["--colour"])

    def test_budgets(self):
        self.bad("--vram", "12", contains=["bench model: --vram '12'", "has no unit"])
        self.bad("--vram", "12GB,,8GB", contains=["bench model: --vram ''"])
        self.bad("--vram", "12GB", "--text", "18", contains=["18 text tokens", "template alone has 19"])
        self.bad("--vram", "12GB", "--steps", "1", contains=["--steps 1", "from 2 to"])
        for option in (("--quick",), ("--profile", self.folder / "page.html")):
            self.bad("--vram", "12GB", *option, contains=["--profile and --quick", "--vram"])

    def test_without_a_gpu(self):
        for more in ((), ("--json",), ("--profile", self.folder / "page.html"), ("ideogram4-tiny", "--random-weights"), ("--vram", "12GB,8GB")):
            self.refuse(UNSUPPORTED, "bench", "model", *more, contains=["bench model", "no GPU can be used", "NVIDIA GPU"], env=NO_GPU)

    def test_help_has_examples(self):
        text = self.succeed("bench", "model", "--help").stdout.decode()
        for part in ("octavo bench model --profile", "--size", "--text", "--steps", "--precision", "--random-weights", "--vram", "--json"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()

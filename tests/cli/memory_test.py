#!/usr/bin/env python3
"""Host memory while large checkpoints are converted: files much larger than the bounds, written for the purpose. Needs numpy."""
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

from program import GOLDEN, PROGRAM, SOURCE, ProgramTest

# The program with its libraries and the small components; measured 21 MiB.
BASE = 40 << 20
MODEL = GOLDEN / "tiny-hd256"  # gives a denoiser of another size its tokenizer, text encoder and autoencoder


class Memory(ProgramTest):
    def make(self, folder, *options):
        sizes = ["--hidden", "1024", "--intermediate", "4096", "--llm-features", "416", "--in-channels", "32", "--adaln", "48"]
        subprocess.run([sys.executable, "-B", SOURCE / "tools" / "make_large_checkpoint.py", folder, *sizes, *options], check=True, stdout=subprocess.DEVNULL)
        return (folder / "diffusion_pytorch_model.safetensors").stat().st_size

    def test_fp8_becomes_w8a8_at_load_within_1_3_times_the_file(self):
        """Held at the end: one byte per weight, as in the file. Both at once would be 2 x."""
        model = self.copy_model(MODEL)
        for component in ("transformer", "unconditional_transformer"):
            shutil.rmtree(model / component)
        size = self.make(model / "transformer", "--layers", "6", "--format", "fp8")
        shutil.copytree(model / "transformer", model / "unconditional_transformer")
        size *= 2
        self.assertGreater(size, 4 * BASE)
        done = self.succeed("generate", "--model", model, "--width", "32", "--height", "32", "--steps", "1", "--guidance", "2", "--prompt", "x", "--precision", "w8a8",
                            "--output", "x.png", "--json", "--quiet")
        peak = json.loads(done.stdout)["peak_memory_bytes"]
        print(f"fp8 -> w8a8 at load: peak {peak >> 20} MiB, files {size >> 20} MiB, {peak / size:.2f} x", file=sys.stderr)
        self.assertLess(peak, 1.3 * size)

    def test_quantize_holds_a_few_layers_however_large_the_file(self):
        """The largest matrix has 4 Mi weights: 8 MiB mapped, 4 MiB of codes, and as much again for the one before it."""
        layer = 4096 * 1024 * 3
        size = self.make(self.folder / "bf16", "--layers", "10")
        for scheme in ("w8a8", "convrot"):
            memory = self.folder / f"{scheme}.memory"
            script = "import resource, subprocess, sys; code = subprocess.run(sys.argv[2:]).returncode; " \
                     "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)); sys.exit(code)"
            subprocess.run([sys.executable, "-c", script, memory, PROGRAM, "quantize", self.folder / "bf16", self.folder / f"{scheme}.safetensors", "--scheme", scheme,
                            "--quiet"], check=True, stdout=subprocess.DEVNULL)
            peak = int(pathlib.Path(memory).read_text())
            print(f"quantize {scheme}: peak {peak >> 20} MiB, file {size >> 20} MiB", file=sys.stderr)
            self.assertLess(peak, BASE + 2 * layer)
            self.assertLess(peak, size / 3)
            (self.folder / f"{scheme}.safetensors").unlink()


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""What each precision costs, on the demo model: sixteen prompts that leave nothing open, drawn in every precision, compared with f32 and scored.

demo_quality.py OCTAVO [--precisions f32,w8a8,…] [--json RECORD] [--keep FOLDER]

Per precision: PSNR to f32 (8-bit pixels), pictures with everything right in them, seconds (wall and processor) a picture and a step, peak memory.
"""
import argparse
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import numpy
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "demo_model"))

from asked import ASKED  # noqa: E402
from scoring import score_picture  # noqa: E402

PRECISIONS = ("f32", "bf16", "w8a8", "w8a8-dequant", "fp8", "nf4")
SEED = 1


def psnr(a, b):
    error = numpy.mean((a.astype(numpy.float64) - b.astype(numpy.float64)) ** 2)
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def draw(program, prompt, precision, path):
    """(pixels [h, w, 3], what it took)."""
    before = processor_seconds()
    command = [program, "generate", "--precision", precision, "--device", "cpu", "--seed", str(SEED), "--prompt", prompt, "--output", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    steps = re.findall(r"denoise \d+/\d+\s+([0-9.]+) s/step", done.stderr)
    took = {"seconds": result["seconds"], "processor_s": processor_seconds() - before, "step_s": float(steps[-1]), "peak_bytes": result["peak_memory_bytes"]}
    return numpy.asarray(Image.open(path).convert("RGB")), took


def measure(program, precisions, folder):
    """precision -> {psnr: [16] or None for f32, right: [16 bool], …}. f32 must come first."""
    table, exact = {}, []
    for precision in precisions:
        rows = []
        for index, (prompt, scene) in enumerate(ASKED):
            pixels, took = draw(program, prompt, precision, folder / f"{precision}-{index:02}.png")
            if precision == "f32":
                exact.append(pixels)
            rows.append((pixels, score_picture(scene, pixels), took))
        table[precision] = {
            "psnr": None if precision == "f32" else [round(min(psnr(exact[i], pixels), 99.0), 2) for i, (pixels, _, _) in enumerate(rows)],
            "right": [score["scene"] for _, score, _ in rows],
            "scores": [score for _, score, _ in rows],
            **{name: sorted(took[name] for _, _, took in rows)[len(rows) // 2] for name in ("seconds", "processor_s", "step_s")},
            "peak_mib": round(max(took["peak_bytes"] for _, _, took in rows) / 2**20, 1)}
    return table


def lines(table):
    """The table for people, in Markdown."""
    yield "| precision | mean dB | least dB | pictures right | s a picture | of processor time | s a step | peak MiB |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for precision, row in table.items():
        ratios = row["psnr"]
        mean, least = ("–", "–") if ratios is None else (f"{sum(ratios) / len(ratios):.1f}", f"{min(ratios):.1f}")
        yield (f"| {precision} | {mean} | {least} | {sum(row['right'])} of {len(row['right'])} | {row['seconds']:.2f} | {row['processor_s']:.2f} | "
               f"{row['step_s']:.2f} | {row['peak_mib']:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the pictures")
    options = parser.parse_args()
    precisions = options.precisions.split(",")
    if precisions[0] != "f32":
        sys.exit("demo_quality: --precisions must begin with f32, which the others are compared with")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        table = measure(options.program, precisions, folder)
    for line in lines(table):
        print(line)
    if options.json:
        version = json.loads(subprocess.run([options.program, "version", "--json"], capture_output=True, text=True, check=True).stdout)["version"]
        processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="ascii", errors="replace") if line.startswith("model name")), "?")
        command = f"python3 tools/demo_quality.py build/cpu/bin/octavo --precisions {options.precisions} --json FILE"
        record = {"bench": "demo_quality", "command": command, "version": version, "processor": processor, "cores": os.cpu_count(),
                  "load_average_before": round(load, 2), "seed": SEED, "prompts": [prompt for prompt, _ in ASKED],
                  "precisions": {name: {key: value for key, value in row.items() if key != "scores"} for name, row in table.items()}}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What each precision costs, on the demo model: sixteen prompts that leave nothing open, drawn in every precision, compared with f32 and scored.

demo_quality.py OCTAVO [--precisions f32,w8a8,w8a8+int8,…] [--prompts N] [--velocity] [--json RECORD] [--keep FOLDER]

P+A is precision P with --attention A. --velocity: also the relative L2 error of the first step's velocity after guidance, where all start from the same noise.

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


def guided_velocity(dump):
    """Of the first step, from a file that --dump wrote: uncond + guidance · (cond - uncond), float64."""
    data = dump.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    guidance = json.loads(header["__metadata__"]["octavo"])["guidance"]

    def first_step(name):
        begin, end = header[name]["data_offsets"]
        return numpy.frombuffer(data[8 + size + begin:8 + size + end], numpy.float32).reshape(header[name]["shape"])[0].astype(numpy.float64)

    cond, uncond = first_step("velocity_cond"), first_step("velocity_uncond")
    return uncond + (guidance[0] if isinstance(guidance, list) else guidance) * (cond - uncond)


def draw(program, prompt, precision, path, dump=None):
    """(pixels [h, w, 3], what it took)."""
    before = processor_seconds()
    precision, _, attention = precision.partition("+")
    command = [program, "generate", "--precision", precision, "--device", "cpu", "--seed", str(SEED), "--prompt", prompt, "--output", str(path), "--json"]
    command += ["--attention", attention] if attention else []
    command += ["--dump", str(dump)] if dump else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    steps = re.findall(r"denoise \d+/\d+\s+([0-9.]+) s/step", done.stderr)
    took = {"seconds": result["seconds"], "processor_s": processor_seconds() - before, "step_s": float(steps[-1]), "peak_bytes": result["peak_memory_bytes"]}
    return numpy.asarray(Image.open(path).convert("RGB")), took


def measure(program, precisions, folder, asked=ASKED, with_velocity=False):
    """precision -> {psnr: [16] or None for f32, right: [16 bool], …}. f32 must come first."""
    table, exact, exact_velocity = {}, [], []
    for precision in precisions:
        rows, errors = [], []
        for index, (prompt, scene) in enumerate(asked):
            dump = folder / "dump.safetensors" if with_velocity else None
            pixels, took = draw(program, prompt, precision, folder / f"{precision}-{index:02}.png", dump)
            if with_velocity:
                velocity = guided_velocity(dump)
                if precision == "f32":
                    exact_velocity.append(velocity)
                errors.append(float(numpy.linalg.norm(velocity - exact_velocity[index]) / numpy.linalg.norm(exact_velocity[index])))
            if precision == "f32":
                exact.append(pixels)
            rows.append((pixels, score_picture(scene, pixels), took))
        table[precision] = {
            "psnr": None if precision == "f32" else [round(min(psnr(exact[i], pixels), 99.0), 2) for i, (pixels, _, _) in enumerate(rows)],
            "right": [score["scene"] for _, score, _ in rows],
            "scores": [score for _, score, _ in rows],
            **{name: sorted(took[name] for _, _, took in rows)[len(rows) // 2] for name in ("seconds", "processor_s", "step_s")},
            "peak_mib": round(max(took["peak_bytes"] for _, _, took in rows) / 2**20, 1),
            **({"velocity_error": [float(f"{error:.3g}") for error in errors]} if with_velocity else {})}
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
    if any("velocity_error" in row for row in table.values()):
        yield "\n| precision | relative L2 error of the first velocity after guidance: mean | largest |\n|---|---:|---:|"
        for precision, row in table.items():
            yield f"| {precision} | {sum(row['velocity_error']) / len(row['velocity_error']):.2%} | {max(row['velocity_error']):.2%} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--prompts", type=int, default=len(ASKED), help="only the first N")
    parser.add_argument("--velocity", action="store_true")
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
        table = measure(options.program, precisions, folder, ASKED[:options.prompts], options.velocity)
    for line in lines(table):
        print(line)
    if options.json:
        version = json.loads(subprocess.run([options.program, "version", "--json"], capture_output=True, text=True, check=True).stdout)["version"]
        processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="ascii", errors="replace") if line.startswith("model name")), "?")
        command = f"python3 tools/demo_quality.py build/cpu/bin/octavo --precisions {options.precisions}"
        command += (f" --prompts {options.prompts}" if options.prompts < len(ASKED) else "") + (" --velocity" if options.velocity else "") + " --json FILE"
        record = {"bench": "demo_quality", "command": command, "version": version, "processor": processor, "cores": os.cpu_count(),
                  "load_average_before": round(load, 2), "seed": SEED, "prompts": [prompt for prompt, _ in ASKED[:options.prompts]],
                  "precisions": {name: {key: value for key, value in row.items() if key != "scores"} for name, row in table.items()}}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

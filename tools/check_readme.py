#!/usr/bin/env python3
"""Runs every command of README.md: 'make …' here, programs in a folder of their own. `make test` is left out, because that is what calls this.

check_readme.py [README.md]
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SKIPPED = "make test"


def commands(text):
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield line.split(" #")[0].strip(), words


def run(words, folder):
    if words[0] == "make":
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    program = ROOT / words[0]
    if not program.exists():
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]} is not there")
    return subprocess.run([program, *words[1:]], cwd=folder, capture_output=True, text=True, check=False)


def main():
    readme = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "README.md"
    failed = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        for line, words in commands(readme.read_text(encoding="utf-8")):
            if line == SKIPPED:
                print(f"readme: {line} (left out: it is what runs this)")
                continue
            began = time.monotonic()
            done = run(words, folder)
            ran += 1
            print(f"readme: {line}  exit {done.returncode}, {time.monotonic() - began:.1f} s", flush=True)
            if done.returncode:
                failed += 1
                print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
    print(f"readme: {ran} commands run, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks the documents: relative links and named files exist, no path of one machine, no line counts."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(r"`((?:src|apps|tests|tools|scripts|docs|bench|data|models|include|examples|cmake)/[A-Za-z0-9_./-]+)`")
MACHINE = re.compile(r"/(?:work|root|home)/[a-z]")


def main():
    tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    errors = []
    for name in tracked.stdout.split():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        for target in LINK.findall(text):
            if "://" not in target and not (path.parent / target).exists():
                errors.append(f"{name}: link to '{target}', which is not there")
        for target in FILE.findall(text):
            if not (ROOT / target).exists():
                errors.append(f"{name}: names `{target}`, which is not there")
        if MACHINE.search(text):
            errors.append(f"{name}: holds a path of one machine: {MACHINE.search(text).group(0)}…")
    for error in errors:
        print(error)
    print(f"documents: {len(tracked.stdout.split())} files, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

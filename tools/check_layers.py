#!/usr/bin/env python3
"""Checks that every room includes only rooms below it, op folders do not include each other, and no model's name leaves its room."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# room -> the rooms directly below it; everything further down is reachable too, except that `cuda` stays closed.
BELOW = {
    "base": [], "device": ["base"], "tensor": ["device"], "quant": ["tensor"], "cpu": ["tensor"], "cuda": [], "tune": ["device"], "io": ["tensor"], "text": ["io"],
    "weights": ["io", "quant"], "ops": ["quant", "cpu", "cuda", "tune"], "nn": ["ops", "weights"], "models": ["nn", "text"], "pipeline": ["models"],
    "convert": ["models", "weights"], "receipt": ["convert"], "api": ["pipeline", "receipt"],
}
MODEL_NAMES = re.compile(r"ideogram|qwen|flux2", re.IGNORECASE)
NAMES_ALLOWED = ("models",)
# Where a model's name may stand: the catalogue of components is asked for by folder name, formats by their published key names.
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def reachable(room):
    seen, todo = {room}, list(BELOW[room])
    while todo:
        below = todo.pop()
        if below not in seen:
            seen.add(below)
            todo += BELOW[below]
    return seen


def main():
    errors = []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        relative = path.relative_to(ROOT / "src")
        room = relative.parts[0]
        if room not in BELOW:
            errors.append(f"src/{relative}: '{room}' is not a room; the rooms are {', '.join(sorted(BELOW))}")
            continue
        text = path.read_text(encoding="utf-8")
        for target in INCLUDE.findall(text):
            other = target.split("/")[0]
            if other == "octavo":
                if target == "octavo/engine.h" and room != "api":
                    errors.append(f"src/{relative}: includes octavo/engine.h; only api and the apps may")
            elif other in BELOW and other not in reachable(room):
                errors.append(f"src/{relative}: includes \"{target}\", but the arrow {room} -> {other} is missing")
            elif room == "ops" and other == "ops" and len(target.split("/")) > 2 and len(relative.parts) > 2 and target.split("/")[1] != relative.parts[1]:
                errors.append(f"src/{relative}: op folder '{relative.parts[1]}' includes \"{target}\"; op folders do not include each other")
        if "device" in relative.parts[1:-1] and path.suffix == ".cuh":
            for target in INCLUDE.findall(text):
                own = "/".join(("",) + relative.parts[:-2]).strip("/")
                if not (target.startswith("cuda/") or target.startswith(own)):
                    errors.append(f"src/{relative}: device code includes \"{target}\"; only cuda/ and its own folder are allowed")
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        if room not in NAMES_ALLOWED and room not in ("pipeline",) and MODEL_NAMES.search(code):
            line = code[: MODEL_NAMES.search(code).start()].count("\n") + 1
            errors.append(f"src/{relative}:{line}: a model's name outside models/")
    for folder, allowed in (("apps", {"api"}), ("examples", set())):
        for path in sorted((ROOT / folder).rglob("*.cpp")) if (ROOT / folder).exists() else []:
            for target in INCLUDE.findall(path.read_text(encoding="utf-8")):
                other = target.split("/")[0]
                if other in BELOW and other not in allowed:
                    errors.append(f"{path.relative_to(ROOT)}: includes \"{target}\"; apps use the public headers and api/ only")
    for error in errors:
        print(error)
    print(f"layers: {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

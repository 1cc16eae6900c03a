#!/usr/bin/env bash
# Every check that this machine can run. Prints what was skipped and why. Called by `make test` after `make build`.
set -euo pipefail
cd "$(dirname "$0")/.."
presets=$(sh scripts/presets.sh)
main=${presets##* }
step() { printf '\n== %s\n' "$*"; }

step "layers, format, documents"
.venv/bin/python tools/check_layers.py
bash scripts/format.sh --check
.venv/bin/python tools/check_docs.py

step "tests, preset $main"
ctest --test-dir "build/$main" --output-on-failure -j "$(nproc)" --timeout 900

step "every command of README.md"
.venv/bin/python tools/check_readme.py

step "tests under AddressSanitizer and UBSan"
bash scripts/build.sh asan
ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/asan --output-on-failure -j "$(nproc)" --timeout 1800 -LE "slow"

step "fuzzing, 30 s a target"
bash scripts/fuzz.sh "${OCTAVO_FUZZ_SECONDS:-30}"

step "slowest files to compile"
for preset in $presets asan; do .venv/bin/python tools/slowest.py "build/$preset"; done

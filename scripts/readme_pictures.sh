#!/usr/bin/env bash
# Draws the pictures that README.md shows: docs/images/precisions.jpg. For a new demo model, or when the prompts of tools/demo_model/asked.py change.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
.venv/bin/python tools/demo_quality.py "${1:-build/cpu/bin/octavo}" --precisions f32,w8a8,nf4 --keep "$folder"
shown() { for index in 04 01 10 11 12 15; do echo "$folder/$1-$index.png"; done; }
mkdir -p docs/images
.venv/bin/python tools/contact_sheet.py --side 120 docs/images/precisions.jpg f32 $(shown f32) -- "w8a8 (int8)" $(shown w8a8) -- "nf4 (4 bit)" $(shown nf4)

#!/usr/bin/env bash
# Draws four prompts with the demo model in f32 and w8a8 and puts them on one sheet: demo-out/contact_sheet.png
#   scripts/demo.sh [program]     on the GPU if it has one, else on the CPU
set -euo pipefail
cd "$(dirname "$0")/.."
octavo=${1:-build/cpu/bin/octavo}
out=demo-out
mkdir -p "$out"
prompts=(
  "three orange stars in a row on a blue background"
  "a large red circle in the center on a white background"
  "a yellow moon in the top right corner and the word \"NIGHT\" in white at the bottom on a navy background"
  "{\"high_level_description\":\"a green heart\",\"compositional_deconstruction\":{\"background\":\"a pink background\",\"elements\":[{\"type\":\"obj\",\"desc\":\"a large green heart in the center\"}]}}"
)
for precision in f32 w8a8; do
  for i in "${!prompts[@]}"; do
    start=$(date +%s.%N)
    "$octavo" generate --quiet --precision "$precision" --seed 1 --prompt "${prompts[$i]}" --output "$out/$precision-$i.png" >/dev/null
    awk -v p="$precision" -v i=$((i + 1)) -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "demo: %-5s picture %d: %.1f s\n", p, i, b - a }'
  done
done
.venv/bin/python tools/contact_sheet.py "$out/contact_sheet.png" f32 "$out"/f32-*.png -- w8a8 "$out"/w8a8-*.png
"$octavo" inspect "$out/w8a8-0.png" | sed -n 's/^  \(device\|gpu\|kernels\) */demo: \1 /p'
echo "demo: look at $out/contact_sheet.png"

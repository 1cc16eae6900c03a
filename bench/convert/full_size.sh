#!/usr/bin/env bash
# Converts a full-size denoiser of random weights (18.6 GB) and says what it took: both schemes, then a run that is killed at 40 % and started again.
#   bench/convert/full_size.sh FOLDER [more options of tools/make_large_checkpoint.py, such as --layers 2 for a quick try]
# FOLDER needs 30 GB and keeps the checkpoint; the results are removed. OCTAVO names another program, THREADS another number than 2.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
folder=$1
shift
octavo=${OCTAVO:-build/cpu/bin/octavo} threads=${THREADS:-2}
mkdir -p "$folder"
source=$folder/source out=$folder/out.safetensors
[ -e "$source/config.json" ] || .venv/bin/python tools/make_large_checkpoint.py "$source" "$@"

# The program itself under GNU time, so that kill reaches it; its report goes nowhere.
convert() {
  local label=$1
  shift
  /usr/bin/time -o "$folder/time" -f "$label: %e s wall, %U s user + %S s system, %M KiB peak" "$octavo" quantize "$source" "$out" --threads "$threads" "$@" \
    >/dev/null 2>"$folder/progress"
  cat "$folder/time"
}

convert w8a8 --scheme w8a8
rm "$out"
convert convrot --scheme convrot
whole=$(sha256sum <"$out")
rm "$out"

"$octavo" quantize "$source" "$out" --threads "$threads" --scheme convrot >/dev/null 2>"$folder/progress" &
running=$!
while kill -0 $running 2>/dev/null; do
  sleep 0.2
  read -r ready total < <(sed -nE 's|.* ([0-9]+)/([0-9]+) tensors$|\1 \2|p' "$folder/progress" | tail -n 1) || continue
  if [ "${ready:-0}" -ge $((total * 2 / 5)) ]; then
    kill -9 $running
    break
  fi
done
if wait $running 2>/dev/null; then
  echo "it finished before it could be killed"
  exit 1
fi
echo "killed at tensor $ready of $total; $([ ! -e "$out" ] && echo "no file under the final name")"
convert "resumed convrot" --scheme convrot
if [ "$(sha256sum <"$out")" != "$whole" ]; then
  echo "OTHER BYTES than without interruption"
  exit 1
fi
echo "same bytes as without interruption"
rm "$out" "$folder/time" "$folder/progress"

#!/usr/bin/env bash
# Trains the demo model on one GPU in three commands of at most nine minutes, one after another on one machine:
#   bash tools/demo_model/run.sh vae        335 s
#   bash tools/demo_model/run.sh denoiser   375 s
#   bash tools/demo_model/run.sh finish     270 s
# or all three, each into a folder of its name below $OUT, stopping at the first that fails:
#   bash tools/demo_model/run.sh all
# Each leaves the whole model so far as $OUT/model-*.tar (at most 15 MiB a file), also every 100 s while it trains. On another machine the next command goes
# on from that model, if it was unpacked to $OCTAVO_DEMO_WEIGHTS, without the optimisers' state.
# A stage that fails in the first half of its time runs again for the rest of it, more cautiously: without compiled layers, then without recorded steps.
# Further arguments go to the stage, for example --smoke or --seconds 60.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=${1:?run.sh: give a stage: vae, denoiser, finish or all}
shift
work=${OCTAVO_DEMO_WORK:-/tmp/octavo-demo}
weights=${OCTAVO_DEMO_WEIGHTS:-$work/model}
out=${OUT:-$work/out}
start=(--start models/demo)
given=
for ((k = 1; k <= $#; k++)); do
  case ${!k} in
    --smoke) start=() ;; # a toy model has other sizes
    --seconds) next=$((k + 1)) given=${!next:-} ;;
  esac
done
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false

# run_stage STAGE SECONDS FOLDER ARGUMENT...
run_stage() {
  local name=$1 seconds=${given:-$2} folder=$3 begun=$SECONDS left caution=${OCTAVO_DEMO_CAUTION:-0} status
  shift 3
  left=$seconds
  while true; do
    status=0
    OCTAVO_DEMO_CAUTION=$caution "${PYTHON:-python3}" tools/demo_model "$name" --weights "$weights" "${start[@]}" --work "$work/state" --out "$folder" "$@" \
      --seconds "$left" || status=$?
    left=$((seconds - (SECONDS - begun)))
    if ((status == 0)); then return 0; fi
    case $status in 2 | 130 | 137 | 143) break ;; esac # wrong arguments, or ended from outside
    if ((caution == 2 || 2 * left < seconds)); then break; fi
    caution=$((caution + 1))
    echo "run.sh: $name FAILED with status $status; again for $left s with caution $caution" >&2
  done
  echo "run.sh: $name FAILED with status $status; its last archives are in $folder" >&2
  return "$status"
}

case $stage in
  vae) run_stage vae 335 "$out" "$@" ;;
  denoiser) run_stage denoiser 375 "$out" "$@" ;;
  finish) run_stage finish 270 "$out" "$@" ;;
  all)
    run_stage vae 335 "$out/vae" "$@" || exit
    run_stage denoiser 375 "$out/denoiser" "$@" || exit
    run_stage finish 270 "$out/finish" "$@" || exit
    ;;
  *) echo "run.sh: '$stage' is no stage; stages: vae, denoiser, finish, all" >&2 && exit 2 ;;
esac

#!/usr/bin/env bash
# Trains the demo model on one GPU in three commands of at most nine minutes, one after another on one machine:
#   bash tools/demo_model/run.sh vae        335 s
#   bash tools/demo_model/run.sh denoiser   375 s
#   bash tools/demo_model/run.sh finish     270 s
# Each leaves the whole model so far as $OUT/model-*.tar (at most 15 MiB a file). On another machine the next command goes on from that model, if it was
# unpacked to $OCTAVO_DEMO_WEIGHTS, without the optimisers' state.
# Further arguments go to the stage, for example --smoke or --seconds 60.
set -euo pipefail
cd "$(dirname "$0")/../.."
stage=${1:?run.sh: give a stage: vae, denoiser or finish}
shift
declare -A seconds=([vae]=335 [denoiser]=375 [finish]=270)
[[ -n ${seconds[$stage]:-} ]] || { echo "run.sh: '$stage' is no stage; stages: vae, denoiser, finish" >&2; exit 2; }
work=${OCTAVO_DEMO_WORK:-/tmp/octavo-demo}
weights=${OCTAVO_DEMO_WEIGHTS:-$work/model}
start=(--start models/demo)
for argument in "$@"; do [[ $argument == --smoke ]] && start=(); done  # a toy model has other sizes
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false
exec "${PYTHON:-python3}" tools/demo_model "$stage" --seconds "${seconds[$stage]}" --weights "$weights" "${start[@]}" --work "$work/state" --out "${OUT:-$work/out}" "$@"

#!/bin/sh
# Builds the CUTLASS 2.x peers into <out>/cutlass_sm80_<i>.o, one at a time; those that are there already stay.
#   bench/peers/build_cutlass_sm80.sh <cutlass include> <cutlass tools/util/include> <out> [configuration ...]
set -eu
include=$1 util=$2 out=$3
shift 3
here=$(dirname "$0")
mkdir -p "$out"
for i in ${*:-0 1 2 3 4 5 6 7}; do
  [ -f "$out/cutlass_sm80_$i.o" ] && continue
  nice -n 10 nvcc -std=c++17 -O3 -DNDEBUG -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -w -DOCTAVO_PEER_CONFIG="$i" \
    -I"$include" -I"$util" -I"$here" -c "$here/cutlass_s8_sm80.cu" -o "$out/cutlass_sm80_$i.part.o"
  mv "$out/cutlass_sm80_$i.part.o" "$out/cutlass_sm80_$i.o"
done

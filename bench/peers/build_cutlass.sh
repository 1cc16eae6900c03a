#!/bin/sh
# Builds the six CUTLASS 3 peers into <out>/cutlass_<i>.o, <jobs> at a time (3.6 GB of memory and 65 CPU-seconds each).
#   bench/peers/build_cutlass.sh <cutlass include> <cutlass tools/util/include> <out> [jobs]
set -eu
include=$1 util=$2 out=$3 jobs=${4:-2}
here=$(dirname "$0")
mkdir -p "$out"
seq 0 5 | xargs -P "$jobs" -I{} nice -n 5 nvcc -std=c++17 -O3 -DNDEBUG -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -w \
  -DCUTLASS_ENABLE_TENSOR_CORE_MMA=1 -DOCTAVO_PEER_CONFIG={} -I"$include" -I"$util" -I"$here" -c "$here/cutlass_s8_sm90.cu" -o "$out/cutlass_{}.o"

#!/usr/bin/env bash
# Configures and builds one preset:  scripts/build.sh cpu|cuda|gpu|asan|fuzz|tidy [target ...]
# gpu: for the architectures in OCTAVO_CUDA_ARCHS alone, as scripts/own_gpus.sh prints them
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
mkdir -p "build/$preset"
# The same file in another checkout, or in another preset's folder, is the same file.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# Warnings are errors in CI, where the compiler is the plain one: sanitizers make g++ see things.
werror=OFF
case $preset in cpu | cuda) werror=${CI:+ON} ;; esac
if ! cmake --preset "$preset" -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache \
     "-DOCTAVO_WERROR=${werror:-OFF}" ${OCTAVO_CUDA_ARCHS:+"-DOCTAVO_CUDA_ARCHS=$OCTAVO_CUDA_ARCHS"} >"build/$preset/configure.log" 2>&1; then
  cat "build/$preset/configure.log" >&2
  exit 1
fi
echo "build: $preset"
start=$SECONDS
if ! cmake --build "build/$preset" ${1:+--target "$@"} >"build/$preset/build.log" 2>&1; then
  grep -nE "error|FAILED|undefined reference" -A6 "build/$preset/build.log" | head -n 80 >&2
  echo "build: $preset failed; whole log: build/$preset/build.log" >&2
  exit 1
fi
echo "build: $preset done in $((SECONDS - start)) s"

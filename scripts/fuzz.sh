#!/bin/sh
# Builds the libFuzzer targets and runs each for SECONDS. Ends with 1 if one finds something; the input is kept in build/fuzz/findings.
#   scripts/fuzz.sh SECONDS [target…]      e.g.  scripts/fuzz.sh 30    scripts/fuzz.sh 300 safetensors tokenizer
# BUILD names another build folder. What the targets learn is kept in build/fuzz/corpus and used again.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || ! [ "$1" -gt 0 ] 2>/dev/null; then
  sed -n '2,4s/^# //p' "$0" >&2
  exit 2
fi
seconds=$1
shift
all=$(sed -n 's/^octavo_fuzz(\([a-z_]*\) .*/\1/p' tests/fuzz/CMakeLists.txt)
targets=${*:-$all}
build=${BUILD:-build/fuzz}

export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
launcher=$(command -v ccache || true)
cmake --preset fuzz -B "$build" -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" >/dev/null
# shellcheck disable=SC2086  # one word per target is meant
cmake --build "$build" --target $(printf 'fuzz_%s ' $targets)

# Names instead of addresses in reports, where the symbolizer is installed.
for symbolizer in llvm-symbolizer-19 llvm-symbolizer; do
  if [ -z "${ASAN_SYMBOLIZER_PATH:-}" ] && command -v $symbolizer >/dev/null; then ASAN_SYMBOLIZER_PATH=$(command -v $symbolizer); fi
done
export ASAN_SYMBOLIZER_PATH="${ASAN_SYMBOLIZER_PATH:-}"

failed=
for target in $targets; do
  mkdir -p "$build/corpus/$target" "$build/findings"
  printf '%-16s ' "$target"
  # 2 GiB and 20 s for one small input are findings, too.
  if "$build/tests/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
      -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" "tests/fuzz/corpus/$target" >"$build/findings/$target.log" 2>&1; then
    echo "no finding in $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/findings/$target.log") runs"
  else
    echo "FOUND something: $build/findings/$target.log"
    grep -m1 -A12 -E 'ERROR|broken|runtime error' "$build/findings/$target.log" || true
    failed="$failed $target"
  fi
done
[ -z "$failed" ] || { echo "findings in:$failed" >&2; exit 1; }

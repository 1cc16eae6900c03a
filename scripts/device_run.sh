#!/usr/bin/env bash
# Builds, tests, sanitises and measures on a GPU machine that may be bare: no network, no Debian packages.
#   scripts/pack_device_deps.sh                         once, where the packages are; makes .device/deps.tar.xz
#   OUT=results scripts/device_run.sh [part …]          on the GPU machine, from the root of the tree
# Parts, in this order when none is named:  env build tests sanitize producers tune bench probe attention model forward
# Environment: OUT (records, default ./device-out), ARCHS (default 90a-real), JOBS, TESTS (name pattern of GPU tests, default all),
#   TARGETS (more build targets), BENCH_ARGS, LIMIT (seconds for one part, default 400).
# A part that fails is reported and the rest still run; the exit status is the number of failed parts.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=${OUT:-$root/device-out}
build=$root/build/device
jobs=${JOBS:-$(nproc)}
archs=${ARCHS:-90a-real}
limit=${LIMIT:-400}
mkdir -p "$out"
parts=("$@")
[ ${#parts[@]} -eq 0 ] && parts=(env build tests sanitize producers tune bench probe attention model forward)

deps=$build-deps
if [ -f .device/deps.tar.xz ] && [ ! -d "$deps/usr" ]; then
  mkdir -p "$deps"
  tar -C "$deps" -xJf .device/deps.tar.xz 2>/dev/null || python3 -c "import sys, tarfile; tarfile.open('.device/deps.tar.xz').extractall('$deps', filter='fully_trusted')"
fi
for folder in /usr/local/cuda/bin /usr/local/cuda-13.0/bin; do
  [ -x "$folder/nvcc" ] && PATH=$PATH:$folder
done
if [ -d "$deps/usr" ]; then
  export CMAKE_PREFIX_PATH=$deps/usr
  libraries=$(dirname "$(find "$deps/usr/lib" -name 'libfmt.so' -print -quit)")
  # pkg-config's files name /usr; the packed pkgconf runs with its own library, which must not reach other programs.
  sed -i "s#^prefix=/usr\$#prefix=$deps/usr#" "$libraries"/pkgconfig/*.pc
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" PKG_CONFIG_LIBDIR="%s/pkgconfig" exec "%s/usr/bin/pkgconf" "$@"\n' "$libraries" "$libraries" "$deps" >"$deps/pkg-config"
  chmod +x "$deps/pkg-config"
  export PKG_CONFIG=$deps/pkg-config
fi

part_env() {
  nvidia-smi
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,power.draw,power.limit --format=csv
  uname -a
  command -v nvcc && nvcc --version | tail -2
  command -v cmake ninja xz gcc g++ compute-sanitizer ncu cuobjdump
  cmake --version | head -1
  g++ --version | head -1
  find / -name 'libcudart_static.a' -not -path '/proc/*' 2>/dev/null | head -3
  find / -name 'libcublasLt.so*' -not -path '/proc/*' 2>/dev/null | head -3
}

part_build() {
  local generator=(-G Ninja)
  command -v ninja >/dev/null || generator=()
  cmake -S "$root" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DOCTAVO_CUDA=ON "-DOCTAVO_CUDA_ARCHS=$archs" \
    ${CMAKE_PREFIX_PATH:+-DCMAKE_PREFIX_PATH=$CMAKE_PREFIX_PATH} \
    "-DOCTAVO_CUTLASS_SM80_OBJECTS=$(ls -d "$root"/.peers/dev/cutlass_sm80_?.o 2>/dev/null | paste -sd ';' -)" >"$out/configure.log" 2>&1 || { tail -20 "$out/configure.log"; return 1; }
  # gpu_all: every GPU test and GPU bench. Keep going, so that one broken file does not take the other rooms' results with it.
  local keep_going=(-k)
  command -v ninja >/dev/null && keep_going=(-k 0)
  cmake --build "$build" -j "$jobs" --target gpu_all ${TARGETS:-} -- "${keep_going[@]}" >"$out/compile.log" 2>&1
  local rc=$?
  grep -E 'error|warning: |FAILED|undefined reference' "$out/compile.log" | head -40
  grep -E -B3 ' [1-9][0-9]* bytes spill stores' "$out/compile.log" | grep -E 'entry function|spill' | head -20
  tail -2 "$out/compile.log"
  return $rc
}

gpu_tests() { find "$build/tests" -type f -executable -name 'gpu_*' | grep -E "${TESTS:-.}" | sort; }

part_tests() {
  # GoogleTest programs, four at a time, and then alone those that read how much memory the whole GPU has in use; OCTAVO_REQUIRE_GPU makes a skip a failure.
  export OCTAVO_REQUIRE_GPU=1
  local list
  list=$(gpu_tests)
  [ -n "$list" ] || { echo "no GPU test was built"; return 1; }
  local alone='gpu_(residency|bench_model)$'
  run_list() { xargs -P "$1" -I{} sh -c '"$1" --gtest_brief=0 >"$1.log" 2>&1; echo "$? $1" >"$1.rc"' _ {}; }
  grep -vE "$alone" <<<"$list" | run_list 4
  grep -E "$alone" <<<"$list" | run_list 1
  local failed=0
  for test in $list; do
    local rc
    rc=$(cut -d' ' -f1 "$test.rc")
    echo "=== $(basename "$test"): exit $rc"
    if [ "$rc" = 0 ]; then
      grep -E '^\[  (PASSED|SKIPPED)|tests ran' "$test.log"
    else
      failed=1
      grep -vE '^\[ RUN|^\[       OK' "$test.log" | head -80
    fi
  done
  return $failed
}

part_sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return 1; }
  local failed=0
  for test in $(gpu_tests); do
    # Tests named *sanitize* or *small* are meant for it; a program without any runs nothing here and says so.
    if ! "$test" --gtest_list_tests --gtest_filter='*sanitize*:*Sanitize*' | grep -q '^  '; then
      echo "=== $(basename "$test"): has no *sanitize* test"
      continue
    fi
    for tool in memcheck racecheck; do
      echo "=== $(basename "$test") $tool"
      timeout 150 compute-sanitizer --tool $tool --error-exitcode 9 --print-limit 5 "$test" --gtest_filter='*sanitize*:*Sanitize*' --gtest_brief=1 2>&1 | tail -25
      [ "${PIPESTATUS[0]}" = 0 ] || { echo "FAILED: $(basename "$test") under $tool"; failed=1; }
    done
  done
  return $failed
}

# 20 shapes drawn once (M of 1 to 10000; N and K of layers in use): the tuner must be good at what it was not made for.
export random_shapes="64,9728,1152;512,4608,3072;16,13824,2304;300,1152,2560;33,13824,2560;512,12288,4608;256,1536,12288;4096,9728,12288;1,1536,2560;1024,24576,4096;128,2304,1536;128,2560,4096;16,3072,12288;300,3072,12288;64,1536,12288;256,6144,9728;512,2304,3072;7,13824,4096;7,9216,6144;5000,2560,4608"
octavo() { "$build/bin/octavo" "$@"; }

part_producers() { octavo bench producers --json >"$out/producers.json" && python3 scripts/show_bench.py "$out/producers.json"; }
part_tune() {
  export XDG_CACHE_HOME=$build/cache
  rm -rf "$XDG_CACHE_HOME"
  octavo tune --shapes ideogram4 --export "$out/choices.json" --json >"$out/tune.json"
  octavo tune --shapes ideogram4 --regret --json >"$out/tune_regret.json"
  octavo tune --shapes "$random_shapes" --regret --json >"$out/tune_regret_random.json"
  python3 scripts/show_bench.py "$out"/tune*.json
}
part_bench() {
  export XDG_CACHE_HOME=$build/cache
  local library
  library=$(find / -name 'libcublasLt.so.1[23]' -not -path '/proc/*' 2>/dev/null | head -1)
  export OCTAVO_CUBLASLT=$library
  octavo bench linear --shapes ideogram4 --peers --explain dispatch --json ${BENCH_ARGS:-} >"$out/bench_linear.json"
  python3 scripts/show_bench.py "$out/bench_linear.json"
}

# The mma.sync family in the 99 KB configuration beside the ceiling of mma.sync, CUTLASS 2.x (its objects, if they were carried) and cuBLASLt INT8; small M.
part_probe() {
  local library
  library=$(find / -name 'libcublasLt.so.1[23]' -not -path '/proc/*' 2>/dev/null | head -1)
  export OCTAVO_CUBLASLT=$library
  "$build/bin/gemm_mma_probe" --compare --rounds 12 --json "$out/compare.jsonl"
  "$build/bin/gemm_mma_probe" --sweep --json "$out/sweep.jsonl"
}

part_attention() {
  "$build/bin/attention_bench" >"$out/attention.jsonl" && cat "$out/attention.jsonl"
  python3 bench/peers/attention_torch.py | tee -a "$out/attention.jsonl"
}

# A whole model of random weights: every op, a step, a picture; other sizes; and whole pictures within budgets of memory.
part_model() {
  export TMPDIR=${TMPDIR:-/dev/shm}
  octavo bench model ideogram4 --precision w8a8,bf16 --json --profile "$out/model.html" >"$out/model.json"
  octavo bench model ideogram4 --size 768,1024,2048 --precision w8a8 --quick --json >"$out/sizes.json"
  octavo bench model ideogram4 --vram 22GB,12GB,8GB --size 1024 --text 256 --steps 8 --precision w8a8 | tee "$out/vram.txt"
}

# The denoiser in full size with random weights; beside it the reference implementation, if its script was carried (.peers/dev/dit_peer.py and a wheel of diffusers).
part_forward() {
  "$build/bin/gpu_forward" ideogram4 --size 1024 --text 0,256 --precision w8a8,bf16 --rounds 15 | tee "$out/forward.jsonl"
  if [ -f .peers/dev/dit_peer.py ]; then
    # The reference needs a diffusers that knows the model: its wheel, carried beside the script.
    local site=/tmp/octavo-peer-site
    for wheel in .peers/dev/diffusers-*.whl; do [ -f "$wheel" ] && python3 -m zipfile -e "$wheel" "$site"; done
    PYTHONPATH=$site python3 .peers/dev/dit_peer.py | tee "$out/forward_peer.txt"
  fi
}

failures=0
log=$out/run.log
: >"$log"
for part in "${parts[@]}"; do
  if ! declare -F "part_$part" >/dev/null; then
    echo "device_run: unknown part '$part'; known are env build tests sanitize producers tune bench probe attention model forward" >&2
    exit 2
  fi
  start=$(date +%s)
  export -f "part_$part" gpu_tests octavo
  export root out build jobs archs
  timeout "$limit" bash -c "set -uo pipefail; part_$part" >"$out/$part.log" 2>&1
  rc=$?
  {
    echo "##### $part: exit $rc after $(($(date +%s) - start)) s"
    tail -c "${TAIL:-3500}" "$out/$part.log"
  } | tee -a "$log"
  [ $rc -eq 0 ] || failures=$((failures + 1))
done
# At most eight files travel back: keep the records, fold the logs into one.
(cd "$out" && tar -czf logs.tar.gz -- *.log && rm -f -- *.log)
echo "device_run: $failures of ${#parts[@]} parts failed; records under $out"
exit $failures

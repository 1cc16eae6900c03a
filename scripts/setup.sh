#!/bin/sh
# Installs what the build needs, from Debian packages and PyPI only; does nothing when all is there. Root, or sudo.
#   scripts/setup.sh [--with-dev]
# CUDA is never installed: where nvcc is on PATH the kernels are compiled, elsewhere the CPU part alone is.
set -eu
cd "$(dirname "$0")/.."

packages="g++ cmake ninja-build make git ca-certificates pkg-config ccache python3 python3-venv
  libcli11-dev nlohmann-json3-dev libfmt-dev libpng-dev zlib1g-dev libpcre2-dev libutf8proc-dev libopenblas-dev libgtest-dev libgmock-dev
  clang-19 libclang-rt-19-dev clang-format-19"
[ "${1:-}" = "--with-dev" ] && packages="$packages clang-tidy-19"

missing=""
for package in $packages; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "setup: not root and no sudo; run as root: apt-get install$missing" >&2; exit 1; }
    as_root="sudo"
  fi
  log=$(mktemp)
  if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "setup: apt-get failed (above); whole log: $log" >&2
    exit 1
  fi
  rm -f "$log"
fi

# Python tools live in a venv inside the tree; the system's Python is left alone.
if [ ! -x .venv/bin/python ] || ! cmp -s tools/requirements.txt .venv/requirements.installed; then
  echo "setup: Python tools into .venv"
  rm -rf .venv
  /usr/bin/python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r tools/requirements.txt
  cp tools/requirements.txt .venv/requirements.installed
fi
echo "setup: ready ($(sh scripts/presets.sh))"

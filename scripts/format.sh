#!/usr/bin/env bash
# Formats the C++ and CUDA sources; --check only reports.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- 'src/*' 'include/*' 'apps/*' 'tests/*' 'bench/*' 'examples/*' | grep -E '\.(h|cpp|cu|cuh)$')
if [ "${1:-}" = "--check" ]; then
  clang-format-19 --dry-run --Werror "${files[@]}" && echo "format: ${#files[@]} files, no difference"
else
  clang-format-19 -i "${files[@]}"
fi

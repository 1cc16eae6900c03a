#!/bin/sh
# Prints the architectures of this machine's GPUs as CMake wants them ("86-real;90a-real"), or nothing where nvcc or a working GPU is missing.
command -v nvcc >/dev/null 2>&1 || exit 0
nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2/p' |
  sed 's/^90$/90a/; s/$/-real/' | paste -sd ';' -

#!/bin/sh
# Prints the presets that this machine can build, the fullest last: "cpu", or "cpu cuda" where nvcc is found.
if command -v nvcc >/dev/null 2>&1; then echo "cpu cuda"; else echo "cpu"; fi

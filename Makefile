# Front door for people. Everything below works on a bare Debian 12 as root, with or without CUDA, with or without a GPU.
#   make demo    sets up, builds, draws pictures into demo-out/
#   make test    sets up, builds, runs every check that this machine can run
SHELL := /bin/bash
PRESETS := $(shell sh scripts/presets.sh)
MAIN := $(lastword $(PRESETS))

.PHONY: help setup build demo test fuzz format tidy clean
help:
	@sed -n '2,4p' Makefile; echo "#   make build | fuzz | format | tidy | clean"

setup:
	@sh scripts/setup.sh

build: setup
	@set -e; for preset in $$(sh scripts/presets.sh); do bash scripts/build.sh $$preset; done

# Pictures are drawn on the CPU so far: a machine with nvcc need not build the kernels for them.
demo: setup
	@bash scripts/build.sh cpu
	@bash scripts/demo.sh

test: build
	@bash scripts/test.sh

fuzz: setup
	@bash scripts/fuzz.sh $${SECONDS_EACH:-300}

format: setup
	@bash scripts/format.sh

tidy: setup
	@sh scripts/setup.sh --with-dev && bash scripts/build.sh tidy

clean:
	rm -rf build

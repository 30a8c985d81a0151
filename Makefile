# Every target makes what it needs, is safe to run twice, and goes on after an interruption.
#   PYTHON=python3.12 make test     picks the interpreter; without it an environment keeps the one it has

ifeq ($(origin PYTHON),undefined)
PYTHON := python3
KEEP := --any-python
endif

ENV := .venv/autotvm
RUN := $(ENV)/bin/python
# Today's TVM, which has MetaSchedule in the place of AutoTVM.
TVM_ENV := .venv/tvm
TVM_RUN := $(TVM_ENV)/bin/python
# The documentation needs no TVM.
DOCS_ENV := .venv/docs
DOCS := docs/_build/html

# Tests mostly wait for compilers and runners, so three at a time do not disturb one another on two cores.
JOBS := 3
SIDE_BY_SIDE := -n $(JOBS) --dist loadfile

.PHONY: help setup setup-tvm tune tune-relax test docs lint soak bench bench-sensitivity bench-hardware bench-overhead bench-network figures clean
.NOTPARALLEL:

help:
	@echo "make tune     tune a matrix multiplication on this CPU, OpEvo beside XGBoost: three minutes"
	@echo "make tune-relax   tune AlexNet with today's TVM on this CPU: five minutes"
	@echo "make test     all tests, types and style: a quarter of an hour (JOBS=1: one after the other)"
	@echo "make docs     the documentation, from $(DOCS)/index.html on: two minutes"
	@echo "make lint     types and style alone"
	@echo "make soak     the long versions of the tests: fifteen minutes"
	@echo "make bench    every tuner on every recorded landscape, 20 seeds: twenty minutes"
	@echo "make bench-sensitivity   OpEvo's parameters on the same landscapes: three minutes"
	@echo "make bench-hardware   the paper's Tables 1 to 3 on this device: a night"
	@echo "make bench-overhead   what the tuners themselves cost: seven minutes"
	@echo "make bench-network   whole networks, three ways to spend the same trials: an hour"
	@echo "make figures  the paper's Figures 1 and 2, drawn by this code"
	@echo "make setup    nothing but the environment, $(ENV); make setup-tvm: the one of today's TVM, $(TVM_ENV)"
	@echo "make clean    remove the environment and what was made"
	@echo "ARGS=--help   options of a command, as in: make tune ARGS=\"--trials 32 --seed 1\""
	@echo "PYTHON=...    the interpreter, as in: PYTHON=python3.12 make test"

setup:
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON): install Python 3.9 or later, or name yours: PYTHON=... make ..." >&2; exit 1; }
	@$(PYTHON) tools/setup_autotvm.py $(KEEP) $(ENV)

setup-tvm:
	@command -v $(PYTHON) >/dev/null || { echo "setup: there is no $(PYTHON): install Python 3.10 or later, or name yours: PYTHON=... make ..." >&2; exit 1; }
	@$(PYTHON) tools/setup_tvm.py $(KEEP) $(TVM_ENV)

tune: setup
	@$(RUN) tutorials/tune_matmul.py $(ARGS)

tune-relax: setup-tvm
	@$(TVM_RUN) tutorials/tune_alexnet_relax.py $(ARGS)

test: setup setup-tvm lint
	@$(RUN) -m pytest -q $(SIDE_BY_SIDE) $(ARGS)
	@$(TVM_RUN) -m pytest -q $(SIDE_BY_SIDE) tests/meta_schedule autotvm_opevo/meta_schedule $(ARGS)

docs: $(DOCS_ENV)/made
	@$(DOCS_ENV)/bin/sphinx-build -q -W --keep-going -b html docs $(DOCS) $(ARGS)
	@echo "documentation: $(DOCS)/index.html"

$(DOCS_ENV)/made: setup.cfg
	@$(PYTHON) -m venv $(DOCS_ENV)
	@$(DOCS_ENV)/bin/pip install -q --disable-pip-version-check --config-settings editable_mode=compat -e ".[docs,plot,report]"
	@touch $@

lint: setup
	@$(RUN) -m ruff check . && $(RUN) -m ruff format --check . && $(RUN) -m mypy

soak: setup setup-tvm
	@$(RUN) -m pytest -q $(SIDE_BY_SIDE) -m "soak or properties" --hypothesis-profile=soak --timeout=3600 $(ARGS)
	@$(TVM_RUN) -m pytest -q $(SIDE_BY_SIDE) -m "soak or properties" --hypothesis-profile=soak --timeout=3600 $(ARGS)

bench: setup
	@$(RUN) -m benchmarks.compare $(ARGS)

bench-sensitivity: setup
	@$(RUN) -m benchmarks.sensitivity q $(ARGS)
	@$(RUN) -m benchmarks.sensitivity lambda $(ARGS)

bench-hardware: setup
	@$(RUN) -m benchmarks.hardware $(ARGS)

bench-overhead: setup
	@$(RUN) -m benchmarks.overhead $(ARGS)

bench-network: setup
	@$(RUN) -m benchmarks.network $(ARGS)

figures: setup
	@$(RUN) tutorials/draw_topologies.py $(ARGS)

clean:
	rm -rf .venv tuned build docs/_build docs/tutorials *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .pkl_memoize_py3

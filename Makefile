# Every target makes the environments that it needs, is safe to repeat, and resumes after an interruption.
#   PYTHON=python3.12 make test     choose the interpreter; by default an existing environment keeps its own

ifeq ($(origin PYTHON),undefined)
PYTHON := python3
KEEP := --any-python
endif

# TVM 0.17, with AutoTVM.
ENV := .venv/autotvm
RUN := $(ENV)/bin/python
# TVM 0.27, with MetaSchedule.
TVM_ENV := .venv/tvm
TVM_RUN := $(TVM_ENV)/bin/python
# Of `make tune-network`.
NETWORK := alexnet
# Neither the documentation nor a release needs TVM.
DOCS_ENV := .venv/docs
DOCS := docs/_build/html
RELEASE_ENV := .venv/release

# Tests mostly wait for compilers and runners, so that two cores are enough for seven processes:
# four for one suite, three for the other, which is shorter. JOBS=1: one after the other.
JOBS := 4
TVM_JOBS := $(if $(filter 1,$(JOBS)),1,$(shell expr $(JOBS) - 1))
TOGETHER := --no-print-directory -j $(if $(filter 1,$(JOBS)),1 SUITES=apart,3 SUITES=together)
# Of what runs together, all but the tests of AutoTVM print when they end.
AT_THE_END = $(if $(filter together,$(SUITES)),out=$$(mktemp); { $(1); } >$$out 2>&1; status=$$?; echo; cat $$out; rm $$out; exit $$status,$(1))
SOAK_OPTIONS := -m "soak or properties" --hypothesis-profile=soak --timeout=3600
# Those of MetaSchedule, and the contract of both; the others need no TVM, or run with AutoTVM.
TVM_TESTS := tests/contract tests/lowering tests/meta_schedule tests/networks/test_relax.py autotvm_opevo/lowering autotvm_opevo/meta_schedule autotvm_opevo/networks/relax.py
# In the order of `conftest.py`, or files with few tests, which may be slow, would come last.
PARALLEL := --dist loadfile --no-loadscope-reorder
# Tests start TVM a hundred times, which takes twice as long if its modules are compiled each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-tvm tune tune-network tune-relax test test-autotvm test-meta-schedule docs lint soak release-check bench bench-sensitivity bench-hardware bench-network bench-transfer figures clean
ifndef SUITES
.NOTPARALLEL:
endif

help:
	@echo "make tune               tune a matrix multiplication on this CPU with OpEvo and XGBoost (AutoTVM; 5 minutes)"
	@echo "make tune-network       tune AlexNet on this machine with OpEvo and XGBoost, for a minute each, and compare (AutoTVM; NETWORK=resnet-18: another)"
	@echo "make tune-relax         tune AlexNet on this machine's GPU or CPU (MetaSchedule; 1 to 2 minutes)"
	@echo "make test               run all tests, type checks and linters (10 minutes on two cores; JOBS=1: one process)"
	@echo "make test-autotvm       run the tests of AutoTVM, and those that need no TVM"
	@echo "make test-meta-schedule run the tests of MetaSchedule"
	@echo "make docs               build the documentation, $(DOCS)/index.html (2 minutes)"
	@echo "make lint               run type checks and linters only"
	@echo "make soak               run the long versions of the tests (half an hour to an hour)"
	@echo "make release-check      build wheel and source distribution and check both (2 minutes)"
	@echo "make bench              compare all tuners on the recorded search spaces with 20 seeds (20 minutes)"
	@echo "make bench-sensitivity  vary OpEvo's parameters on the same search spaces (3 minutes)"
	@echo "make bench-hardware     reproduce the paper's Tables 1 to 3 on this device (a night)"
	@echo "make bench-network      compare tune_network with XGBTuner on whole networks (an hour)"
	@echo "make bench-transfer     compare OpEvo with and without results of other shapes (3 minutes; ARGS=FOLDER of landscapes of devices)"
	@echo "make figures            draw the paper's Figures 1 and 2"
	@echo "make setup              make the environment with AutoTVM only, $(ENV)"
	@echo "make setup-tvm          make the environment with MetaSchedule only, $(TVM_ENV)"
	@echo "make clean              remove environments and build products"
	@echo "ARGS=...                options of a command: make tune ARGS=\"--trials 32 --seed 1\", ARGS=--help lists them"
	@echo "PYTHON=...              the interpreter: PYTHON=python3.12 make test"

setup:
	@command -v $(PYTHON) >/dev/null || { echo "setup: $(PYTHON) not found: install Python 3.9 or later, or choose an interpreter: PYTHON=... make ..." >&2; exit 1; }
	@$(PYTHON) tools/setup_autotvm.py $(KEEP) $(ENV)

setup-tvm:
	@command -v $(PYTHON) >/dev/null || { echo "setup: $(PYTHON) not found: install Python 3.10 or later, or choose an interpreter: PYTHON=... make ..." >&2; exit 1; }
	@$(PYTHON) tools/setup_tvm.py $(KEEP) $(TVM_ENV)

tune: setup
	@$(RUN) -m benchmarks.tune_matmul $(ARGS)

tune-network: setup
	@mkdir -p tuned/$(NETWORK)
	@echo "OpEvo begins with bundled tuning records, recorded on x86 CPUs; XGBoost with none."
	@$(RUN) -m autotvm_opevo tune --network $(NETWORK) --time-limit 60 --log tuned/$(NETWORK)/opevo.json $(ARGS)
	@$(RUN) -m autotvm_opevo tune --network $(NETWORK) --time-limit 60 --log tuned/$(NETWORK)/xgb.json --tuner xgb $(ARGS)
	@$(RUN) -m autotvm_opevo compare tuned/$(NETWORK)/opevo.best.json tuned/$(NETWORK)/xgb.best.json --network $(NETWORK)

tune-relax: setup-tvm
	@$(TVM_RUN) tutorials/tune_alexnet_relax.py $(ARGS)

# The environments, too, are made at once: one downloads while the other unpacks.
test:
	@$(MAKE) $(TOGETHER) lint test-autotvm test-meta-schedule

test-autotvm: setup
	@$(RUN) -m pytest -q -n $(JOBS) $(PARALLEL) $(if $(SOAK),$(SOAK_OPTIONS)) $(ARGS)

test-meta-schedule: setup-tvm
	@$(call AT_THE_END,$(TVM_RUN) -m pytest -q -n $(TVM_JOBS) $(PARALLEL) $(if $(SOAK),$(SOAK_OPTIONS)) $(TVM_TESTS) $(ARGS))

docs: $(DOCS_ENV)/made
	@$(DOCS_ENV)/bin/sphinx-build -q -W --keep-going -b html docs $(DOCS) $(ARGS)
	@echo "documentation: $(DOCS)/index.html"

$(DOCS_ENV)/made: setup.cfg
	@$(PYTHON) -m venv $(DOCS_ENV)
	@$(DOCS_ENV)/bin/pip install -q --disable-pip-version-check --config-settings editable_mode=compat -e ".[docs,plot,report]"
	@touch $@

lint: setup
	@$(call AT_THE_END,$(RUN) -m ruff check . && $(RUN) -m ruff format --check . && $(RUN) -m mypy)

soak:
	@$(MAKE) $(TOGETHER) SOAK=1 test-autotvm test-meta-schedule

release-check: $(RELEASE_ENV)/made
	@$(RELEASE_ENV)/bin/python tools/check_release.py

$(RELEASE_ENV)/made:
	@$(PYTHON) -m venv $(RELEASE_ENV)
	@$(RELEASE_ENV)/bin/pip install -q --disable-pip-version-check "build>=1.2" "twine>=6.1"
	@touch $@

bench: setup
	@$(RUN) -m benchmarks.compare $(ARGS)

bench-sensitivity: setup
	@$(RUN) -m benchmarks.sensitivity q $(ARGS)
	@$(RUN) -m benchmarks.sensitivity lambda $(ARGS)

bench-hardware bench-network bench-transfer: bench-%: setup
	@$(RUN) -m benchmarks.$* $(ARGS)

figures: setup
	@$(RUN) tutorials/draw_topologies.py $(ARGS)

clean:
	rm -rf .venv .pkl_memoize_py3 build dist docs/_build docs/tutorials *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

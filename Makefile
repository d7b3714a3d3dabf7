# make demo | serve | test | test-slow | test-service | test-cluster | test-models | test-engine | test-nightly | lint | docs | bench | bench-gpu | lock:
# each sets up what it needs in .venv, from the hashed versions in locks/.
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
PARALLEL := -n 2 --dist loadfile
# Tests that often wait, for a server or for a process that they killed, run three files at a time on two cores.
WAITING := -n 3 --dist loadfile
# Tests with browsers, trained models, engines and machines that die are not the same each time: one that fails runs
# once more, and is listed.
AGAIN := --reruns 1 -rR

# One thread for torch in each process of suites that compute with it: processes side by side that each take all cores
# wait for each other's threads, and spend more on that than on the computation.
test-models test-cluster test-engine-bare test-engine-smollm2 test-engine-served: export OMP_NUM_THREADS ?= 1

# Modules are compiled once, also where the environment forbids to write bytecode: each process would compile what uv
# installed and the tests anew, which takes it 10 to 20 seconds.
unexport PYTHONDONTWRITEBYTECODE

# The files that have tests with a mark. pytest would import all others too, for 10 to 20 seconds.
marked = $$(grep -rlE 'mark\.$(1)\b' tests --include='test_*.py')
# Options that leave out the files whose tests all have the mark of a longer suite: to import them takes 25 seconds of
# a processor for each worker, since many import torch.
other_suites = (slow|models|service|cluster|engine|nightly)
without_others = $$(grep -rlzE 'pytestmark = (\[[^]]*)?pytest\.mark\.$(other_suites)\b' tests --include='test_*.py' | sed 's/^/--ignore=/')

# Install locked versions. uv takes seconds where pip takes minutes; where uv cannot reach a registry, because only pip
# is configured for a mirror, pip does it.
define install
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(1) || $(PIP) --no-deps $(1)
endef

# Fails in a Python that is older than FDARx takes. An environment of such a Python is made anew.
recent = import sys; sys.exit(sys.version_info < (3, 11))

# Bytecode of all packages: without it each command of a fresh environment compiles what it imports, for seconds.
compile = -$(BIN)/python -m compileall -q -j 0 $(VENV)/lib fdarx_core jobs prompts serving > $(VENV)/compile.log 2>&1

.PHONY: demo serve engine test test-slow test-service test-cluster test-models test-engine test-engine-bare test-engine-smollm2 test-engine-served test-nightly lint style docs bench bench-gpu lock clean
.DEFAULT_GOAL := demo

$(VENV)/core: pyproject.toml locks/core.txt locks/uv.txt
	$(if $(shell $(PYTHON) -c '$(recent)' 2> /dev/null && echo yes),,$(error $(PYTHON) is not Python 3.11 or newer; run make PYTHON=python3.11))
	$(PYTHON) -m venv $$($(BIN)/python -c '$(recent)' 2> /dev/null || echo --clear) $(VENV)
	$(PIP) --no-deps --requirement locks/uv.txt
	$(call install,--requirement locks/core.txt)
	$(call install,--editable .)
	$(compile)
	@touch $@

$(VENV)/test: $(VENV)/core locks/faiss.txt locks/test.txt
	$(call install,--requirement locks/faiss.txt --requirement locks/test.txt)
	@touch $@

$(VENV)/models: $(VENV)/test locks/models.txt
	$(call install,--requirement locks/models.txt)
	$(PIP) "$$(sed -n 's/.*"\(torch[<>=][^"]*\)".*/\1/p' pyproject.toml)"
	@touch $@

demo: $(VENV)/core  ## a benchmark from the example labels, and the built-in baseline evaluated on it
	$(BIN)/fdarx build --labels examples/labels --out runs/demo
	$(BIN)/fdarx evaluate --benchmark runs/demo --retrievers bm25,tfidf --out runs/demo-baseline

serve: $(VENV)/core  ## cited answers on the example labels and guidelines, at http://127.0.0.1:$(PORT)
	@$(BIN)/python -c "from jobs import cli, serve, wrong_arguments; options = cli.parse(['serve', '--index', 'labels', '--port', '$(PORT)']).keywords['config']; wrong_arguments()(serve.check_port)(options.host, options.port)"
	$(BIN)/fdarx build --labels examples/labels --out runs/demo
	$(BIN)/fdarx index --documents runs/demo --words-only --out runs/index-labels
	$(BIN)/fdarx index --documents examples/guidelines --words-only --out runs/index-guidelines
	$(BIN)/fdarx serve --index labels=runs/index-labels guidelines=runs/index-guidelines --upload --feedback runs/feedback.jsonl --port $(PORT)

test: $(VENV)/test  ## all quick tests, three files at a time; those on real labels find them through FDARX_DATA
	$(RUN) pytest $(WAITING) $(without_others)

test-slow: $(VENV)/test  ## a core of what takes long: a faulty server, killed processes, evaluations on S3
	$(RUN) pytest -m "slow and not nightly" $(call marked,slow) $(WAITING) $(AGAIN)

test-models: $(VENV)/models  ## retrievers and metrics on local models: MiniLM, and small ones made on the spot
	$(RUN) pytest -m "models and not nightly" $(call marked,models) $(PARALLEL) $(AGAIN)

test-service: $(VENV)/test  ## the service on Ray Serve, its page in a browser, its failures; the comparison
	$(RUN) tests.serving.browser
	$(RUN) pytest -m "service and not nightly" $(call marked,service) $(PARALLEL) $(AGAIN)

test-cluster: $(VENV)/models  ## several nodes, machines and servers that die, submitted jobs; FDARX_KILLS=10 kills more, as test-nightly does
	$(RUN) pytest -m "cluster and not nightly" $(call marked,cluster) $(PARALLEL) $(AGAIN)

engine: $(VENV)/test  ## a vLLM engine on CPU, in an environment of its own under .cache (2.7 GB)
	$(RUN) tests.engine.environment

test-engine:  ## the asking path against that engine, bare and behind Ray Serve, two at a time beside each other
	$(MAKE) --jobs 2 --output-sync=target test-engine-served test-engine-smollm2 test-engine-bare

# A process of pytest has one engine for all its tests, of a tiny model. Files whose tests want the one behind Serve name
# its fixture's class; one file asks an engine of its own for a real model.
smollm2 = tests/engine/test_engine_smollm2.py
engine_tests = FDARX_REQUIRE_ENGINE=1 $(RUN) pytest -m "engine and not nightly" $(1) $(AGAIN)

test-engine-bare: $(VENV)/models engine
	$(call engine_tests,$$(grep -L Served tests/engine/test_*.py | grep -v $(smollm2)))

test-engine-smollm2: $(VENV)/models engine
	$(call engine_tests,$(smollm2))

test-engine-served: $(VENV)/models engine
	$(call engine_tests,$$(grep -l Served tests/engine/test_*.py))

test-nightly: $(VENV)/models engine  ## every test: whole data sets, repeated drills, ten times the examples of a property; hours
	$(RUN) tests.serving.browser
	FDARX_KILLS=$${FDARX_KILLS:-10} HYPOTHESIS_PROFILE=nightly $(RUN) pytest -m "not engine" $(PARALLEL)
	HYPOTHESIS_PROFILE=nightly FDARX_REQUIRE_ENGINE=1 $(RUN) pytest -m engine tests/engine

lint: style docs

style: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/test  ## the documentation site, in .cache/site; a broken link fails (with --quiet it would not)
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

lock: $(VENV)/core  ## resolve pyproject.toml anew into locks/
	locks/resolve.sh

bench: $(VENV)/models  ## what the performance claims rest on; needs the real labels
	$(RUN) benchmarks.parse
	$(RUN) benchmarks.pipeline
	$(RUN) benchmarks.retrieval
	$(RUN) benchmarks.indexing
	$(RUN) benchmarks.service
	$(RUN) benchmarks.asking

bench-gpu: $(VENV)/models  ## what local models do on a GPU, in shares of what the card can do; says what it skips, and why
	$(RUN) benchmarks.gpu

clean:
	rm -rf $(VENV) .cache

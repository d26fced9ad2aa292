# `make demo` and `make test` need only Python 3.11+, make and the package index.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# One process a core; the maths libraries must not start a thread pool in each of them.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: demo test test-slow mutants lint bench docs clean

demo: .venv/installed
	@mkdir -p out
	@$(BIN)/aerosurrogate coeffs sample_meshes/*.stl --reference sample_meshes/truth.csv --speed 30 \
		--report out/ranking.html --csv out/ranking.csv
	@$(BIN)/aerosurrogate predict sample_meshes/car.stl --speed 30 --out out/car.vtu --quiet
	@$(BIN)/aerosurrogate viz out/car.vtu --out out/car.png --quiet
	@echo "The ranking as a page: out/ranking.html"
	@echo "The same as a table:   out/ranking.csv"
	@echo "The flow around car:   out/car.png, and out/car.vtu for ParaView"

test: .venv/installed-dev
	$(PYTEST) -n 2

test-slow: .venv/installed-dev
	$(PYTEST) -m slow

mutants: .venv/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants.py

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy aerosurrogate

bench: .venv/installed-dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/distance.py
	$(BIN)/python benchmarks/ranking.py
	$(BIN)/python benchmarks/feeding.py

docs: .venv/installed
	$(PIP) --editable ".[docs]"
	$(BIN)/typer aerosurrogate.cli utils docs --name aerosurrogate --title "Options" --output docs/reference.md
	$(BIN)/python docs/recipe_keys.py
	$(BIN)/mkdocs build --quiet
	@echo "The site: site/index.html"

clean:
	rm -rf .venv out build site docs/reference.md

# Files that mark what is installed: a second run finds them newer than what they were made from and does nothing.
.venv/installed: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable ".[dev]"
	@touch $@

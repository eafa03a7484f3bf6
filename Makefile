PYTHON ?= .venv/bin/python

.PHONY: check test long bench format

check:  ## lint, format, types, imports: what CI checks before the tests
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(dir $(PYTHON))lint-imports

test:  ## what CI tests
	$(PYTHON) -m pytest -n 2 --dist worksteal

long:  ## the long random runs
	$(PYTHON) -m pytest -m long -n 2 --dist worksteal

bench:  ## every benchmark, one after the other
	for file in benchmarks/*.py; do $(PYTHON) $$file || exit 1; done

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

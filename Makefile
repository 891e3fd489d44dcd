# Every target is self-contained: it makes .venv where it is missing or older than what it is made from.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test nightly lint bench chaos site wheel clean

install: $(STAMP)

$(STAMP): pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v <= (3, 12) else f"Python 3.10 to 3.12 is needed, this is {v[0]}.{v[1]}: run make PYTHON=python3.11")'
	@test -e $(STAMP) || $(PYTHON) -c 'import shutil, sys; free = shutil.disk_usage(".").free / 1e9; sys.exit(0 if free >= 8 else f"8 GB of free disk are needed to install, here are {free:.1f}: make room, then run make again")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,docs,dev]'
	touch $(STAMP)

# FedAvg against DER + Fed-A-GEM on the same drive, each as a real federation; called again, it goes on or shows it again.
demo: $(STAMP)
	$(BIN)/fedagem compare plan/carla_demo.yaml --methods fedavg,der+fedagem --federated --jobs 2 --out runs/demo

# Three at a time on two cores: tests of real processes wait a third of their time.
test: $(STAMP)
	$(BIN)/pytest --quiet --numprocesses 3 --dist loadfile --no-loadscope-reorder

# All tests, with those that take minutes or need programs that few machines have, such as a Slurm cluster on this one.
nightly: $(STAMP)
	$(BIN)/pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder -m 'nightly or not nightly'

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Breaks running federations for MINUTES; its ledger and evidence are in runs/chaos and add up over calls.
MINUTES ?= 30
chaos: $(STAMP)
	$(BIN)/python -m chaos --minutes $(MINUTES)

# The documentation as a site in site/; a link that leads nowhere, or a page that no menu has, ends it.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict

# dist/fedagem-*.whl and the source archive that it is built from.
wheel: $(STAMP)
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) build dist site *.egg-info

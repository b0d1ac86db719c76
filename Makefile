# The commands a person needs; each makes what it depends on.
# Every path is quoted by being relative: the repository may lie in a folder with a space.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: screenshots demo test check bench lab clean help
help:
	@echo "make demo   attribute the bundled H200 sample and print where its page lies"
	@echo "make test   run the tests (extra arguments: make test T='tests/attribution -k steps')"
	@echo "make check  ruff, mypy, the import contract, generated files up to date"
	@echo "make lab    serve the lab lane on the CPU and pass the protocol tests against it"
	@echo "make bench  print the benchmark tables"

# pip is called as a module: its own script cannot start from a path with a space.
$(VENV)/.run: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "lanescope needs Python 3.11 or newer (PYTHON=... names one)" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "the venv module is missing: apt-get install python3-venv" >&2; exit 2; }
	@echo "installing lanescope into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@$(BIN)/python -m compileall -q attribution captures dashboards lanescope profiler schemas
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "installing the test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/.run
	@$(BIN)/python -m lanescope attribute captures/samples/k1.sqlite.xz --out k1.lanescope --force

test: $(VENV)/.dev
	@bash tests/setup/services.sh
	$(BIN)/python -m pytest $(T)

# mypy and import-linter read files, not import hooks: show them the tree as installed.
.typing/lanescope: lanescope/__init__.py
	@rm -rf .typing/lanescope && mkdir -p .typing/lanescope
	@for f in lanescope/*; do ln -s "../../$$f" .typing/lanescope/; done
	@for room in attribution captures dashboards profiler schemas; do ln -s "../../$$room" .typing/lanescope/; done

check: $(VENV)/.dev .typing/lanescope
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy -p lanescope
	@# import-linter follows no links, so it gets a copy and sees it first
	@rm -rf .typing/copy && mkdir -p .typing/copy && cp -RL .typing/lanescope .typing/copy/
	cd .typing/copy && ../../$(BIN)/python -c 'from importlinter.cli import lint_imports_command as c; c()' --config ../../pyproject.toml --no-cache --no-logo
	$(BIN)/python -m lanescope.schemas.documents.generate --check schemas/documents

lab: $(VENV)/.dev
	$(BIN)/python -m pytest -n 0 tests/captures/lab
	@echo "to serve it yourself: $(BIN)/lanescope lab serve --device cpu"

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# the pictures in docs/reports.md, from the bundled samples; needs chromium
screenshots: $(VENV)/.dev
	$(BIN)/python docs/shoot.py

clean:
	rm -rf $(VENV) .typing build *.egg-info

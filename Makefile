# Two commands do everything: `make serve` and `make test`. `make check` is exactly CI.

PYTHON ?= python3
BIN := .venv/bin
ADDRESS ?= 127.0.0.1:8000
FUZZ_SECONDS ?= 60
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
PYTHON_SOURCES := $(shell find python -name '*.py') pyproject.toml

.PHONY: build serve test check lint fuzz loom bench docs interpreters clean tools

build: .venv/built

tools:
	@command -v $(PYTHON) >/dev/null || { echo "forehand: Python is missing: install python3 (3.10 or newer) with its venv module"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "forehand: $(PYTHON) is too old: install Python 3.10 or newer, or name one with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "forehand: Python's venv module is missing: install python3-venv"; exit 1; }
	@command -v cargo >/dev/null || { echo "forehand: Rust is missing: install rustc and cargo 1.88 or newer (https://rustup.rs)"; exit 1; }
	@command -v cc >/dev/null || { echo "forehand: a C compiler is missing: install gcc or clang (Debian: build-essential)"; exit 1; }

.venv/ready: | tools
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'
	touch $@

.venv/built: .venv/ready $(RUST_SOURCES) $(PYTHON_SOURCES)
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release --quiet
	touch $@

.venv/tested-with: .venv/built tests/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	touch $@

serve: build
	$(BIN)/forehand pong:application --chdir examples/pong --bind $(ADDRESS)

test: .venv/tested-with
	cargo test --workspace --exclude bridge
	$(BIN)/python -m pytest tests
	$(BIN)/python tools/interpreters.py

interpreters: .venv/tested-with
	$(BIN)/python tools/interpreters.py

lint: .venv/tested-with
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

loom:
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=4 cargo test --release -p server --test loom --target-dir target/loom

fuzz: .venv/tested-with
	cargo build --release --manifest-path fuzz/Cargo.toml
	fuzz/target/release/drive all --seconds $(FUZZ_SECONDS)
	$(BIN)/python fuzz/against_h11.py --seconds $(FUZZ_SECONDS)

bench: build
	$(BIN)/python bench/beside_raw.py

docs: build
	$(BIN)/python tools/settings_page.py > docs/settings.md

check:
	.ci/run

clean:
	rm -rf .venv .venvs target fuzz/target

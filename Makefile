# Two commands do everything: `make serve` and `make test`. `make check` is exactly CI.

ADDRESS ?= 127.0.0.1:8000
FUZZ_SECONDS ?= 60
# The same inputs again; none: others each time.
FUZZ_SEED ?=
FUZZ_FROM := $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))
RACE_SECONDS ?= 60
TORMENT_SECONDS ?= 3600
ATTACK_SECONDS ?= 10
# How many processes share the tests, which wait more than they work. tests/conftest.py says which of them stay together.
TESTERS ?= 6
# Which tests .venv's Python runs.
PYTHON_TESTS ?= tests
BIN := .venv/bin
CHECKED_LOAD := $(CURDIR)/target/debug/forehand-load
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n $(TESTERS) --dist loadgroup --no-loadscope-reorder
# What the compiler is told of what runs, where the profile is of this compiler.
PROFILED := $(BIN)/python tools/compiler_profile.py with
MATURIN := PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/.venv $(PROFILED) $(BIN)/maturin develop --release --quiet
# Python's part, compiled as pip does it for an installed package: else each start does it, where nobody may write it down.
COMPILED := $(BIN)/python -m compileall -q python tests/apps
# What no server of a test imports, and is large.
NOT_SERVED := /site-packages/(matplotlib|numpy|dask|distributed|fontTools|PIL|pip|setuptools|mypy|playwright|faker)/
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# With the pieces of the status page, which are compiled in, and what the linker is told.
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml -o -path '*/status/page/*.*' -o -name hot_functions.txt -o -name serving.profdata) Cargo.toml Cargo.lock
PYTHON_SOURCES := $(shell find python -name '*.py') pyproject.toml

.PHONY: build serve test test-rust test-load test-python test-built debug-built test-debug sanitize miri aarch64 macos h2spec attacks check lint lint-rust lint-python loom fuzz race torment autobahn bench bench-load docs interpreters interpreters-built clean load load-checked lab

build: .venv/built

# Which Python, and one clear line where something is missing: tools/needs.sh.
.venv/ready:
	@python=$$(tools/needs.sh) && echo "setting up .venv with $$python" && $$python -m venv .venv
	$(PIP) 'maturin>=1.9,<2'
	@touch $@

.venv/built: .venv/ready $(RUST_SOURCES) $(PYTHON_SOURCES)
	@tools/needs.sh >/dev/null
	@echo "building: a minute or two the first time"
	$(MATURIN)
	@$(PROFILED) cargo build --quiet --release -p forehand-status
	@$(COMPILED)
	@touch $@

# What tests need is the extra `test` of pyproject.toml. uv takes a tenth of pip's time for it, but does not read what pip
# was told of indexes, and compiles nothing unasked: tests' servers may not write down what they compile.
.venv/tested-with: pyproject.toml | .venv/built
	$(PIP) 'uv>=0.5'
	$(MATURIN) --uv --extras test,lab,lab-cluster || $(MATURIN) --extras test,lab,lab-cluster
	@$(BIN)/python -m compileall -q -j 2 -x '$(NOT_SERVED)' $(BIN)/../lib/python3*/site-packages >/dev/null || true
	@touch $@

# What `forehand lab` needs is the extra `lab`.
.venv/with-lab: pyproject.toml | .venv/built
	$(MATURIN) --extras lab
	@touch $@

# HTTPS: make serve ADDRESS=https://localhost:8443 OPTIONS=--tls-self-signed
serve: build
	$(BIN)/forehand pong:application --chdir examples/pong --bind $(ADDRESS) $(OPTIONS)

# One after the other; `make -j2 test` runs two at once, as CI does: those of the load engine, which measure, have ended then
# before those of the server begin, thousands of processes of them.
test: test-load test-rust test-python

# Tests of crates wait more than they work, as well. The load engine's apart: beside it cargo would compile what the server
# is made of with more features, and once more without them for the module that `make debug-built` makes. Examples are looked at
# by `make lint-rust`, and need not be linked.
test-rust: .venv/ready
	RUST_TEST_THREADS=4 cargo test --tests --workspace --exclude bridge --exclude forehand-load

test-load: .venv/ready
	RUST_TEST_THREADS=4 cargo test --tests -p forehand-load

# Other interpreters' tests beside those of .venv's: so nobody waits while a processor has nothing to do. Tests of the lab
# have the engine as its own tests have it, with every assertion.
test-python: .venv/built .venv/tested-with load-checked
	FOREHAND_LOAD=$(CHECKED_LOAD) $(BIN)/python tools/interpreters.py --beside $(PYTEST) $(PYTHON_TESTS)

# The crates' tests, built and not run.
test-built: .venv/ready
	cargo test --tests --workspace --exclude bridge --exclude forehand-load --no-run
	cargo test --tests -p forehand-load --no-run

interpreters: .venv/built
	$(BIN)/python tools/interpreters.py

interpreters-built: .venv/built
	$(BIN)/python tools/interpreters.py --build

lint: lint-rust lint-python

lint-rust: .venv/ready
	cargo fmt --check
	cargo clippy --workspace --all-targets -- -D warnings

lint-python: .venv/built .venv/tested-with
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_tidy.py

# The load engine of the lab: target/release/forehand-load.
load:
	cargo build --release -p forehand-load

# The same with every assertion, as `cargo test` builds it: target/debug/forehand-load.
load-checked: .venv/ready
	cargo build -p forehand-load

# A small comparison, in three minutes at most; the last line is where its report is.
lab: .venv/built .venv/with-lab load
	$(BIN)/forehand lab run hello
	$(BIN)/forehand lab report latest

loom:
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=4 cargo test --profile quick -p server --test loom --target-dir target/loom

# Servers under valgrind, while other threads hold what is lent of a request.
sanitize: .venv/built .venv/tested-with
	PYTHON=$(CURDIR)/$(BIN)/python tools/sanitize.sh

# The pure crate under Miri.
miri:
	tools/miri.sh

# Compiled for aarch64, and servers of tests run by an emulator.
aarch64: .venv/built .venv/tested-with
	tools/aarch64.sh

# Compiled for macOS, with nothing linked or run.
macos:
	tools/macos.sh

# The machines of HTTP/2 before h2spec: all 146 cases, three times. It needs Go, once, to build h2spec.
h2spec:
	tools/h2spec.sh

# Attacks of HTTP/2 that have names, each for so long beside another client; `make test` has half a second of each.
attacks: .venv/built .venv/tested-with
	FOREHAND_ATTACK_SECONDS=$(ATTACK_SECONDS) $(BIN)/python -m pytest -q -s tests/server/test_http2_attacks.py

# Tests against a build that ends where somebody would wait with the interpreter, the baton or a lock in hand.
DEBUG_TESTS ?= tests/wsgi tests/greenlets/test_greenlets.py tests/asgi/test_http.py tests/supervisor/test_deadlines.py tests/server/test_tls.py
debug-built: .venv/ready
	tools/checked.sh true

test-debug: .venv/built .venv/tested-with
	tools/checked.sh $(PYTEST) -q $(DEBUG_TESTS)

fuzz: .venv/built .venv/tested-with
	cargo build --release --manifest-path fuzz/Cargo.toml
	fuzz/target/release/drive all --seconds $(FUZZ_SECONDS) $(FUZZ_FROM)
	$(BIN)/python fuzz/against_h11.py --seconds $(FUZZ_SECONDS) $(FUZZ_FROM)
	$(BIN)/python fuzz/against_h2.py --seconds $(FUZZ_SECONDS) $(FUZZ_FROM)

# Folders renamed and symlinks swapped while files below them are opened; `make test` has a second of it.
race:
	FOREHAND_RACE_SECONDS=$(RACE_SECONDS) cargo test --release -p reactor nothing_outside -- --nocapture

# A hostile crowd for an hour, one seed after the other; `make test` has a minute of it. More flags: TORMENT="--seed 7".
torment: .venv/built .venv/tested-with
	$(BIN)/python tests/torment --seconds $(TORMENT_SECONDS) $(TORMENT)

# All 517 cases of the Autobahn suite, in ten minutes; `make test` runs 270 of them. It needs a Python 2.7.
autobahn: .venv/built .venv/tested-with
	FOREHAND_TEST_AUTOBAHN=all $(BIN)/python -m pytest tests/asgi/test_autobahn.py

bench: build
	$(BIN)/python bench/beside_raw.py

# The load engine beside wrk and httperf, on a quiet machine: some ten minutes.
bench-load: .venv/built .venv/with-lab load
	$(BIN)/python bench/beside_wrk.py

docs: build
	$(BIN)/python tools/settings_page.py > docs/settings.md
	$(BIN)/python tools/options_types.py | $(BIN)/ruff format --stdin-filename typed.py - > python/forehand/typed.py
	$(BIN)/python tools/options_types.py stub | $(BIN)/ruff format --stdin-filename stub.pyi - > python/forehand/__init__.pyi

check:
	.ci/run

clean:
	rm -rf .venv .venvs target fuzz/target

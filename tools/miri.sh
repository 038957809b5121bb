#!/usr/bin/env bash
# Runs the tests of `wire`, which makes no system call, under Miri. It says what it needs, in one line.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo +nightly miri --version >/dev/null 2>&1 || {
    echo "make miri needs Miri: rustup toolchain install nightly --component miri,rust-src" >&2
    exit 2
}
exec cargo +nightly miri test -p wire --lib --target-dir target/miri

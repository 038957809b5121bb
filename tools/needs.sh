#!/bin/sh
# Says which Python builds the server, on standard output, or in one line what is missing and how to get it.
# Knows the oldest versions that work. PYTHON names an interpreter; otherwise the first that is new enough is taken.
# `needs.sh compilers` asks for Rust and the C compiler alone: tools/backend.py has its Python already.
set -u

missing() {
    echo "forehand: $1" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

python=
if [ "${1:-}" = compilers ]; then
    :
elif [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null || missing "there is no '$PYTHON', which PYTHON names"
    new_enough "$PYTHON" || missing "'$PYTHON', which PYTHON names, is older than Python 3.10"
    python=$PYTHON
else
    for name in python3 python3.15 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if command -v "$name" >/dev/null && new_enough "$name"; then
            python=$name
            break
        fi
    done
    if [ -z "$python" ]; then
        command -v python3 >/dev/null || missing "Python is missing: install python3, 3.10 or newer, with its venv module"
        missing "python3 is too old ($(python3 --version 2>&1)): install Python 3.10 or newer, or name one with PYTHON=..."
    fi
fi
[ -z "$python" ] || "$python" -c 'import venv, ensurepip' 2>/dev/null ||
    missing "the venv module of $python is missing: install it (Debian: python3-venv)"
command -v cargo >/dev/null ||
    missing "Rust is missing: install rustc and cargo, 1.88 or newer (https://rustup.rs)"
version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
minor=${version#1.}
minor=${minor%%.*}
case $minor in
'' | *[!0-9]*) ;; # a version of another shape: cargo itself compares it with Cargo.toml
*) [ "$minor" -ge 88 ] || missing "cargo $version is too old: install Rust 1.88 or newer (https://rustup.rs, rustup update)" ;;
esac
command -v cc >/dev/null ||
    missing "a C compiler is missing: install gcc or clang (Debian: build-essential)"
[ -z "$python" ] || echo "$python"

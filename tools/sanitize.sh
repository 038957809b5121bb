#!/usr/bin/env bash
# Runs the tests of what is lent and kept between Python and the engine with every server under valgrind: no read or write
# of memory that is not, or no longer, its own. `tools/sanitize.sh [TEST...]`; what was found is in target/sanitize/.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "make sanitize needs valgrind: apt-get install valgrind" >&2; exit 2; }

python=${PYTHON:-$PWD/.venv/bin/python}
logs=$PWD/target/sanitize
rm -rf "$logs"
mkdir -p "$logs"
# Python's own allocator would hide what happens to single objects; what is merely not set is not looked at.
cat > "$logs/python" <<WRAPPER
#!/bin/sh
PYTHONMALLOC=malloc exec valgrind --quiet --undef-value-errors=no --leak-check=no --trace-children=yes \\
    --log-file="$logs/%p.log" "$python" "\$@"
WRAPPER
chmod +x "$logs/python"

tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(tests/wsgi/test_other_threads.py -k "reads_on or writes_on or comes_slowly")
FOREHAND_TEST_PYTHON="$logs/python" "$python" -m pytest -q "${tests[@]}"
[ -n "$(ls "$logs"/*.log)" ] || { echo "no server ran under valgrind" >&2; exit 1; }
if grep -l "Invalid \|Process terminating" "$logs"/*.log; then
    grep -h -A12 "Invalid \|Process terminating" "$logs"/*.log | head -60
    exit 1
fi
echo "sanitize: nothing found in $(ls "$logs"/*.log | wc -l) processes"

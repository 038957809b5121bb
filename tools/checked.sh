#!/usr/bin/env bash
# Builds the module with debug assertions beside the usual one, and runs a command with it: `tools/checked.sh CMD...`.
# In such a build whoever would wait with the interpreter, the baton or a lock in hand ends the process, and says where.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYO3_PYTHON=${PYO3_PYTHON:-$PWD/.venv/bin/python}

cargo build -q -p bridge --features extension-module
# The package with that module in it: found before the one that the environment has.
package=$PWD/target/debug/python
rm -rf "$package"
mkdir -p "$package"
cp -rp python/forehand "$package/"
rm -f "$package"/forehand/_core*.so
suffix=$("$PYO3_PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
cp target/debug/lib_core.so "$package/forehand/_core$suffix"
export PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH}
"$PYO3_PYTHON" -c 'import forehand._core as core; assert "/debug/" in core.__file__, core.__file__'
exec "$@"

#!/usr/bin/env bash
# Compiles for aarch64 on a machine of another kind, lints that, and runs tests whose servers an emulator runs: all
# that `make interpreters` runs, or those that are named. `tools/aarch64.sh [TEST...]`. It takes Debian's or Ubuntu's tools and
# root (the kernel has to be told of the emulator), and brings that distribution's Python for aarch64 and what tests need into
# target/aarch64. Time says nothing there, nor does the order in which processors see what others have written.
set -euo pipefail
cd "$(dirname "$0")/.."
TRIPLE=aarch64-unknown-linux-gnu
# What is imported and then forked does not run there: the emulator has a thread of its own.
NOT_THERE="not preload"

needs() {
    echo "make aarch64 needs $1" >&2
    exit 2
}
[ "$(uname -m)" != aarch64 ] || needs "a machine of another kind: here \`make test\` tests aarch64 itself"
command -v aarch64-linux-gnu-gcc >/dev/null || needs "the cross compiler: apt-get install gcc-aarch64-linux-gnu"
emulator=$(command -v qemu-aarch64-static) || needs "the emulator: apt-get install qemu-user-static"
[ -d "$(rustc --print sysroot)/lib/rustlib/$TRIPLE" ] || needs "Rust's library: rustup target add $TRIPLE"
[ "$(id -u)" = 0 ] || needs "root: the kernel is told which program runs those of aarch64, until the tests are over"

folder=$PWD/target/aarch64
root=$folder/root
mkdir -p "$folder"/apt/{state/lists,cache/archives}/partial "$folder/python"

# The distribution's Python with all that it, and gevent, are linked with; nothing of this system is changed by it.
if [ ! -e "$folder/unpacked" ]; then
    echo "aarch64: Python, from the distribution, once"
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt/state"
        -o Dir::State::status=/dev/null -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User=root)
    "${apt[@]}" update
    "${apt[@]}" --yes --no-install-recommends --download-only install python3 libstdc++6 >/dev/null
    for package in "$folder"/apt/cache/archives/*.deb; do dpkg -x "$package" "$root"; done
    touch "$folder/unpacked"
fi
minor=$(basename "$(readlink "$root/usr/bin/python3")" | cut -d. -f2)

echo "aarch64: compiling, for Python 3.$minor"
# For cargo alone: they would mislead this system's own Python. With every assertion, and compiled in one minute and not in three.
crossing=(env -u PYO3_PYTHON PYO3_CROSS_LIB_DIR="$root/usr/lib/python3.$minor" PYO3_CROSS_PYTHON_VERSION="3.$minor"
    _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__aarch64-linux-gnu
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true)
what=(--quiet --target "$TRIPLE" --target-dir "$folder/target" -p bridge -p forehand-status --features bridge/extension-module)
"${crossing[@]}" cargo clippy "${what[@]}" -- -D warnings
"${crossing[@]}" cargo build --release "${what[@]}"
built=$folder/target/$TRIPLE/release
rm -rf "$folder/python/forehand"
cp -r python/forehand "$folder/python/"
rm -f "$folder"/python/forehand/*.so
cp "$built/lib_core.so" "$folder/python/forehand/_core.cpython-3$minor-aarch64-linux-gnu.so"
mkdir -p "$folder/python/forehand/bin"
cp "$built/forehand-status" "$folder/python/forehand/bin/"

wheels=(--python-version "3.$minor" --only-binary :all:)
for tag in manylinux2014 manylinux_2_17 manylinux_2_28; do wheels+=(--platform "${tag}_aarch64"); done
.venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target "$folder/site" "${wheels[@]}" \
    requests httpx h2 watchfiles python-dotenv gevent uvloop

# A server's own interpreter is begun anew by the kernel, so that an emulator in front of the first command is not enough.
known=/proc/sys/fs/binfmt_misc
if [ ! -e "$known/qemu-aarch64" ]; then
    mounted=
    [ -e "$known/register" ] || { mount -t binfmt_misc none "$known"; mounted=yes; }
    trap 'echo -1 >"$known/qemu-aarch64" || true; [ -z "$mounted" ] || umount "$known"' EXIT
    elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":qemu-aarch64:M::$elf:$mask:$emulator:F" >"$known/register"
fi
cat >"$folder/run" <<WRAPPER
#!/bin/sh
unset FOREHAND_TEST_PYTHON
QEMU_LD_PREFIX=$root PYTHONPATH=$folder/python:$folder/site exec $root/usr/bin/python3.$minor "\$@"
WRAPPER
chmod +x "$folder/run"
"$folder/run" -m compileall -q "$folder/python" "$folder/site" >/dev/null || true
"$folder/run" -c 'import platform, forehand; print("aarch64: forehand", forehand.__version__, "on", platform.machine())'

tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(-m "interpreters and not once" -k "$NOT_THERE" tests/server tests/wsgi tests/asgi tests/greenlets)
FOREHAND_TEST_PYTHON="$folder/run" .venv/bin/python -m pytest -q -n 3 --dist loadgroup -p no:cacheprovider "${tests[@]}"

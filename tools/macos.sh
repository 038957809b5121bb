#!/usr/bin/env bash
# Compiles and lints the product's crates, with their tests, for macOS, on any machine. Nothing is linked and nothing runs: it says
# that `crates/reactor/src/sys` has every name there that the rest uses, with the same types, and no more. The load engine of
# the lab is left out, which measures by what only Linux tells. C is not compiled, as that would take Apple's headers: a stand-in
# makes empty files in place of the objects that a linker would want.
set -euo pipefail
cd "$(dirname "$0")/.."
TRIPLE=aarch64-apple-darwin

if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$TRIPLE" ]; then
    echo "make macos needs Rust's library: rustup target add $TRIPLE" >&2
    exit 2
fi
folder=$PWD/target/macos
mkdir -p "$folder"
cat >"$folder/cc" <<'END'
#!/bin/sh
for argument; do
    case $last in -o) : >"$argument" ;; esac
    case $argument in -o?*) : >"${argument#-o}" ;; esac
    last=$argument
done
END
cat >"$folder/ar" <<'END'
#!/bin/sh
for argument; do case $argument in *.a) : >"$argument" ;; esac; done
END
# libproc, which py-spy asks for processes, makes its declarations of Apple's headers, and has them ready for docs.rs.
cat >"$folder/rustc" <<'END'
#!/bin/sh
case " $* " in *" --crate-name libproc "*) exec "$@" --cfg docsrs ;; esac
exec "$@"
END
chmod +x "$folder/cc" "$folder/ar" "$folder/rustc"
# Which Python that is makes no difference to what is compiled, but it has to be told.
printf '%s\n' implementation=CPython version=3.13 shared=true abi3=false pointer_width=64 >"$folder/python"

echo "macOS: compiling, with tests; nothing of it runs"
env -u PYO3_PYTHON PYO3_CONFIG_FILE="$folder/python" RUSTC_WRAPPER="$folder/rustc" \
    CC_aarch64_apple_darwin="$folder/cc" AR_aarch64_apple_darwin="$folder/ar" CARGO_PROFILE_DEV_DEBUG=0 \
    cargo clippy --quiet --target "$TRIPLE" --target-dir "$folder" --all-targets \
    -p wire -p reactor -p server -p bridge -p forehand-status -- -D warnings

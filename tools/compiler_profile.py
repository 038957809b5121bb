"""The compiler's profile: which ways through the module's functions are taken while it serves.

    compiler_profile.py with COMMAND...    runs a command that builds, with the profile where it is for this compiler
    compiler_profile.py show               says whether it is used here, and why not
    compiler_profile.py make               makes it anew, in some five minutes

A compiler that is told what runs puts what is called often where it is called from, and what is seldom done out of the
way (-C profile-use). The profile is kept in crates/bridge/profile, as not every machine has what makes one. It is
found by names that a compiler makes of its own version, of the machine that it is for, of our version and of those of
all dependencies: with another compiler it would be as if there were none, and is left out. Functions that have changed
since are compiled as without it, and so are those that are given a type that has had a field more or less since: their
names are others then (tests/test_compiler_profile.py).
FOREHAND_WITHOUT_PROFILE=1 leaves it out.

`make` needs the test environment (`make .venv/tested-with`) and llvm-profdata of the LLVM that rustc is made of
(`rustup component add llvm-tools`, or Debian's llvm-NN). It builds a module that counts, serves requests of all usual
kinds, most of them plain ones over kept connections, and keeps what was seen to run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "crates/bridge/profile"
PROFILE, ABOUT = FOLDER / "serving.profdata", FOLDER / "about.txt"
COUNTING = ROOT / "target/counting"
#: Where users' own flags are, of which the first that is set counts (The Cargo Book, build.rustflags), and what lies
#: between two.
FLAGS = {"CARGO_ENCODED_RUSTFLAGS": "\x1f", "RUSTFLAGS": " ", "CARGO_BUILD_RUSTFLAGS": " "}


def made_with() -> str:
    """What names of functions follow from: the compiler and the machine that it is for, and our own version."""
    rustc = os.environ.get("RUSTC", "rustc")
    try:
        about = subprocess.run([rustc, "-vV"], capture_output=True, text=True, check=False).stdout
        host = re.search(r"^host: (.*)$", about, re.MULTILINE)
        compiler = f"{about.partition(chr(10))[0]} for {host[1] if host else 'what it does not say'}"
    except OSError as error:
        compiler = f"{rustc} that cannot be run ({error.strerror})"
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    return f"{compiler}, Forehand {version[1] if version else '?'}"


def why_not() -> str:
    """Why the profile is left out; nothing where it is used."""
    if os.environ.get("FOREHAND_WITHOUT_PROFILE") == "1":
        return "FOREHAND_WITHOUT_PROFILE is set"
    changed = next((name for name in sorted(os.environ) if name.startswith("CARGO_PROFILE_RELEASE_")), "")
    if changed:
        return f"{changed} is set, which changes the names that it is found by"
    if not PROFILE.exists() or not ABOUT.exists():
        return "there is none"
    known, here = ABOUT.read_text().splitlines()[0], made_with()
    if known != here:
        return f"it is of {known}, and this is {here}"
    if " " in str(PROFILE):
        return f"its path has a blank, which cargo takes for the end of a flag: {PROFILE}"
    return ""


def environment(*more: str) -> dict[str, str]:
    """What cargo is to be told in its environment: users' own flags, the profile, and `more` flags; nothing where the
    profile is left out.
    """
    return {} if why_not() else flagged(f"-Cprofile-use={PROFILE}", *more)


def flagged(*flags: str) -> dict[str, str]:
    """Flags of the compiler, behind those that the user has set."""
    name = next((name for name in FLAGS if os.environ.get(name)), "CARGO_BUILD_RUSTFLAGS")
    own = [os.environ[name]] if os.environ.get(name) else []
    return {name: FLAGS[name].join([*own, *flags])}


def profdata() -> str:
    """The program that joins what was counted. It must be of the compiler's own LLVM: others cannot read it."""
    about = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (.*)$", about, re.MULTILINE)
    llvm = re.search(r"^LLVM version: (\d+)", about, re.MULTILINE)
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    if host is None or llvm is None:
        sys.exit(f"compiler_profile: rustc does not say what LLVM it is made of:\n{about}")
    known = [
        f"{root}/lib/rustlib/{host[1]}/bin/llvm-profdata",
        f"/usr/lib/llvm-{llvm[1]}/bin/llvm-profdata",
        f"llvm-profdata-{llvm[1]}",
    ]
    found = next(filter(None, map(shutil.which, known)), None)
    if found is None:
        sys.exit(
            f"compiler_profile: llvm-profdata of LLVM {llvm[1]} is missing, looked for {', '.join(known)}: "
            f"rustup component add llvm-tools, or install llvm-{llvm[1]}"
        )
    return found


def counting(folder: Path) -> None:
    """Build the module that counts, and put the package with it into a folder."""
    import sysconfig

    # Programs that run to build it count as well.
    environ = {**os.environ, "PYO3_PYTHON": sys.executable, "LLVM_PROFILE_FILE": f"{folder}/building/%m.profraw"}
    command = ["cargo", "build", "--release", "--locked", "-p", "bridge", "--features", "extension-module"]
    environ.update(flagged("-Cprofile-generate"))
    subprocess.run([*command, "--target-dir", str(COUNTING)], cwd=ROOT, check=True, env=environ)
    package = folder / "forehand"
    shutil.copytree(ROOT / "python/forehand", package, ignore=shutil.ignore_patterns("_core*.so", "__pycache__"))
    shutil.copy(COUNTING / "release/lib_core.so", package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}")


def make() -> int:
    """Make the profile anew; the exit status."""
    from compiler_loads import serve_all

    joins = profdata()
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        print("building a module that counts: some three minutes", flush=True)
        counting(folder)
        counted = folder / "counted"
        environ = {
            **os.environ, "PYTHONPATH": str(folder), "LLVM_PROFILE_FILE": f"{counted}/%m.profraw"
        }  # fmt: skip
        serve_all(folder, environ)
        raw = sorted(map(str, counted.glob("*.profraw")))
        # Sparse: of what was not seen to run nothing is said, and it is compiled as it was.
        subprocess.run([joins, "merge", "--sparse", "-o", str(PROFILE), *raw], check=True)
        listed = subprocess.run(
            [joins, "show", "--topn=400", str(PROFILE)], capture_output=True, text=True, check=True
        ).stdout
    # Of those that no other crate can call the unit of the compiler stands in front.
    names = re.findall(r"^\s+(?:\S+;)?(_\S+), max count", listed, re.MULTILINE)
    own = [name for name in names if re.match(r"_ZN(?:\d+_\$LT\$)?(?:6server|5_core|7reactor|4wire)", name)]
    about = [made_with(), "", "Functions that ran most, as this compiler names them:", *own]
    ABOUT.write_text("\n".join(about) + "\n")
    print(f"{PROFILE}: {PROFILE.stat().st_size >> 10} KiB, {len(own)} functions of ours among the first {len(names)}")
    return 0


def main() -> int:
    """The command line; the exit status."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["with", "show", "make"])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.what == "make":
        return make()
    reason = why_not()
    if options.what == "show":
        print(f"built without the compiler's profile: {reason}" if reason else f"built with {PROFILE}")
        return 0
    if reason:
        print(f"building without the compiler's profile, some percent slower: {reason}", file=sys.stderr)
    os.environ.update(environment())
    os.execvp(options.command[0], options.command)


if __name__ == "__main__":
    sys.exit(main())

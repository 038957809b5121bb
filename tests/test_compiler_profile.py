"""What a command that builds is told of the compiler's profile (tools/compiler_profile.py), and when it is not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import forehand._core
import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools/compiler_profile.py"
ABOUT = ROOT / "crates/bridge/profile/about.txt"
USED = f"-Cprofile-use={ROOT}/crates/bridge/profile/serving.profdata"
VARIABLES = ("CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS")
SHOW = f"import json, os; print(json.dumps([os.environ.get(name) for name in {VARIABLES}]))"
pytestmark = pytest.mark.once


def told(compiler: str, tmp_path: Path, **environ: str) -> tuple[list[str | None], str]:
    """What flags a command has, with a compiler that says such a thing of itself, and what was said to the user."""
    rustc = tmp_path / "rustc"
    rustc.write_text(f"#!/bin/sh\necho '{compiler}'\n")
    rustc.chmod(0o755)
    without = (*VARIABLES, "FOREHAND_WITHOUT_PROFILE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in without and not name.startswith("CARGO_PROFILE_RELEASE_")
    }
    done = subprocess.run(
        [sys.executable, str(TOOL), "with", sys.executable, "-c", SHOW], text=True, capture_output=True, check=True,
        timeout=60, env={**kept, "RUSTC": str(rustc), **environ},
    )  # fmt: skip
    flags: list[str | None] = json.loads(done.stdout)
    return flags, done.stderr


@pytest.fixture
def compiler() -> str:
    """The one that the profile is of, as it tells of itself (rustc -vV)."""
    if " " in str(ROOT):
        pytest.skip("a path with a blank cannot be said in a flag")
    version, _, host = ABOUT.read_text().splitlines()[0].partition(", Forehand")[0].partition(" for ")
    return f"{version}\nbinary: rustc\nhost: {host}"


def test_the_compiler_that_the_profile_is_of_uses_it(compiler: str, tmp_path: Path) -> None:
    assert told(compiler, tmp_path) == ([None, None, USED], "")


@pytest.mark.parametrize(
    ("name", "own", "flags"),
    [
        ("RUSTFLAGS", "-Ctarget-cpu=native -g", f"-Ctarget-cpu=native -g {USED}"),
        ("CARGO_ENCODED_RUSTFLAGS", "-g", f"-g\x1f{USED}"),
        ("CARGO_BUILD_RUSTFLAGS", "-g", f"-g {USED}"),
    ],
)
def test_flags_of_the_user_s_own_stay(name: str, own: str, flags: str, compiler: str, tmp_path: Path) -> None:
    seen, _ = told(compiler, tmp_path, **{name: own})
    assert dict(zip(VARIABLES, seen, strict=True)) == {**dict.fromkeys(VARIABLES), name: flags}


@pytest.mark.parametrize("other", ["rustc 1.88.0 (6b00bc388 2025-06-23)\nhost: x86_64-unknown-linux-gnu", ""])
def test_another_compiler_does_without_and_says_so(other: str, tmp_path: Path) -> None:
    flags, said = told(other, tmp_path)
    assert flags == [None, None, None]
    assert said.startswith("building without the compiler's profile") and ABOUT.read_text().splitlines()[0] in said


def test_the_same_compiler_for_another_machine_does_without(compiler: str, tmp_path: Path) -> None:
    flags, said = told(re.sub("host: .*", "host: m68k-unknown-linux-gnu", compiler), tmp_path)
    assert flags == [None, None, None] and "and this is rustc" in said and "for m68k-unknown-linux-gnu" in said


def test_a_compiler_that_cannot_be_run_is_for_cargo_to_tell_of(tmp_path: Path) -> None:
    flags, said = told("", tmp_path, RUSTC=str(tmp_path / "none"))
    assert flags == [None, None, None] and "cannot be run (No such file or directory)" in said


def test_what_changes_all_names_leaves_it_out(compiler: str, tmp_path: Path) -> None:
    flags, said = told(compiler, tmp_path, CARGO_PROFILE_RELEASE_DEBUG="0")
    assert flags == [None, None, None] and "CARGO_PROFILE_RELEASE_DEBUG is set" in said


def test_who_wants_none_has_none(compiler: str, tmp_path: Path) -> None:
    flags, said = told(compiler, tmp_path, FOREHAND_WITHOUT_PROFILE="1")
    assert flags == [None, None, None] and "FOREHAND_WITHOUT_PROFILE is set" in said


def named(lines: Iterable[str]) -> dict[str, set[str]]:
    """Names of functions, by what is in front of what the compiler makes of the types that they take: that is the same
    for all closures of a function, which are left out."""
    found: dict[str, set[str]] = {}
    for name in (line.split()[-1] for line in lines if "_ZN" in line and "closure" not in line):
        found.setdefault(re.sub(r"17h[0-9a-f]{16}E$", "", name), set()).add(name)
    return found


def test_functions_that_run_most_are_in_the_module_by_the_names_that_the_profile_knows() -> None:
    """One field more in a type gives every function that takes it another name, and nothing warns that the profile says
    nothing of them any more: then it is to be made again. Those that were made part of others are not there by name."""
    used = subprocess.run([sys.executable, str(TOOL), "show"], text=True, capture_output=True, check=True, timeout=60)
    if not used.stdout.startswith("built with "):
        pytest.skip(used.stdout.strip())
    module = forehand._core.__file__
    there = named(
        subprocess.run(["nm", module], text=True, capture_output=True, check=True, timeout=60).stdout.splitlines()
    )
    known = named(ABOUT.read_text().splitlines())
    found = [name for name in known if name in there]
    assert len(found) > len(known) / 3, "the module has names, and most functions are its own"
    lost = [name for name in found if not known[name] & there[name]]
    assert lost == [], "make the profile again (tools/compiler_profile.py make)"


def test_what_the_command_says_by_its_status_is_said() -> None:
    assert subprocess.run([sys.executable, str(TOOL), "with", "false"], check=False, timeout=60).returncode == 1

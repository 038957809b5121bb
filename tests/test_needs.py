"""What a machine lacks is said in one line, by `make` and by pip. Real tools by links in an otherwise empty PATH."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NEEDS = ROOT / "tools" / "needs.sh"


def script(folder: Path, name: str, text: str) -> None:
    """A program that stands for one of another version."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH with all that is needed, and nothing else."""
    for name in ("sh", "cut", "cc", "cargo"):
        found = shutil.which(name)
        assert found, name
        script(tmp_path, name, f'exec "{found}" "$@"')
    # Python finds its library by its own path: so not a link but a call.
    script(tmp_path, "python3", f'exec "{sys.executable}" "$@"')
    return tmp_path


def ask(path: Path, **env: str) -> tuple[int, str, str]:
    """Status, answer and complaint of needs.sh with that PATH."""
    done = subprocess.run(
        ["/bin/sh", NEEDS], env={"PATH": str(path), **env}, capture_output=True, text=True, timeout=20, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_machine_with_everything_names_its_python(machine: Path) -> None:
    assert ask(machine) == (0, "python3\n", "")


@pytest.mark.parametrize(
    ("tool", "words"),
    [("python3", "install python3"), ("cargo", "install rustc and cargo"), ("cc", "build-essential")],
)
def test_a_missing_tool_is_said_in_one_line(machine: Path, tool: str, words: str) -> None:
    (machine / tool).unlink()
    status, told, complaint = ask(machine)
    assert (status, told, complaint.count("\n")) == (1, "", 1)
    assert complaint.startswith("forehand: ")
    assert words in complaint


@pytest.mark.parametrize(
    ("tool", "text", "words"),
    [
        ("python3", 'if [ "$1" = --version ]; then echo Python 3.9.2; else exit 1; fi', "too old (Python 3.9.2)"),
        ("cargo", "echo cargo 1.66.1 '(ad779e08b 2023-01-10)'", "cargo 1.66.1 is too old: install Rust 1.88"),
    ],
)
def test_an_old_tool_is_said_with_its_version(machine: Path, tool: str, text: str, words: str) -> None:
    script(machine, tool, text)
    status, told, complaint = ask(machine)
    assert (status, told, complaint.count("\n")) == (1, "", 1)
    assert words in complaint


def test_a_newer_python_is_found_beside_an_old_one(machine: Path) -> None:
    (machine / "python3").rename(machine / "python3.12")
    script(machine, "python3", "exit 1")
    assert ask(machine) == (0, "python3.12\n", "")


def test_a_python_without_venv_is_said(machine: Path) -> None:
    script(machine, "python3", 'case "$2" in *ensurepip*) exit 1 ;; *) exit 0 ;; esac')
    status, _, complaint = ask(machine)
    assert (status, "python3-venv" in complaint) == (1, True)


def test_python_may_be_named(machine: Path) -> None:
    assert ask(machine, PYTHON="python3") == (0, "python3\n", "")
    assert ask(machine, PYTHON="python9") == (1, "", "forehand: there is no 'python9', which PYTHON names\n")


@pytest.mark.parametrize(("tool", "words"), [("cargo", "install rustc and cargo"), ("cc", "build-essential")])
def test_pip_says_what_is_missing_in_one_line(machine: Path, tool: str, words: str) -> None:
    (machine / tool).unlink()
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(machine), str(ROOT)]
    done = subprocess.run(wheel, env={"PATH": str(machine)}, capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in said
    (line,) = [line for line in said.splitlines() if "forehand: " in line]
    assert words in line


def test_pip_of_an_old_python_says_its_version() -> None:
    """Played by the interpreter at hand: old ones are hard to come by."""
    code = "import sys, backend; sys.version_info = (3, 9, 2); backend.get_requires_for_build_wheel()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "tools", capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("forehand: this is Python 3.9.2, and 3.10 or newer is needed")

"""The house is in order: sizes, names, layers, words at the door of each file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / name).is_file()
]
SOURCES = [path for path in FILES if path.suffix in (".rs", ".py") and "migrations" not in path.parts]
UNSAFE = ("crates/reactor/src/sys/", "crates/bridge/src/ffi/")


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_a_source_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    lines = text.splitlines()
    assert len(lines) <= 800
    if lines:
        assert lines[0].startswith(("//!", '"""', "#!")), "the first line says what the file is"
    forbidden = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "handler", "context"}
    assert path.stem not in forbidden


@pytest.mark.parametrize("path", [p for p in SOURCES if p.suffix == ".rs"], ids=shown)
def test_unsafe_stays_in_its_rooms(path: Path) -> None:
    text = path.read_text()
    if re.search(r"\bunsafe\s*(\{|fn|impl|extern)", text):
        assert shown(path).startswith(UNSAFE), "unsafe outside its two folders"


def test_rust_functions_fit_on_a_screen() -> None:
    for path in SOURCES:
        if path.suffix != ".rs":
            continue
        begun = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r"( *)(pub(\(crate\))? )?(unsafe )?(extern \"C\" )?fn \w+", line)
            if found:
                begun = (number, found[1])
            elif begun and line == begun[1] + "}":
                assert number - begun[0] <= 70, f"{shown(path)}:{begun[0]} has {number - begun[0]} lines"
                begun = None


def dependencies(crate: str) -> set[str]:
    text = (ROOT / "crates" / crate / "Cargo.toml").read_text()
    section = re.search(r"^\[dependencies\]\n(.*?)(^\[|\Z)", text, re.M | re.S)
    assert section
    return set(re.findall(r"^([\w-]+)", section[1], re.M))


def test_the_layers_hold() -> None:
    ours = {"wire", "reactor", "server", "bridge"}
    assert dependencies("wire") & ours == set()
    assert dependencies("reactor") & ours == set()
    assert dependencies("server") & ours == {"wire", "reactor"}
    assert "pyo3" not in dependencies("wire") | dependencies("reactor") | dependencies("server")
    assert "libc" not in dependencies("wire") | dependencies("server")


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for crate in ("wire", "reactor", "server", "bridge"):
        for name in dependencies(crate) - {"wire", "reactor", "server"}:
            assert f"| {name} " in text, name
    for name in re.findall(r"^([\w-]+)>=", (ROOT / "tests/requirements.txt").read_text(), re.M):
        assert name in text, name


def test_every_limit_is_tested_at_its_edge() -> None:
    limits = re.findall(r'^    (\w+): "', (ROOT / "crates/wire/src/limits.rs").read_text(), re.M)
    assert len(limits) > 20
    tests = [path for path in FILES if "tests" in path.parts or "fuzz" in path.parts]
    text = "\n".join(path.read_text(errors="replace") for path in tests if path.suffix in (".py", ".rs", ".txt"))
    text += (ROOT / "crates/server/src/log.rs").read_text()
    aliases = {"connections": "limit-connections", "keep_alive_timeout": "--keep-alive", "error_log_rate": "Rate {"}
    for name in limits:
        words = (name, name.replace("_", "-"), aliases.get(name, name))
        assert any(word in text for word in words), f"no test names the limit {name}"


def test_links_in_the_documentation_lead_somewhere() -> None:
    for path in FILES:
        if path.suffix != ".md":
            continue
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{shown(path)}: {link}"


def test_the_page_of_settings_is_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools/settings_page.py"], capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs/settings.md").read_text() == made, "run `make docs`"


def test_no_file_names_a_machine() -> None:
    # Built in pieces, so that this file is not found by itself.
    forbidden = re.compile("/ho" + "me/|/ro" + r"ot/|/Us" + "ers/|/wo" + "rk/")
    for path in FILES:
        if path.suffix in (".rs", ".py", ".md", ".toml", ".txt", ".html", "") and path.name != "Cargo.lock":
            found = forbidden.search(path.read_text(errors="replace"))
            assert not found, f"{shown(path)}: {found}"


def test_changes_are_written_down() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()

"""deploy/Dockerfile: no daemon builds it here, so that what it copies and starts is checked against the repository."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from forehand import cli

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of each instruction; continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.partition(" ")[::2] for line in lines]


WORDS = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "CMD"}


def test_every_line_is_an_instruction() -> None:
    assert {word for word, _ in instructions()} == WORDS


@pytest.mark.parametrize("rest", [rest for word, rest in instructions() if word == "COPY" and "--from" not in rest])
def test_what_is_copied_is_in_the_repository_and_not_ignored(rest: str) -> None:
    allowed = re.findall(r"^!(\S+)$", (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text(), re.M)
    for name in rest.split()[:-1]:
        assert (ROOT / name).exists(), name
        assert any(Path(name).match(pattern) for pattern in allowed), f"{name} is ignored"


def test_what_the_wheel_is_built_from_is_copied() -> None:
    copied = " ".join(rest for word, rest in instructions() if word == "COPY")
    workspace = (ROOT / "Cargo.toml").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    for name in re.findall(r'^(?:readme|python-source) = "(.+)"', project, re.M) + [
        "Cargo.lock",
        "Cargo.toml",
        "crates",
    ]:
        assert name in copied, name
    members = re.findall(r'"([\w/]+)"', workspace.partition("members = [")[2].partition("]")[0])
    folders = {member.split("/")[0] for member in members} | {"tools"}
    assert members and all(f"{folder} {folder}" in copied for folder in folders)
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    assert all(f"!{folder}" in ignored for folder in folders)
    for name in re.findall(r"license-files = \[(.+)\]", project)[0].replace('"', "").split(", "):
        assert name in copied, name


def test_stages_that_are_copied_from_exist_and_the_toolchain_is_new_enough() -> None:
    named = re.findall(r" AS (\w+)$", "\n".join(rest for word, rest in instructions() if word == "FROM"), re.M)
    taken = re.findall(r"--from=(\w+)", DOCKERFILE.read_text())
    assert set(taken) <= set(named)
    needed = re.search(r'rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text())
    assert needed and f"rust:{needed[1]}" in DOCKERFILE.read_text()


def test_the_command_starts_the_example() -> None:
    program, *words = json.loads(dict(instructions())["CMD"])
    assert program == "forehand"
    asked, given = cli.parse(words)
    assert given["bind"] == ["0.0.0.0:8000"]
    done = subprocess.run([sys.executable, "-m", "forehand", asked.target, "--check"], cwd=ROOT / "examples" / "pong",
                          capture_output=True, text=True, timeout=30)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_health_check_is_python_and_asks_for_a_page_that_exists() -> None:
    words = json.loads(dict(instructions())["HEALTHCHECK"].partition("CMD ")[2])
    ast.parse(words[2])
    assert words[:2] == ["python", "-c"]
    assert "/ping" in words[2] and '"/ping"' in (ROOT / "examples" / "pong" / "pong.py").read_text()

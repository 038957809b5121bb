"""Forehand in the environment of somebody's own project: `pip install PATH`, then `forehand shop.wsgi`.

Built with debug assertions, in the folder that tools/interpreters.py builds in; otherwise as a user does it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import files
from pathlib import Path

import pytest
import requests
from serving import Serving

ROOT = Path(__file__).resolve().parent.parent
BUILD = {
    "MATURIN_PEP517_ARGS": "--profile dev",
    "CARGO_TARGET_DIR": str(ROOT / "target" / "interpreters"),
    "FOREHAND_WITHOUT_ENGINE": "1",
}
VIEW = """
from django.http import HttpResponse
from django.urls import path
import forehand

urlpatterns = [path("where/", lambda request: HttpResponse(forehand.__file__))]
"""


def run(*command: str, cwd: Path, **env: str) -> str:
    """What a command has printed; it must succeed."""
    # A build waits for those of other interpreters in the same folder.
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, text=True, timeout=1200,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's environment, with a Django that came before Forehand; Forehand is installed into it from this tree."""
    folder = tmp_path_factory.mktemp("users") / "venv"
    run(sys.executable, "-m", "venv", str(folder), cwd=folder.parent)
    (packages,) = folder.glob("lib/python3*/site-packages")
    for name in ("django", "asgiref", "sqlparse"):
        origin = next(Path(str(file.locate())) for file in files(name) or () if file.name == "__init__.py")
        while origin.name != name:
            origin = origin.parent
        (packages / name).symlink_to(origin)
    pip = str(folder / "bin" / "pip")
    run(pip, "install", "-q", "--disable-pip-version-check", "--no-deps", str(ROOT), cwd=folder.parent, **BUILD)
    yield folder


def test_a_django_project_is_served_from_its_own_environment(
    environment: Path, tmp_path: Path, serve: Callable[..., Serving]
) -> None:
    run(str(environment / "bin" / "python"), "-m", "django", "startproject", "shop", str(tmp_path), cwd=tmp_path)
    (tmp_path / "shop" / "urls.py").write_text(VIEW)
    env = {"PYTHONPATH": ""}
    server = serve("shop.wsgi", cwd=tmp_path, env=env, program=(str(environment / "bin" / "forehand"),))
    reply = requests.get(f"{server.url}/where/", timeout=20)
    assert (reply.status_code, reply.text.startswith(str(environment))) == (200, True), reply.text
    assert server.stop() == 0


def test_what_is_installed_is_stripped_and_listed_as_it_is(environment: Path) -> None:
    (module,) = environment.glob("lib/python3*/site-packages/forehand/_core*.so")
    data = module.read_bytes()
    sections = run("readelf", "--wide", "--sections", str(module), cwd=environment)
    assert ".dynsym" in sections and ".symtab" not in sections and ".debug_" not in sections
    (record,) = environment.glob("lib/python3*/site-packages/forehand-*.dist-info/RECORD")
    with record.open() as lines:
        listed = {name: (digest, size) for name, digest, size in csv.reader(lines)}
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert listed[f"forehand/{module.name}"] == (f"sha256={digest}", str(len(data)))
    program = module.parent / "bin/forehand-status"
    assert os.access(program, os.X_OK)
    assert listed["forehand/bin/forehand-status"][1] == str(program.stat().st_size)
    assert not [name for name in listed if name.endswith("forehand-load")], "FOREHAND_WITHOUT_ENGINE says so"


def test_no_page_and_no_message_names_a_package_that_no_index_has() -> None:
    kept = run("git", "ls-files", "*.md", "*.py", "deploy", cwd=ROOT).split()
    said = [(name, line) for name in kept for line in (ROOT / name).read_text().splitlines()]
    assert len(kept) > 100
    from_index = re.compile(r"pip install (-U |--upgrade )?['\"]?forehand(\[|['\"` ]|$)")
    assert [(name, line) for name, line in said if from_index.search(line)] == []


def test_installing_into_ones_own_environment_comes_first() -> None:
    for page in ("README.md", "docs/getting-started.md"):
        text = (ROOT / page).read_text()
        assert 0 < text.index("pip install ./forehand-source") < text.index("make "), page
    for page in ("docs/from-gunicorn.md", "docs/from-uvicorn.md", "docs/from-uwsgi.md", "docs/from-unit.md"):
        assert "pip install PATH-TO-CLONE" in (ROOT / page).read_text()[:500], page


def test_getting_started_has_a_line_for_each_framework_that_people_come_with() -> None:
    rows = [line for line in (ROOT / "docs/getting-started.md").read_text().splitlines() if line.startswith("| ")]
    for framework in ("Django", "Flask", "FastAPI", "Starlette"):
        assert any(framework in row.split("|")[1] and "forehand " in row.split("|")[2] for row in rows), framework

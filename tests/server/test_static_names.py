"""Names that Django's staticfiles.json lists: kept for ever by clients, read when a worker starts."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from serving import PATIENCE, Serving

FOR_EVER = "public, max-age=31536000, immutable"
WHILE = "public, max-age=60"
DRIVERS = {
    "threads": ("sending:application", "--interface", "wsgi"),
    "unsupervised": ("sending:application", "--interface", "wsgi", "--workers", "0"),
    "asyncio": ("sending:app", "--interface", "asgi"),
}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("sending:application", "--interface", "wsgi", "--worker-class", "gevent")


def kept(server: Serving, name: str) -> str:
    """For how long a file may be kept."""
    reply = requests.get(f"{server.url}/s/{name}", timeout=PATIENCE)
    assert reply.status_code == 200
    return reply.headers["Cache-Control"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # As `collectstatic` leaves them: a hash of decimal digits alone looks like a date.
    for name in ("site.css", "site.202401311230.css", "deep/app.own-hash.js", "deep/app.js", "same.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def listed(folder: Path, paths: object) -> None:
    (folder / "staticfiles.json").write_text(json.dumps({"paths": paths, "version": "1.1", "hash": "1"}))


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_name_that_is_listed_is_kept_for_ever(driver: str, folder: Path, serve: Callable[..., Serving]) -> None:
    listed(folder, {"site.css": "site.202401311230.css", "deep/app.js": "deep/app.own-hash.js", "same.txt": "same.txt"})
    server = serve(*DRIVERS[driver], "--static", f"/s={folder}")
    assert kept(server, "site.202401311230.css") == FOR_EVER
    assert kept(server, "deep/app.own-hash.js") == FOR_EVER
    for name in ("site.css", "deep/app.js"):
        assert kept(server, name) == WHILE, "its content changes with the next collectstatic"
    assert kept(server, "same.txt") == WHILE, "a name that stands for itself has no hash"


def test_without_a_list_names_are_judged_by_themselves(folder: Path, serve: Callable[..., Serving]) -> None:
    server = serve(*DRIVERS["threads"], "--static", f"/s={folder}")
    assert kept(server, "site.202401311230.css") == WHILE
    assert "staticfiles.json" not in server.log()


def test_a_reload_reads_the_list_anew(folder: Path, serve: Callable[..., Serving]) -> None:
    server = serve(*DRIVERS["threads"], "--static", f"/s={folder}")
    assert kept(server, "deep/app.own-hash.js") == WHILE
    listed(folder, {"deep/app.js": "deep/app.own-hash.js"})
    status, said = server.order("reload")
    assert status == 0, said
    assert kept(server, "deep/app.own-hash.js") == FOR_EVER


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "recursion"),
        ("\udcff", "codec can't decode"),
        ("[]", "it has no table 'paths' of names"),
        ('{"paths": ["a"]}', "it has no table 'paths' of names"),
        ('{"paths": {"a": 1}}', "it has no table 'paths' of names"),
    ],
    ids=range(6),
)
def test_a_list_that_cannot_be_used_is_told_of_and_files_are_served(
    text: str, why: str, folder: Path, serve: Callable[..., Serving]
) -> None:
    (folder / "staticfiles.json").write_text(text, errors="surrogateescape")
    server = serve(*DRIVERS["threads"], "--static", f"/s={folder}")
    server.says(f"{folder}/staticfiles.json is not used: ")
    server.says(why)
    assert kept(server, "site.202401311230.css") == WHILE

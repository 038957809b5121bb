"""How `--static` is written: on the command line, in a variable, in forehand.toml; and what is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from forehand.errors import Problem
from forehand.settings import OPTIONS
from forehand.sources import as_toml, gather
from forehand.static_files import for_engine, parse

PLAIN: dict[str, Any] = {
    "prefix": "/s", "folder": "x", "file": None, "index": None, "fallback": None, "try": False, "max_age": 60,
    "immutable": [], "names": [], "headers": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("/s=x", {}),
        ("/s/=x", {}),
        ("/=x;try", {"prefix": "", "try": True}),
        ("/s=a=b c", {"folder": "a=b c"}),
        ("/s=x;index=index.html;max-age=0", {"index": "index.html", "max_age": 0}),
        ("/s=x;fallback=app/index.html", {"fallback": "app/index.html"}),
        ("/s=x;immutable=*.js;immutable=/a/**", {"immutable": ["*.js", "a/**"]}),
        (
            "/s=x;header=A: b; c=d, e;header=B:f",
            {"headers": [("A", "b; c=d, e"), ("B", "f")]},
        ),
    ],
)
def test_a_mount_is_a_path_a_folder_and_words(text: str, changed: dict[str, Any]) -> None:
    assert parse(text) == {**PLAIN, **changed}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "'x' is not PATH=FOLDER"),
        ("/s=", "is not PATH=FOLDER"),
        ("s=x", "'s' is no path of a URL"),
        ("/s//t=x", "'/s//t' is no path of a URL"),
        ("/../t=x", "'/../t' is no path of a URL"),
        ("/s t=x", "'/s t' is no path of a URL"),
        ("/s=x;tri", "'tri' is none of index, fallback, try"),
        ("/s=x;try=1", "try has no value"),
        ("/s=x;index", "index needs value"),
        ("/s=x;index=../a", "that is no file's path below the folder"),
        ("/s=x;max-age=-1", "max-age=-1: that is no number of seconds"),
        ("/s=x;header=ETag: 1", "header=ETag: 1: that follows from the file and the request"),
        ("/s=x;header=A b", "that is not 'Name: value'"),
        ("/s=x;try;fallback=a", "try and fallback both say"),
        ("/s=x,/s/=y", "are for the same path"),
    ],
)
def test_what_is_no_mount_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        OPTIONS["static"].parse(text)


TABLES = """
[static]
"/a" = "x"
[static."/b"]
folder = "y"
index = "index.html"
max_age = 5
try = true
immutable = ["*.js", "*.css"]
headers = {"X-A" = "b, c"}
"""
ARRAY = """
static = [
  "/a=x",
  {path = "/b", folder = "y", index = "index.html", max-age = 5, try = true, immutable = ["*.js", "*.css"],\
 header = "X-A: b, c"},
]
"""
TEXT = "static = '/a=x, /b=y;index=index.html;max-age=5;try;immutable=*.js;immutable=*.css;header=X-A: b, c'"


@pytest.mark.parametrize("text", [TABLES, ARRAY, TEXT], ids=["tables", "array", "text"])
def test_a_file_may_say_it_in_tables(tmp_path: Path, text: str) -> None:
    (tmp_path / "forehand.toml").write_text(text)
    settings = gather({}, None, str(tmp_path))
    second = "/b=y;index=index.html;max-age=5;try;immutable=*.js;immutable=*.css;header=X-A: b, c"
    assert settings["static"] == ["/a=x", second]
    (tmp_path / "forehand.toml").write_text(as_toml(settings))
    assert gather({}, None, str(tmp_path))["static"] == settings["static"]


def test_a_wrong_table_is_refused_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "forehand.toml").write_text('[static."/b"]\nfoldr = "y"\n')
    with pytest.raises(Problem, match=r"'foldr' is none of .*'folder'|'foldr' is none of .*folder"):
        gather({}, None, str(tmp_path))


def test_what_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in [("none", "is not there"), ("pipe", "is neither a folder nor a file")]:
        with pytest.raises(Problem, match=said):
            for_engine([f"/s={tmp_path / name}"])
    [found] = for_engine([f"/s={tmp_path}"])
    assert (found["folder"], found["file"]) == (str(tmp_path), None)


def test_one_file_is_a_mount_unless_it_is_somewhere_else(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for name in ("files/icon", "other"):
        (tmp_path / name).write_text("")
    (tmp_path / "files/inside").symlink_to("icon")
    (tmp_path / "files/outside").symlink_to("../other")
    (tmp_path / "files/absolute").symlink_to(tmp_path / "files/icon")
    for name in ("icon", "inside"):
        [found] = for_engine([f"/i={tmp_path}/files/{name};try;max-age=5"])
        assert (found["folder"], found["file"]) == (f"{tmp_path}/files", name)
    for name in ("outside", "absolute"):
        with pytest.raises(Problem, match="is a link that leads out of its folder"):
            for_engine([f"/i={tmp_path}/files/{name}"])
    for word in ("index=a", "fallback=a"):
        with pytest.raises(Problem, match=f"is a file, and {word[:-2]} is for folders"):
            for_engine([f"/i={tmp_path}/files/icon;{word}"])

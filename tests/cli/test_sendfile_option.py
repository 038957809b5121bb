"""How `--sendfile` is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from forehand.errors import CONFIG, Problem
from forehand.sendfile import check, for_engine, parse


@pytest.mark.parametrize("text", ["/protected=/srv/a", "protected=/srv/a", "protected/=/srv/a"])
def test_a_folder_has_a_name_with_or_without_its_slash(text: str) -> None:
    assert parse(text) == ("/protected", "/srv/a")
    check([text, "/other=/srv/a"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["x"], "'x' is not NAME=FOLDER"),
        (["/x="], "'/x=' is not NAME=FOLDER"),
        (["=x"], "a name has letters"),
        (["/a b=x"], "a name has letters"),
        (["/a/../b=x"], "a name has letters"),
        (["/a//b=x"], "a name has letters"),
        (["/a=x", "a=y"], "'/a=x' and 'a=y' have the same name"),
    ],
)
def test_what_is_no_name_and_folder_is_refused(values: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(values)


def test_folders_have_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert for_engine(["/m=media"]) == [("/m", f"{tmp_path}/media")]
    for folder, why in (("none", "is not there"), ("file", "is no folder")):
        with pytest.raises(Problem, match=f"--sendfile /m: {tmp_path}/{folder} {why}") as caught:
            for_engine([f"m={folder}"])
        assert caught.value.status == CONFIG

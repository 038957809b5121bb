"""Records: added to, never changed; and what a record that cannot be read says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import facts
import pytest
from forehand_lab import records
from forehand_lab.course import finished
from forehand_lab.problem import BUSY, SYSTEM, USAGE, Problem


def written(folder: Path, *lines: dict) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / records.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_record_is_added_to_and_at_its_end_read_only(tmp_path: Path) -> None:
    writer = records.Writer(tmp_path / "r")
    writer.add("manifest", format=1)
    writer.add("point", n=1)
    writer.close(complete=True)
    assert [fact["kind"] for fact in records.read(str(tmp_path / "r"))] == ["manifest", "point"]
    assert (tmp_path / "r" / records.FILE).stat().st_mode & 0o222 == 0


def test_half_a_line_is_left_out_and_a_resumed_record_goes_on_after_the_last_whole_one(tmp_path: Path) -> None:
    folder = written(tmp_path / "r", facts.manifest("a"))
    with (folder / records.FILE).open("a") as file:
        file.write('{"kind": "poi')
    assert len(records.read(str(folder))) == 1
    writer = records.Writer(folder)
    writer.add("end", how="complete")
    writer.close(complete=False)
    assert [fact["kind"] for fact in records.read(str(folder))] == ["manifest", "end"]


@pytest.mark.parametrize(
    "line, said",
    [
        ({"kind": "manifest", "format": 99}, "is a record of format 99; this lab reads format 1"),
        ({"kind": "manifest"}, "is a record of format None"),
        ({"kind": "point"}, "does not begin with a manifest"),
        ({"other": 1}, "line 1 is not a fact of a record"),
    ],
)
def test_a_record_of_another_kind_is_refused_in_one_line(tmp_path: Path, line: dict, said: str) -> None:
    folder = written(tmp_path / "r", line)
    with pytest.raises(Problem) as problem:
        records.read(str(folder))
    assert said in str(problem.value)
    assert problem.value.status == USAGE
    assert "\n" not in str(problem.value)


def test_a_record_that_there_is_not_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREHAND_LAB_RECORDS", str(tmp_path))
    for name in ("latest", str(tmp_path / "none")):
        with pytest.raises(Problem):
            records.located(name)


def test_a_record_is_found_by_its_own_name_below_those_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREHAND_LAB_RECORDS", str(tmp_path / "all"))
    records.Writer(tmp_path / "all" / "base").close(complete=True)
    assert records.located("base") == tmp_path / "all" / "base" / records.FILE
    monkeypatch.chdir(tmp_path)
    records.Writer(tmp_path / "base").close(complete=True)
    assert records.located("base").resolve() == tmp_path / "base" / records.FILE, "here goes first"


def test_a_full_disk_ends_the_run_and_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = records.Writer(tmp_path / "r")
    writer.add("manifest", format=1)
    state = os.statvfs(tmp_path)
    monkeypatch.setenv("FOREHAND_LAB_ROOM", str(state.f_frsize * state.f_blocks * 2))
    with pytest.raises(Problem) as problem:
        writer.add("point")
    assert problem.value.status == SYSTEM
    assert "No space left" in str(problem.value) and "--resume" in problem.value.hint
    assert len(records.read(str(tmp_path / "r"))) == 1


def test_a_disk_that_is_really_full_is_told_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    writer = records.Writer(tmp_path / "r")
    monkeypatch.setenv("FOREHAND_LAB_ROOM", "0")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, writer._file.fileno())
    os.close(full)
    with pytest.raises(Problem) as problem:
        writer.add("point")
    assert "No space left" in str(problem.value)


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from forehand_lab.records import OneRun\n"
        f"with OneRun(Path({str(tmp_path)!r})): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout and other.stdin
        other.stdout.readline()
        with pytest.raises(Problem) as problem, records.OneRun(tmp_path):
            pass
        assert problem.value.status == BUSY and str(other.pid) in str(problem.value)
        other.stdin.close()
    with records.OneRun(tmp_path):
        pass


def test_what_a_record_has_is_not_measured_again() -> None:
    done = [facts.point("a", 1, 100.0), facts.point("b", 2, 300.0)]
    assert finished(done, "sweep") == {(1, "a", 100.0), (2, "b", 300.0)}

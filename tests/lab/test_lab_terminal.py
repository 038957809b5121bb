"""What a terminal and a pipe get to see: columns that fit, a result at the end, nothing boxed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import facts
import laboratory
import pytest
from forehand_lab import answer, records, results
from forehand_lab.terminal import columns


def record(kind: str = "closed", rounds: int = 6, **more: object) -> list[dict]:
    lines = [facts.manifest("slow", "fast", scenario_kind=kind, unit="connections", rounds=rounds, **more)]
    lines += [facts.contestant("slow"), facts.contestant("fast")]
    for number in range(1, rounds + 1):
        for server, rate in (("slow", 500.0), ("fast", 2000.0)):
            for at in (1.0, 32.0):
                noisy = ["noisy: other processes used 50% of the processors"] * (number == 1)
                lines.append(facts.point(server, number, at, rate=rate + number + at, marks=noisy))
    return [*lines, {"kind": "end", "at": 9.0, "how": "complete"}]


def kept(folder: Path, lines: list[dict]) -> Path:
    folder.mkdir(parents=True)
    (folder / records.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def seen_on_a_terminal(variables: dict[str, str], *words: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        laboratory.words_of(*words), env=variables, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65536):
                said += part
        except OSError:
            # The terminal's other end is closed: the command has ended.
            pass
        os.close(ours)
        assert process.wait(laboratory.PATIENCE) == 0, said
    return said.decode()


def test_the_answer_says_who_how_much_and_how_sure() -> None:
    told = answer.of(record())
    assert (told["figure"], told["at"]) == ("replies/s", 32.0)
    assert [row["server"] for row in told["rows"]] == ["fast", "slow"], "best first"
    first, second = told["rows"]
    assert first["mid"] == 2035.5 and first["low"] < 2035.5 < first["high"]
    assert second["ratio"] == pytest.approx(0.263, abs=0.001) and second["sure"] is True
    assert told["said"].startswith("Fast: 2,036 (2,034 – 2,038) replies/s at 32 connections, the most of 2.")
    assert "The difference is more than chance." in told["said"]
    assert told["doubts"][0].startswith("4 of 24 measurements are noisy")


def test_with_few_rounds_the_answer_claims_nothing() -> None:
    told = answer.of(record(rounds=3))
    assert told["rows"][1]["sure"] is None and "With 3 rounds that may be chance" in told["said"]


def test_rounds_that_do_not_count_for_both_are_not_said_to_be_there() -> None:
    lines = record()
    for fact in lines:
        if fact["kind"] == "point" and fact["server"] == "slow" and fact["round"] == 1:
            fact["result"]["generator"].update(verdict="at_fault", reasons=["late"])
    said = answer.of(lines)["said"]
    assert "With 5 rounds in which both count, that may be chance: six are needed" in said


def test_where_all_keep_up_the_answer_is_what_it_cost_them() -> None:
    lines = [facts.manifest("a", "b", rounds=6), facts.contestant("a"), facts.contestant("b")]
    for number in range(1, 7):
        for server, cpu in (("a", 0.02), ("b", 0.01)):
            lines.append(facts.point(server, number, 100.0, rate=100.0, cpu_s=cpu + number / 1e5))
    told = answer.of(lines)
    assert (told["figure"], [row["server"] for row in told["rows"]]) == ("CPU us/request", ["b", "a"])
    assert told["rows"][1]["ratio"] > 1.9 and "the least of 2" in told["said"]


def test_a_server_without_a_round_that_counts_is_told_and_not_ranked() -> None:
    lines = record()
    for line in lines:
        if line["kind"] == "point" and line["server"] == "slow":
            line["result"]["generator"]["verdict"] = "at_fault"
    told = answer.of(lines)
    assert [row["server"] for row in told["rows"]] == ["fast"]
    assert "slow: none of its 6 rounds at 32 counts" in told["doubts"]


def test_a_run_of_nothing_has_an_answer_too() -> None:
    assert answer.of([facts.manifest("a"), {"kind": "end", "at": 1.0, "how": "nobody"}])["said"].startswith("Nothing")


def test_columns_fit_and_cut_no_word_that_has_room() -> None:
    rows = [["forehand-asgi-asyncio", "Forehand, ASGI, asyncio", "needs a program that is not here"], ["b", "c", "d"]]
    text = columns(["server", "is", "can it be had"], rows, 60)
    assert max(map(len, text.splitlines())) <= 60
    words = " ".join(text.split())
    assert all(word in words.split() for row in rows for cell in row for word in cell.split())
    whole = columns(["server", "is", "can it be had"], rows, 1000).splitlines()
    assert len(whole) == 3 and whole[1].endswith("needs a program that is not here")


def test_columns_of_figures_stand_at_the_right() -> None:
    lines = columns(["a", "n"], [["x", "1"], ["y", "1,000"]], 80).splitlines()
    assert lines[1] == "x      1" and lines[2] == "y  1,000"


def test_a_result_as_a_table_has_a_line_for_each_server() -> None:
    lines = results.table(answer.of(record()), 1000).splitlines()
    assert lines[0].split()[:2] == ["server", "replies/s"] and len(lines) == 3
    assert lines[1].startswith("fast") and "0.26 ×, sure" in lines[2] and "1 of 6" in lines[2]


@pytest.mark.parametrize("words", [("results",), ("compare",), ("list",)])
def test_a_terminal_of_eighty_columns_is_enough_and_a_pipe_is_plain(tmp_path: Path, words: tuple) -> None:
    folder = kept(tmp_path / "records" / "r", record())
    variables = {key: value for key, value in laboratory.surroundings(tmp_path).items() if key != "COLUMNS"}
    asked = words if words == ("list",) else (*words, str(folder))
    variables |= {"COLUMNS": "80", "TERM": "dumb"}
    seen = seen_on_a_terminal(variables, *asked)
    # The record's path is one word, and as long as it is.
    assert max(len(line) for line in seen.splitlines() if str(tmp_path) not in line) <= 80
    piped = laboratory.lab(variables, *asked).stdout
    assert not set(piped) & set("┃━│┏┡└…"), "no boxes, nothing cut"
    assert max(map(len, piped.splitlines())) > 80, "a row is a line, however long"


def test_results_and_lists_are_to_be_had_as_json(tmp_path: Path) -> None:
    folder = kept(tmp_path / "records" / "r", record())
    variables = laboratory.surroundings(tmp_path)
    told = json.loads(laboratory.lab(variables, "results", str(folder), "--json").stdout)
    assert told["answer"]["rows"][0]["server"] == "fast" and len(told["points"]) == 4
    assert told["points"][0]["replies_per_s"]["rounds"] == 6
    listed = json.loads(laboratory.lab(variables, "list", "--json").stdout)
    assert {row["server"] for row in listed["servers"]} >= {"gunicorn", "forehand"}
    assert listed["records"][0]["points"] == 24

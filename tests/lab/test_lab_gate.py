"""Two servers, or two records: what differs, what can be told, and what a gate lets through."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import facts
import pytest
from forehand_lab import cli, estimates, gate, records
from forehand_lab.problem import Problem
from forehand_lab.verbs import compare


def record(*servers: str, rate: float = 1000.0, rounds: int = 6, spread: float = 0.01, **more: object) -> list[dict]:
    """A record in which every server has this rate, give or take."""
    chance = random.Random(f"{servers} {rate} {rounds}")
    lines = [facts.manifest(*servers, rounds=rounds, **more), *map(facts.contestant, servers)]
    for number in range(1, rounds + 1):
        for server in servers:
            # The figure of CPU follows: it is the same work.
            factor = chance.uniform(1 - spread, 1 + spread)
            lines.append(facts.point(server, number, rate=rate * factor, cpu_s=10 / (rate * factor)))
    return [*lines, {"kind": "end", "at": 9.0, "how": "complete"}]


def kept(folder: Path, name: str, lines: list[dict]) -> str:
    path = folder / name
    path.mkdir()
    (path / records.FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def status(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The command's exit status and what it says."""
    # The command makes SIGTERM and SIGHUP an interruption, which these tests' process is not to keep.
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    found = cli.main(["compare", *words])
    for number, handler in before.items():
        signal.signal(number, handler)
    said = capsys.readouterr()
    return found, said.out, said.err


def test_a_record_that_is_ten_per_cent_slower_fails_the_gate_and_the_same_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, same = kept(tmp_path, "base", record("a")), kept(tmp_path, "same", record("a", rate=1001.0))
    slow = kept(tmp_path, "slow", record("a", rate=900.0))
    assert status(capsys, base, same, "--fail-below", "0.95")[0] == 0
    code, out, err = status(capsys, base, slow, "--fail-below", "0.95")
    assert code == 1
    assert "worse: a at 100: replies/s: 0.90" in err and "worse: a at 100: CPU us/request: 0.90" in err
    assert "a of NEW beside a of BASE" in out
    # What is faster fails nothing, and what is allowed to be worse does not either.
    assert status(capsys, slow, base, "--fail-below", "0.95")[0] == 0
    assert status(capsys, base, slow, "--fail-below", "0.85")[0] == 0


def test_a_difference_that_may_be_chance_fails_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = kept(tmp_path, "base", record("a", spread=0.6))
    other = kept(tmp_path, "new", record("a", rate=930.0, spread=0.6))
    code, out, _ = status(capsys, wide, other, "--fail-below", "0.999", "--json")
    told = json.loads(out)
    rows = {row["figure"]: row for row in told["comparisons"]}
    assert rows["replies_per_s"]["verdict"] == "no significant difference" and code == 0 and told["passed"] is True


def test_a_gate_that_can_tell_nothing_does_not_pass_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = kept(tmp_path, "base", record("a", rounds=3)), kept(tmp_path, "new", record("a", rate=500.0, rounds=3))
    code, _, err = status(capsys, base, new, "--fail-below", "0.95")
    assert code == 2 and "nothing is proved" in err and "--rounds 6" in err
    assert status(capsys, base, new)[0] == 0, "a comparison alone is no gate"


def test_a_server_that_is_lost_in_the_new_record_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = kept(tmp_path, "base", record("a", "b"))
    new = kept(tmp_path, "new", record("a"))
    code, _, err = status(capsys, base, new, "--fail-below", "0.95")
    assert code == 1 and "worse: b at 100: replies/s: it is in BASE and not in NEW" in err


def spoilt(lines: list[dict], server: str, **changes: object) -> list[dict]:
    """The same record, where this server's results are others."""
    for line in lines:
        if line["kind"] == "point" and line["server"] == server:
            for name, value in changes.items():
                line["result"]["generator" if name == "verdict" else "totals"][name] = value
    return lines


def test_a_record_of_which_no_round_counts_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = kept(tmp_path, "good", record("a", "b"))
    none = kept(tmp_path, "none", spoilt(spoilt(record("a", "b"), "a", verdict="at_fault"), "b", verdict="at_fault"))
    for words in ((none, "--servers", "a,b"), (none,), (none, good), (none, none)):
        code, out, err = status(capsys, *words, "--fail-below", "0.95")
        assert code == 2 and "replies/s cannot be compared at any point: nothing is proved" in err, words
        assert "a at 100: no round counts, and it is not compared" in out
        assert json.loads(status(capsys, *words, "--fail-below", "0.95", "--json")[1])["passed"] is False


@pytest.mark.parametrize("changes", [{"verdict": "at_fault"}, {"replies": 0, "replies_per_s": 0.0}])
def test_who_answers_nothing_that_counts_fails_the_gate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict
) -> None:
    base = kept(tmp_path, "base", record("a", "b"))
    bad = kept(tmp_path, "bad", spoilt(record("a", "b"), "a", **changes))
    code, _, err = status(capsys, base, bad, "--fail-below", "0.95")
    assert code == 1 and "worse: a at 100: replies/s: it is in BASE and not in NEW" in err
    code, _, err = status(capsys, bad, "--servers", "a,b", "--fail-below", "0.95")
    assert code == 1 and "worse: a at 100: replies/s: it is in b and not in a" in err


def test_the_gate_looks_at_the_figures_that_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, slow = kept(tmp_path, "base", record("a")), kept(tmp_path, "slow", record("a", rate=900.0))
    assert status(capsys, base, slow, "--fail-below", "0.95", "--figures", "pss_mib,p50_ms")[0] == 0
    # A hundred replies have no 99th percentile, so that there is none to hold anybody to.
    code, _, err = status(capsys, base, slow, "--fail-below", "0.95", "--figures", "pss_mib,p99_ms")
    assert code == 2 and "p99 ms cannot be compared at any point" in err
    code, _, err = status(capsys, base, slow, "--fail-below", "0.95", "--figures", "cpu")
    assert code == 2 and "there is no figure 'cpu'" in err and "cpu_us_per_request" in err


def test_two_servers_of_one_record_are_a_gate_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = record("a", "b")
    for line in lines:
        if line["kind"] == "point" and line["server"] == "b":
            line["result"]["totals"]["replies_per_s"] *= 0.8
    one = kept(tmp_path, "one", lines)
    assert status(capsys, one, "--servers", "b,a", "--fail-below", "0.95")[0] == 1
    assert status(capsys, one, "--servers", "a,b", "--fail-below", "0.95", "--figures", "replies_per_s")[0] == 0


def test_json_has_every_figure_and_what_makes_the_records_unlike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = kept(tmp_path, "base", record("a"))
    new = kept(tmp_path, "new", record("a", setting={"module": "pong", "threads": 4}, seconds=2.0))
    code, out, err = status(capsys, base, new, "--json")
    told = json.loads(out)
    assert (code, err, told["passed"], told["fail_below"]) == (0, "", None, None)
    assert {row["figure"] for row in told["comparisons"]} >= {"replies_per_s", "cpu_us_per_request", "pss_mib"}
    assert told["doubts"] == ["their settings differ: threads", "their seconds a point differ: 1.0 and 2.0"]


@pytest.mark.parametrize(
    "words, said",
    [
        (("--fail-below", "1.5"), "--fail-below: more than 0 and at most 1"),
        (("--figures", "p99_ms"), "--figures is for --fail-below"),
        (("--servers", "a"), "two names with a comma"),
        (("--servers", "a,bb"), "NEW has no points of 'bb'; did you mean 'b'?"),
    ],
)
def test_a_gate_that_is_asked_wrongly_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple, said: str
) -> None:
    base = kept(tmp_path, "base", record("a", "b"))
    code, _, err = status(capsys, base, base, *words)
    assert code == 2 and said in err


def test_a_record_of_one_server_is_told_what_it_can_be_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = status(capsys, kept(tmp_path, "base", record("a")), "--fail-below", "0.95")
    assert code == 2 and "the record has points of a alone: two servers are needed, or two records" in err
    assert "forehand lab compare BASE NEW; or measure both in one run" in err
    code, _, err = status(capsys, str(tmp_path / "none"), str(tmp_path / "none"), "--fail-below", "0.95")
    assert code == 2 and "one is named by its folder, or by its name below" in err


def test_records_without_a_server_in_common_are_told(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no server in common"):
        compare.pairs_between(record("a", "b"), record("c", "d"), None)
    assert compare.pairs_between(record("old"), record("new"), None) == [("old", "new")]


def test_deals_of_rounds_are_counted_exactly() -> None:
    # Of the 20 deals of six values into two threes, two are as far apart as these.
    assert estimates.dealt([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == pytest.approx(2 / 20)
    assert estimates.dealt([1.0, 1.0], [1.0, 1.0]) == 1.0


def test_two_records_of_the_same_seldom_differ_and_five_per_cent_are_found() -> None:
    chance = random.Random(3)

    def verdict(factor: float) -> str:
        a, b = ([chance.gauss(1, 0.01) for _ in range(6)] for _ in range(2))
        found = estimates.unpaired([each * factor for each in a], b)
        assert found
        return found.verdict

    assert [verdict(1.0) for _ in range(60)].count("no significant difference") >= 53
    assert [verdict(0.95) for _ in range(20)].count("lower") >= 19


def test_better_is_more_for_a_rate_and_less_for_a_time() -> None:
    found = estimates.Comparison(1.25, 1.2, 1.3, 0.01, 6)
    assert gate.Difference("n", "b", 1.0, "replies/s", found, 0).kept == 1.25
    assert gate.Difference("n", "b", 1.0, "p99 ms", found, 0).kept == pytest.approx(0.8)

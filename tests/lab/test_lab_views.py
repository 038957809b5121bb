"""What a report says of a record: by facts whose answers are known."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import facts
import pytest
from forehand_lab import exports, page, views
from forehand_lab.problem import Problem
from forehand_lab.verbs import compare


def record() -> list[dict]:
    first = [
        facts.manifest("a", "b", "gone"),
        facts.contestant("a"),
        facts.contestant("b"),
        facts.contestant("gone", "not obtainable: x"),
    ]
    rounds = [
        facts.point(server, number, at, rate=rate, cpu_s=0.01 * factor, errors={"refused": 3}, failed=3)
        for number in range(1, 8)
        for server, factor in (("a", 1), ("b", 2))
        for at, rate in ((100.0, 100.0 * factor), (200.0, 150.0))
    ]
    return [*first, *rounds, {"kind": "end", "at": 9.0, "how": "complete"}]


def test_a_point_is_the_median_of_its_rounds_and_its_histograms_merged() -> None:
    rates = [(1, 100.0), (2, 300.0), (3, 110.0)]
    found = views.point([facts.point("a", number, rate=rate, values=(1000,) * 400) for number, rate in rates])
    assert found["replies/s"]["mid"] == 110.0, "the median, and not the best"
    assert found["replies"] == 1200 and found["response"]["99"] == pytest.approx(1000, rel=0.001)
    assert found["response"]["99.9"] is None


def test_a_point_that_the_generator_spoiled_counts_in_no_figure() -> None:
    spoiled = facts.point("a", 2, rate=9000.0, verdict="at_fault", marks=["not ranked: no ports"])
    found = views.point([facts.point("a", 1, rate=100.0), spoiled])
    assert (found["rounds"], found["ranked"], found["replies/s"]["mid"]) == (2, 1, 100.0)
    assert found["marks"] == ["round 2: not ranked: no ports"]


def test_handshakes_are_counted_over_rounds_and_their_times_merged() -> None:
    rounds = [facts.point("a", number) for number in (1, 2)]
    assert views.point(rounds)["tls"] is None, "a load in the clear has none"
    for each, time in zip(rounds, (3000, 5000), strict=True):
        each["result"]["totals"]["connections"] = {"opened": 60, "handshakes": 50, "resumed": 20}
        each["result"]["times"]["handshake"] = facts.distribution(*(time,) * 50)
    found = views.point(rounds)["tls"]
    assert (found["handshakes"], found["resumed"]) == (100, 40)
    assert found["times"]["50"] == pytest.approx(3000, rel=0.001)
    assert found["times"]["max"] == pytest.approx(5000, rel=0.001)


def test_errors_are_kept_by_kind() -> None:
    found = views.point([facts.point("a", 1, errors={"refused": 5, "truncated": 1}, failed=6)])
    assert found["errors"] == {"refused": 5, "truncated": 1}
    assert found["failed_share"] == 6 / 106


def test_two_servers_are_compared_within_rounds() -> None:
    found = views.paired(record(), "b", "a")
    assert found[100.0, "replies/s"].verdict == "higher" and found[100.0, "replies/s"].ratio == 2
    assert found[100.0, "CPU us/request"].ratio == pytest.approx(2)
    assert found[200.0, "replies/s"].verdict == "no significant difference"


def test_the_same_facts_give_the_same_views() -> None:
    assert views.whole(record()) == views.whole(record())


def test_the_checklist_says_what_was_not_kept() -> None:
    kept = {row["what"]: row["fine"] for row in views.checks(record())}
    assert kept["rounds enough to tell servers apart (6)"] is False
    assert kept["the generator did its part"] is True
    noisy = [*record(), facts.point("a", 8, marks=["noisy: other processes used 50% of the processors"])]
    assert {row["what"]: row["fine"] for row in views.checks(noisy)}["a quiet machine"] is False


def test_the_page_asks_no_network_and_holds_the_raw_record() -> None:
    text = page.built({"one": record()})
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(http""", text)
    assert re.search(r'class="raw" data-name="one">[A-Za-z0-9+/=]{100,}', text)
    assert "not obtainable: x" in text


def test_a_record_that_is_too_large_gives_way_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_BYTES", 250_000)
    text = page.built({"one": record()})
    assert "too large for this page" in text
    assert len(text) < 3_000_000


def test_names_cannot_break_the_page() -> None:
    wicked = record()
    wicked[1]["title"] = "</script><script>alert(1)</script>"
    assert "</script><script>alert" not in page.built({"one": wicked})


def test_tables_and_charts_are_files(tmp_path: Path) -> None:
    made = exports.csv_files(record(), tmp_path)
    assert [path.name for path in made] == ["points.csv", "errors.csv"]
    rows = list(csv.DictReader(made[0].open()))
    assert [row["replies_per_s"] for row in rows if row["point"] == "100"] == ["100", "200"]
    assert all(re.fullmatch(r"[a-z0-9_]+", head) for head in rows[0]), "heads that a program can have as names"
    longest = max(len(cell.replace(".", "")) for row in rows for head, cell in row.items() if head != "server")
    assert longest <= 8, "no more digits than a measurement is worth"
    charts = exports.charts(record(), tmp_path, "svg")
    assert "rate.svg" in [path.name for path in charts]
    assert all(path.read_text().startswith("<?xml") for path in charts)


def test_comparing_who_was_not_there_names_the_nearest() -> None:
    with pytest.raises(Problem) as problem:
        compare.pairs(record(), "a,bb")
    assert "did you mean 'b'?" in str(problem.value)


def test_the_hosts_of_a_load_are_named_with_what_they_did() -> None:
    def part(host: str, started: int, late_s: float) -> dict:
        return {
            "host": host, "here": False, "planned_at": 100.0, "started_at": 100.0 + late_s, "offset_s": 0.5,
            "uncertainty_s": 0.0002, "verdict": "fit", "cpu_s": 0.1, "offered": started, "started": started,
            "replies": started, "failed": 0,
        }  # fmt: skip

    hosts = [{"host": host, "engine": "forehand-load 0.1.0 (sent)", "here": False} for host in ("h1", "h2")]
    points = [facts.point("a", number) for number in (1, 2)]
    for fact in points:
        fact["result"]["hosts"] = [part("h1", 34, 0.001), part("h2", 33, -0.002)]
    told = [facts.manifest("a", hosts=hosts), facts.contestant("a"), *points]
    found = views.whole(told)
    assert [(row["host"], row["points"], row["started"], row["off_plan_ms"]) for row in found["hosts"]] == [
        ("h1", 2, 68, 1.0), ("h2", 2, 66, 2.0)
    ]  # fmt: skip
    kept = {row["what"]: row["fine"] for row in found["checks"]}
    assert kept["hosts that began at one moment"] is True
    assert "hosts that began at one moment" not in {row["what"] for row in views.checks(record())}
    assert "Hosts of the load" in page.built({"one": told})


def test_last_words_are_words() -> None:
    log = "Traceback\n  r, w, e = select.select(r, w, e)\n            ^^^^^^^^~~~^^\nValueError: out of range\n   ^^^\n"
    assert views.last_words(log) == "r, w, e = select.select(r, w, e)\nValueError: out of range"
    assert views.last_words("") == ""

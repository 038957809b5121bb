"""What the lab decides, as tables: order, rates, marks, intervals, verdicts. No process, no socket, no clock."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter

import facts
import pytest
from forehand_lab import (
    cluster,
    estimates,
    histograms,
    machine,
    plan,
    progress,
    scenario,
    sharing,
    steadiness,
)
from forehand_lab.behaviour import Reply, differences
from forehand_lab.environments import telling
from forehand_lab.reference import answer

PROFILE = scenario.Profile((300.0, 100.0), 3.0, 4)


def test_rounds_are_interleaved_and_shuffled_and_the_seed_says_how() -> None:
    turns = plan.turns(list("abcdef"), PROFILE, 1)
    rounds = [[turn.server for turn in turns if turn.round == number] for number in range(1, 5)]
    assert all(sorted(order) == list("abcdef") for order in rounds)
    assert len({tuple(order) for order in rounds}) > 1
    assert [turn.round for turn in turns] == sorted(turn.round for turn in turns)
    assert turns == plan.turns(list("abcdef"), PROFILE, 1) != plan.turns(list("abcdef"), PROFILE, 2)
    assert turns[0].points == (100.0, 300.0), "points go up"


@pytest.mark.parametrize("right", [70, 1000, 4321, 59_000, 60_000])
def test_the_search_for_capacity_ends_near_the_limit(right: int) -> None:
    tried: list[tuple[float, bool]] = []
    while (rate := plan.next_rate(tried, 60_000)) is not None:
        tried.append((rate, rate <= right))
        assert len(tried) < 40
    assert right * 0.95 <= plan.capacity(tried) <= right


def test_a_server_that_keeps_no_rate_has_no_capacity() -> None:
    tried: list[tuple[float, bool]] = []
    while (rate := plan.next_rate(tried, 60_000)) is not None:
        tried.append((rate, False))
    assert plan.capacity(tried) == 0


@pytest.mark.parametrize(
    "more, fine",
    [
        ({}, True),
        ({"failed": 1}, False),
        ({"verdict": "at_fault"}, False),
        ({"values": (200_000,) * 100}, False),
    ],
)
def test_an_acceptable_point_keeps_errors_and_the_99th_percentile_low(more: dict, fine: bool) -> None:
    values = more.pop("values", (1000,) * 100)
    assert plan.acceptable(facts.result(*values, **more)) is fine


def test_ten_calls_a_connection_are_sessions_of_a_tenth_of_the_rate() -> None:
    sweep = scenario.asked_for("A2")
    assert plan.shape(sweep, 1000) == {
        "kind": "sessions", "arrivals": "uniform", "rate": 100.0, "requests": 10, "think_s": 0.0
    }  # fmt: skip


def test_what_is_expected_comes_from_the_application_itself() -> None:
    found = scenario.asked_for("static-file")
    made = plan.asked(found, found.requests[0])
    assert len(made["expect"]["body"]) == 41148
    head = scenario.asked_for("head")
    assert plan.asked(head, head.requests[0])["expect"] == {"status": [200], "length": 41148}
    assert len(answer("pages", "GET", "/page").body) == 39107


@pytest.mark.parametrize(
    "told, said",
    [
        (Reply(200, {"content-type": "text/plain", "content-length": "5"}, b"Pong!"), []),
        (Reply(200, {"content-type": "text/plain"}, b"Pong!"), []),
        (Reply(500, {"content-type": "text/plain", "content-length": "5"}, b"Pong!"), ["status 500, not 200"]),
        (
            Reply(200, {"content-type": "text/html", "content-length": "5"}, b"Pong!"),
            ["content-type: 'text/html', not 'text/plain'"],
        ),
    ],
)
def test_differences_are_told_in_words(told: Reply, said: list[str]) -> None:
    assert differences(answer("pong", "GET", "/"), told, "GET") == said


def test_a_body_that_differs_is_told_with_the_place() -> None:
    told = Reply(200, {"content-type": "text/plain"}, b"Ping!")
    assert "from byte 1 on" in differences(answer("pong", "GET", "/"), told, "GET")[0]


@pytest.mark.parametrize(
    "available, server, load", [({0}, {0}, {0}), ({0, 1}, {0}, {1}), (set(range(8)), set(range(6)), {6, 7})]
)
def test_the_last_quarter_of_the_processors_is_the_loads(available: set, server: set, load: set) -> None:
    found = machine.cores(frozenset(available))
    assert (found.server, found.load) == (server, load)


@pytest.mark.parametrize(
    "more, said",
    [
        ({}, []),
        ({"steal_share": 0.05}, ["noisy: the hypervisor took 5% of the processors"]),
        ({"others_share": 0.5}, ["noisy: other processes used 50% of the processors"]),
        ({"time_wait": 20000}, ["noisy: 20000 connections in TIME_WAIT of 28232 local ports"]),
        ({"listen_overflows": 3}, ["the listen queue overflowed 3 times: refused or late connections"]),
    ],
)
def test_noise_is_marked(more: dict, said: list[str]) -> None:
    quiet = {"steal_share": 0.0, "others_share": 0.0, "time_wait": 0, "listen_overflows": 0}
    assert machine.marks({**quiet, **more}, 28232) == said


def rows(*counts: int) -> list[dict]:
    return [{"second": n, "replies": count, "warmup": False} for n, count in enumerate(counts)]


@pytest.mark.parametrize(
    "counts, steady",
    [
        ((100, 100, 100, 100), True),
        ((10, 100, 100, 100, 100, 100), True),
        ((100, 100, 50, 50), False),
        ((100, 1), True),
    ],
)
def test_a_point_whose_halves_differ_is_unsteady(counts: tuple, steady: bool) -> None:
    found = steadiness.marks(facts.result(1000, series=rows(*counts)), len(counts))
    assert (not any("unsteady" in mark for mark in found)) is steady


def test_the_40_ms_line_is_named() -> None:
    assert any("40 ms" in mark for mark in steadiness.marks(facts.result(*[40_500] * 10, *[900] * 10), 1))
    assert not any("40 ms" in mark for mark in steadiness.marks(facts.result(*[900] * 20, 40_500), 1))


@pytest.mark.parametrize(
    "hits, started, replies, fine",
    [(100, 100, 100, True), (101, 102, 100, True), (66, 100, 100, False), (103, 102, 100, False)],
)
def test_hits_prove_that_python_ran(hits: int, started: int, replies: int, fine: bool) -> None:
    assert (steadiness.proof(hits, started, replies) == []) is fine


@pytest.mark.parametrize(
    "percentile, count, enough",
    [(50, 20, True), (50, 19, False), (99, 1000, True), (99, 999, False), (99.9, 10_000, True)],
)
def test_a_percentile_needs_ten_samples_beyond_it(percentile: float, count: int, enough: bool) -> None:
    assert estimates.enough_for(percentile, count) is enough


def test_histograms_merge_without_loss() -> None:
    merged = histograms.merged([facts.encoded(*range(1, 600)), "", facts.encoded(*range(600, 1001))])
    whole = histograms.merged([facts.encoded(*range(1, 1001))])
    assert merged.get_total_count() == 1000
    assert histograms.percentiles(merged) == histograms.percentiles(whole)
    assert sum(histograms.heat(merged)) == 1000
    assert histograms.percentiles(merged)["99.9"] is None, "one sample beyond it"


def test_a_median_has_an_interval_from_three_rounds_on() -> None:
    assert estimates.estimate([]) is None
    two = estimates.estimate([1.0, 2.0])
    assert two and (two.mid, two.low) == (1.5, None)
    seven = estimates.estimate([1, 2, 3, 4, 5, 6, 100])
    assert seven and seven.mid == 4 and seven.low is not None and seven.high is not None
    assert 1 <= seven.low < 4 < seven.high <= 100


@pytest.mark.parametrize(
    "values", [[3.0, 1.0, 2.0], [1.0, 5.0, 2.0, 4.0], [2.0, 2.0, 1.0, 7.0, 3.0], [1.0, 9.0, 4.0, 2.0, 2.5, 3.0]]
)
def test_the_distribution_of_a_median_is_that_of_all_samples_that_can_be_drawn(values: list[float]) -> None:
    drawn = Counter(statistics.median(sample) for sample in itertools.product(values, repeat=len(values)))
    found: Counter[float] = Counter()
    for value, chance in estimates.medians(values):
        found[value] += chance  # type: ignore[assignment]
    assert found.keys() == drawn.keys()
    for value, count in drawn.items():
        assert found[value] == pytest.approx(count / len(values) ** len(values)), value
    tail = 0.025 * len(values) ** len(values)
    low = next(value for value in sorted(drawn) if sum(drawn[one] for one in drawn if one <= value) > tail)
    high = next(value for value in sorted(drawn)[::-1] if sum(drawn[one] for one in drawn if one >= value) > tail)
    assert estimates.interval(estimates.medians(values)) == (low, high)


@pytest.mark.parametrize("rounds", [3, 30, 31])
def test_nothing_of_a_distribution_is_missing(rounds: int) -> None:
    chances = [chance for _, chance in estimates.medians([random.Random(1).random() for _ in range(rounds)])]
    assert sum(chances) == pytest.approx(1, abs=1e-4) and min(chances) > 0


def test_flipped_signs_are_counted_exactly() -> None:
    assert estimates.flips([0.1] * 6) == 2 / 64
    assert estimates.flips([0.1, -0.1]) == 1.0


def test_with_few_rounds_nothing_is_claimed() -> None:
    found = estimates.compared([2.0] * 5, [1.0] * 5)
    assert found and found.verdict == "cannot be told with 5 rounds (6 are needed)"
    found = estimates.compared([2.0], [1.0])
    assert found and found.verdict == "cannot be told with 1 round (6 are needed)"


def test_the_same_server_is_the_same_and_five_per_cent_are_found() -> None:
    chance = random.Random(5)

    def verdict(factor: float) -> str:
        # Each round has its own drift, which both sides share, and noise of one per cent, which they do not.
        drift = [chance.gauss(1, 0.1) for _ in range(8)]
        a = [each * factor * chance.gauss(1, 0.01) for each in drift]
        b = [each * chance.gauss(1, 0.01) for each in drift]
        found = estimates.compared(a, b)
        assert found
        return found.verdict

    same = [verdict(1.0) for _ in range(200)]
    assert same.count("no significant difference") >= 190
    more = [verdict(1.05) for _ in range(100)]
    assert more.count("higher") >= 90


@pytest.mark.parametrize("done, spent, left", [(0, 0, 100), (50, 50, 50), (50, 100, 100), (100, 300, 0)])
def test_time_left_follows_how_it_has_gone(done: float, spent: float, left: float) -> None:
    assert progress.time_left(100, done, spent) == left


def test_an_installers_output_is_told_in_its_telling_line() -> None:
    text = "Collecting x\n  × building\n  x.c:10:10: fatal error: event.h: No such file or directory\nhint: look\n"
    assert telling(text) == "x.c:10:10: fatal error: event.h: No such file or directory"


@pytest.mark.parametrize(
    "load, hosts",
    [
        ({"kind": "open", "rate": 1}, 3),
        ({"kind": "closed", "connections": 2}, 2),
        ({"kind": "closed", "connections": 9}, 3),
    ],
)
def test_every_host_gets_the_same_plan_and_its_number(load: dict, hosts: int) -> None:
    made = sharing.parts({"load": load, "seed": 4}, ["a", "b", "c"])
    assert [plan["part"] for plan in made.values()] == [[number, hosts] for number in range(1, hosts + 1)]
    assert all(plan["load"] == load and plan["seed"] == 4 for plan in made.values())


def test_hosts_that_began_apart_or_whose_clock_is_unsure_are_marked() -> None:
    def host(name: str, at: float, uncertain: float) -> dict:
        return {"host": name, "started_at": at, "uncertainty_s": uncertain}

    assert sharing.marks({"hosts": [host("a", 5.0, 0.0001), host("b", 5.004, 0.001)]}) == []
    found = sharing.marks({"hosts": [host("a", 5.0, 0.0001), host("b", 5.02, 0.008)]})
    assert found == ["clocks: that of host b is known to within 8.0 ms only", "clocks: the hosts began 20.0 ms apart"]
    assert sharing.marks({}) == []


def test_the_worst_host_decides_whether_a_point_counts() -> None:
    def told(verdict: str, reasons: list) -> dict:
        none = {"count": 0, "hdr": ""}
        return {
            "verdict": verdict, "reasons": reasons, "faults": {"late_start": len(reasons)}, "lateness": none,
            "heartbeat": none, "most_queued": 1, "cpu_s": 0.5, "threads": 2, "busiest_thread_share": 0.1,
            "memory_peak_bytes": 10,
        }  # fmt: skip

    found = sharing.generator({"a": told("fit", []), "b": told("at_fault", ["late"])})
    assert (found["verdict"], found["reasons"], found["faults"]) == ("at_fault", ["b: late"], {"late_start": 1})
    assert (found["cpu_s"], found["threads"], found["lateness"]["count"]) == (1.0, 4, 0)


def test_of_each_host_one_worker_drives() -> None:
    found = cluster.one_each(["tcp://10.0.0.2:40002", "tcp://10.0.0.1:40000", "tcp://10.0.0.2:40001"])
    assert found == {"10.0.0.1": "tcp://10.0.0.1:40000", "10.0.0.2": "tcp://10.0.0.2:40001"}

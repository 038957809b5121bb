"""Whether a point was steady, and whether Python ran for each reply. Pure functions of a result."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from forehand_lab import histograms

NAGLE_US, NAGLE_SHARE = (38_000, 48_000), 0.2
DRIFT = 0.10
LEAST_SECONDS = 4


def rates(result: Mapping[str, Any], seconds: float) -> list[int]:
    """Replies in each whole second of the load, the drain left out."""
    return [row["replies"] for row in result["series"] if row["second"] < int(seconds) and not row["warmup"]]


def delayed_share(result: Mapping[str, Any]) -> float:
    """The share of replies whose last byte came 38 to 48 ms after the first: Linux delays acknowledgements by 40 ms."""
    text = result["times"]["transfer"].get("hdr")
    if not text:
        return 0.0
    histogram = histograms.merged([text])
    low, high = NAGLE_US
    delayed: int = sum(
        item.count_added_in_this_iter_step
        for item in histogram.get_recorded_iterator()
        if low <= item.value_iterated_to <= high
    )
    return delayed / max(int(histogram.get_total_count()), 1)


def drift(result: Mapping[str, Any], seconds: float) -> float | None:
    """How much the second half differs from the first, as a share of their mean; None for too few seconds."""
    counts = rates(result, seconds)
    if len(counts) < LEAST_SECONDS or not sum(counts):
        return None
    # The first second has the opening of connections in it.
    counts = counts[1:] if len(counts) > LEAST_SECONDS else counts
    half = len(counts) // 2
    first, second = statistics.mean(counts[:half]), statistics.mean(counts[-half:])
    return (second - first) / statistics.mean(counts)


def marks(result: Mapping[str, Any], seconds: float) -> list[str]:
    """What a reader should know of how the point went, in sentences."""
    found = []
    change = drift(result, seconds)
    if change is not None and abs(change) > DRIFT:
        found.append(f"unsteady: the second half had {change:+.0%} replies")
    line = delayed_share(result)
    if line >= NAGLE_SHARE:
        found.append(
            f"the 40 ms line: {line:.0%} of replies came in two parts 40 ms apart, as head and body in two segments"
            " do with Nagle's algorithm and delayed acknowledgements"
        )
    generator = result["generator"]
    if generator["verdict"] == "at_fault":
        found += [f"not ranked: {reason}" for reason in generator["reasons"] or ["the generator was at fault"]]
    elif generator["verdict"] == "at_ceiling":
        found += [f"lower bound: {reason}" for reason in generator["reasons"] or ["the generator was at its ceiling"]]
    return found


def proof(hits: int, started: int, replies: int) -> list[str]:
    """What the count of the application says about the count of the client (article B)."""
    if hits < replies:
        return [f"not proved: Python ran {hits} times for {replies} replies"]
    if hits > started:
        return [f"not proved: Python ran {hits} times for {started} requests"]
    return []

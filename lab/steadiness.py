"""Whether a point was steady, and whether Python ran for each reply. Pure functions of a result."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

DRIFT = 0.10
LEAST_SECONDS = 4


def rates(result: Mapping[str, Any], seconds: float) -> list[int]:
    """Replies in each whole second of the load, the drain left out."""
    return [row["replies"] for row in result["series"] if row["second"] < int(seconds) and not row["warmup"]]


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

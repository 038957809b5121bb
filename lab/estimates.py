"""Medians, their intervals, and whether two servers can be told apart. Pure.

A round is the unit: what happens within one is not independent (the same process, the same caches), so intervals
are over rounds. Sources: B. Efron, "Bootstrap methods: another look at the jackknife" (1979); R. A. Fisher, "The
design of experiments" (1935), for the exact test of signs' flips.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

RESAMPLES = 4000
CONFIDENCE = 0.95
# Beyond so many pairs the flips are drawn and not listed.
EXACT_PAIRS = 14
# Two-sided, 2 / 2**n is at most 1 - CONFIDENCE from six pairs on: below that no test can tell anything.
LEAST_PAIRS = 6
# A percentile is shown when at least so many samples lie beyond it.
SAMPLES_BEYOND = 10


@dataclass(frozen=True)
class Estimate:
    """A median with its interval; `low` and `high` are None where there are too few rounds for one."""

    mid: float
    low: float | None
    high: float | None
    rounds: int


def estimate(values: Sequence[float]) -> Estimate | None:
    """The median over rounds with its bootstrap interval; None for no round, no interval below three."""
    if not values:
        return None
    mid = statistics.median(values)
    if len(values) < 3:
        return Estimate(mid, None, None, len(values))
    low, high = bootstrap(values)
    return Estimate(mid, low, high, len(values))


def bootstrap(values: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """The interval of the median: its percentiles over samples drawn with replacement. The same draws each time."""
    chance = random.Random(len(values))
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(resamples))
    tail = (1 - CONFIDENCE) / 2
    return medians[int(tail * resamples)], medians[min(math.ceil((1 - tail) * resamples), resamples - 1)]


def enough_for(percentile: float, count: int) -> bool:
    """Whether so many samples can tell a percentile."""
    return count * (100 - percentile) / 100 >= SAMPLES_BEYOND - 1e-6


@dataclass(frozen=True)
class Comparison:
    """How `a` stands to `b`, from rounds in which both ran: the median of the ratios a/b, and what it is worth."""

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    rounds: int

    @property
    def verdict(self) -> str:
        """In words."""
        if self.rounds < LEAST_PAIRS or self.p is None or self.low is None or self.high is None:
            return f"cannot be told with {self.rounds} rounds ({LEAST_PAIRS} are needed)"
        if self.p > 1 - CONFIDENCE or self.low <= 1 <= self.high:
            return "no significant difference"
        return "higher" if self.ratio > 1 else "lower"


def compared(a: Sequence[float], b: Sequence[float]) -> Comparison | None:
    """A paired comparison: the values of the same rounds, in the same order. None where nothing can be divided."""
    ratios = [x / y for x, y in zip(a, b, strict=True) if x > 0 and y > 0]
    if not ratios:
        return None
    ratio = statistics.median(ratios)
    if len(ratios) < 3:
        return Comparison(ratio, None, None, None, len(ratios))
    low, high = bootstrap(ratios)
    return Comparison(ratio, low, high, flips([math.log(each) for each in ratios]), len(ratios))


def flips(logs: Sequence[float]) -> float:
    """Two-sided p: if the two were the same, each round's logarithm of the ratio could as well have the other sign."""
    seen = abs(sum(logs)) - 1e-12
    if len(logs) <= EXACT_PAIRS:
        signs = list(itertools.product((1, -1), repeat=len(logs)))
    else:
        chance = random.Random(len(logs))
        signs = [tuple(chance.choice((1, -1)) for _ in logs) for _ in range(RESAMPLES)]
    beyond = sum(abs(sum(s * v for s, v in zip(row, logs, strict=True))) >= seen for row in signs)
    return beyond / len(signs)

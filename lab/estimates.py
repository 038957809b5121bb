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
# The same for deals of values into two groups: 12 values have 924, 14 have 3432.
EXACT_DEALS = 5000
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
    def too_few(self) -> bool:
        """Whether no test could tell anything with so few rounds."""
        return self.rounds < LEAST_PAIRS or self.p is None or self.low is None or self.high is None

    @property
    def verdict(self) -> str:
        """In words."""
        if self.too_few or self.p is None or self.low is None or self.high is None:
            return (
                f"cannot be told with {self.rounds} round{'s' if self.rounds != 1 else ''} ({LEAST_PAIRS} are needed)"
            )
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


def unpaired(a: Sequence[float], b: Sequence[float]) -> Comparison | None:
    """How `a` stands to `b` where their rounds have nothing in common: two records, of two days or two versions.

    The ratio of the medians; its interval by drawing from both sides; p by dealing all values anew into two groups of
    these sizes (Fisher's test of permutations) and comparing the groups' mean logarithms: exact up to 5,000 deals.
    """
    one, other = [x for x in a if x > 0], [x for x in b if x > 0]
    if not one or not other:
        return None
    ratio, rounds = statistics.median(one) / statistics.median(other), min(len(one), len(other))
    if rounds < 3:
        return Comparison(ratio, None, None, None, rounds)
    chance = random.Random(len(one) * 1000 + len(other))

    def drawn(values: Sequence[float]) -> float:
        return statistics.median(chance.choices(values, k=len(values)))

    ratios = sorted(drawn(one) / drawn(other) for _ in range(RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    low, high = ratios[int(tail * RESAMPLES)], ratios[min(math.ceil((1 - tail) * RESAMPLES), RESAMPLES - 1)]
    return Comparison(ratio, low, high, dealt([math.log(x) for x in one], [math.log(x) for x in other]), rounds)


def dealt(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided p of the difference of two means, over all ways to deal the values into groups of these sizes."""
    values, size = [*one, *other], len(one)
    whole = sum(values)

    def apart(total: float) -> float:
        return abs(total / size - (whole - total) / (len(values) - size))

    seen = apart(sum(one)) - 1e-12
    if math.comb(len(values), size) <= EXACT_DEALS:
        totals = [sum(deal) for deal in itertools.combinations(values, size)]
    else:
        chance = random.Random(len(values))
        totals = [sum(chance.sample(values, size)) for _ in range(RESAMPLES)]
    return sum(apart(total) >= seen for total in totals) / len(totals)

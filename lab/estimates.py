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

CONFIDENCE = 0.95
# What of a median is less likely than that is left out of its distribution.
UNLIKELY = 1e-7
# Beyond so many pairs the flips are drawn and not listed: so many of them.
EXACT_PAIRS = 14
RESAMPLES = 4000
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
    low, high = interval(medians(values))
    return Estimate(mid, low, high, len(values))


def medians(values: Sequence[float]) -> list[tuple[float, float]]:
    """The bootstrap distribution of the median: what it is of samples drawn with replacement, and how likely each.

    Exact, and so nothing is drawn (Efron 1979, section 3): of `n` draws so many are among the `k` smallest values as
    heads come of a coin that shows them with k / n.
    """
    ordered, n = sorted(values), len(values)
    half = n // 2

    def among(k: int, least: int) -> float:
        """The chance that at least so many draws are among the k smallest."""
        return sum(math.comb(n, heads) * (k / n) ** heads * (1 - k / n) ** (n - heads) for heads in range(least, n + 1))

    def split(low: int, high: int) -> float:
        """That half of them are among the `low` smallest, and all others among the `high` largest."""
        return math.comb(n, half) * (low / n) ** half * (high / n) ** half

    if n % 2:
        below = [among(k, half + 1) for k in range(n + 1)]
        return [(value, below[k + 1] - below[k]) for k, value in enumerate(ordered)]
    found: list[tuple[float, float]] = []
    for i, value in enumerate(ordered):
        # Both of the middle are this one; or it and a larger one.
        both = among(i + 1, half + 1) - among(i, half) + split(i, n - i - 1)
        found.append((value, both))
        for j in range(i + 1, n):
            chance = split(i + 1, n - j) - split(i, n - j) - split(i + 1, n - j - 1) + split(i, n - j - 1)
            found.append(((value + ordered[j]) / 2, chance))
    return [(value, chance) for value, chance in found if chance > UNLIKELY]


def interval(distribution: list[tuple[float, float]]) -> tuple[float, float]:
    """Where it lies but for the tails."""
    tail = (1 - CONFIDENCE) / 2

    def end(ordered: list[tuple[float, float]]) -> float:
        sums = itertools.accumulate(chance for _, chance in ordered)
        return next(value for (value, _), beyond in zip(ordered, sums, strict=True) if beyond > tail)

    return end(sorted(distribution)), end(sorted(distribution, reverse=True))


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
    low, high = interval(medians(ratios))
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

    The ratio of the medians; its interval by the bootstrap distribution of both; p by dealing all values anew into two
    groups of these sizes (Fisher's test of permutations) and comparing the groups' mean logarithms: exact up to 5,000
    deals.
    """
    one, other = [x for x in a if x > 0], [x for x in b if x > 0]
    if not one or not other:
        return None
    ratio, rounds = statistics.median(one) / statistics.median(other), min(len(one), len(other))
    if rounds < 3:
        return Comparison(ratio, None, None, None, rounds)
    below = medians(other)
    low, high = interval([(x / y, this * that) for x, this in medians(one) for y, that in below])
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

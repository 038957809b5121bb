"""Distributions of times: decoded, merged bucket for bucket, asked. Pure.

Knows the engine's serialisation through hdrh.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable

from forehand_lab.estimates import enough_for
from hdrh.histogram import HdrHistogram

LOWEST_US, HIGHEST_US, DIGITS = 1, 3_600_000_000, 3
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
# Rows of the heat map: eight for each decade from 32 us to 32 s.
HEAT_EDGES_US = tuple(round(10 ** (1.5 + step / 8)) for step in range(49))


def merged(encoded: Iterable[str]) -> HdrHistogram:
    """One histogram of many, without loss; empty strings are empty histograms."""
    total = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
    for text in encoded:
        if text:
            total.add(HdrHistogram.decode(text.encode()))
    return total


def percentiles(histogram: HdrHistogram) -> dict[str, float | None]:
    """Microseconds by percentile; None where too few samples lie beyond it, and the greatest value as `max`."""
    count = histogram.get_total_count()
    found: dict[str, float | None] = {
        f"{each:g}": float(histogram.get_value_at_percentile(each)) if enough_for(each, count) else None
        for each in PERCENTILES
    }
    found["max"] = float(histogram.get_max_value()) if count else None
    return found


def spectrum(histogram: HdrHistogram, steps: int = 12) -> list[tuple[float, float]]:
    """(share of requests that were slower, microseconds), from 1 down to where ten samples are left; log-spaced."""
    count = histogram.get_total_count()
    if not count:
        return []
    least = max(10 / count, 1e-6)
    decades = -math.log10(least)
    shares = [10 ** (-step / steps) for step in range(int(decades * steps) + 1)] if decades > 0 else [1.0]
    return [(share, float(histogram.get_value_at_percentile(100 * (1 - share)))) for share in shares]


def heat(histogram: HdrHistogram) -> list[int]:
    """Counts in the rows of the heat map."""
    rows = [0] * (len(HEAT_EDGES_US) - 1)
    if not histogram.get_total_count():
        return rows
    for item in histogram.get_recorded_iterator():
        row = bisect.bisect_right(HEAT_EDGES_US, item.value_iterated_to) - 1
        rows[min(max(row, 0), len(rows) - 1)] += item.count_added_in_this_iter_step
    return rows

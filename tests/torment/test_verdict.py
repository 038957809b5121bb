"""The bystander's patience, on numbers."""

from __future__ import annotations

import os

import pytest

from torment.verdict import AT_ONCE, P99, WORST, waited

#: So many threads are no crowd on this machine.
CALM = AT_ONCE * len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("wait", "worst", "running", "fine"),
    [
        (P99, WORST, 1, True),
        (P99 + 0.001, WORST, CALM, False),
        (P99, WORST + 0.001, CALM, False),
        (2 * P99, 2 * WORST, 2 * CALM, True),
        (2 * P99 + 0.001, WORST, 2 * CALM, False),
        (P99, 2 * WORST + 0.001, 2 * CALM, False),
    ],
)
def test_whoever_waits_is_patient_as_long_as_the_machine_is_calm_or_crowded(
    wait: float, worst: float, running: float, fine: bool
) -> None:
    assert (waited([wait] * 200 + [worst], running) == []) is fine


def test_without_a_reply_nobody_is_patient() -> None:
    assert waited([], 100) == ["the bystander has got no reply at all"]

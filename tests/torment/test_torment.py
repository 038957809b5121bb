"""A minute among a hostile crowd: nothing is mixed up, nothing is lost without a reason, nothing is left.

`make torment` is the same for an hour. A failure names its seed and the command that repeats it.
"""

from __future__ import annotations

import pytest

from torment.run import SETTINGS, Run, Setting

pytestmark = pytest.mark.apart


@pytest.mark.parametrize(
    ("seed", "driver", "streamed"),
    [(seed, *setting) for seed, setting in enumerate(SETTINGS, 1)],
    ids=[f"{driver}-{'streamed' if streamed else 'buffered'}" for driver, streamed in SETTINGS],
)
def test_every_reply_belongs_to_its_request_and_nothing_is_left(seed: int, driver: str, streamed: bool) -> None:
    if driver in ("gevent", "uvloop"):
        pytest.importorskip(driver)
    # Some thirty are there at a time where the machine has time for them.
    setting = Setting(seed, driver, streamed, seconds=2.5, rate=60, at_a_time=40)
    result = Run(setting).torment()
    assert result.whole > 100, "the crowd got next to nothing, which proves next to nothing"
    assert not result.problems, "\n".join((*result.problems, "again with", f"  {setting.again}"))

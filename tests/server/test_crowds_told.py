"""What the log, `forehand status` and the counters say where more is asked than can be done.

Views take as long as they are told. Nothing here depends on how fast a machine is, but that a call of a tenth of a
second is no longer than half of one."""

from __future__ import annotations

import time

import pytest
from taughtlanes import Serve, crowd_on

#: Half a minute: what takes ten seconds, on a machine that has other things to do.
LONG = 30.0


@pytest.mark.parametrize(
    "said",
    [
        ("--threads", "2"),
        ("--threads", "4", "--lanes", "/report=slow"),
        ("--threads", "8", "--route-limits", "/report=2"),
    ],
    ids=["one queue", "a slow lane", "a limited route"],
)
def test_who_would_wait_too_long_is_refused_at_once_and_told_as_that(serve: Serve, said: tuple[str, ...]) -> None:
    """Whatever they wait for; and that is another reason than that too many wait."""
    served = serve("lanes:application", "--workers", "1", "--queue-timeout", "1s", *said)
    with crowd_on(served, "/report?0.1", 40) as answers:
        served.until(lambda: served.counters().get("requests_not_in_time", 0) > 20)
        served.until(lambda: any(status == 503 and took < 0.5 for status, took in answers))
        served.says("would have waited for too long, more than half of --queue-timeout")
    assert served.counters().get("requests_not_queued", 0) == 0
    assert "requests_not_in_time" in served.order("status")[1]
    [line] = [line for line in served.log().splitlines() if "were refused within" in line]
    assert "--limit-queue" not in line, line


def test_more_threads_are_advised_once_for_all_workers_where_requests_wait_for_ten_seconds(serve: Serve) -> None:
    """With what they have waited, which is no longer than anybody can have."""
    served = serve("lanes:application", "--workers", "2", "--threads", "4")
    with crowd_on(served, "/report?1", 24):
        served.until(lambda: "--threads auto tries whether" in served.log(), LONG)
        # Until the other one would have said it as well.
        end = time.monotonic() + 3
        served.until(lambda: time.monotonic() > end)
    [line] = [line for line in served.log().splitlines() if "--threads auto tries whether" in line]
    waited = int(line.partition("requests have waited ")[2].split(" ")[0])
    assert 100 < waited <= 10_000, line

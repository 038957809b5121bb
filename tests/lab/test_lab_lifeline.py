"""The lines between the lab and the hosts of a load: the time, the life, the loss. Over loopback, without dask."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from forehand_lab import lifeline, onhost


def test_a_host_that_says_nothing_or_leaves_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict] = []
    second = '{"second": 0, "replies": 2, "p99_us": 5}'

    def comes_to(expected: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not expected():
            assert time.monotonic() < end, (line.lost, seen)
            time.sleep(0.01)

    with lifeline.Lifeline("127.0.0.1", ["mute", "gone", "done"], seen.append) as line:
        done, gone = (onhost.Life(line.address, line.greeting(host)) for host in ("done", "gone"))
        stranger = onhost.Life(line.address, "somebody")
        told = done.clock()
        assert 0 <= told["uncertainty_s"] and abs(told["offset_s"]) <= told["uncertainty_s"], "the very same clock"
        for life in (done, gone):
            life.tell(second)
        done.tell("done")
        gone.close()
        comes_to(lambda: set(line.lost) == {"gone"})
        assert "ended" in line.lost["gone"]
        # Only who is silent on purpose is held to so short a time.
        monkeypatch.setattr(lifeline, "SILENT_SECONDS", 0.2)
        mute = onhost.Life(line.address, f"{line.greeting('mute')}\n{second}")
        comes_to(lambda: set(line.lost) == {"mute", "gone"} and bool(seen))
        assert "nothing for" in line.lost["mute"]
        assert [row["replies"] for row in seen] == [6]
        for life in (mute, done, stranger):
            life.close()

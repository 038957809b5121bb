"""The lines between the lab and the hosts of a load: the time, the life, the loss. Over loopback, without dask."""

from __future__ import annotations

import time

import pytest
from forehand_lab import lifeline, onhost


def test_a_host_that_says_nothing_or_leaves_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifeline, "SILENT_SECONDS", 0.2)
    seen: list[dict] = []
    with lifeline.Lifeline("127.0.0.1", ["mute", "gone", "done"], seen.append) as line:
        lives = {host: onhost.Life(line.address, line.greeting(host)) for host in ("mute", "gone", "done")}
        stranger = onhost.Life(line.address, "somebody")
        told = lives["done"].clock()
        assert 0 <= told["uncertainty_s"] and abs(told["offset_s"]) <= told["uncertainty_s"], "the very same clock"
        for life in lives.values():
            life.tell('{"second": 0, "replies": 2, "p99_us": 5}')
        lives["done"].tell("done")
        lives["gone"].close()
        end = time.monotonic() + 20
        while set(line.lost) != {"mute", "gone"}:
            assert time.monotonic() < end, line.lost
            time.sleep(0.01)
        assert "nothing for" in line.lost["mute"] and "ended" in line.lost["gone"]
        assert [second["replies"] for second in seen] == [6]
        for life in (lives["mute"], lives["done"], stranger):
            life.close()

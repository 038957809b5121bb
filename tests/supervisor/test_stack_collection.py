"""`forehand stacks`: who is waited for, who is made to answer, and until when."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from forehand.supervisor import stack_collection
from forehand.supervisor.state import READY

QUICK, BUSY, STUCK = 1, 2, 3


class Played:
    """A supervisor with three workers, as far as a collection knows one; who had the signal, and what was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.signalled: list[int] = []
        self.told: list[dict[str, Any]] = []
        self.closed = False
        self.workers = {number: self._worker(number) for number in (QUICK, BUSY, STUCK)}
        states = {number: SimpleNamespace(state=READY) for number in self.workers}
        supervisor = SimpleNamespace(
            children=SimpleNamespace(all=self.workers), timers=[], collections=[],
            state=SimpleNamespace(workers=states), close_client=self._close,
        )  # fmt: skip
        client = SimpleNamespace(tell=lambda **said: self.told.append(said))
        monkeypatch.setattr(stack_collection.os, "kill", lambda pid, _: self._signal(pid))
        self.collection = stack_collection.StackCollection(supervisor, client)  # type: ignore[arg-type]
        self.collection.begin()
        self.began = self.collection.deadline - self.collection.patience

    def _worker(self, number: int) -> Any:
        channel = SimpleNamespace(tell=lambda word: word)
        return SimpleNamespace(number=number, pid=1000 + number, channel=channel, stacks=os.memfd_create("stacks"))

    def _signal(self, pid: int) -> None:
        self.signalled.append(pid - 1000)
        os.write(self.workers[pid - 1000].stacks, b"seen by the handler\n")

    def _close(self, client: object) -> None:
        self.closed = True

    def look(self, after: float) -> list[int]:
        """So many seconds after the beginning; whose stacks were told by then."""
        self.collection.look(self.began + after)
        return [said["worker"] for said in self.told if "worker" in said]

    def close(self) -> None:
        for worker in self.workers.values():
            os.close(worker.stacks)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Any:
    one = Played(monkeypatch)
    yield one
    one.close()


def test_one_that_has_heard_is_waited_for_and_one_that_has_not_is_made_to_answer(played: Played) -> None:
    collection, workers = played.collection, played.workers
    collection.came(workers[QUICK], "quick")
    collection.heard(workers[BUSY])
    assert played.look(0.49) == [QUICK] and played.signalled == []
    assert played.look(0.51) == [QUICK] and played.signalled == [STUCK]
    assert played.look(0.75) == [QUICK, STUCK]
    assert "seen by the handler" in played.told[-1]["stacks"] and "does not let it answer" in played.told[-1]["stacks"]
    assert played.look(5) == [QUICK, STUCK] and not played.closed
    collection.came(workers[BUSY], "busy")
    assert played.told[-2]["stacks"] == "busy" and played.told[-1]["ok"] and played.closed
    assert played.signalled == [STUCK]


def test_one_that_has_heard_and_never_answers_is_made_to_after_ten_seconds(played: Played) -> None:
    collection, workers = played.collection, played.workers
    collection.came(workers[QUICK], "quick")
    collection.came(workers[STUCK], "not stuck")
    collection.heard(workers[BUSY])
    patience = stack_collection.BUSY_PATIENCE
    for after in (0.6, patience - 0.3):
        assert BUSY not in played.look(after) and played.signalled == []
    played.look(patience)
    assert played.signalled == [BUSY] and not played.closed
    assert played.look(patience + 0.3)[-1] == BUSY and played.closed


def test_one_that_hears_after_its_signal_is_waited_for_and_one_that_is_gone_is_not(played: Played) -> None:
    collection, workers = played.collection, played.workers
    collection.came(workers[QUICK], "quick")
    played.look(0.51)
    assert sorted(played.signalled) == [BUSY, STUCK]
    collection.heard(workers[BUSY])
    gone = workers.pop(STUCK)
    assert played.look(0.75) == [QUICK] and not played.closed
    collection.came(workers[BUSY], "busy")
    assert played.told[-2]["worker"] == BUSY and played.closed
    os.close(gone.stacks)

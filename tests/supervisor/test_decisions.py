"""The supervisor's decisions, as stories: events in, actions out, time as a number."""

from __future__ import annotations

from typing import Any

import pytest
from forehand.supervisor.decisions import CLOSED_WITHIN, LONGEST_DELAY, decide, next_look
from forehand.supervisor.state import Rules, State

pytestmark = pytest.mark.interpreters

Actions = list[tuple[Any, ...]]


class Story:
    """A state, and a clock that only moves when it is told to."""

    def __init__(self, **rules: Any) -> None:
        self.state = State(Rules(**rules))
        self.now = 100.0

    def __call__(self, *event: Any, after: float = 0.0) -> Actions:
        self.now += after
        return decide(self.state, event, self.now)

    def died(self, number: int, *, crashed: bool = True, cause: Any = None, after: float = 0.0) -> Actions:
        return self("died", number, "was ended by signal 9", crashed, cause, after=after)


def names(actions: Actions, name: str) -> list[Any]:
    """The first detail of each action of a name."""
    return [action[1] if len(action) > 1 else None for action in actions if action[0] == name]


def serving(count: int = 2, **rules: Any) -> Story:
    """A server whose first workers are ready, and have been for a while."""
    story = Story(wanted=count, **rules)
    assert names(story("tick"), "spawn") == list(range(1, count + 1))
    for number in range(1, count + 1):
        actions = story("ready", number)
    assert ("serving",) in actions
    story("tick", after=60)
    return story


def test_it_serves_when_all_first_workers_are_ready() -> None:
    story = Story(wanted=2)
    assert names(story("tick"), "spawn") == [1, 2]
    assert story("ready", 1) == []
    assert story("ready", 2) == [("serving",)]


def test_a_first_start_that_fails_ends_with_its_cause() -> None:
    story = Story(wanted=2)
    story("tick")
    actions = story.died(1, cause=(4, "forehand: no module"))
    assert ("say", "failed", "forehand: no module") in actions
    assert names(actions, "kill") == [2]
    assert names(actions, "spawn") == []
    assert story.died(2) == [("exit", 4)]


def test_where_files_are_watched_a_first_start_that_fails_is_tried_again_after_a_change() -> None:
    story = Story(wanted=2, waits=True)
    story("tick")
    actions = story.died(1, cause=(4, "forehand: no module"))
    assert actions == [("unbegun", "forehand: no module"), ("kill", 2, ""), ("forget", 1)]
    assert story("tick", after=3600) == [] == story.died(2)
    assert story("reload", None) == [("forget", 1), ("load", 2), ("spawn", 3, 2), ("spawn", 4, 2)]
    # Still broken: whoever has asked for it is told, and the next change is waited for.
    actions = story.died(4, cause=(4, "forehand: a typo"))
    assert actions == [("reloaded", False, "forehand: a typo"), ("kill", 3, ""), ("forget", 2)]
    assert names(story("reload", Rules(wanted=1, waits=True)), "spawn") == [5]
    assert story.died(3) == []
    assert story("ready", 5) == [("serving",), ("reloaded", True, "generation 3 serves")]
    assert names(story.died(5, after=60), "spawn") == [6]


def test_a_start_that_has_failed_and_waits_is_ended_as_any_other() -> None:
    for word in ("stop", "quit", "drain"):
        story = Story(wanted=1, waits=True)
        story("tick")
        story.died(1)
        assert story(word) == [("exit", 0)]


def test_a_change_during_the_first_start_is_not_lost() -> None:
    for waits in (False, True):
        story = Story(wanted=1, waits=waits)
        story("tick")
        assert story("reload", None) == []
        assert story("ready", 1) == [("serving",), ("load", 2), ("spawn", 2, 2)]
        story = Story(wanted=1, waits=waits)
        story("tick")
        story("reload", Rules(wanted=2, waits=waits))
        actions = story("unloadable", 1, (4, "no module"))
        assert names(actions, "load") == ([2] if waits else [])
        assert names(story("tick"), "spawn") == []
        assert names(story.died(1), "exit" if not waits else "spawn") == ([4] if not waits else [])


def test_a_worker_that_dies_is_replaced_at_once() -> None:
    story = serving()
    assert names(story.died(1, after=100), "spawn") == [3]


def test_a_crash_loop_is_slowed_down_to_its_longest_delay_and_heals_by_itself() -> None:
    story = serving(1)
    number, delays = 1, []
    for _ in range(14):
        actions = story.died(number)
        waited = 0.0
        while not names(actions, "spawn"):
            due = next_look(story.state, story.now)
            waited += due - story.now
            actions = story("tick", after=due - story.now)
        delays.append(waited)
        number = names(actions, "spawn")[0]
        story("ready", number)
    assert delays[:3] == [0, 0, 0] or delays[:2] == [0, 0]
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY
    story("tick", after=5)
    assert story.state.deaths == 0, "it has lived for five seconds"
    assert names(story.died(number), "spawn") == [number + 1]


def test_rolling_replaces_one_after_the_other_and_never_serves_with_fewer() -> None:
    story = serving(3)
    actions = story("reload", None)
    assert names(actions, "load") == [2]
    assert names(actions, "spawn") == [4]
    assert names(actions, "retire") == []
    actions = story("ready", 4)
    assert names(actions, "retire") == [1]
    assert names(actions, "spawn") == [5]
    actions = story("ready", 5)
    assert names(actions, "retire") == [2]
    assert names(story("ready", 6), "retire") == [3]
    assert story("closed", 1) == story("closed", 2) == []
    actions = story("closed", 3)
    assert ("reloaded", True, "generation 2 serves") in actions
    assert names(actions, "forget") == [1]


def test_a_reload_is_over_when_no_old_worker_takes_a_new_connection_any_more() -> None:
    story = serving(2, strategy="together")
    story("reload", None)
    story("ready", 3)
    assert names(story("ready", 4), "reloaded") == []
    assert names(story("tick", after=1), "reloaded") == []
    assert names(story("closed", 1), "reloaded") == [], "the other one may still take one"
    assert names(story.died(2, crashed=False), "reloaded") == [True], "it is gone altogether"


def test_a_worker_that_does_not_say_so_holds_up_a_reload_for_a_bounded_time() -> None:
    story = serving(1)
    story("reload", None)
    story("ready", 2)
    assert next_look(story.state, story.now) == story.now + CLOSED_WITHIN
    assert names(story("tick", after=CLOSED_WITHIN - 0.01), "reloaded") == []
    assert names(story("tick", after=0.01), "reloaded") == [True]
    assert story("closed", 1) == [], "too late to matter"
    assert next_look(story.state, story.now) > story.now + 20, "it may leave as slowly as before"


def test_together_brings_all_up_before_any_leaves() -> None:
    story = serving(2, strategy="together")
    assert names(story("reload", None), "spawn") == [3, 4]
    assert names(story("ready", 3), "retire") == []
    assert names(story("ready", 4), "retire") == [1, 2]


@pytest.mark.parametrize("strategy", ["rolling", "together"])
def test_a_generation_that_does_not_come_up_leaves_the_old_one_serving(strategy: str) -> None:
    story = serving(2, strategy=strategy)
    story("reload", None)
    actions = story.died(3, cause=(4, "SyntaxError in shop.py, line 3"))
    assert ("reloaded", False, "SyntaxError in shop.py, line 3") in actions
    assert names(actions, "retire") == []
    assert [worker.number for worker in story.state.ready()] == [1, 2]
    assert names(story("tick"), "spawn") == []


def test_an_import_that_hangs_is_killed_and_given_up() -> None:
    story = serving(1, startup=10)
    story("reload", None)
    assert next_look(story.state, story.now) == story.now + 10
    actions = story("tick", after=10)
    assert names(actions, "kill") == [2]
    assert "--startup-timeout" in actions[0][2]
    done = [action for action in story.died(2) if action[0] == "reloaded"]
    assert done and done[0][1] is False and "--startup-timeout" in done[0][2]
    assert [worker.number for worker in story.state.ready()] == [1]


def test_a_reload_that_is_asked_for_during_another_follows_it() -> None:
    story = serving(1)
    story("reload", None)
    assert names(story("reload", None), "load") == []
    assert names(story("ready", 2), "retire") == [1]
    actions = story("closed", 1)
    assert ("reloaded", True, "generation 2 serves") in actions
    assert names(actions, "load") == [3]
    assert names(actions, "spawn") == [3]


def test_a_worker_that_is_due_is_replaced_before_it_leaves() -> None:
    story = serving(2)
    actions = story("stale", 1, "it has served 1000 requests")
    assert names(actions, "spawn") == [3]
    assert names(actions, "retire") == []
    assert story("ready", 3) == [("retire", 1, "it has served 1000 requests")]


def test_old_age_is_a_reason_with_a_date() -> None:
    story = serving(1, max_age=1000)
    due = next_look(story.state, story.now)
    assert 900 - 60 <= due - story.now <= 1000 - 60, "up to a tenth earlier, by chance"
    assert names(story("tick", after=due - story.now), "spawn") == [2]


def test_one_that_does_not_end_in_time_is_killed() -> None:
    story = serving(1, graceful=30)
    story("reload", None)
    story("ready", 2)
    story("closed", 1)
    due = next_look(story.state, story.now)
    assert due == story.now + 32
    assert names(story("tick", after=32), "kill") == [1]


def test_more_and_fewer_workers() -> None:
    story = serving(2)
    assert names(story("wanted", 3), "spawn") == [3]
    story("ready", 3)
    assert names(story("wanted", 1), "retire") == [1, 2]
    assert names(story("wanted", 0), "retire") == [], "one is the least"


def test_a_stop_waits_for_all_and_a_second_one_does_not() -> None:
    story = serving(2)
    assert names(story("stop"), "stop") == [1, 2]
    assert names(story("stop"), "quit") == [1, 2]
    assert names(story("tick", after=2), "kill") == [1, 2]
    story.died(1)
    assert story.died(2) == [("exit", 1)]


def test_a_stop_in_which_all_end_by_themselves_is_a_success() -> None:
    story = serving(2)
    story("stop")
    assert story.died(1, crashed=False) == []
    assert story.died(2, crashed=False) == [("exit", 0)]


def test_a_stop_during_a_reload_ends_it_too() -> None:
    story = serving(1)
    story("reload", None)
    actions = story("stop")
    assert ("reloaded", False, "the server was stopped") in actions
    assert names(actions, "stop") == [1]
    assert names(actions, "kill") == [2]


def test_a_preloaded_application_that_does_not_load_is_like_a_worker_that_fails() -> None:
    story = serving(1)
    story("reload", None)
    actions = story("unloadable", 2, (4, "no module"))
    assert ("reloaded", False, "no module") in actions
    assert names(actions, "kill") == [2]
    assert story.died(2) == [], "its end is no failure"


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_the_wanted_number_comes_back(seed: int) -> None:
    """Random events for a while, then calm: the wanted workers serve, of one generation."""
    import random

    dice = random.Random(seed)
    story = Story(wanted=dice.randint(1, 4), strategy=dice.choice(["rolling", "together"]), startup=20)
    alive: set[int] = set()

    def act(actions: Actions) -> None:
        for name, *details in actions:
            if name == "spawn":
                alive.add(details[0])
            elif name in ("kill", "retire") and dice.random() < 0.9:
                dying.append(details[0])

    dying: list[int] = []
    act(story("tick"))
    for number in list(alive):
        act(story("ready", number))
    for _ in range(60):
        move = dice.choice(["ready", "died", "reload", "stale", "wanted", "tick", "tick"])
        if move in ("ready", "stale", "died") and alive:
            number = dice.choice(sorted(alive))
            if move == "died":
                alive.discard(number)
                act(story.died(number, after=dice.random() * 3))
            else:
                act(story("ready", number) if move == "ready" else story("stale", number, "x"))
        elif move == "reload":
            act(story("reload", None))
        elif move == "wanted":
            act(story("wanted", dice.randint(1, 4)))
        else:
            act(story("tick", after=dice.random() * 5))
    for _ in range(60):
        for number in dying:
            if number in alive:
                alive.discard(number)
                act(story.died(number, crashed=False))
        dying.clear()
        for worker in list(story.state.workers.values()):
            if worker.state == "starting":
                act(story("ready", worker.number, after=0.1))
            elif worker.state in ("leaving", "killed"):
                dying.append(worker.number)
        act(story("tick", after=31))
    ready = story.state.ready()
    assert len(ready) == story.state.rules.wanted
    assert {worker.generation for worker in ready} == {story.state.generation}
    assert story.state.coming is None


def test_an_end_is_announced_and_served_until_it_begins() -> None:
    story = serving(2, delay=10, graceful=30)
    actions = story("drain")
    assert names(actions, "announce_end") == [1, 2]
    assert names(actions, "stop") == []
    assert next_look(story.state, story.now) == story.now + 10
    actions = story.died(1, after=5)
    assert names(actions, "spawn") == [3], "it serves with as many as before"
    assert names(story("ready", 3), "announce_end") == [3]
    assert names(story("tick", after=4.9), "stop") == []
    assert names(story("tick", after=0.1), "stop") == [2, 3]
    assert story.state.phase == "stopping"


def test_a_second_word_to_stop_ends_the_delay_and_a_third_cuts() -> None:
    story = serving(1, delay=10)
    story("drain")
    assert names(story("drain", after=1), "stop") == [1]
    assert names(story("drain", after=1), "quit") == [1]


@pytest.mark.parametrize("event", ["stop", "quit"])
def test_who_is_in_a_hurry_does_not_wait_for_an_announced_end(event: str) -> None:
    story = serving(1, delay=10)
    story("drain")
    assert names(story(event), event) == [1]


def test_without_a_delay_the_end_begins_at_once_and_during_a_start_too() -> None:
    assert names(serving(1)("drain"), "stop") == [1]
    story = Story(wanted=1, delay=10)
    story("tick")
    assert names(story("drain"), "kill") == [1]


def test_a_reload_that_is_under_way_ends_while_the_end_is_awaited() -> None:
    story = serving(1, delay=10)
    story("reload", None)
    story("reload", None)
    story("drain")
    actions = story("ready", 2)
    assert names(actions, "announce_end") == [2]
    actions = story("closed", 1)
    assert ("reloaded", True, "generation 2 serves") in actions
    assert names(actions, "load") == [], "what was asked for after it is too late"
    assert story("reload", None)[0][:2] == ("reloaded", False)

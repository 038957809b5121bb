"""What a supervisor does next: (state, event, now) → actions.

Knows: workers by number, what became of them, times in seconds. Does not know: processes,
pipes, signals: `supervisor.py` carries the actions out and tells what came of them. Nothing here
waits, reads a clock or fails, so that every story can be told in a table (tests/supervisor).

    STARTING ──ready──► READY ──retire──► LEAVING ──died──► gone
        │ failed, too late                   │ too late
        └──────────────► KILLED ◄────────────┘

Two rules hold everything together. *Replacement first*: as long as a stale worker (of an older
generation, or due for recycling) answers, it is told to leave only when there are more ready
workers than are wanted. *A generation proves itself*: until one of its workers is ready, a
reload can be given up, and the old generation has lost nothing.
"""

from __future__ import annotations

from forehand.supervisor.state import DRAINING, KILLED, LEAVING, NEVER, READY, STARTING, WAITING, Rules, State, Worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Action = tuple[Any, ...]
    Event = tuple[Any, ...]

#: A worker that dies before it is so old has not begun to serve: its kind may be in a loop.
YOUNG = 0.5
#: Workers that there may be: as many again fit on the scoreboard while they are replaced.
MOST = 256
#: A worker that was started after the last young death and has lived so long ends the loop.
HEALED = 2.0
#: So many young deaths in a row are still replaced at once.
FREE_DEATHS = 2
FIRST_DELAY, LONGEST_DELAY = 0.25, 30.0
#: How long after its graceful timeout a worker is killed: it has to say what it cut.
KILL_AFTER = 2.0
#: How long one that was told to end at once may take to say what it cut.
QUIT_AFTER = 2.0
#: How long a reload waits for the word of old workers that they take no new connections. One whose event loop is
#: blocked takes none either, and says so later.
CLOSED_WITHIN = 2.0


def decide(state: State, event: Event, now: float) -> list[Action]:
    """The actions that an event calls for. Events and what they carry:

    `tick`; `ready` number; `died` number, how (text), crashed, cause (status, text) or None;
    `stale` number, why; `closed` number (it leaves, and takes no new connections any more); `reload` rules;
    `unloadable` cause (a preloaded application did not come up); `wanted` count; `drain` (announce the end, then
    `stop`), `stop`, `quit`.

    Actions: `spawn` number generation; `announce_end` number; `retire` number why; `stop` number; `quit` number;
    `kill` number why; `load` generation (bring the application up for preloading, where that is asked for);
    `forget` generation; `say` level text; `unbegun` text (the first start has failed, and a change is waited for);
    `serving`; `reloaded` ok text; `exit` status.
    """
    actions = list(_BY_EVENT[event[0]](state, now, *event[1:]))
    actions += _follow_up(state, now)
    return actions


def next_look(state: State, now: float) -> float:
    """When `tick` is due: infinity if nothing has a date."""
    times = [worker.deadline for worker in state.workers.values()]
    times += [worker.age_limit for worker in state.ready() if not worker.stale]
    if state.phase == DRAINING:
        times.append(state.stop_at)
    if state.spawn_at > now:
        times.append(state.spawn_at)
    if state.coming is not None:
        times += [worker.closes_by for worker in _closing(state, now)]
    return min(times, default=NEVER)


def _tick(state: State, now: float) -> Iterable[Action]:
    return ()


def _ready(state: State, now: float, number: int) -> Iterable[Action]:
    worker = state.workers.get(number)
    if worker is None or worker.state != STARTING:
        return
    worker.state = READY
    worker.ready_at = now
    worker.deadline = NEVER
    if state.phase == DRAINING:
        yield ("announce_end", number)
    if state.rules.max_age:
        # Up to a tenth earlier, so that workers of one age do not leave together.
        worker.age_limit = now + state.rules.max_age * (1 - 0.1 * state.spread())
    if state.coming == worker.generation and not state.proven:
        waited_for = state.rules.wanted if state.rules.strategy == "together" else 1
        state.proven = sum(1 for other in state.fresh() if other.state == READY) >= waited_for


def _died(
    state: State, now: float, number: int, how: str, crashed: bool, cause: tuple[int, str] | None
) -> Iterable[Action]:
    worker = state.workers.pop(number, None)
    if worker is None:
        return
    if worker.state in (LEAVING, KILLED) or state.phase == "stopping":
        if worker.state == LEAVING and crashed:
            yield ("say", "warning", f"worker {number} {how} while it was leaving")
        if state.phase == "stopping" and crashed and worker.ready_at:
            state.exit = state.exit or 1
        if worker.state == LEAVING or worker.ready_at or state.phase == "stopping":
            return
    young = not worker.ready_at or now - worker.ready_at < YOUNG
    if worker.state == KILLED:
        how = f"was killed: {worker.stale}"
    status, text = cause or (1, f"worker {number} {how}{'' if worker.ready_at else ' before it was ready'}")
    if state.phase == "beginning":
        yield from _give_up(state, now, status, text)
        return
    if state.coming == worker.generation and not state.proven:
        yield from _abandon(state, now, text)
        return
    if young:
        state.deaths += 1
        state.last_death = now
        state.last_words = text
        state.spawn_at = now + _delay(state.deaths)
    wait = max(0.0, state.spawn_at - now)
    when = "at once" if wait == 0 else f"in {wait:g} s, as {state.deaths} in a row have died soon after their start"
    # One that was told to end by somebody else, and did so in order, is no trouble.
    yield ("say", "error" if crashed or young else "info", f"{text}; it is replaced {when}")


def _delay(deaths: int) -> float:
    if deaths <= FREE_DEATHS:
        return 0.0
    # The exponent is bounded because 2.0 ** 1100 is an error.
    return float(min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(deaths - FREE_DEATHS - 1, 20)))


def _give_up(state: State, now: float, status: int, text: str) -> Iterable[Action]:
    """The first start has failed: nobody is served by trying again unseen."""
    if state.rules.waits:
        yield from _wait_for_change(state, now, text)
        return
    state.phase = "stopping"
    state.exit = status
    yield ("say", "failed", text)
    for worker in state.workers.values():
        worker.state = KILLED
        worker.deadline = NEVER
        yield ("kill", worker.number, "")


def _wait_for_change(state: State, now: float, text: str) -> Iterable[Action]:
    """Whoever develops mends it, and finds the server where it was."""
    failed = state.generation
    state.phase = WAITING
    yield ("reloaded", False, text) if state.failed_before else ("unbegun", text)
    state.failed_before = True
    for worker in state.workers.values():
        worker.state = KILLED
        worker.ready_at = now  # its end is no failure
        worker.deadline = NEVER
        yield ("kill", worker.number, "")
    yield ("forget", failed)
    if state.reload_again:
        # It has changed meanwhile.
        yield from _begin_anew(state, _changed_meanwhile(state))


def _begin_anew(state: State, rules: Rules | None) -> Iterable[Action]:
    """The start that has failed is tried with what there is now."""
    failed = state.generation
    state.generations += 1
    state.generation = state.generations
    state.phase = "beginning"
    _take(state, rules)
    yield ("forget", failed)
    yield ("load", state.generation)


def _changed_meanwhile(state: State) -> Rules | None:
    state.reload_again = False
    rules, state.coming_rules = state.coming_rules, None
    return rules


def _take(state: State, rules: Rules | None) -> None:
    state.deaths = 0
    state.spawn_at = 0.0
    if rules is not None:
        rules.wanted = rules.wanted or state.rules.wanted
        state.rules = rules


def _abandon(state: State, now: float, text: str) -> Iterable[Action]:
    """The coming generation does not come up: the old one goes on as if nothing had been."""
    coming = state.coming
    state.coming = None
    state.coming_rules = None
    state.reload_again = False
    for worker in state.workers.values():
        if worker.generation == coming and worker.state in (STARTING, READY):
            worker.state = KILLED
            worker.ready_at = now  # its end is no failure
            worker.deadline = NEVER
            yield ("kill", worker.number, "")
    yield ("forget", coming)
    yield ("reloaded", False, text)


def _stale(state: State, now: float, number: int, why: str) -> Iterable[Action]:
    worker = state.workers.get(number)
    if worker is not None and worker.state == READY and not worker.stale:
        worker.stale = why
        yield ("say", "info", f"worker {number} is replaced: {why}")


def _closed(state: State, now: float, number: int) -> Iterable[Action]:
    worker = state.workers.get(number)
    if worker is not None:
        worker.closes_by = 0.0
    return ()


def _closing(state: State, now: float) -> list[Worker]:
    """Those of old generations that leave and may still take a new connection."""
    return [
        worker for worker in state.workers.values()
        if worker.state == LEAVING and worker.generation != state.target and worker.closes_by > now
    ]  # fmt: skip


def _reload(state: State, now: float, rules: Rules | None = None) -> Iterable[Action]:
    if state.phase == WAITING:
        yield from _begin_anew(state, rules)
        return
    if state.phase not in ("beginning", "serving"):
        yield ("reloaded", False, "the server is stopping, and cannot reload now")
        return
    if state.coming is not None or state.phase == "beginning":
        # Whoever asks has changed something since: what is coming may be without it.
        state.reload_again = True
        state.coming_rules = rules or state.coming_rules
        return
    yield from _begin_reload(state, rules)


def _begin_reload(state: State, rules: Rules | None) -> Iterable[Action]:
    state.generations += 1
    state.coming = state.generations
    state.proven = False
    _take(state, rules)
    yield ("load", state.coming)


def _unloadable(state: State, now: float, generation: int, cause: tuple[int, str]) -> Iterable[Action]:
    if state.phase == "beginning" and generation == state.generation:
        yield from _give_up(state, now, *cause)
    elif state.coming == generation:
        yield from _abandon(state, now, cause[1])


def _wanted(state: State, now: float, count: int) -> Iterable[Action]:
    state.rules.wanted = min(MOST, max(1, count))
    yield ("say", "info", f"workers: {state.rules.wanted} wanted now")


def _drain(state: State, now: float) -> Iterable[Action]:
    """The end is told before it begins, to who asks /readyz and to clients, and served until then. Asked again, it
    begins."""
    if state.phase != "serving" or not state.rules.delay:
        yield from _stop(state, now)
        return
    state.phase = DRAINING
    state.stop_at = now + state.rules.delay
    state.reload_again = False
    yield (
        "say", "plain", f"stopping in {state.rules.delay:g} s (--shutdown-delay): /readyz says so, and requests are "
        "answered as before (once more: begin now)",
    )  # fmt: skip
    for worker in state.ready():
        yield ("announce_end", worker.number)


def _stop(state: State, now: float) -> Iterable[Action]:
    if state.phase == "stopping":
        yield from _quit(state, now)
        return
    if state.coming is not None:
        yield ("reloaded", False, "the server was stopped")
        state.coming = None
    state.phase = "stopping"
    for worker in state.workers.values():
        if worker.state == STARTING:
            worker.state = KILLED
            yield ("kill", worker.number, "")
        elif worker.state != KILLED:
            # Those that were leaving already leave faster: nobody will take their place.
            worker.state = LEAVING
            worker.deadline = now + state.rules.graceful + KILL_AFTER
            yield ("stop", worker.number)


def _quit(state: State, now: float) -> Iterable[Action]:
    if state.coming is not None:
        yield ("reloaded", False, "the server was stopped")
        state.coming = None
    state.phase = "stopping"
    for worker in state.workers.values():
        if worker.state == STARTING:
            yield ("kill", worker.number, "")
        elif worker.state != KILLED:
            yield ("quit", worker.number)
            worker.deadline = now + QUIT_AFTER
        worker.state = KILLED


_BY_EVENT: dict[str, Callable[..., Iterable[Action]]] = {
    "tick": _tick,
    "ready": _ready,
    "died": _died,
    "stale": _stale,
    "closed": _closed,
    "reload": _reload,
    "unloadable": _unloadable,
    "wanted": _wanted,
    "drain": _drain,
    "stop": _stop,
    "quit": _quit,
}


def _follow_up(state: State, now: float) -> Iterable[Action]:
    """What follows from the state alone."""
    yield from _overdue(state, now)
    if state.phase == DRAINING and now >= state.stop_at:
        yield ("say", "plain", f"stopping: waiting up to {state.rules.graceful:g} s for running requests")
        yield from _stop(state, now)
    if state.phase == "stopping":
        if not state.workers:
            state.phase = "ended"
            yield ("exit", state.exit)
        return
    if state.phase in ("ended", WAITING):
        return
    yield from _replace(state, now)
    yield from _spawn(state, now)
    fresh_ready = sum(1 for worker in state.fresh() if worker.state == READY)
    if state.phase == "beginning" and fresh_ready >= state.rules.wanted:
        state.phase = "serving"
        yield ("serving",)
        if state.failed_before:
            state.failed_before = False
            yield ("reloaded", True, f"generation {state.generation} serves")
        yield from _reload_again(state, now)
    taken_over = fresh_ready >= state.rules.wanted and len(state.active()) == fresh_ready
    if state.coming is not None and taken_over and not _closing(state, now):
        yield from _end_reload(state, now)


def _end_reload(state: State, now: float) -> Iterable[Action]:
    old, state.generation, state.coming = state.generation, state.target, None
    yield ("forget", old)
    yield ("reloaded", True, f"generation {state.generation} serves")
    yield from _reload_again(state, now)


def _reload_again(state: State, now: float) -> Iterable[Action]:
    if state.reload_again:
        yield from _begin_reload(state, _changed_meanwhile(state))
        yield from _spawn(state, now)


def _overdue(state: State, now: float) -> Iterable[Action]:
    for worker in list(state.workers.values()):
        if worker.state == READY and not worker.stale and worker.age_limit <= now:
            why = f"it has served for {now - worker.ready_at:.0f} s (--max-worker-age)"
            yield from _stale(state, now, worker.number, why)
        if worker.deadline > now:
            continue
        worker.deadline = NEVER
        if worker.state == KILLED:
            why = ""
        elif worker.state == STARTING:
            why = f"it was not ready after {state.rules.startup:g} s (--startup-timeout): does its import hang?"
        else:
            why = f"it had not ended {state.rules.graceful:g} s after it was told to (--graceful-timeout)"
        worker.state = KILLED
        worker.stale = why or worker.stale
        yield ("kill", worker.number, why)


def _replace(state: State, now: float) -> Iterable[Action]:
    """Lets those leave whose places are taken."""
    rules = state.rules
    ready = state.ready()
    stale = [worker for worker in ready if worker.stale or worker.generation != state.target]
    if state.coming is not None and not state.proven:
        # The old generation stays whole; what is due for recycling waits for the new one.
        return
    spare = len(ready) - rules.wanted
    for worker in stale:
        if spare <= 0:
            break
        spare -= 1
        yield _leave(state, worker, now, worker.stale or "a new generation has taken its place")
    if state.coming is None:
        fresh = state.fresh()
        # Fewer are wanted: those that have not begun first, then the oldest.
        fresh.sort(key=lambda worker: (worker.state == READY, worker.since))
        for worker in fresh[: max(0, len(fresh) - rules.wanted)]:
            yield _leave(state, worker, now, "fewer workers are wanted")


def _leave(state: State, worker: Worker, now: float, why: str) -> Action:
    if worker.state == STARTING:
        worker.state = KILLED
        worker.ready_at = now  # its end is no failure
        worker.deadline = NEVER
        return ("kill", worker.number, "")
    worker.state = LEAVING
    worker.deadline = now + state.rules.graceful + KILL_AFTER
    worker.closes_by = now + CLOSED_WITHIN
    return ("retire", worker.number, why)


def _spawn(state: State, now: float) -> Iterable[Action]:
    healed = any(w.since > state.last_death and now - w.ready_at >= HEALED for w in state.ready())
    if state.deaths and healed:
        state.deaths = 0
    if now < state.spawn_at:
        return
    unsure = state.phase == "beginning" or state.coming is not None and not state.proven
    if unsure and any(w.state == KILLED and w.generation == state.target for w in state.workers.values()):
        # What becomes of the start, or of the reload, shows when that one is gone.
        return
    fresh = state.fresh()
    missing = state.rules.wanted - len(fresh)
    if state.coming is not None and state.rules.strategy == "rolling":
        missing = min(missing, 1 - sum(1 for worker in fresh if worker.state == STARTING))
    if state.deaths > FREE_DEATHS:
        # One at a time shows whether the trouble is over.
        missing = min(missing, 1)
    for _ in range(missing):
        state.born += 1
        worker = Worker(state.born, state.target, now, now + state.rules.startup if state.rules.startup else NEVER)
        state.workers[worker.number] = worker
        yield ("spawn", worker.number, worker.generation)

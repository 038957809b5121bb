"""What decisions are made from: what is asked of workers, those that there are, and where a server is in its life.

Knows: numbers and times in seconds. Does not know: what follows from them (`decisions.py`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STARTING, READY, LEAVING, KILLED = "starting", "ready", "leaving", "killed"
#: The phase in which a server that will stop goes on serving, so that a load balancer hears of it first.
DRAINING = "draining"
#: The phase of a start that has failed, where files are watched (`--reload`): a change begins it anew.
WAITING = "waiting"

NEVER = float("inf")


class Rules:
    """What is asked of workers; times in seconds, zero stands for never."""

    __slots__ = ("delay", "graceful", "max_age", "startup", "strategy", "waits", "wanted")

    def __init__(
        self,
        *,
        wanted: int = 1,
        startup: float = 60,
        graceful: float = 30,
        strategy: str = "rolling",
        max_age: float = 0,
        delay: float = 0,
        waits: bool = False,
    ) -> None:
        self.wanted = wanted
        self.startup = startup
        self.graceful = graceful
        self.strategy = strategy
        self.max_age = max_age
        self.delay = delay
        #: A first start that fails waits for a change, and is tried again.
        self.waits = waits


def rules_of(settings: dict[str, Any]) -> Rules:
    """What the settings ask of workers."""
    return Rules(
        wanted=settings["workers"], startup=settings["startup_timeout"], graceful=settings["graceful_timeout"],
        strategy=settings["reload_strategy"], max_age=settings["max_worker_age"],
        delay=settings["shutdown_delay"], waits=settings["reload"],
    )  # fmt: skip


class Worker:
    """One worker: its number, which is never used again, and where it is in its life."""

    __slots__ = ("age_limit", "closes_by", "deadline", "generation", "number", "ready_at", "since", "stale", "state")

    def __init__(self, number: int, generation: int, now: float, deadline: float) -> None:
        self.number = number
        self.generation = generation
        self.state = STARTING
        self.since = now
        self.ready_at = 0.0
        self.deadline = deadline
        #: Why it is to be replaced; empty while it is as good as any.
        self.stale = ""
        self.age_limit = NEVER
        #: Until then it may take new connections, though it leaves.
        self.closes_by = 0.0


class State:
    """All that is decided from. `spread` gives a number from 0 to 1 for each worker (jitter)."""

    def __init__(self, rules: Rules, spread: Callable[[], float] = lambda: 0.5) -> None:
        self.rules = rules
        self.spread = spread
        self.workers: dict[int, Worker] = {}
        self.generation = 1
        #: The generation that a reload brings up; none: no reload is under way.
        self.coming: int | None = None
        self.proven = False
        self.reload_again = False
        self.coming_rules: Rules | None = None
        self.phase = "beginning"
        #: The start has failed before, and is tried again.
        self.failed_before = False
        #: When an end begins that has been announced.
        self.stop_at = NEVER
        self.exit = 0
        self.born = 0
        self.generations = 1
        self.deaths = 0
        self.last_death = -NEVER
        #: How the last young one has died.
        self.last_words = ""
        self.spawn_at = 0.0

    @property
    def target(self) -> int:
        """The generation that new workers belong to."""
        return self.generation if self.coming is None else self.coming

    def active(self) -> list[Worker]:
        """Those that serve or are about to, oldest first."""
        return [worker for worker in self.workers.values() if worker.state in (STARTING, READY)]

    def fresh(self) -> list[Worker]:
        """The active ones that may stay."""
        return [worker for worker in self.active() if not worker.stale and worker.generation == self.target]

    def ready(self) -> list[Worker]:
        """Those that serve."""
        return [worker for worker in self.workers.values() if worker.state == READY]

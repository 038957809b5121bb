"""Measures: a turn is a server that is started, warmed, put under the points of a scenario, and ended.

Runs in the lab's main thread, with a sampler in its own. What it finds goes to `tell`, as facts of a record.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from forehand_lab import engine, machine, plan, sharing, steadiness
from forehand_lab.contestant import Contestant
from forehand_lab.environments import Environment
from forehand_lab.launching import Running, StartFailed, started
from forehand_lab.sampling import Sampler, cpu_s, descendants
from forehand_lab.scenario import Profile, Scenario

# Sockets in TIME_WAIT of a point before are waited for, within reason, so that one server does not pay for another.
TIME_WAIT_SHARE, TIME_WAIT_PATIENCE_S = 0.4, 4.0


class Source(Protocol):
    """Where load comes from: this machine, or others."""

    def driven(
        self,
        plans: Sequence[Mapping[str, Any]],
        tick: Callable[[dict[str, Any]], None] | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Loads that run together; a result for each."""


class Tell(Protocol):
    """Where facts go."""

    def __call__(self, kind: str, **facts: Any) -> None: ...


@dataclass(frozen=True)
class Bench:
    """What stays the same over a whole run."""

    scenario: Scenario
    profile: Profile
    cores: machine.Cores
    logs: Path
    tell: Tell
    tick: Callable[[dict[str, Any]], None]
    advance: Callable[[float], None]
    port: int = 0
    seed: int = 1
    source: Source = field(default_factory=engine.Here)


@contextlib.contextmanager
def serving(
    bench: Bench, contestant: Contestant, environment: Environment, log: Path, number: int
) -> Iterator[Running]:
    """The server, started for a round; that it had to be killed at the end is a fact, too."""
    with started(contestant, environment, bench.scenario.setting, log, bench.cores.server, bench.port) as running:
        yield running
    if running.killed:
        bench.tell("killed", round=number, server=contestant.name, why=running.killed, log=running.said())


def turn(
    bench: Bench, contestant: Contestant, environment: Environment, number: int, points: Collection[float]
) -> None:
    """One server, one round. A server that does not start, or dies, is a fact and not an exception."""
    if bench.scenario.kind == "capacity":
        _search(bench, contestant, environment, number, max(points))
        return
    log = bench.logs / f"{number}-{contestant.name.replace(':', '-')}.log"
    try:
        with serving(bench, contestant, environment, log, number) as running:
            pids = descendants(running.watched())
            if not contestant.at:
                bench.tell(
                    "start",
                    round=number,
                    server=contestant.name,
                    ready_s=round(running.ready_s, 3),
                    processes=len(pids),
                )
            _warm(bench, running)
            for point in sorted(points):
                if not _survived(bench, running, number, point):
                    return
                point_of(bench, running, number, point)
                bench.advance(bench.profile.seconds + 1)
            _survived(bench, running, number, None)
    except StartFailed as failed:
        bench.tell("lost", round=number, server=contestant.name, why=str(failed), log=failed.log)


def _survived(bench: Bench, running: Running, number: int, before: float | None) -> bool:
    died = running.died()
    if died:
        where = f"before the point {before:g}" if before is not None else "after the last point"
        why = f"it died {where}: {died}"
        bench.tell("lost", round=number, server=running.contestant.name, why=why, log=running.said())
    return not died


def _warm(bench: Bench, running: Running) -> None:
    warming = plan.warming(bench.scenario, bench.profile, aim_at(bench, running))
    if warming:
        # What a warm-up finds is thrown away; that it cannot run at all is found again, and told, by the first point.
        with contextlib.suppress(engine.EngineFailed):
            bench.source.driven([warming])
        bench.advance(bench.profile.warmup_s)


def aim_at(bench: Bench, running: Running) -> plan.Aim:
    """Where the load of this server goes."""
    return plan.Aim(
        running.port, tuple(sorted(bench.cores.load)), bench.seed, running.host, running.certificate,
    )  # fmt: skip


def _calm() -> None:
    """Wait until most ports are free again."""
    most = machine.ports() * TIME_WAIT_SHARE
    end = time.monotonic() + TIME_WAIT_PATIENCE_S
    while machine.counters().time_wait > most and time.monotonic() < end:
        time.sleep(0.25)


def point_of(bench: Bench, running: Running, number: int, point: float) -> dict[str, Any] | None:
    """One point: its load, what the server used meanwhile, what the machine did; told as a fact, and handed back."""
    _calm()
    aim = aim_at(bench, running)
    made = plan.plan(bench.scenario, bench.profile, point, aim)
    roots = running.watched()
    hits = Path(running.scratch / "hits")
    hits_before = hits.stat().st_size if hits.exists() else 0
    before, cpu_before, own_before = machine.counters(), cpu_s(descendants(roots)), time.process_time()
    plans = [made, *plan.beside(bench.scenario, bench.profile, aim)]
    try:
        with Sampler(lambda: roots) as sampler:
            result, *beside = bench.source.driven(plans, bench.tick)
    except engine.BegunLate:
        # From the start, with counters that have nothing of the part that was driven in vain.
        return point_of(bench, running, number, point)
    except engine.EngineFailed as failed:
        bench.tell("lost", round=number, server=running.contestant.name, point=point, why=str(failed), log="")
        return None
    used = cpu_s(descendants(roots)) - cpu_before
    driven = sum(cpu_here(each) for each in (result, *beside))
    noise = machine.between(before, machine.counters(), used + driven + time.process_time() - own_before)
    marks = machine.marks(noise, machine.ports()) + steadiness.marks(result, bench.profile.seconds)
    marks += sharing.marks(result)
    hit = hits.stat().st_size - hits_before if hits.exists() else None
    if hit is not None:
        marks += steadiness.proof(hit, result["totals"]["started"], result["totals"]["replies"])
    fact = {
        "round": number, "server": running.contestant.name, "point": point, "plan": made, "result": result,
        "beside": beside, "samples": sampler.rows, "cpu_s": round(max(used, 0.0), 3), "hits": hit, "noise": noise,
        "marks": marks, "died": running.died(),
    }  # fmt: skip
    bench.tell("point", **fact)
    return fact


def cpu_here(result: Mapping[str, Any]) -> float:
    """Processor time that the load took from this machine."""
    hosts = result.get("hosts")
    if hosts is None:
        return float(result["generator"]["cpu_s"])
    return float(sum(host["cpu_s"] for host in hosts if host["here"]))


def _search(bench: Bench, contestant: Contestant, environment: Environment, number: int, most: float) -> None:
    """The capacity in one round.

    Each rate meets a fresh server: one that was overwhelmed may not come back, which no lower rate has to pay for.
    """
    tried: list[tuple[float, bool]] = []
    log = bench.logs / f"{number}-{contestant.name.replace(':', '-')}.log"
    while (rate := plan.next_rate(tried, most)) is not None:
        try:
            with serving(bench, contestant, environment, log, number) as running:
                _warm(bench, running)
                fact = point_of(bench, running, number, float(rate))
        except StartFailed as failed:
            bench.tell("lost", round=number, server=contestant.name, why=str(failed), log=failed.log)
            return
        tried.append((float(rate), bool(fact and not fact["died"] and plan.acceptable(fact["result"]))))
        bench.advance(bench.profile.seconds + 1)
    bench.tell("capacity", round=number, server=contestant.name, rate=plan.capacity(tried), tried=tried)

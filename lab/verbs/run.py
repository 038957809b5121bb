"""`forehand lab run`: measures servers under a scenario, and keeps every fact as soon as it is known.

Installs, verifies, then takes turns: rounds interleaved and shuffled, the server started anew in each. Ctrl-C ends
servers and load; what was measured stays, and `--resume` goes on with the turns that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from forehand_lab import FORMAT, damage, engine, lineup, machine, measuring, records
from forehand_lab import plan as planning
from forehand_lab import scenario as scenarios
from forehand_lab.cluster import MOST_HOSTS, Fleet, gathered
from forehand_lab.environments import home
from forehand_lab.lineup import Place
from forehand_lab.problem import FAILED, INTERRUPTED, OK, USAGE, Problem
from forehand_lab.progress import Progress
from forehand_lab.scenario import PROFILES, Profile, Scenario
from forehand_lab.verbs.verify import everyone, is_fit
from rich.console import Console
from rich.markup import escape

LONGEST_S, MOST_ROUNDS = 3600.0, 100


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and how long."""
    parser.add_argument("scenario", nargs="?", help="name, article (A1), or a file.toml")
    parser.add_argument("--servers", metavar="A,B", help="instead of the scenario's own")
    parser.add_argument("--profile", default="quick", choices=PROFILES, help="default: quick")
    parser.add_argument("--rounds", type=int, metavar="N", help="instead of the profile's")
    parser.add_argument("--seconds", type=float, metavar="S", help="for each point, instead of the profile's")
    parser.add_argument("--points", metavar="X,Y", help="instead of the profile's")
    parser.add_argument("--threads", type=int, metavar="N", help="for every pool of threads, instead of the scenario's")
    parser.add_argument("--python", metavar="3.X", help="interpreter for those that can have any")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="NAME=DIR", help="source of what cannot be had"
    )
    parser.add_argument("--out", metavar="DIR", help="the record's folder; default: lab-records/DATE-SCENARIO")
    parser.add_argument("--resume", metavar="DIR", help="go on with a record that was interrupted")
    parser.add_argument("--port", type=int, default=0, help="for the servers; default: a free one each time")
    parser.add_argument(
        "--scheduler",
        metavar="tcp://HOST:PORT",
        help="load from the hosts of a dask scheduler, and not from this machine",
    )
    parser.add_argument("--hosts", type=int, metavar="N", help="of them so many; default: all that the scheduler has")
    parser.add_argument(
        "--server-address", metavar="ADDRESS",
        help="of this machine, where hosts reach the servers; default: its address towards the scheduler",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="of order and arrivals; default: by chance, and recorded")


def act(asked: argparse.Namespace) -> int:
    """Measure; the exit status."""
    console = Console(stderr=True, highlight=False)
    engine.found()
    if asked.resume:
        return _resumed(asked, console)
    if not asked.scenario:
        raise Problem(USAGE, "no scenario was named", "`forehand lab list scenarios` names them all")
    scenario = scenarios.asked_for(asked.scenario)
    profile = judged(asked, scenario)
    if asked.threads:
        scenario = replace(scenario, setting=replace(scenario.setting, threads=asked.threads))
    contestants = lineup.named(asked.servers, scenario)
    given = lineup.checkouts(asked.checkout, contestants)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path(asked.out) if asked.out else records.folder() / f"{stamp}-{scenario.name}"
    if (path / records.FILE).exists():
        raise Problem(USAGE, f"{path} has a record already", f"go on with it: --resume {path}; or name another folder")
    with records.OneRun(home()), load_from(asked) as fleet:
        scenario = reachable(scenario, fleet)
        writer = records.Writer(path)
        seed = random.SystemRandom().randrange(1, 2**31) if asked.seed is None else asked.seed
        first = manifest(scenario, profile, asked, [each.name for each in contestants], seed)
        writer.add("manifest", **{**first, **driven_by(first, fleet)})
        console.print(f"[bold]{scenario.title}[/]: {escape(scenario.question)}")
        console.print("installing what is missing", style="dim")
        places = lineup.assembled(contestants, scenario, asked.python, given)
        return Run(scenario, profile, places, writer, asked.port, seed, console, fleet).whole([])


@contextlib.contextmanager
def load_from(asked: argparse.Namespace) -> Iterator[Fleet | None]:
    """The hosts of --scheduler; None where the load comes from this machine."""
    if asked.hosts is not None and not 1 <= asked.hosts <= MOST_HOSTS:
        raise Problem(USAGE, f"--hosts: 1 to {MOST_HOSTS}, not {asked.hosts}")
    if not asked.scheduler:
        if asked.hosts or asked.server_address:
            raise Problem(
                USAGE, "--hosts and --server-address are for load from several machines", "name a --scheduler"
            )
        yield None
        return
    with gathered(asked.scheduler, asked.hosts, asked.server_address) as made:
        yield made


def reachable(scenario: Scenario, fleet: Fleet | None) -> Scenario:
    """The same scenario, its servers listening where the hosts of the load reach them."""
    if fleet is None:
        return scenario
    return replace(scenario, setting=replace(scenario.setting, address=fleet.address))


def driven_by(first: dict[str, Any], fleet: Fleet | None) -> dict[str, Any]:
    """What a manifest says of the hosts of the load."""
    if fleet is None:
        return {"hosts": []}
    return {"hosts": fleet.said(), "machine": {**first["machine"], "pinning": fleet.cores().said}}


def judged(asked: argparse.Namespace, scenario: Scenario) -> Profile:
    """The profile with what was asked for instead. Raises Problem for what cannot be."""
    profile = scenario.profiles.get(asked.profile)
    if profile is None:
        raise Problem(USAGE, f"{scenario.name} has no profile '{asked.profile}'")
    changes: dict[str, Any] = {}
    if asked.rounds is not None:
        if not 1 <= asked.rounds <= MOST_ROUNDS:
            raise Problem(USAGE, f"--rounds: 1 to {MOST_ROUNDS}, not {asked.rounds}")
        changes["rounds"] = asked.rounds
    if asked.seconds is not None:
        if not 0.5 <= asked.seconds <= LONGEST_S:
            raise Problem(USAGE, f"--seconds: 0.5 to {LONGEST_S:g}, not {asked.seconds:g}")
        changes["seconds"] = asked.seconds
    if asked.points is not None:
        try:
            points = tuple(float(word) for word in asked.points.split(","))
        except ValueError:
            raise Problem(USAGE, f"--points: '{asked.points}' is not numbers with commas between them") from None
        if not all(0 < point < 1e7 for point in points):
            raise Problem(USAGE, "--points: each is more than 0 and less than ten million")
        changes["points"] = points
    if asked.port and not 1 <= asked.port <= 65535:
        raise Problem(USAGE, f"--port: 1 to 65535, not {asked.port}")
    return replace(profile, **changes)


def manifest(
    scenario: Scenario, profile: Profile, asked: argparse.Namespace, servers: list[str], seed: int
) -> dict[str, Any]:
    """The first line of a record: enough to know what the others mean, and to do it again."""
    return {
        "format": FORMAT,
        "scenario": scenario.name,
        "title": scenario.title,
        "letter": scenario.letter,
        "scenario_kind": scenario.kind,
        "question": scenario.question,
        "expected": scenario.expected,
        "source": scenario.source,
        "unit": scenarios.unit(scenario.kind),
        "history": list(scenario.history),
        "history_unit": scenario.history_unit,
        "faults": [vars(fault) for fault in scenario.faults],
        "setting": vars(scenario.setting),
        "load": dict(scenario.load),
        "profile": asked.profile,
        "points": list(profile.points),
        "seconds": profile.seconds,
        "rounds": profile.rounds,
        "warmup_s": profile.warmup_s,
        "drain_s": profile.drain_s,
        "servers": servers,
        "python": asked.python,
        "checkout": asked.checkout,
        "threads": asked.threads,
        "seed": seed,
        "engine": machine.program_version(engine.found(), "--version"),
        "machine": machine.manifest(),
    }


def _resumed(asked: argparse.Namespace, console: Console) -> int:
    done = records.read(asked.resume)
    first = done[0]
    if done[-1]["kind"] == "end" and done[-1]["how"] == "complete":
        console.print(f"{asked.resume} is complete: nothing is left to measure")
        return OK
    scenario = scenarios.asked_for(first["scenario"])
    if asked.scenario and scenarios.asked_for(asked.scenario).name != scenario.name:
        raise Problem(USAGE, f"{asked.resume} is a record of {scenario.name}, not of {asked.scenario}")
    if first.get("threads"):
        scenario = replace(scenario, setting=replace(scenario.setting, threads=first["threads"]))
    profile = Profile(tuple(first["points"]), first["seconds"], first["rounds"], first["warmup_s"], first["drain_s"])
    contestants = lineup.named(",".join(first["servers"]), scenario)
    given = lineup.checkouts(first["checkout"], contestants)
    was = [host["host"] for host in first.get("hosts") or ()]
    if bool(was) != bool(asked.scheduler):
        came = f"from {len(was)} hosts ({', '.join(was)})" if was else "from this machine"
        hint = "give its --scheduler again" if was else "leave --scheduler out"
        raise Problem(USAGE, f"the load of {asked.resume} came {came}", hint)
    with records.OneRun(home()), load_from(asked) as fleet:
        if fleet and sorted(fleet.hosts) != sorted(was):
            raise Problem(
                USAGE, f"the load of {asked.resume} came from {', '.join(was)}, not from {', '.join(fleet.hosts)}"
            )
        scenario = reachable(scenario, fleet)
        writer = records.Writer(records.located(asked.resume).parent)
        places = lineup.assembled(contestants, scenario, first["python"], given)
        console.print(f"going on with {asked.resume}")
        return Run(scenario, profile, places, writer, asked.port, first["seed"], console, fleet).whole(done)


class Run:
    """A run from installed servers to the record's end."""

    def __init__(
        self, scenario: Scenario, profile: Profile, places: list[Place], writer: records.Writer, *more: Any
    ) -> None:
        self.scenario, self.profile, self.places, self.writer = scenario, profile, places, writer
        self.port, self.seed, self.console, self.fleet = more

    def whole(self, done: list[dict[str, Any]]) -> int:
        """Verify and measure; `done` are the facts of an earlier run of the same record."""
        path = self.writer.path
        try:
            fit = self._fit(done)
            if not fit:
                self.writer.add("end", how="nobody")
                self.writer.close(complete=True)
                self.console.print("no server is left to measure", style="red")
                return FAILED
            self._measure(fit, done)
        except KeyboardInterrupt:
            self.writer.add("end", how="interrupted")
            self.writer.close(complete=False)
            self.console.print(f"interrupted; what was measured is kept: forehand lab run --resume {path}")
            return INTERRUPTED
        self.writer.add("end", how="complete")
        self.writer.close(complete=True)
        self.console.print(f"the record is {path}; `forehand lab report {path}` draws it")
        return OK

    def _fit(self, done: list[dict[str, Any]]) -> dict[str, Place]:
        known = {fact["server"]: fact for fact in done if fact["kind"] == "verified"}
        told = {fact["server"] for fact in done if fact["kind"] == "contestant"}
        for place in self.places:
            contestant, here = place.contestant, place.environment
            if contestant.name in told:
                continue
            versions = list(here.packages) if here else []
            self.writer.add(
                "contestant", server=contestant.name, title=contestant.title, era=contestant.era,
                flavour=contestant.flavour, note=contestant.note, workers=contestant.start.workers, why=place.why,
                python=here.version if here else "", versions=versions, pinned=list(contestant.install.packages),
            )  # fmt: skip
        new = [place for place in self.places if place.contestant.name not in known]
        self.console.print("verifying: the same answers from all", style="dim")
        for fact in everyone(self.console, new, self.scenario, self.writer.path / "logs"):
            self.writer.add("verified", **fact)
            known[fact["server"]] = fact
        by_name = {place.contestant.name: place for place in self.places}
        # Among the applications that go wrong, the harmless one must be right; it is what verify asks for.
        return {name: by_name[name] for name, fact in known.items() if is_fit(fact) and by_name[name].environment}

    def _measure(self, fit: dict[str, Place], done: list[dict[str, Any]]) -> None:
        cores = self.fleet.cores() if self.fleet else machine.cores()
        turns = planning.turns(sorted(fit), self.profile, self.seed)
        kept = finished(done, self.scenario.kind)
        todo = [left for turn in turns if (left := remaining(turn, kept, self.scenario)).points]
        seconds = planning.seconds_needed(todo, self.profile, self.scenario.kind)
        if self.scenario.kind == "faults":
            seconds *= len(self.scenario.faults)
        self.console.print(f"{cores.said}; {len(todo)} turns, about {seconds / 60:.0f} min", style="dim")
        with Progress(self.console, seconds, len(todo)) as progress:
            bench = measuring.Bench(
                self.scenario, self.profile, cores, self.writer.path / "logs", self._tell(progress), progress.tick,
                progress.advance, self.port, self.seed, self.fleet or engine.Here(),
            )  # fmt: skip
            for turn in todo:
                place = fit[turn.server]
                assert place.environment
                progress.turn(f"round {turn.round} of {self.profile.rounds}: {turn.server}")
                if self.scenario.kind == "faults":
                    faults = [
                        each for each in self.scenario.faults if (turn.round, turn.server, each.target) not in kept
                    ]
                    damage.turn(bench, place.contestant, place.environment, turn.round, faults)
                else:
                    measuring.turn(bench, place.contestant, place.environment, turn.round, turn.points)

    def _tell(self, progress: Progress) -> measuring.Tell:
        def tell(kind: str, **facts: Any) -> None:
            self.writer.add(kind, **facts)
            if kind in ("lost", "killed"):
                progress.say(f"[yellow]{kind}[/]  {escape(facts['server'])}: {escape(facts['why'])}")
            for mark in facts.get("marks", ()):
                progress.say(f"[dim]{escape(facts['server'])} at {shown_at(facts)}: {escape(mark)}[/]")

        return tell


def shown_at(facts: dict[str, Any]) -> str:
    """A point or a fault, for a line."""
    return f"{facts['point']:g}" if "point" in facts else str(facts["target"])


def finished(done: list[dict[str, Any]], kind: str) -> set[tuple[int, str, Any]]:
    """What a record has already: (round, server, point), (…, fault), or (…, None) for a whole search. Pure."""
    if kind == "faults":
        return {(fact["round"], fact["server"], fact["target"]) for fact in done if fact["kind"] == "fault"}
    if kind == "capacity":
        return {(fact["round"], fact["server"], None) for fact in done if fact["kind"] == "capacity"}
    return {(fact["round"], fact["server"], fact["point"]) for fact in done if fact["kind"] == "point"}


def remaining(turn: planning.Turn, kept: set[tuple[int, str, Any]], scenario: Scenario) -> planning.Turn:
    """The turn without the points that the record has. Pure."""
    if scenario.kind == "capacity":
        gone = (turn.round, turn.server, None) in kept
    elif scenario.kind == "faults":
        gone = all((turn.round, turn.server, fault.target) in kept for fault in scenario.faults)
    else:
        left = tuple(point for point in turn.points if (turn.round, turn.server, point) not in kept)
        return replace(turn, points=left)
    return replace(turn, points=() if gone else turn.points)

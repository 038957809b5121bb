"""A run from installed servers to the record's end: verified, measured turn by turn, each fact kept at once.

Runs in the lab's main thread. What nobody could have measured leaves no record behind.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from forehand_lab import damage, engine, machine, measuring, records
from forehand_lab import plan as planning
from forehand_lab.lineup import Place
from forehand_lab.problem import FAILED, INTERRUPTED, OK
from forehand_lab.progress import Progress
from forehand_lab.results import printed
from forehand_lab.scenario import Profile, Scenario
from forehand_lab.verbs.verify import everyone, is_fit
from rich.markup import escape

# Facts that a person would miss. Without any of them there is nothing to go on with, and no record.
MEASURED = ("point", "fault", "capacity", "lost", "killed")


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
                self._without_record(path)
                self.console.print("no server is left to measure, and no record is kept", style="red")
                return FAILED
            self._measure(fit, done)
        except KeyboardInterrupt:
            if self._without_record(path):
                self.console.print("interrupted before anything was measured: no record is kept")
                return INTERRUPTED
            self.writer.add("end", how="interrupted")
            self.writer.close(complete=False)
            self.console.print(f"interrupted; what was measured is kept: forehand lab run --resume {path}")
            return INTERRUPTED
        self.writer.add("end", how="complete")
        self.writer.close(complete=True)
        printed(self.console, records.read(str(path)))
        self.console.print(f"the record is {path}; `forehand lab report {path}` draws it")
        return OK

    def _without_record(self, path: Path) -> bool:
        """Takes the record away, if nothing in it was measured; whether it did."""
        if any(fact["kind"] in MEASURED for fact in records.read(str(path))):
            return False
        self.writer.discard()
        return True

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
        self.console.print(
            f"{cores.said}; {len(todo)} turn{'s' if len(todo) != 1 else ''}, about {seconds / 60:.0f} min", style="dim"
        )
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

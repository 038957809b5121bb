"""`forehand lab run`: measures servers under a scenario, and keeps every fact as soon as it is known.

Installs, verifies, then takes turns: rounds interleaved and shuffled, the server started anew in each. Ctrl-C ends
servers and load; what was measured stays, and `--resume` goes on with the turns that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from forehand_lab import FORMAT, engine, lineup, machine, own, records
from forehand_lab import scenario as scenarios
from forehand_lab.cluster import MOST_HOSTS, Fleet, gathered
from forehand_lab.course import Run
from forehand_lab.environments import home
from forehand_lab.problem import OK, USAGE, Problem
from forehand_lab.results import as_json
from forehand_lab.scenario import PROFILES, Profile, Scenario
from forehand_lab.terminal import console_of
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
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output, too")
    own.arguments(parser)


def act(asked: argparse.Namespace) -> int:
    """Measure; the exit status."""
    console = console_of(stderr=True)
    engine.found()
    status, path = _resumed(asked, console) if asked.resume else _begun(asked, console)
    if asked.json and (path / records.FILE).exists():
        sys.stdout.write(as_json(records.read(str(path))) + "\n")
    return status


def _begun(asked: argparse.Namespace, console: Console) -> tuple[int, Path]:
    scenario = wanted(asked)
    profile = judged(asked, scenario)
    if asked.threads:
        scenario = replace(scenario, setting=replace(scenario.setting, threads=asked.threads))
    there = own.There.of_command(asked)
    # Names are judged before anything is installed.
    contestants = lineup.named(asked.servers, scenario) if asked.servers else []
    checkouts = asked.checkout
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path(asked.out) if asked.out else records.folder() / f"{stamp}-{scenario.name}"
    if (path / records.FILE).exists():
        raise Problem(USAGE, f"{path} has a record already", f"go on with it: --resume {path}; or name another folder")
    with records.OneRun(home()), load_from(asked) as fleet:
        scenario = reachable(scenario, fleet)
        question = f": {escape(scenario.question)}" if scenario.question else ""
        console.print(f"[bold]{escape(scenario.title)}[/]{question}")
        console.print("installing what is missing", style="dim")
        scenario, contestants = own.lined_up(scenario, contestants, there, asked.python, console)
        given = lineup.checkouts(checkouts, contestants)
        places = lineup.assembled(contestants, scenario, asked.python, given)
        writer = records.Writer(path)
        seed = random.SystemRandom().randrange(1, 2**31) if asked.seed is None else asked.seed
        first = manifest(scenario, profile, asked, [each.name for each in contestants], seed)
        writer.add("manifest", **{**first, **driven_by(first, fleet)})
        return Run(scenario, profile, places, writer, asked.port, seed, console, fleet).whole([]), path


def wanted(asked: argparse.Namespace) -> Scenario:
    """The scenario that was named, with an application of the user's in it, if there is one."""
    name = asked.scenario or (own.DEFAULT_SCENARIO if asked.app or asked.url else None)
    if not name:
        raise Problem(USAGE, "no scenario was named", "`forehand lab list scenarios` names them all")
    if asked.url and asked.servers and not asked.app:
        raise Problem(
            USAGE, "--servers beside --url: what would they serve?", "name it with --app DIR MODULE:ATTRIBUTE"
        )
    return own.applied(asked, scenarios.asked_for(name))


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
        "table": dict(scenario.table),
        "requests": [vars(request) for request in scenario.requests],
        **own.There.of_command(asked)._asdict(),
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


def _resumed(asked: argparse.Namespace, console: Console) -> tuple[int, Path]:
    done = records.read(asked.resume)
    path = records.located(asked.resume).parent
    first = done[0]
    if done[-1]["kind"] == "end" and done[-1]["how"] == "complete":
        console.print(f"{asked.resume} is complete: nothing is left to measure")
        return OK, path
    scenario = of_record(first)
    if asked.scenario and Path(asked.scenario).stem != first["scenario"]:
        # A letter, perhaps, or a name that is none.
        named = scenarios.asked_for(asked.scenario).name
        if named != first["scenario"]:
            raise Problem(USAGE, f"{asked.resume} is a record of {first['scenario']}, not of {asked.scenario}")
    profile = Profile(tuple(first["points"]), first["seconds"], first["rounds"], first["warmup_s"], first["drain_s"])
    there = own.There.of_record(first)
    names = [name for name in first["servers"] if name not in there.urls]
    contestants = lineup.named(",".join(names), scenario) if names else []
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
        scenario, contestants = own.lined_up(scenario, contestants, there, first["python"], console)
        writer = records.Writer(path)
        places = lineup.assembled(contestants, scenario, first["python"], given)
        console.print(f"going on with {asked.resume}")
        return Run(scenario, profile, places, writer, asked.port, first["seed"], console, fleet).whole(done), path


def of_record(first: dict[str, Any]) -> Scenario:
    """The scenario that a record's manifest tells, wherever its file may be by now."""
    table = first.get("table")
    if table:
        scenario = scenarios.built(first["scenario"], table, "the record's scenario")
    else:
        # A record of before scenarios were kept in it.
        scenario = scenarios.asked_for(first["scenario"])
        if first.get("threads"):
            scenario = replace(scenario, setting=replace(scenario.setting, threads=first["threads"]))
        return scenario
    requests = first.get("requests")
    if requests:
        scenario = replace(scenario, requests=scenarios.asked_as(requests))
    setting, servers = scenarios.set_as(first["setting"]), tuple(first["servers"])
    return replace(scenario, setting=setting, servers=servers, load=first.get("load", scenario.load))

"""`forehand lab doctor`: what this machine has, what it lacks, and what would disturb a measurement."""

from __future__ import annotations

import argparse
import importlib.util
import resource
import shutil
import tempfile
from pathlib import Path

from forehand_lab import engine, interpreters, machine, records, speaking
from forehand_lab.environments import home, program, uv
from forehand_lab.problem import FAILED, OK, Problem
from forehand_lab.terminal import console_of
from rich.markup import escape

PROGRAMS = {
    "nginx": "nginx-light", "apache2": "apache2", "wrk": "wrk", "httperf": "httperf", "chromium": "chromium",
}  # fmt: skip
VERSIONS = ("2.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
LOAD_AT_REST = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to choose."""


def act(asked: argparse.Namespace) -> int:
    """Look; FAILED where a run could not even begin."""
    console = console_of()
    bad = 0

    def line(fine: bool | None, what: str, said: str) -> None:
        mark = {True: "[green]ok[/]  ", False: "[red]no[/]  ", None: "[yellow]note[/]"}[fine]
        console.print(f"{mark}  {what:<14}{escape(said)}")

    for what, ask in (("load engine", engine.found), ("uv", uv)):
        try:
            path = ask()
            line(True, what, f"{machine.program_version(path, '--version')} ({path})")
        except Problem as problem:
            line(False, what, f"{problem}; {problem.hint}")
            bad += 1
    try:
        with tempfile.TemporaryDirectory() as folder:
            speaking.certified(Path(folder), "localhost")
        line(True, "TLS", "the load engine speaks it, and makes certificates for servers")
    except Problem as problem:
        line(False, "TLS", f"{problem}; {problem.hint}")
        bad += 1
    for name, package in PROGRAMS.items():
        found = program(name)
        line(
            True if found else None,
            name,
            found or f"not here (Debian: {package}): what needs it is left out, and the report says so",
        )
    cluster = importlib.util.find_spec("distributed") is not None
    lacking = "not here: pip install distributed for load from several machines"
    line(True if cluster else None, "distributed", "here: --scheduler can be used" if cluster else lacking)
    here = [version for version in VERSIONS if interpreters.found(version)]
    line(True, "interpreters", ", ".join(here))
    for fine, what, said in circumstances():
        line(fine, what, said)
    return FAILED if bad else OK


def circumstances() -> list[tuple[bool | None, str, str]]:
    """Processors, limits, noise: what a figure of this machine has to be read with."""
    found: list[tuple[bool | None, str, str]] = []
    cores, now, told = machine.cores(), machine.counters(), machine.manifest()
    found.append((True if len(cores.server | cores.load) > 1 else None, "processors", cores.said))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft >= 12000
    found.append(
        (
            True if enough else None,
            "descriptors",
            f"{soft} (hard limit {hard})" + ("" if enough else ": mayhem needs 12,000"),
        )
    )
    found.append(
        (
            True if now.load < LOAD_AT_REST else None,
            "load",
            f"{now.load:.2f}"
            + ("" if now.load < LOAD_AT_REST else ": something else is running; points will be marked noisy"),
        )
    )
    ports = machine.ports()
    waiting = f"{now.time_wait} in TIME_WAIT of {ports} local ports"
    found.append((True if now.time_wait < ports * machine.TIME_WAIT_SHARE else None, "ports", waiting))
    found.append(
        (
            True if told["virtual"] == "no" else None,
            "virtual",
            told["virtual"]
            + ("" if told["virtual"] == "no" else ": the hypervisor's other guests are noise; steal is watched"),
        )
    )
    known = told["governor"] in ("performance", "not told")
    found.append((True if known else None, "governor", told["governor"]))
    somaxconn = int(told["sysctl"]["net.core.somaxconn"] or 0)
    found.append(
        (
            True if somaxconn >= 2048 else None,
            "listen queue",
            f"net.core.somaxconn {somaxconn}" + ("" if somaxconn >= 2048 else ": the lab asks for 2048"),
        )
    )
    room = shutil.disk_usage(".").free
    found.append((room > records.ROOM_BYTES, "disk", f"{room // 1024**3} GiB free here; environments are in {home()}"))
    return found

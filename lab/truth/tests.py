"""The truth tests: each plants something known and says what came back. A sentence where it was found,
`Wrong` where not.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forehand_lab import engine, estimates, histograms, machine, steadiness
from forehand_lab.launching import free_port
from forehand_lab.sampling import cpu_s, descendants, pss_kib
from forehand_lab.truth.stillness import awake, undisturbed

PLANTED = Path(__file__).with_name("planted.py")
COUNT = 12
#: How often a delay of 40 ms is looked for before it counts as not named.
LOOKS = 5
# Each of the long tests ends after this at the latest, and says how far it came.
LONG_SECONDS = 900
# Path, and the kind that the engine has to count for each request.
KINDS = {
    "/reset": "reset_before_reply",
    "/reset-in": "reset_in_reply",
    "/end": "end_before_reply",
    "/truncated": "truncated",
    "/extra": "extra_bytes",
    "/status-line": "bad_status_line",
    "/header": "bad_header",
    "/chunk": "bad_chunk",
    "/503": "wrong_status_503",
    "/body": "wrong_body",
    "/late": "first_byte_timeout",
    "/late-body": "body_timeout",
}
FAMILY = """
import os, sys, time
shared = bytearray(os.urandom(1024)) * (100 * 1024)
for _ in range(4):
    if os.fork() == 0:
        own = bytearray(os.urandom(1024)) * (10 * 1024)
        sys.stdout.write("ready\\n"); sys.stdout.flush()
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""


class Wrong(Exception):
    """What was planted did not come back."""


@contextlib.contextmanager
def planted(extra_us: float | str = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The scripted server: its port and its process."""
    cpus = machine.cores().server
    with subprocess.Popen(
        [sys.executable, str(PLANTED), str(extra_us)],
        stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    ) as process:  # fmt: skip
        try:
            assert process.stdout
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


def plan(port: int, target: str, load: dict[str, Any], seconds: float, **more: Any) -> dict[str, Any]:
    """A plan with one request that expects the pong."""
    request = {"name": "request", "target": target, "expect": {"status": [200], "body": "Pong!"}}
    return {
        "format": 1, "url": f"http://127.0.0.1:{port}{target}", "load": load, "duration_s": seconds, "drain_s": 3.0,
        "requests": [request], "cpus": sorted(machine.cores().load), **more,
    }  # fmt: skip


def close_to(found: float, right: float, share: float, what: str, least: float = 0.0) -> None:
    """Raises Wrong where a figure is further off than a share of the right one, or `least`."""
    if abs(found - right) > max(share * right, least):
        raise Wrong(f"{what} is {found:.4g}, not {right:.4g}")


def errors_are_counted_by_kind() -> str:
    """Twelve kinds of errors and a refused port, each in known numbers."""
    with planted() as (port, _):
        for path, kind in KINDS.items():
            load = {"kind": "closed", "connections": 2, "count": COUNT}
            more: dict[str, Any] = {}
            if "late" in path:
                # Short is only what shall end, as the server of faults may have to wait for a processor.
                patient = {"connect_s": 5.0, "first_byte_s": 5.0, "body_s": 5.0}
                more["timeouts"] = {**patient, kind.replace("timeout", "s"): 0.25}
            result = engine.run(plan(port, path, load, 10.0, keep_alive=False, **more))
            if result["errors"] != {kind: COUNT}:
                raise Wrong(f"{path}: {result['errors']}, not {kind} {COUNT} times")
    refused = plan(free_port(), "/ok", {"kind": "open", "arrivals": "uniform", "rate": 20}, 1.0)
    found = engine.run(refused)["errors"]
    if found != {"refused": 20}:
        raise Wrong(f"a closed port: {found}")
    return f"{len(KINDS)} kinds planted {COUNT} times each, and 20 refused connections: found exactly so"


def a_stopped_server_is_charged_for_its_pause() -> str:
    """500 requests/s for ten seconds, one of which the server is stopped: the tail is that of an open loop."""
    with planted("plain") as (port, process):
        # Eight connections: the queue is the generator's, whose clock is that of the plan.
        load = {"kind": "open", "arrivals": "uniform", "rate": 500, "max_connections": 8}
        with engine.loading(plan(port, "/ok", load, 10.0)) as running:
            time.sleep(4)
            begun = time.monotonic()
            process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            process.send_signal(signal.SIGCONT)
            pause = time.monotonic() - begun
            result = running.result()
    told = histograms.percentiles(histograms.merged([result["times"]["response"]["hdr"]]))
    # One in twenty of 5,000 is half a second of arrivals, one in a hundred a tenth. A busy machine wakes us late: the
    # pause is measured.
    for which, right in (("95", pause - 0.5), ("99", pause - 0.1), ("max", pause)):
        close_to((told[which] or 0) / 1e6, right, 0.05, f"p{which} of response, s")
    found = ", ".join(f"{which} {(told[which] or 0) / 1e6:.3f}" for which in ("95", "99", "max"))
    planned = f"95 {pause - 0.5:.3f}, 99 {pause - 0.1:.3f}, max {pause:.3f}"
    return f"a pause of {pause:.3f} s: planted percentiles {planned}; found {found}"


def two_delays_are_told_apart() -> str:
    """Nine requests in ten are answered after 5 ms, one after 50 ms: found within max(1 %, 100 us), counts exact."""
    with awake(), planted("delays") as (port, _):
        load = {"kind": "open", "arrivals": "uniform", "rate": 15}
        made = plan(port, "/ok", load, 10.0)
        made["requests"] = [
            {"name": str(us), "weight": weight, "target": f"/delay/{us}", "expect": {"status": [200], "body": "Pong!"}}
            for us, weight in ((5000, 9), (50000, 1))
        ]
        made["start_at"] = time.time() + 1
        with engine.loading(made) as running:
            undisturbed(running.process.pid)
            result = running.result()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/told", timeout=10) as reply:
            told = json.load(reply)
    # Service time, which begins with the work: how late the generator comes is told apart, and tested apart.
    service = histograms.merged([result["times"]["service"]["hdr"]])
    said = []
    for us, which in ((5000, 50), (50000, 95)):
        by_server, replies = told[f"/delay/{us}"], result["by_request"][str(us)]["replies"]
        if replies != len(by_server):
            raise Wrong(f"{replies} replies of {us} us, and {len(by_server)} were planted")
        # What the server's own clock says that it planted; the median, because neighbours may stop either for a while.
        right, found = statistics.median(by_server), service.get_value_at_percentile(which)
        close_to(found, right, 0.01, f"p{which} of service, us", least=100)
        said.append(f"{right / 1000:.3f} ms planted {len(by_server)} times, {found / 1000:.3f} found")
    return "; ".join(said)


def a_starved_generator_is_not_ranked() -> str:
    """The engine gets a twentieth of a processor: the point must be flagged, whatever the server did."""
    with planted() as (port, _):
        load = {"kind": "open", "arrivals": "uniform", "rate": 500}
        with engine.loading(plan(port, "/ok", load, 3.0)) as running:
            end = time.monotonic() + 3
            while time.monotonic() < end and running.process.poll() is None:
                running.process.send_signal(signal.SIGSTOP)
                time.sleep(0.095)
                running.process.send_signal(signal.SIGCONT)
                time.sleep(0.005)
            result = running.result()
    if result["generator"]["verdict"] != "at_fault" or not steadiness.marks(result, 3.0):
        raise Wrong(f"the verdict is {result['generator']['verdict']}")
    return f"flagged: {result['generator']['reasons'][0]}"


def no_descriptors_is_no_server_error() -> str:
    """The engine may open twenty files and is asked for two hundred connections."""
    with planted() as (port, _):
        load = {"kind": "open", "arrivals": "uniform", "rate": 200}
        # It begins later, when its limit is set: also where it takes a busy machine seconds to start it.
        with engine.loading(plan(port, "/delay/900000", load, 1.0, start_at=time.time() + 3)) as running:
            resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (32, 32))
            result = running.result()
    if result["errors"] or not result["generator"]["faults"].get("descriptor_unavailable"):
        raise Wrong(f"errors {result['errors']}, faults {result['generator']['faults']}")
    return f"0 server errors, {result['generator']['faults']['descriptor_unavailable']} faults of the generator"


def no_ports_is_no_server_error() -> str:
    """Twelve local ports and forty connections, in a network of its own: what has no port is no error of the server."""
    script = Path(__file__).with_name("ports.py")
    for flags in ("-n", "-rn"):
        words = ["unshare", flags, sys.executable, str(script), engine.found()]
        try:
            told = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        except FileNotFoundError:
            break
        if told.returncode == 0:
            return unported(json.loads(told.stdout), "12 ports for 40 connections")
        if "unshare" not in told.stderr:
            raise Wrong(f"in a network of its own: {told.stderr.strip().splitlines()[-1:]}")
    # No network of our own: an address that no machine has (RFC 5737) is told by the same lines of the engine.
    with planted() as (port, _):
        load = {"kind": "open", "arrivals": "uniform", "rate": 100}
        return unported(
            engine.run(plan(port, "/ok", load, 0.5, sources=["192.0.2.1"])), "no leave for a network; an address"
        )


def unported(result: dict[str, Any], what: str) -> str:
    """Raises Wrong unless the generator alone is at fault."""
    faults = result["generator"]["faults"].get("address_unavailable", 0)
    if result["errors"] or not faults or result["generator"]["verdict"] != "at_fault":
        raise Wrong(f"{what}: errors {result['errors']}, faults {result['generator']['faults']}")
    return f"{what}: 0 server errors, {faults} faults of the generator"


def shared_memory_is_counted_once() -> str:
    """Four children share 100 MB with each other and have 10 MB each."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout
            for _ in range(4):
                parent.stdout.readline()
            children = [pid for pid in descendants([parent.pid]) if pid != parent.pid]
            found = pss_kib(descendants([parent.pid])) / 1024
            bare = pss_of_an_interpreter()
        finally:
            for pid in descendants([parent.pid]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    close_to(found - bare, 140, 0.05, "PSS of the family, MiB")
    return (
        f"140 MiB planted, {found - bare:.1f} found over {len(children)} children, beside the interpreter's {bare:.0f}"
    )


def pss_of_an_interpreter() -> float:
    """MiB of five interpreters that are forked and do nothing."""
    code = FAMILY.replace("* (100 * 1024)", "").replace("* (10 * 1024)", "")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout
            for _ in range(4):
                parent.stdout.readline()
            return pss_kib(descendants([parent.pid])) / 1024
        finally:
            for pid in descendants([parent.pid]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def nagle_is_named() -> str:
    """Head and body in two segments: the mark names the 40 ms line, as soon as the machine lets 40 ms be seen."""
    seen = []
    with planted() as (port, _):
        # On a busy machine both ends wait for a processor, for longer than that: those looks say nothing.
        for _ in range(LOOKS):
            result = engine.run(plan(port, "/nagle", {"kind": "closed", "connections": 2}, 3.0))
            marks = [mark for mark in steadiness.marks(result, 3.0) if "40 ms" in mark]
            if marks:
                return marks[0]
            seen.append(result["times"]["transfer"]["percentiles_us"])
    raise Wrong(f"no mark in {LOOKS} looks: {seen}")


def cpu_per_request(port: int, pid: int, requests: int) -> float:
    """Microseconds of processor a reply of /work."""
    before = cpu_s([pid])
    result = engine.run(plan(port, "/work", {"kind": "closed", "connections": 1, "count": requests}, 20.0))
    return (cpu_s([pid]) - before) / int(result["totals"]["replies"]) * 1e6


def difference(extra_us: float, rounds: int = 8, requests: int = 1500) -> estimates.Comparison:
    """Two servers, one with more work: compared in interleaved rounds."""
    sides: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            with planted(extra_us if side == 0 else 0) as (port, process):
                sides[side].append(cpu_per_request(port, process.pid, requests))
    found = estimates.compared(*sides)
    assert found
    return found


def verdicts(extra_us: float, times: int, tick: Callable[[str], None]) -> list[str]:
    """So many comparisons, within a bound of time; each is told."""
    found: list[str] = []
    end = time.monotonic() + LONG_SECONDS
    for number in range(times):
        if time.monotonic() > end:
            raise Wrong(f"{number} of {times} comparisons in {LONG_SECONDS} s: this machine is too busy for an answer")
        comparison = difference(extra_us)
        found.append(comparison.verdict)
        tick(f"{number + 1} of {times}: ratio {comparison.ratio:.3f}, {comparison.verdict}")
    return found


def the_same_server_is_the_same(tick: Callable[[str], None] = lambda line: None) -> str:
    """Twenty comparisons of a server with itself: at most one may find a difference."""
    found = verdicts(0, 20, tick)
    same = found.count("no significant difference")
    if same < 19:
        raise Wrong(f"no difference in {same} of 20 only")
    return f"no significant difference in {same} of 20"


def five_per_cent_are_found(tick: Callable[[str], None] = lambda line: None) -> str:
    """Ten comparisons with a server that needs five per cent more processor time."""
    with planted() as (port, process):
        whole = cpu_per_request(port, process.pid, 3000)
    found = verdicts(0.05 * whole, 10, tick)
    if found.count("higher") < 9:
        raise Wrong(f"found in {found.count('higher')} of 10 only")
    return f"found in {found.count('higher')} of 10"


QUICK: tuple[Callable[[], str], ...] = (
    errors_are_counted_by_kind,
    two_delays_are_told_apart,
    a_stopped_server_is_charged_for_its_pause,
    a_starved_generator_is_not_ranked,
    no_descriptors_is_no_server_error,
    no_ports_is_no_server_error,
    shared_memory_is_counted_once,
    nagle_is_named,
)
LONG: tuple[Callable[[Callable[[str], None]], str], ...] = (the_same_server_is_the_same, five_per_cent_are_found)

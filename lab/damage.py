"""Durability: an application goes wrong while harmless requests go on; what does it cost, and whom?

One start of the server for each fault. Runs in the lab's main thread; faults are asked for from threads of their own.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

from forehand_lab import engine, machine, plan, sharing
from forehand_lab.behaviour import converse, head, read_reply
from forehand_lab.contestant import Contestant
from forehand_lab.environments import Environment
from forehand_lab.launching import Running, StartFailed
from forehand_lab.measuring import Bench, aim_at, cpu_here, serving
from forehand_lab.sampling import cpu_s, descendants, pss_kib
from forehand_lab.scenario import Fault
from forehand_lab.speaking import At

BEFORE_S = 1.0
COME_BACK_S = 5.0


def turn(bench: Bench, contestant: Contestant, environment: Environment, number: int, faults: list[Fault]) -> None:
    """All faults for one server, in one round."""
    for fault in faults:
        name = f"{number}-{contestant.name.replace(':', '-')}{fault.target.replace('/', '-')}.log"
        log = bench.logs / name
        try:
            with serving(bench, contestant, environment, log, number) as running:
                found = suffered(bench, running, fault)
                bench.tell(
                    "fault", round=number, server=contestant.name, target=fault.target, log=running.said(), **found
                )
        except (StartFailed, engine.EngineFailed) as failed:
            log_text = failed.log if isinstance(failed, StartFailed) else ""
            bench.tell("lost", round=number, server=contestant.name, point=fault.target, why=str(failed), log=log_text)
        bench.advance(bench.profile.seconds + 1)


def suffered(bench: Bench, running: Running, fault: Fault) -> dict[str, Any]:
    """What the fault did: to who asked for it, to the others, to the server."""
    roots = running.watched()
    pids_before = descendants(roots)
    memory_before = pss_kib(pids_before)
    background = plan.plan(bench.scenario, bench.profile, bench.profile.points[0], aim_at(bench, running))
    background["load"] = {"kind": "open", "arrivals": "uniform", "rate": bench.profile.points[0]}
    told: list[str] = []
    counted, spent = machine.counters(), cpu_s(pids_before) + time.process_time()
    begun = threading.Event()
    over = threading.Event()

    def ask() -> None:
        begun.wait()
        if not over.wait(BEFORE_S):
            told.extend(outcome(running.at, fault) for _ in range(fault.times))

    asking = threading.Thread(target=ask, name="fault")
    asking.start()
    try:
        result = bench.source.driven([background], begun=begun.set)[0]
        asking.join(fault.patience_s * fault.times + 5)
    finally:
        # A load that could not run must not leave a thread behind that waits for it.
        over.set()
        begun.set()
    back = comes_back(running)
    pids_after = descendants(roots)
    spent = cpu_s(pids_after) + time.process_time() - spent + cpu_here(result)
    marks = machine.marks(machine.between(counted, machine.counters(), max(spent, 0.0)), machine.ports())
    marks += sharing.marks(result)
    return {
        "told": sorted(set(told)) or ["still waiting"],
        "collateral": result["errors"],
        "background": {"started": result["totals"]["started"], "replies": result["totals"]["replies"]},
        "worst_ms": round((result["times"]["response"].get("max_us") or 0) / 1000, 1),
        "generator": result["generator"]["verdict"],
        "died": running.died(),
        "marks": marks,
        "back_s": back,
        "replaced": len(set(pids_after) - set(pids_before)),
        "pss_kib": [memory_before, pss_kib(pids_after)],
    }


def comes_back(running: Running) -> float | None:
    """Seconds until a harmless request is answered after it all; None where none is."""
    begun = time.monotonic()
    while time.monotonic() < begun + COME_BACK_S:
        with contextlib.suppress(OSError, ValueError):
            if converse(running.at, head("GET", "/ok", extra="Connection: close\r\n"))[0].status == 200:
                return round(time.monotonic() - begun, 2)
        time.sleep(0.1)
    return None


def outcome(at: At, fault: Fault) -> str:
    """What a client that asks for the fault gets, in words."""
    begun = time.monotonic()
    try:
        with at.connected(fault.patience_s) as sock:
            sock.settimeout(fault.patience_s)
            sock.sendall(head("GET", fault.target, extra="Connection: close\r\n"))
            if fault.target == "/endless":
                return _drunk(sock, begun + fault.patience_s)
            with sock.makefile("rb") as stream:
                reply = read_reply(stream)
            return f"{reply.status} and {len(reply.body)} bytes"
    except TimeoutError:
        return f"nothing within {fault.patience_s:g} s"
    except ConnectionResetError:
        return "a reset"
    except ConnectionRefusedError:
        return "refused"
    except (OSError, ValueError) as error:
        return str(error)


def _drunk(sock: socket.socket, end: float) -> str:
    size = 0
    while time.monotonic() < end:
        part = sock.recv(1 << 20)
        if not part:
            return f"an end after {size} bytes"
        size += len(part)
    return "a stream that goes on"

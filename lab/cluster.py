"""Load from several machines: hosts found at a dask scheduler that runs already, engines there, loads driven as one.

dask.distributed finds and reaches the hosts (one task each, bound to its worker); the time and the life of a load go
over lines of our own (lifeline.py), because a task's way through the scheduler is too slow and uneven for a clock, and
because a host that is cut off has to be noticed in seconds. Runs in the lab's main thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from forehand_lab import engine, machine, onhost, sharing
from forehand_lab.engine import BegunLate, EngineFailed
from forehand_lab.lifeline import Lifeline
from forehand_lab.problem import MISSING, SYSTEM, USAGE, Problem

# Scheduler and hosts are waited for so long, unless $FOREHAND_LAB_HOSTS_WAIT says otherwise.
WAIT_SECONDS = 10.0
PLACE_SECONDS = 60.0
# From the order to the planned moment: dask's way to the hosts, their clocks, the start of their engines, on machines
# that have other work as well. Twice as long from then on where one was late, up to the most.
LEAD_SECONDS, MOST_LEAD_SECONDS = 3.0, 12.0
# A host that is not there so long after that moment does not come.
LATEST_SECONDS = 2.0
LOOK_SECONDS = 0.05
MOST_HOSTS = 256
ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")


@dataclass(frozen=True)
class Host:
    """A machine that drives a part of the load: its address, its dask worker, its engine."""

    name: str
    worker: str
    engine: str
    path: str
    here: bool
    facts: Mapping[str, Any]


def address_towards(scheduler: str) -> str:
    """This machine's address as the scheduler's network sees it: what hosts can reach, if nobody says better."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((urlsplit(scheduler).hostname or "", 9))
        except OSError as error:
            raise Problem(SYSTEM, f"--scheduler {scheduler}: no way to that host: {error.strerror or error}") from None
        return str(probe.getsockname()[0])


def is_own(address: str) -> None:
    """Raises Problem where servers could not listen on this address."""
    try:
        with socket.create_server((address, 0)):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        hint = "name one that this machine has, and that the hosts can reach; `ip address` lists them"
        raise Problem(USAGE, f"--server-address {address}: servers cannot listen there: {why}", hint) from None


def host_of(worker: str) -> str:
    """The host of a worker's address. Pure."""
    return urlsplit(worker).hostname or worker


def one_each(workers: Sequence[str]) -> dict[str, str]:
    """One worker for each host: the first by address, so that the choice is the same each time. Pure."""
    found: dict[str, str] = {}
    for worker in sorted(workers):
        found.setdefault(host_of(worker), worker)
    return found


class Fleet:
    """The hosts, ready: `driven` is the same as that of engine.Here."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self.address = address
        self.hosts: dict[str, Host] = {}
        self._lead = LEAD_SECONDS

    def place(self, workers: Mapping[str, str]) -> None:
        """Put an engine on each host, and know their clocks. Raises Problem with one line for each host that cannot."""
        path = Path(engine.found())
        version, data = machine.program_version(str(path), "--version"), path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        told = self._all(onhost.placed, dict.fromkeys(workers, (version, digest, None)), workers)
        wanting = {host: (version, digest, data) for host, each in told.items() if each["wants"]}
        told.update(self._all(onhost.placed, wanting, workers))
        refused(told, "this host cannot drive a load")
        with Lifeline(self.address, workers) as line:
            clocks = self._all(onhost.clock, {host: (line.address, line.greeting(host)) for host in workers}, workers)
        for each in clocks.values():
            if not each["problem"] and each["uncertainty_s"] > sharing.UNCERTAIN_S:
                bound = sharing.UNCERTAIN_S * 1000
                each["problem"] = (
                    f"its clock can be known to within {each['uncertainty_s'] * 1000:.1f} ms only, and {bound:g} ms are"
                    " needed: it is too far away, or too busy"
                )
        refused(clocks, "this host cannot drive a load")
        for host, each in told.items():
            here = each["boot"] == onhost.boot()
            facts = {key: each[key] for key in ("machine", "kernel", "processors")} | {
                key: round(clocks[host][key], 6) for key in ("offset_s", "uncertainty_s")
            }
            self.hosts[host] = Host(host, workers[host], each["engine"], each["path"], here, facts)

    def _all(self, what: Callable[..., Any], orders: Mapping[str, tuple[Any, ...]], workers: Mapping[str, str]) -> Any:
        """One task on each host; what they say, or why they said nothing, as its `problem`."""
        futures = {host: self._submit(what, workers[host], order) for host, order in orders.items()}
        end = time.monotonic() + PLACE_SECONDS
        told: dict[str, Any] = {}
        for host, future in futures.items():
            while not future.done() and time.monotonic() < end and workers[host] in self.workers():
                time.sleep(LOOK_SECONDS)
            told[host] = said(future)
        return told

    def _submit(self, what: Callable[..., Any], worker: str, order: tuple[Any, ...]) -> Any:
        return self._client.submit(what, *order, workers=[worker], allow_other_workers=False, pure=False, retries=0)

    def workers(self) -> list[str]:
        """The addresses of the workers that the scheduler has now."""
        return list(self._client.nthreads())

    def present(self) -> None:
        """Raises EngineFailed where a host of this run has no worker any more; one that came back is taken again."""
        now = one_each(self.workers())
        for name, host in self.hosts.items():
            if name not in now:
                raise EngineFailed(f"host {name} is gone: the scheduler has no worker of it")
            if host.worker not in self.workers():
                self.place(
                    now if set(now) == set(self.hosts) else {each: now[each] for each in self.hosts if each in now}
                )
                return

    def driven(
        self,
        plans: Sequence[Mapping[str, Any]],
        tick: Callable[[dict[str, Any]], None] | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Runs these loads together on all hosts, from one moment on; one result for each plan.

        Raises EngineFailed; BegunLate where a host was not ready at that moment, and has more time when tried again.
        """
        self.present()
        orders = self._orders(plans)
        with Lifeline(self.address, orders, tick) as line:
            start_at = time.time() + self._lead
            futures = {
                host: self._submit(
                    onhost.driven,
                    self.hosts[host].worker,
                    (line.address, line.greeting(host), self.hosts[host].path, order, start_at),
                )
                for host, order in orders.items()
            }
            longest = max(float(plan["duration_s"]) + float(plan.get("drain_s", 5)) for plan in plans)
            try:
                self._await(futures, line, start_at, begun, self._lead + longest + engine.GRACE_SECONDS)
            finally:
                # Before the line ends: a task that has not begun yet must not begin.
                self._client.cancel([future for future in futures.values() if not future.done()], force=True)
        told = {host: said(future) for host, future in futures.items()}
        wrong = {host: each for host, each in told.items() if each["problem"]}
        if wrong:
            why = "; ".join(f"host {host}: {each['problem']}" for host, each in wrong.items())
            if self._lead < MOST_LEAD_SECONDS and all(each.get("late") for each in wrong.values()):
                self._lead *= 2
                raise BegunLate(why)
            raise EngineFailed(why)
        return [self._joined(number, told, start_at, orders) for number in range(len(plans))]

    def _orders(self, plans: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        """The plans of each host. Processors are named for engines on this machine only."""
        orders: dict[str, list[dict[str, Any]]] = {}
        for plan in plans:
            for host, part in sharing.parts(plan, sorted(self.hosts)).items():
                kept = part if self.hosts[host].here else {k: v for k, v in part.items() if k != "cpus"}
                orders.setdefault(host, []).append(kept)
        return orders

    def _await(
        self, futures: Mapping[str, Any], line: Lifeline, start_at: float, begun: Callable[[], None], seconds: float
    ) -> None:
        end, told, looked = time.monotonic() + seconds, False, time.monotonic()
        while not all(future.done() for future in futures.values()):
            if not told and time.time() >= start_at:
                told = True
                begun()
            for host, why in line.lost.items():
                if not futures[host].done():
                    raise EngineFailed(f"host {host} was lost while it drove the load: {why}")
            missing = [host for host, future in futures.items() if host not in line.came and not future.done()]
            if missing and time.time() > start_at + LATEST_SECONDS:
                raise EngineFailed(f"host {', '.join(missing)} did not come to the load: it is cut off, or too busy")
            now = time.monotonic()
            if now > looked + 1:
                looked, there = now, self.workers()
                for host, future in futures.items():
                    if not future.done() and self.hosts[host].worker not in there:
                        raise EngineFailed(f"host {host} was lost while it drove the load: its dask worker is gone")
            if now > end:
                late = [host for host, future in futures.items() if not future.done()]
                raise EngineFailed(f"host {', '.join(late)} did not end within {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)

    def _joined(
        self, number: int, told: Mapping[str, Any], start_at: float, orders: Mapping[str, list[dict[str, Any]]]
    ) -> dict[str, Any]:
        """One result of a plan, with what each host had in it; moments are of the lab's clock."""
        taking = {host: each for host, each in told.items() if len(orders[host]) > number}
        results = {host: each["results"][number] for host, each in taking.items()}
        joined = sharing.merged(results)
        joined["hosts"] = [
            {
                "host": host,
                "here": self.hosts[host].here,
                "planned_at": start_at,
                "started_at": result["started_at"] + taking[host]["offset_s"],
                "offset_s": taking[host]["offset_s"],
                "uncertainty_s": taking[host]["uncertainty_s"],
                "verdict": result["generator"]["verdict"],
                "cpu_s": result["generator"]["cpu_s"],
                **{name: result["totals"][name] for name in ("offered", "started", "replies", "failed")},
            }
            for host, result in results.items()
        ]
        joined["started_at"] = min(host["started_at"] for host in joined["hosts"])
        return joined

    def cores(self) -> machine.Cores:
        """Processors of this machine: all are the servers' where no host of the load is this machine itself."""
        own = machine.cores()
        names = ", ".join(sorted(self.hosts))
        if any(host.here for host in self.hosts.values()):
            return machine.Cores(
                own.server, own.load, f"{own.said}; the load from {names}, of which some are this machine"
            )
        everything = own.server | own.load
        shown = ", ".join(map(str, sorted(everything)))
        return machine.Cores(
            everything, frozenset(), f"servers on processor {shown}, the load on other machines: {names}"
        )

    def said(self) -> list[dict[str, Any]]:
        """For the record's manifest."""
        return [
            {"host": host.name, "worker": host.worker, "engine": host.engine, "here": host.here, **host.facts}
            for host in self.hosts.values()
        ]


def said(future: Any) -> dict[str, Any]:
    """What a task gave, in the form of onhost's answers."""
    if not future.done():
        return {"problem": "its dask worker does not answer", "wants": False}
    try:
        found: dict[str, Any] = future.result()
    except BaseException as error:  # noqa: B036  whatever dask or the task raises, cancellation included
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        lines = str(error).strip().splitlines()
        return {"problem": f"{type(error).__name__}: {lines[0] if lines else ''}".rstrip(": "), "wants": False}
    return found


def refused(told: Mapping[str, Mapping[str, Any]], what: str) -> None:
    """Raises Problem with the hosts that said no, each with its reason."""
    wrong = [f"{host}: {each['problem']}" for host, each in sorted(told.items()) if each["problem"]]
    if wrong:
        raise Problem(SYSTEM, f"{what}: {'; '.join(wrong)}")


def reached(scheduler: str) -> Any:
    """dask's client. Raises Problem in one line: no such address, no distributed, no scheduler."""
    if not ADDRESS.fullmatch(scheduler):
        raise Problem(USAGE, f"--scheduler {scheduler}: an address is like tcp://192.0.2.1:8786")
    try:
        import cloudpickle
        from distributed import Client
    except ModuleNotFoundError as error:
        lacking = f"--scheduler: load from several machines needs {error.name}"
        raise Problem(MISSING, lacking, "pip install distributed, here and on the hosts") from None
    # What the lab says of a lost host is one line; dask's own logs say the same in pages.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    cloudpickle.register_pickle_by_value(onhost)
    try:
        client: Any = Client
        return client(scheduler, timeout=patience(), set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        lines = str(error).splitlines()
        why = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        hint = "`dask scheduler` starts one; each host runs `dask worker tcp://SCHEDULER:8786`"
        raise Problem(SYSTEM, f"--scheduler {scheduler}: it cannot be reached: {why}", hint) from None


def patience() -> float:
    """Seconds. Raises Problem where the variable is no number."""
    text = os.environ.get("FOREHAND_LAB_HOSTS_WAIT", str(WAIT_SECONDS))
    try:
        return max(0.1, float(text))
    except ValueError:
        raise Problem(USAGE, f"$FOREHAND_LAB_HOSTS_WAIT: '{text}' is no number of seconds") from None


def same_python(client: Any, workers: Mapping[str, str]) -> None:
    """Raises Problem where a host runs another Python: dask cannot send it code."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    told = client.run(
        lambda: __import__("platform").python_version(), workers=list(workers.values()), on_error="return"
    )
    for host, worker in workers.items():
        version = str(told.get(worker))
        if not version.startswith(f"{own}."):
            raise Problem(SYSTEM, f"host {host} runs Python {version}, the lab {own}: dask wants the same on both")


@contextlib.contextmanager
def gathered(scheduler: str, wanted: int | None, address: str | None) -> Iterator[Fleet]:
    """The hosts of a scheduler, ready to drive loads; let go when the block is left."""
    client = reached(scheduler)
    try:
        own = address or address_towards(scheduler)
        is_own(own)
        made = Fleet(client, own)
        end = time.monotonic() + patience()
        while len(one_each(made.workers())) < (wanted or 1) and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        workers = one_each(made.workers())
        if len(workers) < (wanted or 1):
            asked = f"{wanted} hosts were asked for" if wanted else "a host is needed"
            there = f"{len(workers)} ({', '.join(workers)})" if workers else "none"
            hint = f"run `dask worker {scheduler}` on each; several workers of one host count once"
            raise Problem(SYSTEM, f"--scheduler {scheduler}: {asked}, and the scheduler has {there}", hint)
        workers = dict(list(workers.items())[: wanted or MOST_HOSTS])
        same_python(client, workers)
        made.place(workers)
        yield made
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=5)

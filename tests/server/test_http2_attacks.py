"""Attacks of HTTP/2 that have names, each played on one connection at a time while another client asks: what they cost.

`make attacks` plays each for ten seconds from one connection, and says how soon that is ended and how long the other
client waits, beside what it waits for alone; then for as long from one connection after the other, as an attacker
comes again at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from h2attacks import ATTACKS, Attack, Ending, play
from h2client import CALM, PATIENCE, Client
from serving import HERE, Serving
from torment.looking import forget_peak, holding

#: How long each is played.
SECONDS = float(os.environ.get("FOREHAND_ATTACK_SECONDS", "0.5"))
#: Streams of one connection, and what it may do besides that serves no request (`h2_streams`, `h2_glitches`).
STREAMS, GLITCHES, FORGIVEN_A_SECOND = 128, 200, 33
#: More memory than before, at the most of it, for one connection, and in the end for all of them. 128 greenlets that
#: wait are 1.4 MiB of that: frames, and a stack that is copied away.
MEMORY_KIB = 4 * 1024

DRIVERS = {
    "threads": ("many:application", "--threads=4"),
    "asyncio": ("many:app", "--loop=asyncio"),
    "gevent": ("many:application", "--worker-class=gevent"),
}
#: What makes the application begin something, under each driver; the others under threads.
CALLING = [attack for attack in ATTACKS if "reset" in attack.name or "windows" in attack.name]
PLAYED = [("threads", attack) for attack in ATTACKS]
PLAYED += [(driver, attack) for driver in ("asyncio", "gevent") for attack in CALLING]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Serving]]:
    """One for each driver, from its first attack on."""
    started: dict[str, Serving] = {}
    yield started
    for server in started.values():
        server.kill()


@contextmanager
def beside(server: Serving) -> Iterator[dict[str, Any]]:
    """A client of its own process that asks all the time; what it has seen, behind the block."""
    command = [sys.executable, str(HERE / "bystander.py"), server.urls[1].rpartition(":")[2], "/bytes/3"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout and asking.stdout.readline() == "ready\n"
        seen: dict[str, Any] = {}
        yield seen
        seen |= json.loads(asking.communicate(timeout=PATIENCE)[0])


def called(server: Serving) -> int:
    """How often the application was asked for what the attacks ask for."""
    with Client(server.port) as client:
        return sum(int(client.get(f"/count/{kind}")) for kind in ("bytes", "digest", "endless"))


def again(attack: Attack, server: Serving, end: float) -> list[Ending]:
    """More of its connections, one after the other, until then."""
    found = []
    while attack.calms and time.monotonic() < end:
        # The last one has the time that it needs.
        found.append(play(attack, server.port, time.monotonic() + PATIENCE))
    return found


@pytest.mark.parametrize(("driver", "attack"), PLAYED, ids=lambda one: getattr(one, "name", one))
def test_an_attack_costs_little(servers: dict[str, Serving], driver: str, attack: Attack) -> None:
    if driver not in servers:
        # Nobody is trusted to speak for others.
        options = ("--bind=h2c://127.0.0.1:0", "--bind=127.0.0.1:0", "--forwarded-allow-ips=192.0.2.1")
        servers[driver] = Serving(*DRIVERS[driver], *options, "--workers=1")
    server = servers[driver]
    with beside(server) as alone:
        time.sleep(min(SECONDS, 3))
    worker = server.status()["workers"][0]["pid"]
    calls = called(server)
    with beside(server) as seen:
        # Somebody is connected from here on: what is given back when nobody is has been, or is not.
        forget_peak(worker)
        before = holding(worker)
        end = time.monotonic() + SECONDS
        # One that is to be told to be calm goes on until it is.
        endings = [play(attack, server.port, time.monotonic() + PATIENCE if attack.calms else end)]
        first = holding(worker)
        time.sleep(max(0, end - time.monotonic()))
    with beside(server) as meanwhile:
        # Whoever comes again at once finds its last connections not yet taken apart: they are several then.
        endings += again(attack, server, time.monotonic() + SECONDS)
    after = holding(worker)
    assert before and first and after, "the worker lives"
    assert [ending.code for ending in endings] == [CALM if attack.calms else None] * len(endings)
    allowed = sum(STREAMS + GLITCHES + FORGIVEN_A_SECOND * (ending.seconds + 1) + ending.answered for ending in endings)
    asked = called(server) - calls - seen["replies"] - meanwhile["replies"]
    more_kib, stays_kib = first.peak_kib - before.rss_kib, after.anonymous_kib - before.anonymous_kib
    ended = f"ended after {endings[0].seconds:.2f} s (wanted: 1)" if attack.calms else "not ended, as it is no flood"
    print(
        f"\n{driver}, {attack.name}: {ended}; {more_kib} KiB more (wanted: {MEMORY_KIB}); the other client's p99"
        f" {seen['p99_ms']:.1f} ms, alone {alone['p99_ms']:.1f} (wanted: twice that)"
    )
    if len(endings) > 1:
        print(
            f"    {len(endings)} connections, one after the other: {asked} calls, {after.peak_kib - before.rss_kib} KiB"
            f" more for all, of which {stays_kib} stay; the other client's p99 {meanwhile['p99_ms']:.1f} ms"
        )
    assert asked <= allowed
    assert more_kib <= MEMORY_KIB and stays_kib <= MEMORY_KIB

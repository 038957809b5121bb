"""The lab's end of the lines to its hosts: tells them the time, hears how their engines do, notices when one is gone.

A thread for each host that calls, and one that waits for calls. Knows lab/onhost.py's few words; knows neither dask
nor plans.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

# A host that has said nothing for so long is lost; it says something twice a second.
SILENT_SECONDS = 10.0
MOST_LINE_BYTES = 65536
SUMMED = ("offered", "started", "replies", "open_connections", "queued", "bytes_received")


class Lifeline:
    """`with Lifeline(address, hosts, tick) as line:`; `came` has who is there, `lost` who is gone, and why."""

    def __init__(
        self, address: str, hosts: Iterable[str], tick: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self._hosts = {f"{secrets.token_hex(16)} {host}": host for host in hosts}
        self._tick = tick
        self._listener = socket.create_server((address, 0), backlog=len(self._hosts) + 8)
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._seconds: dict[int, dict[str, dict[str, Any]]] = {}
        self._closed = False
        self.lost: dict[str, str] = {}
        self.came: set[str] = set()
        self.address: tuple[str, int] = (address, self._listener.getsockname()[1])

    def greeting(self, host: str) -> str:
        """What this host has to say first, so that nobody else is taken for it."""
        return next(greeting for greeting, name in self._hosts.items() if name == host)

    def __enter__(self) -> Lifeline:
        threading.Thread(target=self._wait, name="lab-hosts", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Hosts see the end of their line and end their engines."""
        with self._lock:
            self._closed = True
            sockets, self._open = self._open, []
        # shutdown wakes a thread that waits in accept or recv; close alone does not.
        for sock in (self._listener, *sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _wait(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                with self._lock:
                    if self._closed:
                        sock.close()
                        return
                    self._open.append(sock)
                threading.Thread(target=self._hear, args=(sock,), name="lab-host", daemon=True).start()

    def _hear(self, sock: socket.socket) -> None:
        host, why = "", "its line to the lab ended"
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(SILENT_SECONDS)
            with sock.makefile("rb") as lines:
                host = self._hosts.get(lines.readline(MOST_LINE_BYTES).decode(errors="replace").strip(), "")
                if not host:
                    sock.close()
                    return
                self.came.add(host)
                while line := lines.readline(MOST_LINE_BYTES):
                    if line == b"?\n":
                        sock.sendall(f"{time.time():.9f}\n".encode())
                    elif line == b"done\n":
                        return
                    elif line.startswith(b"{"):
                        self._second(host, json.loads(line))
        except TimeoutError:
            why = f"it has said nothing for {SILENT_SECONDS:g} s"
        except (OSError, ValueError) as error:
            why = f"its line to the lab broke: {error}"
        if host and not self._closed:
            self.lost[host] = why

    def _second(self, host: str, told: dict[str, Any]) -> None:
        """A second of one host; once all have told it, it is told on as one."""
        if not self._tick:
            return
        with self._lock:
            rows = self._seconds.setdefault(int(told["second"]), {})
            rows[host] = told
            if len(rows) < len(self._hosts):
                return
            del self._seconds[int(told["second"])]
        # The slowest host's percentile stands for all while it runs; the record has them merged.
        slowest = max((row.get("p99_us") or 0 for row in rows.values()), default=0)
        summed = {name: sum(row.get(name) or 0 for row in rows.values()) for name in SUMMED}
        self._tick({**summed, "second": told["second"], "p99_us": slowest})

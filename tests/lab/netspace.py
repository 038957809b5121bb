"""Three hosts in network namespaces of their own, behind a bridge: as article A had three load machines.

Everything is named after this process, and gone when the block is left: processes, namespaces, links.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from iproute import ip

HOSTS = 3
READY_SECONDS = 60


@dataclass
class Net:
    """The bridge's address, the hosts', the scheduler's; and what runs there."""

    tag: str
    prefix: str
    folder: Path
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)

    @property
    def own(self) -> str:
        """The address of the machine that serves."""
        return f"{self.prefix}.1"

    @property
    def hosts(self) -> list[str]:
        """The addresses of the machines that load."""
        return [f"{self.prefix}.{number + 11}" for number in range(HOSTS)]

    @property
    def scheduler(self) -> str:
        """Where dask's scheduler listens."""
        return (self.folder / "scheduler").read_text().strip()

    def start(self, name: str, code: str, *arguments: str, space: str = "") -> subprocess.Popen[bytes]:
        """A Python process, perhaps in a namespace; it has said that it is ready when this returns."""
        words = [sys.executable, "-c", code, *arguments]
        log = (self.folder / f"{name}.log").open("wb")
        # These are other machines: an engine that is named here is none of theirs.
        surroundings = {key: value for key, value in os.environ.items() if key != "FOREHAND_LOAD"}
        ready = self.folder / f"{name}.ready"
        process = subprocess.Popen(
            ["ip", "netns", "exec", space, *words] if space else words,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**surroundings, "READY": str(ready), "TMPDIR": str(self.folder)}, cwd=self.folder,
        )  # fmt: skip
        log.close()
        self.processes.append(process)
        end = time.monotonic() + READY_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{name} did not start: {(self.folder / f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.05)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """A process and its group, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


SCHEDULER = """
import asyncio, os, pathlib, sys
from distributed import Scheduler
async def main():
    async with Scheduler(host=sys.argv[1], port=0, dashboard=False) as scheduler:
        pathlib.Path("scheduler").write_text(scheduler.address)
        pathlib.Path(os.environ["READY"]).touch()
        await scheduler.finished()
asyncio.run(main())
"""
WORKER = """
import asyncio, os, pathlib, sys
from distributed import Worker
async def main():
    async with Worker(sys.argv[1], host=sys.argv[2], nthreads=1, dashboard=False) as worker:
        pathlib.Path(os.environ["READY"]).touch()
        await worker.finished()
asyncio.run(main())
"""


@contextlib.contextmanager
def three_hosts(folder: Path) -> Iterator[Net]:
    """A bridge with an address here, three namespaces on it with a dask worker each, a scheduler here."""
    number = os.getpid() % 65536
    # 198.18.0.0/15 is for benchmarks (RFC 2544): nobody's network.
    net = Net(f"{number:x}", f"198.{18 + number % 2}.{number // 2 % 256}", folder)
    bridge = f"lab{net.tag}"
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("address", "add", f"{net.own}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for each, address in enumerate(net.hosts):
            space, outer = f"lab{net.tag}-{each}", f"lb{net.tag}-{each}"
            ip("netns", "add", space)
            net.spaces.append(space)
            ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outer, "master", bridge, "up")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
        net.start("scheduling", SCHEDULER, net.own)
        for space, address in zip(net.spaces, net.hosts, strict=True):
            net.workers[address] = net.start(space, WORKER, net.scheduler, address, space=space)
        yield net
    finally:
        for process in net.processes:
            net.end(process)
        for space in net.spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["ip", "link", "delete", bridge], capture_output=True, check=False)

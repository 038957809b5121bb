"""The machine: what it is, for the manifest; what goes on in it, for the marks; which processor is for whom.

Reads /proc and /sys. Changes nothing.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# A point is marked noisy beyond these; METHOD.md has the reasons.
STEAL_SHARE = 0.02
OTHERS_SHARE = 0.15
TIME_WAIT_SHARE = 0.5


@dataclass(frozen=True)
class Cores:
    """Processors for servers, and for the load."""

    server: frozenset[int]
    load: frozenset[int]
    said: str


@dataclass(frozen=True)
class Counters:
    """What the kernel counts, at one moment. Ticks are of all processors together."""

    busy: int
    steal: int
    total: int
    time_wait: int
    listen_overflows: int
    listen_drops: int
    load: float


def cores(available: frozenset[int] | None = None) -> Cores:
    """The last quarter of the processors (one at least) for the load, the others for servers."""
    all_of_them = sorted(os.sched_getaffinity(0) if available is None else available)
    if len(all_of_them) == 1:
        only = frozenset(all_of_them)
        return Cores(only, only, "one processor for server and load: figures are of both together")
    taken = max(1, len(all_of_them) // 4)
    server, load = all_of_them[:-taken], all_of_them[-taken:]

    def shown(numbers: list[int]) -> str:
        return ", ".join(map(str, numbers))

    said = f"servers on processor {shown(server)}, the load on {shown(load)}"
    return Cores(frozenset(server), frozenset(load), said)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def counters() -> Counters:
    """Now."""
    fields = [int(word) for word in _read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq, steal = (*fields, *[0] * 8)[:8]
    busy = user + nice + system + irq + softirq
    waiting = re.search(r"^TCP:.* tw (\d+)", _read("/proc/net/sockstat"), re.M)
    lines = [line.split() for line in _read("/proc/net/netstat").splitlines() if line.startswith("TcpExt:")]
    tcp = dict(zip(lines[0], lines[1], strict=False)) if len(lines) >= 2 else {}
    return Counters(
        busy=busy,
        steal=steal,
        total=busy + idle + iowait + steal,
        time_wait=int(waiting[1]) if waiting else 0,
        listen_overflows=int(tcp.get("ListenOverflows", 0)),
        listen_drops=int(tcp.get("ListenDrops", 0)),
        load=os.getloadavg()[0],
    )


def between(before: Counters, after: Counters, own_cpu_s: float) -> dict[str, Any]:
    """What went on from one moment to the other; `own_cpu_s` is what server, load and lab used themselves."""
    ticks = max(after.total - before.total, 1)
    hertz = os.sysconf("SC_CLK_TCK")
    others = max((after.busy - before.busy) / hertz - own_cpu_s, 0.0)
    return {
        "steal_share": (after.steal - before.steal) / ticks,
        "others_share": others / (ticks / hertz),
        "time_wait": after.time_wait,
        "listen_overflows": after.listen_overflows - before.listen_overflows,
        "listen_drops": after.listen_drops - before.listen_drops,
        "load": after.load,
    }


def ports() -> int:
    """How many local ports connections can have."""
    words = _read("/proc/sys/net/ipv4/ip_local_port_range").split()
    return int(words[1]) - int(words[0]) + 1 if len(words) == 2 else 28232


def marks(noise: Mapping[str, Any], local_ports: int) -> list[str]:
    """Why a point is noisy, in sentences. Pure. An empty list is a quiet machine."""
    found = []
    if noise["steal_share"] > STEAL_SHARE:
        found.append(f"noisy: the hypervisor took {noise['steal_share']:.0%} of the processors")
    if noise["others_share"] > OTHERS_SHARE:
        found.append(f"noisy: other processes used {noise['others_share']:.0%} of the processors")
    if noise["time_wait"] > TIME_WAIT_SHARE * local_ports:
        found.append(f"noisy: {noise['time_wait']} connections in TIME_WAIT of {local_ports} local ports")
    if noise["listen_overflows"] > 0:
        found.append(f"the listen queue overflowed {noise['listen_overflows']} times: refused or late connections")
    return found


def manifest() -> dict[str, Any]:
    """What the report has to tell of the machine, so that somebody else's figures can be told from these."""
    cpuinfo = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    memory = re.search(r"^MemTotal:\s+(\d+)", _read("/proc/meminfo"), re.M)
    sysctl = {
        name: _read(f"/proc/sys/{name.replace('.', '/')}").strip()
        for name in ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.ip_local_port_range",
                     "net.ipv4.tcp_tw_reuse", "fs.file-max")
    }  # fmt: skip
    import resource

    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    return {
        "processor": model[1] if model else platform.processor() or "unknown",
        "processors": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
        "kernel": platform.release(),
        "system": re.sub(
            r'"', "", (re.search(r"^PRETTY_NAME=(.+)$", _read("/etc/os-release"), re.M) or ["", "unknown"])[1]
        ),
        "virtual": _virtual(cpuinfo),
        "governor": governor or "not told",
        "python": sys.version.split()[0],
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "sysctl": sysctl,
        "pinning": cores().said,
        "noise_at_start": asdict(counters()),
    }


def _virtual(cpuinfo: str) -> str:
    if " hypervisor" not in cpuinfo:
        return "no"
    product = _read("/sys/class/dmi/id/product_name").strip()
    return f"yes ({product})" if product else "yes"


def program_version(path: str, *arguments: str) -> str:
    """The first line that a program says of itself."""
    try:
        told = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (told.stdout + told.stderr).strip().split("\n")[0]

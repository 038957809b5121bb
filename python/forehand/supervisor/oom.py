"""Whether it was the kernel that ended a process, because memory was short.

Knows: where Linux counts whom its OOM killer has ended, and how much memory a control group may have. Does not know:
whose process it was. Runs in the supervisor, which is in its workers' group.

A process that the OOM killer ends is one that was ended by SIGKILL, as if somebody had sent it. The kernel counts it
before it sends the signal, so that the count has grown when the process is reaped:

    cgroup v2   <group>/memory.events        oom_kill 3    of the group and all below
    cgroup v1   <group>/memory.oom_control   oom_kill 3    of the group
    no group    /proc/vmstat                 oom_kill 3    of the machine
"""

from __future__ import annotations

import os

#: Where control groups are mounted, by whether it is v2; of the machines that have both, memory belongs to one.
MOUNTS = (("/sys/fs/cgroup", True), ("/sys/fs/cgroup/unified", True), ("/sys/fs/cgroup/memory", False))
MACHINE = "/proc/vmstat"
#: A kill that was counted so long ago, in seconds, was another process's, as one that a worker has started.
FORGOTTEN_AFTER = 60.0
#: More than this is what v1 says where there is no limit.
NO_LIMIT = 1 << 60


def kills(text: str) -> int | None:
    """How many processes the OOM killer has ended, by what one of those files says; None: it does not say."""
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill" and count.strip().isdigit():
            return int(count)
    return None


def groups(text: str) -> tuple[str | None, str | None]:
    """A process's groups for memory in v2 and v1, by its /proc/PID/cgroup, as paths below what is mounted."""
    second = first = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            second = path
        elif "memory" in controllers.split(","):
            first = path
    return second, first


def limit(texts: list[str]) -> int:
    """The smallest of the limits that these files of one number each have, in bytes; zero: none has one."""
    found = [int(text) for text in map(str.strip, texts) if text.isdigit()]
    return min((one for one in found if one < NO_LIMIT), default=0)


class OomKiller:
    """What the OOM killer has done to processes of this group. `root`: the folder that has `proc` and `sys`."""

    def __init__(self, root: str = "/") -> None:
        self.root = root
        self.folder = ""
        self.file = self._find()
        self.count = self._read() or 0
        #: Kills that were counted and belong to no process yet, and when the last of them was seen.
        self.unclaimed = 0
        self.seen = 0.0

    def _find(self) -> str:
        """The file to read: that of the process's own group, or where it cannot be seen from here that of the group
        that a container was given as its root; or the machine's."""
        second, first = groups(_text(os.path.join(self.root, "proc/self/cgroup")))
        for mount, is_second in MOUNTS:
            path = second if is_second else first
            if path is None:
                continue
            place = os.path.join(self.root, mount.lstrip("/"))
            for folder in (os.path.join(place, path.lstrip("/")).rstrip("/"), place):
                file = os.path.join(folder, "memory.events" if is_second else "memory.oom_control")
                if kills(_text(file)) is not None:
                    self.folder = folder
                    return file
        return os.path.join(self.root, MACHINE.lstrip("/"))

    def _read(self) -> int | None:
        return kills(_text(self.file))

    def look(self, now: float) -> bool:
        """Note what has come since the last look, at a time in seconds; whether the kernel tells."""
        count = self._read()
        if count is None:
            return False
        if count > self.count:
            self.unclaimed += count - self.count
            self.seen = now
        elif now - self.seen > FORGOTTEN_AFTER:
            self.unclaimed = 0
        self.count = count
        return True

    def has_killed(self, now: float) -> bool | None:
        """Whether it has ended a process that was ended by SIGKILL just now; None: nobody can say. Each kill is told of
        one process."""
        if not self.look(now):
            return None
        if self.unclaimed:
            self.unclaimed -= 1
            return True
        return False

    def allowed(self) -> int:
        """How much memory the group may have, with those that it is in, in bytes; zero: no limit is seen."""
        texts, folder = [], self.folder
        while folder and kills(_text(os.path.join(folder, os.path.basename(self.file)))) is not None:
            texts += [_text(os.path.join(folder, name)) for name in ("memory.max", "memory.limit_in_bytes")]
            folder = os.path.dirname(folder)
        return limit(texts)


def told(killed: bool | None, peak_kib: int, allowed: int) -> str:
    """What is said of a process that SIGKILL has ended, which nobody of this server has sent. `peak_kib`: the most that
    it has held (getrusage(2), ru_maxrss)."""
    if killed is False:
        return "was ended by signal 9 (SIGKILL) from somebody, not the OOM killer"
    facts = [f"it has held up to {peak_kib / 1024:.0f} MiB"] if peak_kib else []
    if killed and allowed:
        facts.append(f"its control group may hold {allowed / (1 << 20):.0f} MiB")
    shown = f" ({', '.join(facts)})" if facts else ""
    who = "the OOM killer" if killed else "signal 9 (SIGKILL) from somebody, maybe the OOM killer"
    return f"was ended by {who}{shown}"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

"""What a process holds of the machine's memory.

Knows: /proc. Does not know: how much is too much. PSS counts a page that n processes share as
an n-th for each (proc(5), smaps_rollup); RSS counts it whole for all, and costs less to ask.
"""

from __future__ import annotations

import os


def kib(pid: int, kind: str = "pss") -> int:
    """KiB of PSS or RSS of a process; zero where it is gone or may not be looked at."""
    found = read(pid)
    return found.get("pss" if kind == "pss" else "rss", 0) or _rss(pid)


def _rss(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except (OSError, IndexError, ValueError):
        return 0


def read(pid: int) -> dict[str, int]:
    """KiB: `pss`, `rss`, `shared` (pages that others have too) and `private`."""
    found: dict[str, int] = {}
    names = {
        "Rss": "rss", "Pss": "pss", "Shared_Clean": "shared", "Shared_Dirty": "shared", "Private_Clean": "private",
        "Private_Dirty": "private",
    }  # fmt: skip
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in names:
                    found[names[name]] = found.get(names[name], 0) + int(rest.split()[0])
    except (OSError, IndexError, ValueError):
        return {}
    return found

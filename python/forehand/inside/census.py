"""What is in this process's memory: how many objects of which type, how long which containers are, and what has grown.

Knows: the collector's list of objects, and what those refer to. Does not know: who asks. Runs in a forked child, whose
objects are copies: nothing that is done with them concerns the worker.
"""

from __future__ import annotations

import array
import collections
import functools
import gc
import json
import os
import sys
from typing import Any

from forehand.inside import holders

#: Types, containers and places of allocation that are told.
MOST = 15
#: Of so many types it is looked what holds them, by so many objects of each.
TRACED, LOOKED_AT = 5, 10
CONTAINERS = (list, dict, set, collections.deque)
#: Types whose objects refer to no others.
LEAVES = frozenset((str, bytes, bytearray, int, float, complex, bool))
CACHE = type(functools.lru_cache(lambda: None))
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

#: The addresses of so many objects are remembered, to know which are new; of more it is any that are looked at.
REMEMBERED = 4_000_000
#: Objects and bytes.
Sum = list[int]


def tell(fd: int, before: int, *, first: bool) -> None:
    """Count. The first time the numbers are kept in the file `before`; the second time, or where there is nothing in
    it, what has been found goes to `fd`, a line of JSON."""
    gc.disable()
    lines = [] if first else allocated()
    gc.unfreeze()
    if first:
        census = Census(frozenset())
        with os.fdopen(os.dup(before), "wb") as file:
            file.write(json.dumps([census.types(), containers()]).encode() + b"\n")
            if len(census.seen) <= REMEMBERED:
                array.array("Q", census.seen).tofile(file)
        return
    with os.fdopen(os.dup(before), "rb") as kept:
        kept.seek(0)
        line = kept.readline()
        addresses = array.array("Q", kept.read())
    earlier = frozenset(addresses)
    del addresses, kept
    census = Census(earlier)
    # Not before: what is made of it would be counted, too.
    was, held_before = json.loads(line or b"[{}, {}]")
    types = census.types()
    rows = grown_types(was, types)
    # Of all that there is, nothing in particular is held by something.
    for row in rows[:TRACED] if was else []:
        row["held_by"] = holders.of(census.newest(row["type"]))
    sums = [[sum(one[at] for one in both.values()) for at in (0, 1)] for both in (was, types)]
    found = {
        "objects": sums[1][0], "bytes": sums[1][1], "before": sums[0], "types": rows,
        "containers": grown_containers(held_before, containers()), "allocated": lines,
    }  # fmt: skip
    with os.fdopen(os.dup(fd), "w") as out:
        out.write(json.dumps({"found": found}) + "\n")


def name_of(kind: type) -> str:
    """A type as code names it."""
    try:
        module, name = kind.__module__, kind.__qualname__
    except Exception:  # a class may do what it likes with its names
        return type.__repr__(kind)
    return str(name) if module == "builtins" else f"{module}.{name}"


def size_of(thing: object) -> int:
    """Bytes of an object alone, without what it refers to."""
    try:
        return sys.getsizeof(thing, 0)
    except Exception:  # `__sizeof__` is anybody's
        return 0


class Census:
    """All objects by their types. `earlier`: addresses of objects that were there before."""

    def __init__(self, earlier: frozenset[int]) -> None:
        self.earlier = earlier
        self.seen: set[int] = set()
        self._kinds: dict[type, Sum] = {}
        #: Of each type some that are new, the newest last; each with the way down to it from what the collector knows.
        self._new: dict[type, collections.deque[holders.Sample]] = {}
        own = {id(one) for one in (self, self.__dict__, earlier, self.seen, self._kinds, self._new)}
        for thing in gc.get_objects():
            if id(thing) not in own:
                self._count(thing, ())
                self._count_below(thing)

    def _count_below(self, tracked: Any) -> None:
        """What the collector does not know is found by what refers to it, which it knows."""
        waiting: list[tuple[Any, ...]] = [(tracked,)]
        while waiting:
            way = waiting.pop()
            for one in gc.get_referents(way[-1]):
                if not gc.is_tracked(one) and id(one) not in self.seen and not isinstance(one, type):
                    self._count(one, way)
                    # Dictionaries and tuples of nothing but numbers and texts are among what it does not know.
                    if type(one) not in LEAVES:
                        waiting.append((*way, one))

    def _count(self, thing: Any, way: tuple[Any, ...]) -> None:
        kind = type(thing)
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = [0, 0]
            self._new[kind] = collections.deque(maxlen=LOOKED_AT)
        known[0] += 1
        known[1] += size_of(thing)
        self.seen.add(id(thing))
        if id(thing) not in self.earlier:
            self._new[kind].append((thing, way))

    def types(self) -> dict[str, Sum]:
        """Objects and bytes of each type, by its name."""
        sums: dict[str, Sum] = {}
        for kind, known in self._kinds.items():
            both = sums.setdefault(name_of(kind), [0, 0])
            both[0] += known[0]
            both[1] += known[1]
        return sums

    def newest(self, name: str) -> list[holders.Sample]:
        """Some objects of the types of that name."""
        return [both for kind, some in self._new.items() if name_of(kind) == name for both in some]


def containers() -> dict[str, list[Any]]:
    """Lengths and kinds of what modules and classes hold, by their names: `shop.views.CACHE`."""
    found: dict[str, list[Any]] = {}
    seen: set[int] = set()

    def look(name: str, value: Any) -> None:
        length = length_of(value)
        if length is not None and id(value) not in seen:
            seen.add(id(value))
            found[name] = [length, type(value).__name__ if not isinstance(value, CACHE) else "lru_cache"]

    def look_into(name: str, module: str, value: Any) -> None:
        look(name, value)
        kind = type(value)
        if isinstance(value, type):
            if value.__dict__.get("__module__") == module:
                for attribute, one in list(value.__dict__.items()):
                    if not _is_pythons(attribute):
                        look(f"{name}.{attribute}", one)
        elif kind.__module__ != "builtins":
            for attribute, one in holders.attributes(value):
                look(f"{name}.{attribute}", one)

    for module, names in holders.modules():
        if module.partition(".")[0] in sys.stdlib_module_names:
            continue
        for key, value in [pair for pair in names.items() if not _is_pythons(pair[0])]:
            try:
                look_into(f"{module}.{key}", module, value)
            except Exception:
                continue  # what objects say of themselves is their own affair
    return found


def _is_pythons(name: str) -> bool:
    """Whether it is what Python itself puts into modules and classes, such as `__builtins__` and `__annotations__`."""
    return name[:2] == name[-2:] == "__"


def length_of(value: Any) -> int | None:
    """How many a container has, without asking code of the application's; None: it is none."""
    for kind in CONTAINERS:
        if issubclass(type(value), kind):
            return int(kind.__len__(value))
    if type(value) is CACHE:
        return int(value.cache_info().currsize)
    return None


def grown_types(earlier: dict[str, Sum], now: dict[str, Sum]) -> list[dict[str, Any]]:
    """Types that have more bytes than before, those first that have grown most."""
    rows: list[dict[str, Any]] = []
    for name, (count, size) in now.items():
        was = earlier.get(name, [0, 0])
        if size > was[1] and count > was[0]:
            grown = {"objects": count - was[0], "bytes": size - was[1], "now": count}
            rows.append({"type": name, **grown, "held_by": []})
    return sorted(rows, key=lambda row: row["bytes"], reverse=True)[:MOST]


def grown_containers(earlier: dict[str, list[Any]], now: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Containers that are longer than before. Without an earlier count the longest."""
    rows: list[dict[str, Any]] = [
        {"name": name, "kind": kind, "grown": length - earlier.get(name, [0])[0], "now": length}
        for name, (length, kind) in now.items()
        if length > earlier.get(name, [0])[0]
    ]
    return sorted(rows, key=lambda row: row["grown"], reverse=True)[:MOST]


def allocated() -> list[dict[str, Any]]:
    """Lines that have allocated what is still there, where that was traced."""
    import _tracemalloc

    if not _tracemalloc.is_tracing():
        return []
    import tracemalloc

    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, f"{OWN}*")])
    return [
        {"place": f"{one.traceback[0].filename}:{one.traceback[0].lineno}", "bytes": one.size, "objects": one.count}
        for one in snapshot.statistics("lineno")[:MOST]
    ]

"""What holds an object: the way from a module's name, a class or a running function down to it.

Knows: what the collector says of who refers to whom. Does not know: why somebody asks. Runs in a forked child: each
step up looks at every object there is.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

#: Steps up from an object, and objects that are looked at in each of them.
HIGHEST, WIDEST = 12, 2000
#: Of the ways that lead to objects of a type so many are told.
TOLD = 3
#: An object, and where the collector does not know it itself the way down to it: from one that it knows to the one that
#: refers to it.
Sample = tuple[Any, tuple[Any, ...]]


def modules() -> Iterator[tuple[str, dict[str, Any]]]:
    """Modules by their names, and what each has."""
    for name, module in list(sys.modules.items()):
        # Some programs put other things there.
        if isinstance(module, types.ModuleType) and type(module.__dict__) is dict:
            yield name, module.__dict__


def attributes(thing: Any) -> list[tuple[str, Any]]:
    """What an object has in its own dictionary."""
    held = _own(thing)
    return list(held.items()) if type(held) is dict else []


def of(samples: list[Sample]) -> list[tuple[str, int]]:
    """What holds some objects, and how many of them."""
    return Counter(_Search(samples).ways().values()).most_common(TOLD)


class _Search:
    """The way up from some objects, all at a time: what refers to them, to that, and so on."""

    def __init__(self, numbered: list[Sample]) -> None:
        self.numbered = numbered
        self.names = {id(held): name for name, held in modules()}
        #: By id: the object that comes next on the way down.
        self.down: dict[int, Any] = {}
        #: Who is never part of a way: this search, its lists and frames.
        self.own: set[int] = {id(self), id(numbered), id(self.down), id(self.__dict__)}
        self.own |= {id(one) for sample in numbered for one in (sample, sample[1])}

    def ways(self) -> dict[int, str]:
        """By the samples' numbers."""
        found: dict[int, str] = {}
        #: Objects of this level: each with the numbers of the samples that it leads to.
        level: list[Any] = []
        leads: dict[int, set[int]] = {}
        for number, (thing, way) in enumerate(self.numbered):
            start = way[0] if way else thing
            for holder, held in zip(way, (*way, thing)[1:], strict=True):
                self.down[id(holder)] = held
            if id(start) not in leads:
                level.append(start)
            leads.setdefault(id(start), set()).add(number)
            self._ends(start, {number}, found)
        for _ in range(HIGHEST):
            level = [one for one in level if leads[id(one)] - found.keys()][:WIDEST]
            if not level:
                break
            level, leads = self._up(level, leads, found)
        return found

    def _up(
        self, level: list[Any], leads: dict[int, set[int]], found: dict[int, str]
    ) -> tuple[list[Any], dict[int, set[int]]]:
        """One step up."""
        below = {id(one): one for one in level}
        higher: list[Any] = []
        higher_leads: dict[int, set[int]] = {}
        own = self.own | {id(level), id(below), id(higher), id(leads), id(higher_leads), id(found), id(sys._getframe())}
        for one in gc.get_referrers(*level):
            if id(one) in own or id(one) in self.down or id(one) in below or _is_ours(one):
                continue
            next_down = next((thing for thing in gc.get_referents(one) if id(thing) in below), None)
            if next_down is None:
                continue
            numbers = {
                number for thing in gc.get_referents(one) if id(thing) in below for number in leads[id(thing)]
            }  # fmt: skip
            self.down[id(one)] = next_down
            if not self._ends(one, numbers, found):
                higher.append(one)
                higher_leads[id(one)] = numbers
        return higher, higher_leads

    def _ends(self, top: Any, numbers: set[int], found: dict[int, str]) -> bool:
        """Whether the way ends here, at something that has a name; it is written down then."""
        root = self._root(top)
        if root is None:
            return False
        way = self._way(root, top)
        for number in numbers:
            found.setdefault(number, way)
        return True

    def _root(self, top: Any) -> str | None:
        if id(top) in self.names:
            return self.names[id(top)]
        if isinstance(top, type):
            return f"{top.__module__}.{top.__qualname__}"
        if isinstance(top, types.FunctionType):
            return f"{top.__module__}.{top.__qualname__}()"
        if isinstance(top, types.FrameType):
            return f"a local name of {top.f_code.co_name}, which runs"
        return None

    def _way(self, root: str, top: Any) -> str:
        """From the root down to the sample: `shop.views.CACHE[...].items[...]`."""
        text, one = root, top
        for _ in range(HIGHEST + 1):
            if id(one) not in self.down:
                break
            below = self.down[id(one)]
            text += _step(one, below, is_namespace=one is top and id(one) in self.names)
            one = below
        # Nothing is known of the last step, and what holds it is said.
        return text.removesuffix(" > ")


def _step(holder: Any, held: Any, *, is_namespace: bool) -> str:
    """How code gets from one object to the next."""
    if isinstance(holder, dict):
        key = next((key for key, value in dict.items(holder) if value is held), None)
        if isinstance(key, str) and (is_namespace or _is_namespace_of(holder)):
            return f".{key}"
        return "[...]"  # a key may be a secret
    if isinstance(holder, (list, tuple, set, frozenset)):
        return "[...]"
    if isinstance(holder, types.CellType):
        return ""
    if isinstance(holder, type):
        # The dictionary of a class is nobody else's: its name says which.
        return next((f".{key}" for key, value in holder.__dict__.items() if value is held), "")
    name = next((key for key, value in attributes(holder) if value is held), None)
    if name is not None:
        return f".{name}"
    return "" if isinstance(held, dict) else " > "


def _is_namespace_of(held: dict[Any, Any]) -> bool:
    """Whether a dictionary is an object's or a class's own."""
    for one in gc.get_referrers(held):
        if isinstance(one, type):
            if not any(value is held for value in one.__dict__.values()):
                return True
        elif not isinstance(one, dict) and _own(one) is held:
            return True
    return False


def _own(thing: Any) -> Any:
    try:
        return object.__getattribute__(thing, "__dict__")
    except Exception:
        return None


def _is_ours(one: Any) -> bool:
    return isinstance(one, types.FrameType) and one.f_globals.get("__name__", "").startswith("forehand.inside.")

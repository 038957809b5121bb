"""Flame graphs of samples: as a page, as a picture, and in the formats of other tools.

Knows: what the time of many stacks adds up to, and four formats. Does not know: where samples come from.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

#: For no request that is known.
NO_ROUTE = "(no known request)"
#: A part of all that is less than this is not drawn: a reader could not see it.
SMALLEST = 0.0005
#: A stack that has no frame of Python's.
NO_FRAME = "(the server)"
INSTALLED = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+t?/")
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flame.html")
#: Of the picture, in pixels.
WIDTH = 1200
ROW = 18
CHARACTER = 6.6


class Frame(NamedTuple):
    """Where a stack goes through. `place`: the file as people name it."""

    function: str
    place: str
    line: int
    file: str

    def name(self) -> str:
        """As it stands in a graph."""
        return f"{self.function} ({self.place}:{self.line})" if self.line else f"{self.function} ({self.place})"


class Sample(NamedTuple):
    """A stack that was seen, the outermost frame first, and for how many seconds in all."""

    route: str
    frames: tuple[Frame, ...]
    seconds: float
    #: So many looks have found it.
    looks: int = 1

    def names(self) -> list[str]:
        """Route and frames as they stand in a graph."""
        return [self.route, *([one.name() for one in self.frames] or [NO_FRAME])]


class Function(NamedTuple):
    """What a function has taken: by itself, and together with what it has called. `name`: with its hottest line."""

    name: str
    own: float
    whole: float


def short(file: str, folder: str) -> str:
    """A file below the server's folder, or of a library, without what is the same for all."""
    below = os.path.join(folder, "")
    return file[len(below) :] if file.startswith(below) else INSTALLED.sub("", file)


def by_route(samples: Iterable[Sample]) -> list[tuple[str, float]]:
    """Seconds of each route, the largest first."""
    found: dict[str, float] = {}
    for one in samples:
        found[one.route] = found.get(one.route, 0.0) + one.seconds
    return sorted(found.items(), key=lambda pair: -pair[1])


def by_function(samples: Iterable[Sample]) -> list[Function]:
    """What functions have taken, those first that took most by themselves."""
    own: dict[tuple[str, str], float] = {}
    whole: dict[tuple[str, str], float] = {}
    lines: dict[tuple[str, str], dict[int, float]] = {}
    for one in samples:
        for function, place in {(frame.function, frame.place) for frame in one.frames}:
            whole[function, place] = whole.get((function, place), 0.0) + one.seconds
        if one.frames:
            last = one.frames[-1]
            key = (last.function, last.place)
            own[key] = own.get(key, 0.0) + one.seconds
            at = lines.setdefault(key, {})
            at[last.line] = at.get(last.line, 0.0) + one.seconds
    found = []
    for key, seconds in own.items():
        line = max(lines[key].items(), key=lambda pair: pair[1])[0]
        found.append(Function(Frame(*key, line, "").name(), seconds, whole[key]))
    return sorted(found, key=lambda function: -function.own)


class Node:
    """A box of the graph: what it stands for, its seconds, and what stands above it."""

    __slots__ = ("above", "name", "seconds")

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds = 0.0
        self.above: dict[str, Node] = {}

    def plain(self, least: float) -> dict[str, Any]:
        """For JSON, without what is too small to be seen."""
        above = [one.plain(least) for one in self.largest_first() if one.seconds >= least]
        return {"n": self.name, "v": round(self.seconds, 4), **({"c": above} if above else {})}

    def largest_first(self) -> list[Node]:
        """What stands above it."""
        return sorted(self.above.values(), key=lambda one: -one.seconds)


def tree(samples: Iterable[Sample]) -> Node:
    """All samples, by their routes and frames."""
    root = Node("all")
    for one in samples:
        node = root
        node.seconds += one.seconds
        for name in one.names():
            node = node.above.setdefault(name, Node(name))
            node.seconds += one.seconds
    return root


def page(samples: list[Sample], title: str, facts: list[str]) -> str:
    """One file for a browser, which asks nobody else for anything."""
    root = tree(samples)
    whole = root.seconds or 1.0
    rows = "".join(
        f"<tr><td>{one.own / whole:.1%}<td>{one.whole / whole:.1%}<td>{html.escape(one.name)}"
        for one in by_function(samples)[:50]
    )
    # A name must not end the script that it stands in.
    data = json.dumps(root.plain(whole * SMALLEST), separators=(",", ":")).replace("<", "\\u003c")
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    told = {"title": html.escape(title), "facts": html.escape(" · ".join(facts)), "rows": rows, "data": data}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: told[found[1]], text)


def svg(samples: list[Sample], title: str, facts: list[str]) -> str:
    """A picture, whose boxes say what they are when they are pointed at."""
    root = tree(samples)
    boxes: list[str] = []
    depth = _boxes(root, (0.0, 0), root.seconds or 1.0, boxes)
    height = (depth + 3) * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="monospace" font-size="11">\n<title>{html.escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<text x="4" y="13">{html.escape(title)}</text>\n'
        f"{''.join(boxes)}"
        f'<text x="4" y="{height - 5}">{html.escape(" · ".join(facts))}</text>\n</svg>\n'
    )


def _boxes(node: Node, at: tuple[float, int], whole: float, boxes: list[str]) -> int:
    """Draws a box and all above it; how many rows there are."""
    left, row = at
    width = node.seconds / whole * WIDTH
    told = html.escape(f"{node.name}: {node.seconds:.2f} s, {node.seconds / whole:.1%}")
    room = int(width / CHARACTER) - 1
    text = html.escape(node.name if len(node.name) <= room else node.name[: room - 1] + "…") if room > 2 else ""
    y = (row + 1) * ROW
    boxes.append(
        f'<g><title>{told}</title><rect x="{left:.1f}" y="{y}" width="{max(width - 0.5, 0.2):.1f}" '
        f'height="{ROW - 1}" fill="{colour(node.name)}"/><text x="{left + 3:.1f}" y="{y + 12}">{text}</text></g>\n'
    )
    deepest = row + 1
    for above in node.largest_first():
        if above.seconds >= whole * SMALLEST:
            deepest = max(deepest, _boxes(above, (left, row + 1), whole, boxes))
        left += above.seconds / whole * WIDTH
    return deepest


def colour(name: str) -> str:
    """The same for all functions of a file, so that the eye finds what belongs together."""
    file = name.rpartition("(")[2].rpartition(":")[0] or name
    hue = sum(ord(one) * (at + 7) for at, one in enumerate(file)) % 360
    return f"hsl({hue},55%,78%)"


def collapsed(samples: list[Sample], title: str, facts: list[str]) -> str:
    """A line a stack, and its milliseconds: what flamegraph.pl, inferno and many others read."""
    counted: dict[str, float] = {}
    for one in samples:
        line = ";".join(name.replace(";", ",") for name in one.names())
        counted[line] = counted.get(line, 0.0) + one.seconds
    return "".join(f"{line} {max(1, round(seconds * 1000))}\n" for line, seconds in sorted(counted.items()))


def speedscope(samples: list[Sample], title: str, facts: list[str]) -> str:
    """For speedscope: all samples as one profile, and each route as one of its own."""
    frames: dict[Any, int] = {}
    listed: list[dict[str, Any]] = []

    def number(frame: Frame | str) -> int:
        if frame not in frames:
            frames[frame] = len(listed)
            if isinstance(frame, str):
                listed.append({"name": frame})
            else:
                listed.append({"name": frame.function, "file": frame.file or frame.place, "line": frame.line})
        return frames[frame]

    def profile(name: str, chosen: list[Sample]) -> dict[str, Any]:
        stacks = [[number(one.route), *(number(frame) for frame in one.frames or (NO_FRAME,))] for one in chosen]
        return {
            "type": "sampled", "name": name, "unit": "seconds", "startValue": 0,
            "endValue": sum(one.seconds for one in chosen), "samples": stacks,
            "weights": [one.seconds for one in chosen],
        }  # fmt: skip

    routes = [route for route, _ in by_route(samples)]
    every = [profile("all", samples)]
    every += [profile(route, [one for one in samples if one.route == route]) for route in routes]
    return json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json", "name": title, "exporter": "forehand",
        "activeProfileIndex": 0, "shared": {"frames": listed}, "profiles": every,
    })  # fmt: skip


class Format(NamedTuple):
    """How a graph is made, and how its file's name ends."""

    make: Callable[[list[Sample], str, list[str]], str]
    suffix: str


FORMATS = {
    "flamegraph": Format(page, ".html"),
    "svg": Format(svg, ".svg"),
    "speedscope": Format(speedscope, ".speedscope.json"),
    "collapsed": Format(collapsed, ".txt"),
}

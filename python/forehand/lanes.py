"""What is said of routes by hand: which are slow or quick (`--lanes`), how many may be inside
(`--route-limits`), which are refused first (`--priorities`), and from when on a request of them is slow
(`--slow-requests`); and of clients, that they take turns (`--fair-by`).

Knows: `/PREFIX=WORD`, `/PREFIX=N` and `/PREFIX=TIME`, and which of that cannot come about. Does not know: lanes
(`crates/server/src/lanes.rs` does).
"""

from __future__ import annotations

from forehand.digits import is_whole
from forehand.option import PARSERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What a lane is called.
WORDS = ("slow", "quick")
#: How much a route matters.
PRIORITIES = ("high", "normal", "low")
#: What the name of a header may have beside letters and digits (RFC 9110, 5.6.2).
TOKEN = "!#$%&'*+-.^_`|~"
#: More limits than these are not told apart.
MOST = 200
#: What no path has before it is decoded, or what stands for something in other servers' patterns.
NO_PATH = "?#*{<"


def lane(text: str) -> tuple[str, bool]:
    """`/export=slow` as (prefix, is it slow). ValueError says what is wrong."""
    prefix, equals, word = text.rpartition("=")
    if not equals or not prefix.startswith("/") or word not in WORDS:
        raise ValueError(f"'{text}' is not /PREFIX=slow or /PREFIX=quick")
    return _prefix(text, prefix), word == "slow"


def limit(text: str) -> tuple[str, int]:
    """`/export=4` as (prefix, requests). ValueError says what is wrong."""
    prefix, equals, number = text.rpartition("=")
    if not equals or not prefix.startswith("/") or not is_whole(number) or not 1 <= int(number) <= 1024:
        raise ValueError(f"'{text}' is not /PREFIX=N, where N requests, from 1 to 1024, may be inside at the same time")
    return _prefix(text, prefix), int(number)


def priority(text: str) -> tuple[str, str]:
    """`/checkout=high` as (prefix, word). ValueError says what is wrong."""
    prefix, equals, word = text.rpartition("=")
    if not equals or not prefix.startswith("/") or word not in PRIORITIES:
        raise ValueError(f"'{text}' is not /PREFIX=high, /PREFIX=normal or /PREFIX=low")
    return _prefix(text, prefix), word


def time_below(text: str) -> tuple[str, int]:
    """`/export=60s` as (prefix, milliseconds; zero: none). ValueError says what is wrong."""
    prefix, equals, time = text.rpartition("=")
    if not equals or not prefix.startswith("/"):
        raise ValueError(f"'{text}' is not /PREFIX=TIME")
    return _prefix(text, prefix), round(PARSERS["time"](time) * 1000)


def _prefix(text: str, prefix: str) -> str:
    """The beginning of a path, if one can begin so as it is sent (RFC 9110, 4.2.3: neither a query nor a fragment;
    RFC 3986, 2.1: everything but some ASCII is percent-encoded). ValueError says what is wrong."""
    wrong = next((char for char in prefix if char in NO_PATH or not "!" <= char <= "~"), "")
    if wrong:
        how = "without patterns or a query" if wrong in NO_PATH else "percent-encoded, as clients send it"
        raise ValueError(f"'{text}' fits no path because of '{wrong}': name the beginning of paths, {how}")
    return prefix


def check_priorities(values: list[str]) -> None:
    """All of them together. ValueError says what is wrong."""
    _check([priority(text)[0] for text in values])


def check_fair_by(value: str) -> None:
    """Empty, `client`, or a header (RFC 9110, 5.1: a token). ValueError says what is wrong."""
    kind, _, name = value.partition(":")
    good = name and all(char.isascii() and (char.isalnum() or char in TOKEN) for char in name)
    if kind != "header":
        good = not name
    if kind not in ("", "client", "header") or not good:
        raise ValueError(f"'{value}' is neither client nor header:NAME, such as header:X-Api-Key")


def dropped(settings: Any) -> str:
    """Why no request has the header that `--fair-by` names, though it is one, in a sentence; empty: all is well."""
    kind, _, name = settings["fair_by"].partition(":")
    if kind != "header" or "_" not in name or "underscore-names" in settings["http_relax"]:
        return ""
    return (
        f"fair_by says header:{name}, and names of headers with an underscore are dropped, so that all clients would "
        f"share one turn: write header:{name.replace('_', '-')}, which clients are to send, or add underscore-names "
        "to http_relax"
    )


def check_lanes(values: list[str]) -> None:
    """All of them together. ValueError says what is wrong."""
    _check([lane(text)[0] for text in values])


def check_limits(values: list[str]) -> None:
    """All of them together. ValueError says what is wrong."""
    if len(values) > MOST:
        raise ValueError(f"{len(values)} routes with limits are more than {MOST}")
    _check([limit(text)[0] for text in values])


def check_times(values: list[str]) -> None:
    """All of them together. ValueError says what is wrong."""
    _check([time_below(text)[0] for text in values])


def _check(prefixes: list[str]) -> None:
    seen: dict[bytes, str] = {}
    for prefix in prefixes:
        other = seen.setdefault(_decoded(prefix), prefix)
        if prefixes.count(prefix) > 1:
            raise ValueError(f"'{prefix}' is there twice")
        if other != prefix:
            raise ValueError(f"'{prefix}' is the same path as '{other}', encoded in another way: it is there twice")


def _decoded(prefix: str) -> bytes:
    """A prefix as paths are compared with it (`crates/wire/src/percent.rs`): what is no encoding stays."""
    first, *others = prefix.encode().split(b"%")
    found = first
    for part in others:
        try:
            found += bytes((int(part[:2], 16),)) + part[2:] if part[:2].isalnum() and len(part) > 1 else b"%" + part
        except ValueError:
            found += b"%" + part
    return found


def doubts(settings: Any) -> list[str]:
    """What is said and can have no effect with so many threads, a sentence each. It is no mistake: a file may be for
    several servers. `settings`: those in force."""
    threads = settings["threads_max"] if settings["threads"] == "auto" else settings["threads"]
    if settings.is_gevent() or settings["interface"] == "asgi":
        return []
    found = []
    if threads == 1:
        said = [name for name in ("lanes", "route_limits") if settings[name]]
        if said:
            found.append(f"{' and '.join(said)}: without effect with one thread, as none can be left to others")
    else:
        for prefix, number in map(limit, settings["route_limits"]):
            if number >= threads:
                found.append(f"route_limits: {prefix}={number} is without effect, as a worker has {threads} threads")
    return found


def for_engine(settings: Any) -> dict[str, object]:
    """Settings of the engine. The longest prefix decides, so that it is looked at first."""
    return {
        "priorities": sorted(map(priority, settings["priorities"]), key=lambda pair: -len(pair[0])),
        "lanes": sorted(map(lane, settings["lanes"]), key=lambda pair: -len(pair[0])),
        "route_limits": sorted(map(limit, settings["route_limits"]), key=lambda pair: -len(pair[0])),
        "slow_requests": sorted(map(time_below, settings["slow_requests"]), key=lambda pair: -len(pair[0])),
    }

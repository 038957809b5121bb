"""What differs between two servers of a record, or between two records, and whether that fails a gate. Pure.

Within a record servers are compared round by round; rounds of two records have nothing in common, and are dealt anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from forehand_lab import views
from forehand_lab.answer import KEYS
from forehand_lab.estimates import Comparison, unpaired
from forehand_lab.problem import USAGE, Problem, near

Fact = Mapping[str, Any]
# Of these more is better; of all others less.
MORE = ("replies/s",)
# What a gate looks at unless it is told: what a change of code moves first. Percentiles move by chance, too.
GATED = ("replies/s", "CPU us/request")


@dataclass(frozen=True)
class Difference:
    """One figure at one point: how `new` stands to `base`."""

    new: str
    base: str
    point: float
    figure: str
    found: Comparison | None
    noisy: int
    # In BASE, and not in NEW: its server was lost, or none of its rounds counts.
    missing: bool = False

    @property
    def kept(self) -> float | None:
        """How much of the base's worth is left: 0.95 is five per cent worse, whichever way better is."""
        if self.found is None:
            return None
        return self.found.ratio if self.figure in MORE else 1 / self.found.ratio

    def fails(self, least: float) -> bool:
        """Whether it is worse than that, and by more than chance; what is missing is worse than anything."""
        if self.missing:
            return True
        worse = self.kept is not None and self.kept < least
        return worse and self.found is not None and self.found.verdict in ("higher", "lower")

    def untold(self, least: float) -> bool:
        """Whether a gate can say nothing of it: too few rounds, and not within what is allowed anyhow."""
        return not self.missing and self.found is not None and self.found.too_few

    def as_dict(self, least: float | None) -> dict[str, Any]:
        """For JSON."""
        told = asdict(self.found) if self.found else {}
        failed = None if least is None else self.fails(least)
        return {
            "new": self.new, "base": self.base, "point": self.point, "figure": KEYS[self.figure], **told,
            "kept": self.kept, "verdict": verdict(self), "noisy": self.noisy, "missing": self.missing, "failed": failed,
        }  # fmt: skip


def verdict(difference: Difference) -> str:
    """In words, for a table."""
    if difference.missing or difference.found is None:
        return "missing"
    return difference.found.verdict


def figures_named(text: str | None) -> tuple[str, ...]:
    """Figures by their names, or by their names in JSON. Raises Problem for one that there is not."""
    if not text:
        return GATED
    by_key = {key: name for name, key in KEYS.items()}
    found = []
    for word in (part.strip() for part in text.split(",")):
        if word not in KEYS and word not in by_key:
            known = ", ".join(by_key)
            raise Problem(USAGE, f"--figures: there is no figure '{word}'{near(word, by_key)}", f"there are {known}")
        found.append(by_key.get(word, word))
    return tuple(found)


def within(facts: Sequence[Fact], one: str, other: str) -> list[Difference]:
    """Two servers of one record: `one` is the new one."""
    groups = views.grouped(facts)
    found = []
    compared = views.paired(facts, one, other)
    for at in sorted({point for server, point in groups if server in (one, other)}):
        sides = [groups.get((server, at), []) for server in (one, other)]
        noisy = sum(map(noise, sides))
        found += [
            Difference(one, other, at, figure, comparison, noisy)
            for (point, figure), comparison in compared.items()
            if point == at
        ]
        found += [Difference(one, other, at, figure, None, noisy, missing=True) for figure in lost(*sides)]
    return found


def lost(new: Sequence[Fact], base: Sequence[Fact]) -> list[str]:
    """Figures that a gate looks at which the base has at a point, and the new one has not: it was lost, none of its
    rounds counts, or all that it answered was wrong."""
    found = []
    for figure in GATED:
        had, has = (
            any((views.METRICS[figure](fact) or 0) > 0 for fact in side if views.ranked(fact)) for side in (base, new)
        )
        if had and not has:
            found.append(figure)
    # Where it has no replies, its other figures say nothing more.
    return found[:1] if GATED[0] in found else found


def uncounted(facts: Sequence[Fact], servers: Sequence[str]) -> list[str]:
    """Points of these servers of which no round counts: they are not compared."""
    return [
        f"{server} at {at:g}: no round counts, and it is not compared"
        for (server, at), points in sorted(views.grouped(facts).items())
        if server in servers and not any(map(views.ranked, points))
    ]


def between(base: Sequence[Fact], new: Sequence[Fact], pairs: Sequence[tuple[str, str]]) -> list[Difference]:
    """The same of two records: each pair is (server of BASE, server of NEW)."""
    before, after = views.grouped(base), views.grouped(new)
    found = []
    for old, now in pairs:
        for at in sorted(at for server, at in before if server == old):
            sides = [before[old, at], after.get((now, at), [])]
            noisy = sum(map(noise, sides))
            counted = [[fact for fact in side if views.ranked(fact)] for side in sides]
            found += [Difference(now, old, at, figure, None, noisy, missing=True) for figure in lost(*sides[::-1])]
            for figure, metric in views.METRICS.items():
                was, now_is = ([value for fact in side if (value := metric(fact)) is not None] for side in counted)
                comparison = unpaired(now_is, was)
                if comparison:
                    found.append(Difference(now, old, at, figure, comparison, noisy))
    return found


def noise(facts: Sequence[Fact]) -> int:
    """How many of these rounds are noisy."""
    return sum(map(views.is_noisy, facts))


def unlike(base: Fact, new: Fact) -> list[str]:
    """What makes two records of different things: their manifests say it."""
    found = []
    for key, shown in (
        ("scenario", "scenarios"), ("setting", "settings"), ("load", "loads"), ("seconds", "seconds a point"),
        ("hosts", "hosts of the load"),
    ):  # fmt: skip
        one, other = base.get(key), new.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            keys = sorted(name for name in set(one) | set(other) if one.get(name) != other.get(name))
            if keys:
                found.append(f"their {shown} differ: {', '.join(keys)}")
        elif one != other:
            found.append(f"their {shown} differ: {one} and {other}")
    for key in ("processor", "processors", "kernel"):
        one, other = base["machine"].get(key), new["machine"].get(key)
        if one != other:
            found.append(f"their machines differ: {key} {one} and {other}")
    return found

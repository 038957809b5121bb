"""NGINX Unit's routes that share files, as values of `static`, unless that would serve more than was served.

Knows: steps of a route, and which of them the listeners come to. Does not know: the rest of Unit's configuration
(`unit.py`). Facts: Unit's documentation, version 1.34, "Static Files".
"""

from __future__ import annotations

from forehand.migrate import static_files
from forehand.migrate.outcome import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

ROUTING = "there is no routing language: a proxy's work (docs/behind-nginx.md), or the application's"
# What a step may say of its files that is either so here or makes fewer of them.
KNOWN = ("share", "index", "fallback", "chroot", "follow_symlinks", "traverse_mounts")


def translate(outcome: Outcome, config: Mapping[str, Any], leads: list[str]) -> None:
    """What becomes of the routes. `leads`: where the listeners that are bound lead."""
    routes = config.get("routes") or []
    taken = ""
    for name, steps in routes.items() if isinstance(routes, dict) else [("", routes)]:
        lead = f"routes/{name}" if name else "routes"
        # What one address serves is not for the others; what a step before has taken is not reached.
        first = "" if leads and all(one == lead for one in leads) else "the listeners lead elsewhere, too"
        for at, step in enumerate(steps if isinstance(steps, list) else []):
            where = f"{lead}[{at}]"
            action = step.get("action") if isinstance(step, dict) else None
            if isinstance(action, dict) and "share" in action:
                if _step(outcome, where, step, first):
                    taken = taken or where
                    continue
            elif not (isinstance(action, dict) and set(action) == {"pass"} and not step.get("match")):
                outcome.unsupported(where, "", ROUTING)
            first = first or f"{where} comes first, and is not carried over"
    if taken:
        static_files.tell(outcome, taken)


def _step(outcome: Outcome, where: str, step: Mapping[str, Any], why: str) -> bool:
    """One step that shares files; `why` it cannot be taken, as far as that is known. True: all of it was taken."""
    action, match = step["action"], step.get("match") or {}
    strange = [f"match.{key}" for key in match if key != "uri"] if isinstance(match, dict) else ["match"]
    strange += [key for key in action if key not in KNOWN]
    if strange:
        why = why or f"{', '.join(strange)} cannot be said here"
    fallback = action.get("fallback")
    lead = fallback.get("pass", "") if isinstance(fallback, dict) else ""
    if fallback and not str(lead).startswith("applications/"):
        why = why or "its fallback is not the application"
    mounts = list(_mounts(step, [*(["try"] if fallback else []), f"index={action.get('index', 'index.html')}"]))
    taken = bool(mounts)
    for value, text, wrong in mounts:
        path = text.partition("=")[0]
        above = [one for one in outcome.settings.get("static", []) if _is_below(path, one.partition("=")[0])]
        reason = wrong or why or (f"{above[0]} comes first" if above else "")
        if not reason:
            taken = static_files.put(outcome, where, value, text) and taken
            continue
        taken = False
        outcome.unsupported(
            where, value, "; ".join([reason, *([static_files.BY_HAND.format(repr(text))] if text else [])])
        )
    return taken


def _is_below(path: str, above: str) -> bool:
    return path.startswith(above.rstrip("/") + "/") and path != above


def _mounts(step: Mapping[str, Any], more: list[str]) -> Iterator[tuple[object, str, str]]:
    """(what was shared, the value of `static`, why there is none) of each path of a step."""
    shares = step["action"]["share"]
    shares = shares if isinstance(shares, list) else [shares]
    patterns = (step.get("match") or {}).get("uri", "/*") if isinstance(step.get("match") or {}, dict) else "/*"
    for share in map(str, shares[1:]):
        yield share, "", "of several places that are looked at the first is taken"
    share = str(shares[0]) if shares else ""
    folder = share.removesuffix("$uri").rstrip("/")
    if not share.endswith("$uri") or "$" in folder or not folder:
        yield share, "", "it is not FOLDER$uri; one file at one path can be a mount: static = ['/PATH=FILE']"
        return
    for pattern in map(str, patterns if isinstance(patterns, list) else [patterns]):
        path = pattern.removesuffix("*").rstrip("/")
        if not pattern.endswith("/*") or any(sign in path for sign in "*!~%"):
            yield pattern, "", "a mount is a path and all below it, such as /static/*"
            continue
        try:
            yield share, static_files.mount(path or "/", folder + path, *more), ""
        except ValueError as error:
            yield share, "", str(error)

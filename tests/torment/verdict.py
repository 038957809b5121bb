"""What a run must not leave behind, as bounds.

Knows: numbers and lines. Does not know: where they come from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torment.run import Result

#: The bystander's, in seconds, on two processors where the crowd, two workers and other tests are at work as well.
#: Whoever waits for a timeout of the server's, or for the end of somebody's upload, waits longer.
P99, WORST = 0.3, 3.0
#: What a worker may hold more than before: allocators keep some of what they have had.
MORE_KIB = 24 * 1024
#: The most that it may ever have held: the interpreter, and far less than what the deaf have asked for.
MOST_KIB = 256 * 1024
#: The pool's and the engine's own; what a request has started has ended.
MOST_THREADS = 40
#: A worker that came later has descriptors of its supervisor's more than the first ones had.
INHERITED = 4

#: Lines that a log may have, whoever torments the server. `{}` stands for anything.
USUAL = [
    re.compile(re.escape(line).replace(r"\{\}", ".*"))
    for line in (
        "Forehand {}",
        "  application  {}",
        "  Python       {}",
        "  workers      {}",
        "  control      {}",
        "  status       {}",
        "  Ctrl-C stops",
        "{} error: worker {} was ended by signal 9 (SIGKILL) {}",
        "{} info: reload: {}",
        "{} info: worker {} leaves: a new generation has taken its place",
        "forehand: stopping: {}",
        "forehand: a forked child came back into its parent's loop: it ends here",
        "forehand: a forked child waits for a lock of its parent: it ends here",
        "{} warning: worker {} was ended by signal 9 (SIGKILL) {}",
        "{} warning: {} held the event loop for {}",
        # A child's last words come in pieces, between which others may have their line.
        "{}OnPurpose: in a child",
        "{} info: refused a request from {}",
        # Slow views and quick ones under one roof: the log tells that some wait.
        "{} info: lanes: {}",
        # What speaks TLS to a plain port is a mistake in somebody's configuration more often than an attack.
        "{} warning: refused a request from {}: 400 what arrived is a TLS handshake, {}",
    )
]
#: What an application raised that was asked to.
PURPOSE = re.compile(r"tormented\.OnPurpose: .*")
#: What is said of one that left its reply to another task, and returned.
LEFT_OPEN = "RuntimeError: the application returned before its response was complete (ASGI)"
FAILED = re.compile(r".* error: the application failed: .*")


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part of all is not above."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def waited(waits: Sequence[float]) -> list[str]:
    """The bystander's patience."""
    if not waits:
        return ["the bystander has got no reply at all"]
    p99, worst = percentile(waits, 0.99), max(waits)
    if p99 > P99 or worst > WORST:
        return [f"the bystander waited {p99:.3f} s at p99, {worst:.3f} s at worst; {P99} and {WORST} are allowed"]
    return []


def held(result: Result) -> list[str]:
    """What is held is what was held."""
    if not result.before:
        return ["nobody knows what was held before"]
    rss = max(one.rss_kib for one in result.before) + MORE_KIB
    descriptors = max(one.descriptors for one in result.before)
    if result.kills or result.reloads:
        descriptors += INHERITED
    problems = []
    for worker in result.after:
        for what, most in (
            ("rss_kib", rss),
            ("peak_kib", MOST_KIB),
            ("threads", MOST_THREADS),
            ("descriptors", descriptors),
        ):
            if getattr(worker, what) > most:
                problems.append(f"worker {worker.pid} has {what} of {getattr(worker, what)}; {most} are allowed")
    return problems


def conserved(base: dict[str, Any], end: dict[str, Any], result: Result, waits: int) -> list[str]:
    """Nobody was killed: the server has counted every reply, and no more than was asked for."""
    counted = sum(worker["requests"] for worker in end["workers"]) - sum(
        worker["requests"] for worker in base["workers"]
    )
    least, most = result.whole + waits, result.requests + waits
    if not least <= counted <= most:
        return [f"{counted} requests were counted; {least} were answered and {most} begun"]
    return []


def log(text: str) -> list[str]:
    """Lines that a log has no reason to have."""
    lines = iter(text.splitlines())
    problems = []
    for line in lines:
        block = [line]
        if FAILED.fullmatch(line):
            block.append(next(lines, ""))
            if "&w=lent&" in line and block[-1] == LEFT_OPEN:
                continue
        if block[-1].startswith("Traceback"):
            # Down to its last line, which is the first that is not indented.
            while block[-1].startswith((" ", "Traceback")):
                block.append(next(lines, ""))
            if not PURPOSE.fullmatch(block[-1]):
                problems.append("the log has\n    " + "\n    ".join((block[0], *block[-3:])))
        elif line.strip() and not any(usual.fullmatch(line) for usual in USUAL):
            problems.append(f"the log has\n    {line}")
    return problems[:20]

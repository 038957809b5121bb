"""How far a run is: a bar with the time left on a terminal, a line for each turn elsewhere.

Time left is the plan's own estimate, corrected by how long the turns so far have really taken.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich import progress as bars
from rich.console import Console


class Progress:
    """`with Progress(console, seconds, turns) as progress:`."""

    def __init__(self, console: Console, seconds: float, turns: int) -> None:
        self._console = console
        self._turns, self._begun_turns = turns, 0
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TextColumn("{task.fields[left]} left"),
            bars.TextColumn("[dim]{task.fields[live]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._total = max(seconds, 0.1)
        self._task = self._bar.add_task("", total=self._total, live="", left=shown(seconds))
        self._done, self._begun = 0.0, time.monotonic()

    def __enter__(self) -> Progress:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, traceback)

    def turn(self, what: str) -> None:
        """A turn begins."""
        self._begun_turns += 1
        # What the turns before had planned and did not need (a server that died) is over with them.
        at = self._total * (self._begun_turns - 1) / max(self._turns, 1)
        self._done = max(self._done, at)
        spent = time.monotonic() - self._begun
        self._bar.update(self._task, description=what, completed=self._done, left=shown(self._left(spent)))
        if not self._console.is_terminal:
            self._console.print(f"{what} ({self._begun_turns} of {self._turns}, {shown(self._left(spent))} left)")

    def advance(self, seconds: float) -> None:
        """So much of the plan is done."""
        self._done = min(self._done + seconds, self._total)
        self._bar.update(self._task, completed=self._done, left=shown(self._left(time.monotonic() - self._begun)))

    def tick(self, second: dict[str, Any]) -> None:
        """A second of the engine's."""
        live = f"{second.get('replies', 0)}/s, {second.get('open_connections', 0)} connections"
        if second.get("p99_us"):
            live += f", p99 {second['p99_us'] / 1000:.1f} ms"
        self._bar.update(self._task, live=live)

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text)

    def _left(self, spent: float) -> float:
        return time_left(self._total, self._done, spent)


def time_left(total: float, done: float, spent: float) -> float:
    """Planned seconds that are left, stretched by how the ones so far have gone. Pure."""
    stretch = spent / done if done > 0.05 * total else 1.0
    return max(total - done, 0.0) * max(stretch, 0.5)


def shown(seconds: float) -> str:
    """Minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"

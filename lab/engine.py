"""The load engine from the outside: finds `forehand-load`, gives it a plan, takes its result.

Knows lab/load/FORMAT.md. Runs in the lab's main thread; what the engine says while it runs goes to a callback.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from forehand_lab import HERE
from forehand_lab.children import Once, in_child, unhurried
from forehand_lab.problem import FAILED, MISSING, Problem

# What the engine may take beyond its plan: starting, reading bodies, writing the result.
GRACE_SECONDS = 20.0
# How often a load is driven whose engine could begin nothing; then what came of it is told, with its verdict.
TRIES = 4


class EngineFailed(Problem):
    """The engine did not give a result. The point is lost, and the server is not to blame."""

    def __init__(self, message: str) -> None:
        super().__init__(FAILED, message)


class BegunLate(EngineFailed):
    """It was not ready at the moment that was planned, or had no processor all the while: it is worth another try."""


def found() -> str:
    """The engine: $FOREHAND_LOAD, the one of this package, of this clone, or one in PATH. Raises Problem."""
    named = os.environ.get("FOREHAND_LOAD")
    if named:
        if not os.access(named, os.X_OK):
            raise Problem(MISSING, f"$FOREHAND_LOAD: {named} cannot be run")
        return named
    own = [HERE / "bin/forehand-load", Path(sys.executable).parent / "forehand-load"]
    for path in (*own, HERE.parent / "target/release/forehand-load"):
        if os.access(path, os.X_OK):
            return str(path)
    path_found = shutil.which("forehand-load")
    if not path_found:
        hint = (
            "pip install 'PATH[lab]' brings it, where PATH is a clone of Forehand's repository, in which `make load` "
            "builds it; or name it in $FOREHAND_LOAD"
        )
        raise Problem(MISSING, "the load engine forehand-load is not here", hint)
    return path_found


class Load:
    """A load that runs. `result()` waits for its end; `stop()` ends it early and keeps what it has."""

    def __init__(self, plan: Mapping[str, Any], *, live: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lab-load-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        (folder / "plan.json").write_text(json.dumps(plan))
        self._output = folder / "result.json"
        self._errors = (folder / "errors").open("w+b")
        self.seconds = float(plan["duration_s"]) + float(plan.get("drain_s", 5)) + GRACE_SECONDS
        words = [found(), "--plan", str(folder / "plan.json"), "--output", str(self._output)]
        cpus = frozenset(plan.get("cpus") or ())
        self.process = subprocess.Popen(
            [*words, "--live-json"] if live else words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if live else self._errors,
            preexec_fn=lambda: in_child(cpus),
        )

    def watched(self, tick: Callable[[dict[str, Any]], None]) -> None:
        """Hands each second's line to `tick` until the engine ends."""
        assert self.process.stderr
        for line in self.process.stderr:
            try:
                tick(json.loads(line))
            except ValueError:
                self._errors.write(line)

    def stop(self) -> None:
        """Ask it to end; its result is still written."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """The end of it, whatever happens. May be called twice."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()
        self._errors.close()
        self._folder.cleanup()

    def result(self) -> dict[str, Any]:
        """The result; EngineFailed where there is none."""
        try:
            status = self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            raise EngineFailed(f"the load engine did not end within {self.seconds:.0f} s") from None
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        if status not in (0, 130) or not self._output.exists():
            why = said[-1] if said else f"status {status}"
            raise EngineFailed(f"the load engine gave no result: {why}")
        found_result: dict[str, Any] = json.loads(self._output.read_text())
        # The plan stands in the record's point already.
        found_result.pop("plan", None)
        return found_result


@contextlib.contextmanager
def loading(plan: Mapping[str, Any], *, live: bool = False) -> Iterator[Load]:
    """A load that is gone when the block is left."""
    with all_of([plan], live=live) as loads:
        yield loads[0]


@contextlib.contextmanager
def all_of(plans: Sequence[Mapping[str, Any]], *, live: bool = False) -> Iterator[list[Load]]:
    """Loads beside one another, of which the first may be live; all are gone when the block is left."""
    loads: list[Load] = []
    with Once() as once:
        try:
            for plan in plans:
                with unhurried():
                    loads.append(Load(plan, live=live and not loads))
            yield loads
        finally:
            once.over = True
            for load in loads:
                load.kill()


def was_away(plan: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether the engine was held up for all of a load: a closed loop then begins nothing, and nothing fails.

    An open load tells of what it did not start, and needs no second try to be honest.
    """
    totals = result["totals"]
    idle = plan["load"]["kind"] == "closed" and totals["started"] == 0 and not result["errors"]
    return idle and result["generator"]["verdict"] == "at_fault"


class Here:
    """Drives loads from this machine. cluster.Fleet is the same for others."""

    def __init__(self) -> None:
        self._away = 0

    def driven(
        self,
        plans: Sequence[Mapping[str, Any]],
        tick: Callable[[dict[str, Any]], None] | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Runs these loads together; a result for each. `tick` hears of the first.

        Raises EngineFailed; BegunLate where the engine of one had no processor until its load was over, TRIES - 1 times
        at most in a row.
        """
        with all_of(plans, live=True) as loads:
            begun()
            loads[0].watched(tick or (lambda second: None))
            results = [load.result() for load in loads]
        away = [result for plan, result in zip(plans, results, strict=True) if was_away(plan, result)]
        self._away = self._away + 1 if away else 0
        if 0 < self._away < TRIES:
            raise BegunLate("; ".join(away[0]["generator"]["reasons"]))
        self._away = 0
        return results


def run(plan: Mapping[str, Any]) -> dict[str, Any]:
    """One load from beginning to end."""
    with loading(plan) as load:
        told: dict[str, Any] = load.result()
        return told

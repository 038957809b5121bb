"""No process outlives Ctrl-C, even one that comes while the process is being started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from forehand_lab import engine
from forehand_lab.children import Once, in_child, told_again, unhurried

# Interrupts whoever started it at the first moment that it can, and would then stay for long.
HASTY = "#!/bin/sh\nkill -INT $PPID\nexec sleep 600\n"
# The same, from somebody who does not wait for what comes of it.
IMPATIENT = "#!/bin/sh\nwhile kill -INT $PPID; do :; done\n"
PLAN = {"duration_s": 1.0}


class Going:
    """Interrupts whoever lets go of it, where Python can only drop what is raised."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0)


class GoingSlowly:
    """Takes thirty seconds to go, and less only if something is raised, which is dropped."""

    def __del__(self) -> None:
        time.sleep(30)
        raise AssertionError("nothing was raised")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal, whatever the tests were started by: a script's background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def deaf() -> Iterator[None]:
    """As in a script's background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interruption_in_the_block_comes_after_it(interruptible: None) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), unhurried():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("outer")
        with unhurried():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("inner")
        done.append("after")
    assert done == ["outer", "inner", "after"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_in_the_block_is_not_hidden_by_an_interruption(interruptible: None) -> None:
    with pytest.raises(ZeroDivisionError), unhurried():
        os.kill(os.getpid(), signal.SIGINT)
        raise ZeroDivisionError


def test_where_interruptions_are_ignored_a_block_changes_nothing(deaf: None) -> None:
    with unhurried():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGINT)


def test_of_two_interruptions_the_second_does_not_disturb_the_end_of_what_was_started(interruptible: None) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), Once() as once:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            done.append("not reached")
        finally:
            once.over = True
            os.kill(os.getpid(), signal.SIGINT)
            done.append("ended")
    assert done == ["ended"]
    with pytest.raises(KeyboardInterrupt), Once() as once:
        once.over = True
        os.kill(os.getpid(), signal.SIGINT)
        done.append("ended as well")
    assert done[1:] == ["ended as well"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interruption_that_meets_a_destructor_is_told_again(
    interruptible: None, capsys: pytest.CaptureFixture[str]
) -> None:
    hook, alarm = sys.unraisablehook, signal.getsignal(signal.SIGALRM)
    with pytest.raises(KeyboardInterrupt), told_again():
        Going()
        time.sleep(30)
    with pytest.raises(KeyboardInterrupt), told_again():
        Going()
        GoingSlowly()
        time.sleep(30)
    assert (sys.unraisablehook, signal.getsignal(signal.SIGALRM)) == (hook, alarm)
    assert capsys.readouterr().err == ""


def test_one_that_meets_a_destructor_within_a_block_that_is_interrupted_once_is_the_first(interruptible: None) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), told_again(), Once() as once:
        try:
            Going()
            time.sleep(30)
        finally:
            once.over = True
            done.append("ended")
    assert done == ["ended"]
    with pytest.raises(KeyboardInterrupt), told_again(), unhurried():
        Going()
        time.sleep(0.1)
        done.append("as a whole")
    assert done[1:] == ["as a whole"]


def test_an_end_that_meets_a_destructor_in_the_background_of_a_script_is_told_again(deaf: None) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), told_again():
            Going(signal.SIGTERM)
            time.sleep(30)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_else_a_destructor_raises_is_reported_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def __del__(self) -> None:
            raise ValueError("wrong")

    told: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_type))
    with told_again():
        Wrong()
    assert told == [ValueError]


def test_a_child_heeds_interruptions_that_the_lab_was_told_to_ignore(deaf: None) -> None:
    with subprocess.Popen(["sh", "-c", "kill -INT $$; echo deaf"], preexec_fn=in_child) as child:
        assert child.wait(20) == -signal.SIGINT


@pytest.mark.parametrize("script", [HASTY, IMPATIENT], ids=["once", "again and again"])
@pytest.mark.parametrize("time", range(10))
def test_an_engine_that_is_being_started_is_ended(
    time: int, script: str, interruptible: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = tmp_path / "forehand-load"
    hasty.write_text(script)
    hasty.chmod(0o755)
    monkeypatch.setenv("FOREHAND_LOAD", str(hasty))
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(KeyboardInterrupt), engine.all_of([PLAN, PLAN]):
        signal.pause()
    left = [child for child in psutil.Process().children() if child.pid not in before]
    for child in left:
        child.kill()
    assert left == []

"""No process outlives Ctrl-C, even one that comes while the process is being started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from forehand_lab import engine
from forehand_lab.children import Once, in_child, unhurried

# Interrupts whoever started it at the first moment that it can, and would then stay for long.
HASTY = "#!/bin/sh\nkill -INT $PPID\nexec sleep 600\n"
# The same, from somebody who does not wait for what comes of it.
IMPATIENT = "#!/bin/sh\nwhile kill -INT $PPID; do :; done\n"
PLAN = {"duration_s": 1.0}


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

"""What a server's processes hold for as long as they run, and what they needed only to begin."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from asking import children, get  # type: ignore[import-not-found]
from serving import PATIENCE, PYTHON, Serving, read_reply

pytestmark = pytest.mark.interpreters

#: What a command line, TOML, certificates and status pages need; each is some hundred kilobytes.
FOR_OTHERS = {
    "argparse", "ast", "collections", "contextlib", "dataclasses", "email", "enum", "functools", "http", "inspect",
    "json", "logging", "pathlib", "re", "shutil", "signal", "socket", "ssl", "subprocess", "tempfile", "threading",
    "tomllib", "traceback", "typing", "urllib",
}  # fmt: skip


def modules(imported: str) -> set[str]:
    """All modules of an interpreter that has imported these."""
    code = f"import sys{imported}\nprint(*sys.modules)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return set(done.stdout.split())


def test_a_supervisor_holds_no_module_that_only_others_need() -> None:
    """What it imports it holds for months, and each worker with it."""
    held = modules(", forehand.reexec, forehand.launch, forehand.supervisor.run") - modules("")
    assert "forehand.supervisor.decisions" in held
    assert not held & (FOR_OTHERS | {"forehand.certificates", "forehand.run", "forehand.settings"})


def kib_of_code(pid: int) -> int:
    """KiB of our module's code and constants that a process holds (proc(5), smaps), without what was written to."""
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text(), flags=re.M)
    ours = [part for part in parts if "/_core." in part.split("\n")[0] and part.split()[1] in ("r-xp", "r--p")]
    assert ours, "the module is loaded"
    held, written = (
        sum(int(found[1]) for part in ours if (found := re.search(rf"^{field}:\s+(\d+)", part, re.M)))
        for field in ("Rss", "Anonymous")
    )
    return held - written


# Of the module that people use: it looks at pages of its file, and those of one that is built for tests are others.
@pytest.mark.once
def test_a_supervisor_does_not_hold_the_code_that_it_began_with(
    serve: Callable[..., Serving], shop: Callable[..., Path]
) -> None:
    """Beside a worker it needs next to nothing of it."""
    server = serve("shop", cwd=shop())
    get(server, "/")
    worker = children(server.pid)[0]
    # Whoever waits for the server hears that it serves before the supervisor gives anything back.
    server.until(lambda: kib_of_code(server.pid) <= kib_of_code(worker) / 2)


def kib_of_files(pid: int) -> int:
    """KiB that a process holds of files: code and constants of the interpreter, of libraries and of our module."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Rss:\s+(\d+)", text, re.M)[1]) - int(re.search(r"^Anonymous:\s+(\d+)", text, re.M)[1])  # type: ignore[index]


@pytest.mark.once
def test_a_supervisor_that_rests_holds_less_code_than_an_interpreter_that_does_nothing(
    serve: Callable[..., Serving], shop: Callable[..., Path]
) -> None:
    """What it has read options with, the interpreter's own code most of all, is given back; also after an order."""
    server = serve("shop", cwd=shop())
    with subprocess.Popen([PYTHON, "-c", "input()"], stdin=subprocess.PIPE) as bare:
        try:
            server.until(lambda: kib_of_files(bare.pid) > 1000)
            server.until(lambda: kib_of_files(server.pid) < kib_of_files(bare.pid))
            assert server.order("status")[0] == 0
            server.until(lambda: kib_of_files(server.pid) < kib_of_files(bare.pid))
        finally:
            bare.kill()


@pytest.mark.once
def test_a_worker_gives_back_what_its_requests_have_mapped_once_its_clients_have_left(
    serve: Callable[..., Serving],
) -> None:
    server = serve("echo")
    worker = children(server.pid)[0]
    with server.connect() as client:
        # More than a thousand since it has done so while requests came, at the thousandth.
        for _ in range(2500):
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            read_reply(client, bytearray())
        held = kib_of_files(worker)
    server.until(lambda: kib_of_files(worker) < held)
    assert get(server, "/")[0] == 200


DEEP = """
import re, sys
from forehand import _core

def stack():
    part = open("/proc/self/smaps").read().partition("[stack]")[2]
    return int(re.search(r"Rss:\\s+(\\d+)", part)[1])

def deep(left):
    # By C code each time: that is what imports do, and what needs the stack. Python 3.12 allows some hundred.
    return max(map(deep, [left - 1])) if left else 0

sys.setrecursionlimit(10_000)
deep(300)
before = stack()
_core.give_back_memory()
sys.stdout.write(f"{before} {stack()}")
assert deep(300) == 0
"""


def test_what_nested_calls_have_needed_of_the_stack_is_given_back() -> None:
    done = subprocess.run([PYTHON, "-c", DEEP], capture_output=True, text=True, timeout=PATIENCE, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 80 and after < 60, done.stdout

"""What a supervisor and one worker hold, by kind, beside two bare interpreters of which one is the other's child.

    holdings.py            KiB of PSS: the pong application, and one that imports nothing

Nothing here depends on how busy the machine is; but pages of libraries are shared with every other Python that runs, so
that the figures are those of a machine where others do.
"""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beside_raw import HERE, answers, free_port

#: An application that brings no module.
PLAIN = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Pong!"]
"""
#: An interpreter and its child, which imports something or nothing.
PAIR = """
import os, sys
reader, writer = os.pipe()
child = os.fork()
if not child:
    exec(sys.argv[1])
    os.write(writer, b"x")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 1)
print(child, flush=True)
sys.stdin.read()
"""


def kind(name: str, rights: str) -> str:
    """What a mapping is, by its name and what may be done with it."""
    if "/_core." in name:
        return "our module's code and constants" if "w" not in rights else "our module's data"
    if not name or name.startswith("[heap"):
        return "objects and heap"
    if "libpython" in name or "/python" in name:
        return "the interpreter's data" if "w" in rights else "the interpreter's code"
    return "shared numbers" if "memfd" in name else "stacks" if name == "[stack]" else "other libraries"


def held(pid: int) -> dict[str, int]:
    """KiB of a process by kind, shared pages divided (proc(5), smaps)."""
    found: collections.Counter[str] = collections.Counter()
    now = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        head = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \d+\s*(.*)", line)
        if head:
            now = kind(head[2], head[1])
        elif line.startswith("Pss:"):
            found[now] += int(line.split()[1])
            found["all"] += int(line.split()[1])
    return dict(found.most_common())


def child_of(pid: int) -> int:
    """The first child of a process."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@contextmanager
def server(target: str, folder: Path) -> Iterator[int]:
    """A server of one worker that has answered for a while; its process."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("forehand")), target, "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        answers(port)
        subprocess.run(
            ["wrk", "-t1", "-c64", "-d2", f"http://127.0.0.1:{port}/"], stdout=subprocess.DEVNULL, check=True
        )
        # The server hears that its clients have left.
        time.sleep(0.2)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def pair(work: str) -> dict[str, dict[str, int]]:
    """Two bare interpreters."""
    process = subprocess.Popen(
        [sys.executable, "-c", PAIR, work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
    )
    assert process.stdin is not None and process.stdout is not None
    child = int(process.stdout.readline())
    found = {"parent": held(process.pid), "child": held(child)}
    process.stdin.close()
    process.wait()
    return found


def main() -> int:
    """Measure and print; the exit status."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plain.py").write_text(PLAIN)
        for name, target, where in (("pong", "pong:application", HERE), ("plain", "plain:application", Path(folder))):
            with server(target, where) as pid:
                found[name] = {"supervisor": held(pid), "worker": held(child_of(pid))}
    found["two bare interpreters"] = pair("pass")
    found["the same, the child imports typing, as pong does"] = pair("import typing")
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What statistics cost a request, with them and without, and what names and traces cost beside them.

    python bench/inside.py [wsgi|asgi] [PIPELINE]
    python bench/inside.py [wsgi|asgi] names

Instructions are counted with valgrind's callgrind: a server of one process answers 1,600 and then 4,800 requests on
eight connections, and the difference is divided by 3,200. They are the same on a busy machine, but that what takes long
under valgrind is taken to be slow; what clocks cost is not among them. Times: `inside_cost.py`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from inside_cost import APP

FEW, MANY, CONNECTIONS = 1600, 4800, 8
#: Where spans are recorded, and nobody takes them out of a ring that has room for 1,024.
FEW_NAMED, MANY_NAMED, ROUNDS = 200, 1000, 2
#: What is switched on beside statistics: engine settings, where the share of traces stands for itself.
NAMED: dict[str, dict[str, Any]] = {
    "statistics": {},
    "request id": {"request_id": "X-Request-ID"},
    "server timing": {"server_timing": "all"},
    "traced, 1 %": {"share": 0.01},
    "traced, all": {"share": 1.0},
}
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"pong\n"
# Without a supervisor nobody would read them, so that there are none; here they are put in.
SERVE = """
import os, sys
from forehand import _core, cli
from forehand.settings import Settings
sys.argv = ["forehand", *{arguments!r}]
sys.orig_argv = [sys.executable, "-X"]
if {on}:
    fd = os.memfd_create("statistics")
    os.ftruncate(fd, _core.Statistics.BYTES)
    shared = _core.Statistics(fd, True)
    shared.take(0)
    engine = Settings.for_engine
    more = {more!r}
    if "share" in more:
        spans = os.memfd_create("spans")
        os.ftruncate(spans, _core.Spans.BYTES)
        rings = _core.Spans(spans)
        more["tracing"] = (spans, 0, more.pop("share"), True)
    Settings.for_engine = lambda self: {{**engine(self), "statistics": (fd, 0), **more}}
sys.exit(cli.main())
"""


def collected(target: str, count: int, pipeline: int, *, on: bool, more: dict[str, Any] | None = None) -> int:
    """Instructions of a whole run. `more`: engine settings."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        reader, writer = os.pipe()
        arguments = [f"app:{target}", "--bind", "127.0.0.1:0", "--workers", "0", "--ready-fd", str(writer)]
        arguments += ["--log-level", "error", "--lifespan", "off"]
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", sys.executable, "-c"]
        process = subprocess.Popen(
            [*command, SERVE.format(arguments=arguments, on=on, more=more or {})],
            pass_fds=[writer], cwd=folder, stderr=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": "0"},
        )  # fmt: skip
        os.close(writer)
        with os.fdopen(reader) as ready:
            port = int(json.loads(ready.readline())["listeners"][0].rpartition(":")[2])
        ask(port, count // CONNECTIONS // pipeline, pipeline)
        process.send_signal(signal.SIGTERM)
        found = re.search(r"Collected : (\d+)", process.communicate()[1].decode())
        if not found:
            raise SystemExit("valgrind has not said what it has counted")
        return int(found[1])


def ask(port: int, rounds: int, pipeline: int) -> None:
    """So many rounds of requests on all connections, each with all of its replies."""
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for _ in range(rounds):
        for sock in socks:
            sock.sendall(REQUEST * pipeline)
        for sock in socks:
            got = b""
            while got.count(BODY) < pipeline:
                got += sock.recv(65536)
    for sock in socks:
        sock.close()


def names(target: str) -> None:
    """What each costs beside statistics."""
    usual = 0.0
    for name, more in NAMED.items():
        # The lowest: a call that was interrupted is taken to be slow, and its route told apart from others since.
        few, many = (
            min(collected(target, count, 1, on=True, more=dict(more)) for _ in range(ROUNDS))
            for count in (FEW_NAMED, MANY_NAMED)
        )
        each = (many - few) / (MANY_NAMED - FEW_NAMED)
        usual = usual or each
        print(f"{target}, {name}: {each:.0f} instructions a request, {100 * (each / usual - 1):+.1f} %")


def main() -> None:
    words = sys.argv[1:]
    target = words[0] if words else "wsgi"
    if words[1:] == ["names"]:
        names(target)
        return
    pipeline = int(words[1]) if len(words) > 1 else 1
    without, inside = (
        (collected(target, MANY, pipeline, on=on) - collected(target, FEW, pipeline, on=on)) / (MANY - FEW)
        for on in (False, True)
    )
    print(f"{target}, {pipeline} at a time: {without:.0f} instructions a request, with statistics {inside:.0f}")


if __name__ == "__main__":
    main()

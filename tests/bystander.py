"""A client beside whatever else goes on: it asks one small thing after the other, and says how long each took.

    python bystander.py PORT PATH

says `ready` behind the first reply, goes on until its input ends, and says what it has seen, as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

#: Between a reply and the next request: it is no load itself.
PAUSE = 0.002


def main() -> int:
    port, path = int(sys.argv[1]), sys.argv[2]
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    took, first = [], None
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        while True:
            begun = time.perf_counter()
            sock.sendall(request)
            said = sock.recv(65536)
            took.append(time.perf_counter() - begun)
            if first is None:
                first = said.partition(b"\r\n\r\n")[2]
                print("ready", flush=True)
            if not said.startswith(b"HTTP/1.1 200 ") or not said.endswith(b"\r\n\r\n" + first):
                print(json.dumps({"wrong": repr(said)}), flush=True)
                return 1
            if select.select([sys.stdin], [], [], PAUSE)[0]:
                break
    took.sort()
    seen = {"replies": len(took), "median_ms": took[len(took) // 2] * 1e3, "p99_ms": took[len(took) * 99 // 100] * 1e3}
    print(json.dumps(seen), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

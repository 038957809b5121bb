"""A scripted server: each path answers wrongly in one known way. planted.py [EXTRA_US | plain | delays]

Prints its port when it listens. A thread for each connection; runs as a process of its own. EXTRA_US is processor
time that each reply of /work burns in addition: a server that is known to be slower.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
import struct
import sys
import threading
import time

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nPong!"
HEAD, BODY = GOOD[:-5], GOOD[-5:]
BYTES = {
    "/ok": GOOD,
    "/truncated": HEAD + b"Po",
    "/extra": GOOD + b"more",
    "/status-line": b"HTTP/1.1 OK fine\r\n\r\n",
    "/header": b"HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 5\r\n\r\nPong!",
    "/chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nPong!\r\n0\r\n\r\n",
    "/503": b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nBusy!",
    "/body": GOOD.replace(b"Pong!", b"Ping!"),
    "/reset-in": HEAD + b"P",
    "/end": b"",
    "/reset": b"",
}
WORK_US = 200
LONG_S = 30
# So long before an answer is due the sleep ends: a timer may be that late.
AWAKE_S = 0.0003
SO_TIMESTAMPNS = 35


def spin(microseconds: float) -> None:
    """Burn processor time of this thread, not time on the clock: the machine's other load must not count."""
    end = time.thread_time_ns() + microseconds * 1000
    while time.thread_time_ns() < end:
        pass


def reset(sock: socket.socket) -> None:
    """Close so that the kernel sends a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def serve(sock: socket.socket, extra_us: float) -> None:
    """One connection."""
    with sock:
        while True:
            data = b""
            while b"\r\n\r\n" not in data:
                part = sock.recv(65536)
                if not part:
                    return
                data += part
            path = data.split(b" ", 2)[1].decode()
            if not answer(sock, path, extra_us):
                return


def answer(sock: socket.socket, path: str, extra_us: float) -> bool:
    """One reply; whether the connection goes on."""
    if path == "/work":
        spin(WORK_US + extra_us)
        sock.sendall(GOOD)
        return True
    if path.startswith("/delay/"):
        time.sleep(float(path.rpartition("/")[2]) / 1e6)
        sock.sendall(GOOD)
        return True
    if path == "/nagle":
        # Two writes and Nagle's algorithm: the second waits for the acknowledgement of the first, which is delayed.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        sock.sendall(HEAD)
        sock.sendall(BODY)
        return True
    if path == "/late":
        time.sleep(LONG_S)
        return False
    if path == "/late-body":
        sock.sendall(HEAD)
        time.sleep(LONG_S)
        return False
    sock.sendall(BYTES[path])
    if path.startswith("/reset"):
        # What was sent has to arrive before the reset throws it away.
        time.sleep(0.02)
        reset(sock)
    return path in ("/ok", "/503", "/body")


def plain() -> None:
    """One thread, and the good reply for everything: quick, so that a queue before it is gone at once."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener, selectors.DefaultSelector() as ready:
        ready.register(listener, selectors.EVENT_READ)
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            for key, _ in ready.select():
                if key.fileobj is listener:
                    ready.register(listener.accept()[0], selectors.EVENT_READ)
                    continue
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock.recv(65536):
                    sock.send(GOOD)
                else:
                    ready.unregister(sock)
                    sock.close()


class Delays:
    """Answers /delay/US after so many microseconds, and /told with what each really was, by path, in microseconds.

    One thread, scheduled before the machine's other work where that is allowed, and awake before an answer is due.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._socks: list[socket.socket] = []
        # (due, came, path, socket), in nanoseconds.
        self._due: list[tuple[int, int, str, socket.socket]] = []
        self._told: dict[str, list[float]] = {}

    def serve(self) -> None:
        """Until killed."""
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        while True:
            due = min((entry[0] for entry in self._due), default=None)
            sleep = None if due is None else max(0.0, (due - time.time_ns()) / 1e9 - AWAKE_S)
            for sock in select.select([self._listener, *self._socks], [], [], sleep)[0]:
                if sock is self._listener:
                    self._accept()
                else:
                    self._read(sock)
            now = time.time_ns()
            for entry in tuple(self._due):
                if entry[0] <= now:
                    self._due.remove(entry)
                    self._answer(*entry[1:])

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The delay counts from when the kernel had the request, and not from when this process was woken for it.
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socks.append(sock)

    def _read(self, sock: socket.socket) -> None:
        came = time.time_ns()
        try:
            data, notes, _, _ = sock.recvmsg(65536, 64)
            for level, kind, note in notes:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, rest = struct.unpack("qq", note)
                    came = seconds * 10**9 + rest
        except OSError:
            data = b""
        if not data:
            self._socks.remove(sock)
            sock.close()
            return
        path = data.split(b" ", 2)[1].decode()
        if path == "/told":
            body = json.dumps(self._told).encode()
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        self._due.append((came + int(float(path.rpartition("/")[2]) * 1000), came, path, sock))

    def _answer(self, came: int, path: str, sock: socket.socket) -> None:
        try:
            sock.send(GOOD)
        except OSError:
            return
        # The delay lasts until the reply is sent.
        self._told.setdefault(path, []).append((time.time_ns() - came) / 1000)


def main() -> None:
    """Listen on a free port until killed."""
    if sys.argv[1:] == ["plain"]:
        return plain()
    if sys.argv[1:] == ["delays"]:
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            Delays(listener).serve()
    extra = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=quietly, args=(sock, extra), daemon=True).start()


def quietly(sock: socket.socket, extra: float) -> None:
    """A client that goes away is none of our business."""
    try:
        serve(sock, extra)
    except OSError:
        pass


if __name__ == "__main__":
    main()

"""A scripted server: each path answers wrongly in one known way. planted.py [EXTRA_US | plain]

Prints its port when it listens. A thread for each connection; runs as a process of its own. EXTRA_US is processor
time that each reply of /work burns in addition: a server that is known to be slower.
"""

from __future__ import annotations

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


def spin(microseconds: float) -> None:
    """Burn processor time of this thread, not time on the clock: the machine's other load must not count."""
    end = time.thread_time_ns() + microseconds * 1000
    while time.thread_time_ns() < end:
        pass


def delay(microseconds: float) -> None:
    """Wait by the clock: asleep for most of it, awake for its end."""
    end = time.perf_counter_ns() + microseconds * 1000
    time.sleep(max(0.0, microseconds / 1e6 - 0.002))
    while time.perf_counter_ns() < end:
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
        delay(float(path.rpartition("/")[2]))
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


def main() -> None:
    """Listen on a free port until killed."""
    if sys.argv[1:] == ["plain"]:
        return plain()
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

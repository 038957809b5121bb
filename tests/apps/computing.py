"""Views that compute, and tell which process that was in and how many did there when they began."""

import ctypes
import hashlib
import os
import socket
import threading
import time

LOCK = threading.Lock()
COMPUTING = 0
BYTES = bytes(1 << 20)
#: Where it is told that one has begun to compute, if somebody wants to know.
BEGUN = os.environ.get("COMPUTING_BEGUN")


#: What lets go of the interpreter while it computes, and what does not.
WORK = {"/hash": lambda: hashlib.sha256(BYTES), "/burn": lambda: None}


def application(environ, start_response):
    beside = 0
    if environ["PATH_INFO"] in WORK:
        beside = compute(WORK[environ["PATH_INFO"]], float(environ["QUERY_STRING"]))
    elif environ["PATH_INFO"] == "/hold":
        ctypes.PyDLL(None).usleep(int(float(environ["QUERY_STRING"]) * 1e6))  # this does not let go of the interpreter
    elif environ["PATH_INFO"] == "/rest":
        time.sleep(float(environ["QUERY_STRING"]))
    text = f"{os.getpid()} {beside}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]


def compute(work, seconds):
    global COMPUTING
    with LOCK:
        beside, COMPUTING = COMPUTING, COMPUTING + 1
    if BEGUN:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"begun", BEGUN)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        work()
    with LOCK:
        COMPUTING -= 1
    return beside

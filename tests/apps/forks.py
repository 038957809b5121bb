"""Applications that fork, as WSGI and as ASGI: the path says what the child does.

The parent answers with the child's exit status when it is over, its own id, and what it has read of the body.
"""

import asyncio
import ctypes
import json
import multiprocessing
import os
import platform
import posix
import signal
import subprocess
import sys
import threading
import time


class Child(Exception):
    """Raised in the child where it goes on as the application, to do what the path says."""


def wait_for(pid):
    """A child's exit status, once it is over; minus a signal's number. Not through `os`, where gevent waits for a
    SIGCHLD that it may have missed if it is the first."""
    return os.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])


def fork():
    """A child's status in the parent; Child in the child."""
    pid = os.fork()
    if pid == 0:
        raise Child
    return wait_for(pid)


def forkpty():
    pid, fd = os.forkpty()
    if pid == 0:
        raise Child
    try:
        while os.read(fd, 1024):
            pass
    except OSError:
        pass  # the child has closed its end
    os.close(fd)
    return wait_for(pid)


def on_a_thread():
    """The child is what is left of a helper thread, and returns from it."""
    told = []

    def work():
        pid = os.fork()
        if pid:
            told.append(pid)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return wait_for(told[0])


def terminated():
    """A child that is told to end with SIGTERM, as multiprocessing does, while it waits for ever."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"x")
        while True:
            time.sleep(60)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    os.kill(pid, signal.SIGTERM)
    return wait_for(pid)


def process(method):
    child = multiprocessing.get_context(method).Process(target=int, args=("3",))
    child.start()
    child.join()
    return child.exitcode


def stays():
    """A child that is there until it is killed; its id."""
    pid = os.fork()
    while pid == 0:
        time.sleep(60)
    return pid


def stays_in_c():
    """The same of C code, of which the interpreter hears nothing."""
    c = ctypes.PyDLL(None)
    pid = c.fork()
    while pid == 0:
        c.sleep(60)
    return pid


def stays_unseen():
    """The same, by the bare system call: no handler of the C library's runs."""
    subprocess.run(["true"], preexec_fn=os.getpid, check=True)
    c = ctypes.PyDLL(None)
    pid = c.syscall(57 if platform.machine() == "x86_64" else 220, signal.SIGCHLD, 0, 0, 0, 0)
    while pid == 0:
        c.sleep(60)
    return pid


IN_PARENT = {
    "again": fork,
    "pty": forkpty,
    "thread": on_a_thread,
    "terminated": terminated,
    "mp-fork": lambda: process("fork"),
    "mp-spawn": lambda: process("spawn"),
    "mp-forkserver": lambda: process("forkserver"),
    "subprocess": lambda: subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False).returncode,
    "preexec": lambda: subprocess.run(["true"], preexec_fn=os.getpid, check=False).returncode,
    "stays": stays,
    "stays-in-c": stays_in_c,
    "stays-unseen": stays_unseen,
    "no": int,
}


def in_child(what):
    """What a child does that does not need to know how it was called."""
    if what == "raises":
        raise RuntimeError("raised in the child")
    if what == "exits":
        sys.exit(3)
    if what == "exits-with-text":
        sys.exit("the child's last word")
    if what == "exit-is-caught":
        try:
            sys.exit(3)
        except SystemExit:
            pass
    if what == "prints":
        sys.stdout.write("printed by the child and not flushed\n")
    if what == "ends":
        os._exit(7)
    if what == "execs":
        os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(5)"])
    if what == "again":
        try:
            fork()
        except Child:
            pass


def application(environ, start_response):
    what = environ["PATH_INFO"].strip("/")
    if what == "generator":
        start_response("200 OK", [("Content-Type", "application/json")])
        return in_a_generator(environ)
    try:
        status = IN_PARENT.get(what, fork)()
    except Child:
        if what == "reads":
            assert set(environ["wsgi.input"].read()) == {ord("x")}
        in_child(what)
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        if what == "writes":
            for _ in range(100):
                write(b"x" * 100_000)
        return [b"from the child " * 10_000]
    read = len(environ["wsgi.input"].read())
    body = json.dumps({"pid": os.getpid(), "status": status, "read": read}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def in_a_generator(environ):
    try:
        status = fork()
    except Child:
        for _ in range(100):
            yield b"from the child " * 10_000
        return
    yield json.dumps({"pid": os.getpid(), "status": status, "read": 0}).encode()


async def asynchronous(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    what = scope["path"].strip("/")
    try:
        if what == "callback":
            status = await in_a_callback()
        elif what == "in-a-thread":
            status = wait_for(await asyncio.to_thread(fork_and_end))
        else:
            status = IN_PARENT.get(what, fork)()
    except Child:
        in_child(what)
        if what == "sleeps":
            await asyncio.sleep(0.01)
        if what == "waits":
            await asyncio.Event().wait()
        if what == "reads":
            await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if what == "writes":
            for _ in range(100):
                await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        await send({"type": "http.response.body", "body": b"from the child"})
        return
    read, more = 0, True
    while more:
        event = await receive()
        read += len(event.get("body", b""))
        more = event.get("more_body", False)
    body = json.dumps({"pid": os.getpid(), "status": status, "read": read}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def lifespan(receive, send):
    while True:
        event = await receive()
        await send({"type": event["type"] + ".complete"})
        if event["type"] == "lifespan.shutdown":
            return


async def in_a_callback():
    """The child returns into the event loop."""
    loop = asyncio.get_running_loop()
    forked = loop.create_future()

    def work():
        pid = os.fork()
        if pid:
            forked.set_result(pid)

    loop.call_soon(work)
    return wait_for(await forked)


def fork_and_end():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return pid


def forks_and_returns(*facts):
    """A hook, or a readiness call, whose child comes back."""
    pid = os.fork()
    if pid and wait_for(pid) != 0:
        raise RuntimeError("the child has failed")

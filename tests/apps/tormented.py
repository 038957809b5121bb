"""An application that does what it is asked, and tells in each reply whose it is: `torment/asked.py` asks."""

import collections
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from urllib.parse import parse_qsl

from torment.asked import SOME
from torment.pattern import content

PART = 16 * 1024
#: Files that replies have named, the oldest first; so many are kept.
NAMED: collections.deque[str] = collections.deque()
NAMED_KEPT = 200
# Children are reaped by the kernel. Where the hub of gevent watches for them, it replaces this.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class OnPurpose(Exception):
    """Raised because a request asked for it."""


def asked(query):
    """What a query asks for."""
    found = dict(parse_qsl(query, keep_blank_values=True))
    for name in ("n", "p", "b"):
        found[name] = int(found[name])
    return found


def burn(milliseconds):
    """Keep the interpreter busy."""
    until = time.monotonic() + milliseconds / 1000
    while time.monotonic() < until:
        sum(range(100))


def told(found, took):
    """The fields that tell whose reply this is, what was read, and who has answered."""
    text = "" if took is None else f"{len(took)}:{zlib.crc32(took)}"
    return [("X-Id", found["i"]), ("X-Took", text), ("X-Process", f"{os.getpid()} {os.getppid()}")]


def pieces(found):
    """The content in parts."""
    for at in range(0, found["n"], PART):
        yield content(found["i"], at, min(at + PART, found["n"]))


def fork(how):
    """Be two processes for a moment. True: this is the child, which goes on as if it were the worker."""
    if how == "spawn":
        subprocess.run([sys.executable, "-S", "-c", "pass"], check=False)
        return False
    if os.fork():
        return False
    if "gevent" in sys.modules:
        # Greenlets of the hub go on here, too, and fail where they were threads: what it prints of that, line by line,
        # would stand between lines of everybody else.
        sys.modules["gevent"].get_hub().exception_stream = None
    if how == "gone":
        os._exit(0)
    if how == "linger":
        time.sleep(0.5)
        os._exit(0)
    if how == "exit":
        sys.exit(0)
    if how == "raise":
        raise OnPurpose("in a child")
    return True


def take(stream, found):
    """Of the body what is to be read; None where another thread does it."""
    if found["r"] == "all":
        return stream.read()
    if found["r"] == "some":
        return stream.read(SOME)
    if found["r"] == "lent":
        threading.Thread(target=quietly, args=(stream.read,), daemon=True).start()
        time.sleep(0.005)
        return None
    return b""


def quietly(work):
    """What a helper does when its request is over: nothing that anybody hears of."""
    try:
        work()
    except Exception:
        pass


def application(environ, start_response):
    if environ["PATH_INFO"] == "/tick":
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]
    found = asked(environ["QUERY_STRING"])
    took = take(environ["wsgi.input"], found)
    if found["f"]:
        fork(found["f"])
    if found["p"]:
        time.sleep(found["p"] / 1000)
    burn(found["b"])
    way = found["w"]
    if way == "raise":
        raise OnPurpose(found["i"])
    fields = told(found, took)
    sized = [*fields, ("Content-Length", str(found["n"]))]
    if way == "write":
        write = start_response("200 OK", sized)
        for piece in pieces(found):
            write(piece)
        return []
    if way == "lent":
        write = start_response("200 OK", fields)
        threading.Thread(target=quietly, args=(lambda: [write(piece) for piece in pieces(found)],), daemon=True).start()
        time.sleep(0.005)
        return []
    if way == "named":
        start_response("200 OK", [*fields, ("X-Sendfile", named(found))])
        return pieces({**found, "n": found["n"] // 2})  # of which nothing is sent
    if way == "file":
        return environ["wsgi.file_wrapper"](filed(found, start_response, sized), 65536)
    start_response("200 OK", fields if way == "unsized" else sized)
    if way == "whole":
        return [content(found["i"], 0, found["n"])]
    return halting(found) if way == "raise-late" else pieces(found)


def named(found):
    """The path of a file with the content, which is there for a while. A forked child has its own."""
    path = f"{os.environ['TORMENT_NAMED']}/{os.getpid()}-{found['i']}"
    with open(path, "wb") as file:
        file.write(content(found["i"], 0, found["n"]))
    NAMED.append(path)
    if len(NAMED) > NAMED_KEPT:
        os.unlink(NAMED.popleft())
    return path


def filed(found, start_response, fields):
    """The content in a file without a name."""
    file = os.fdopen(os.memfd_create("content"), "w+b")
    file.write(content(found["i"], 0, found["n"]))
    file.seek(0)
    start_response("200 OK", fields)
    return file


def halting(found):
    """Half of the content."""
    yield content(found["i"], 0, found["n"] // 2)
    raise OnPurpose(found["i"])

"""Views that wait as greenlets do: one path each."""

import contextvars
import os
import socket
import sys
import threading
import time

import gevent
from gevent import monkey
from gevent.event import Event
from gevent.lock import Semaphore

#: What the module found when it was imported.
PATCHED = monkey.is_module_patched("socket") and socket.socket.__module__.startswith("gevent")
TEXT = [("Content-Type", "text/plain")]
SEEN = contextvars.ContextVar("SEEN")
LOCAL = threading.local()
MEETING = Semaphore(1)
ALL_THERE = Event()
INSIDE = 0
OTHERS = []


def application(environ, start_response):
    view = globals().get("view_" + environ["PATH_INFO"].strip("/").replace("-", "_"))
    if view is None:
        start_response("404 Not Found", TEXT)
        return [b"no such view"]
    answer = view(environ, start_response)
    if isinstance(answer, str):
        start_response("200 OK", TEXT)
        return [answer.encode()]
    return answer


def say(text):
    os.write(2, f"{text}\n".encode())


def view_hello(environ, start_response):
    return "hello"


def view_facts(environ, start_response):
    greenlet = gevent.getcurrent()
    in_hub = greenlet.parent is gevent.get_hub()
    return f"patched={PATCHED} parent-is-hub={in_hub} multithread={environ['wsgi.multithread']} pid={os.getpid()}"


def view_meet(environ, start_response):
    """Answers once as many are here at the same time as the query says."""
    global INSIDE
    INSIDE += 1
    if int(environ["QUERY_STRING"]) == INSIDE:
        ALL_THERE.set()
    return "met" if ALL_THERE.wait(20) else f"only {INSIDE} came"


def view_fresh(environ, start_response):
    """What is kept for a greenlet is not there for the next."""
    seen = SEEN.get("nothing"), getattr(LOCAL, "value", "nothing")
    SEEN.set("something")
    LOCAL.value = "something"
    time.sleep(0)
    return f"{seen[0]} {seen[1]} {SEEN.get()} {LOCAL.value}"


def view_until(environ, start_response):
    """Waits until there is a file."""
    say("waits for the file")
    while not os.path.exists(os.environ["TEST_FILE"]):
        time.sleep(0.01)
    return "it is there"


def view_upload(environ, start_response):
    total = 0
    while part := environ["wsgi.input"].read(1000):
        total += len(part)
    return f"{total} bytes"


def view_told_upload(environ, start_response):
    """Reads a body, and tells the log how that ended."""
    say("reads")
    try:
        return f"{len(environ['wsgi.input'].read())} bytes"
    except BaseException as error:
        say(f"reading raised {type(error).__name__}: {error}")
        raise


def view_impatient(environ, start_response):
    """Gives a body that does not come a tenth of a second."""
    with gevent.Timeout(0.1, False):
        environ["wsgi.input"].read()
        return "it came"
    return "it did not come"


def view_timeout(environ, start_response):
    with gevent.Timeout(0.05):
        time.sleep(20)


def view_handed_on(environ, start_response):
    """Another greenlet goes on reading when the request has ended."""

    def read():
        try:
            environ["wsgi.input"].read()
        except RuntimeError as error:
            say(f"the other one heard: {error}")

    OTHERS.append(gevent.spawn(read))
    time.sleep(0.01)
    return "ended"


def view_stream(environ, start_response):
    """So many parts of 64 KiB; tells the log when the last is taken."""

    def parts():
        try:
            for _ in range(int(environ["QUERY_STRING"])):
                yield b"x" * 65536
            say("the last part was taken")
        finally:
            say("the parts were closed")

    start_response("200 OK", TEXT)
    return parts()


def view_write(environ, start_response):
    write = start_response("200 OK", TEXT)
    for _ in range(int(environ["QUERY_STRING"])):
        write(b"x" * 65536)
    say("all was written")
    return []


def view_forever(environ, start_response):
    try:
        say("begins to wait")
        time.sleep(1000)
    except BaseException as error:
        say(f"was ended by {type(error).__name__}")
        raise
    finally:
        say("cleaned up")


def view_stubborn(environ, start_response):
    """Does not let itself be ended."""
    say("begins to wait")
    while True:
        try:
            time.sleep(1000)
        except BaseException as error:
            say(f"ignores {type(error).__name__}")


def view_nap(environ, start_response):
    say("naps")
    time.sleep(float(environ["QUERY_STRING"]))
    return "slept"


def view_exits(environ, start_response):
    raise gevent.GreenletExit


def view_shell(environ, start_response):
    import subprocess

    return subprocess.run(["echo", "from a shell"], capture_output=True, check=True, text=True).stdout


def view_thread(environ, start_response):
    """A thread of the standard library is a greenlet here."""
    found = []
    thread = threading.Thread(target=lambda: found.append(type(gevent.getcurrent()).__name__))
    thread.start()
    thread.join()
    return found[0]


def validated(environ, start_response):
    from wsgiref.validate import validator

    return validator(application)(environ, start_response)


async def asynchronous(scope, receive, send):
    pass


if "greenlets_started" in os.environ:
    sys.exit("this application is imported where it must not be")

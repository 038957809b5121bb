"""Applications that hand what belongs to a request to other threads (under gevent: to other greenlets)."""

import sys
import threading
import time

NOTES = []
WRITTEN = []
STOOD_STILL = []
TOLD = threading.Event()
PART = b"0123456789abcdef" * 20_000


def application(environ, start_response):
    view = globals()["view_" + environ["PATH_INFO"].strip("/").replace("-", "_")]
    return view(environ, start_response)


def answer(start_response, body):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def noting(work):
    """Run `work` on a thread of its own, and note what it raises."""

    def run():
        try:
            work()
            NOTES.append("nothing was raised")
        except Exception as error:
            NOTES.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def until_it_stands_still(steps):
    """Return when nothing has been added for a while: whoever adds waits for something."""
    seen = -1
    while len(steps) != seen or not steps:
        seen = len(steps)
        time.sleep(0.1)


def view_hello(environ, start_response):
    return answer(start_response, b"hello")


def view_reads_when_told(environ, start_response):
    NOTES.append("asked")
    TOLD.wait()
    try:
        return answer(start_response, environ["wsgi.input"].read())
    finally:
        NOTES.append("read")


def view_tell(environ, start_response):
    TOLD.set()
    return answer(start_response, b"told")


def view_notes(environ, start_response):
    return answer(start_response, "\n".join(NOTES).encode())


def view_stood_still(environ, start_response):
    return answer(start_response, str(len(STOOD_STILL)).encode())


def view_writes_on(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])

    def work():
        while True:
            write(PART)
            WRITTEN.append(1)

    noting(work)
    until_it_stands_still(WRITTEN)
    STOOD_STILL.append(1)
    return []


def view_writes_on_in_the_pool(environ, start_response):
    """A thread of the system's under gevent, which can wait for no greenlet."""
    import gevent

    write = start_response("200 OK", [("Content-Type", "text/plain")])

    def work():
        try:
            while True:
                write(PART)
        except Exception as error:
            NOTES.append(f"{type(error).__name__}: {error}")

    gevent.get_hub().threadpool.spawn(work).get()
    return []


def view_two_write(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    both = [noting(lambda part=part: [write(part) for _ in range(20)]) for part in (b"a" * 50_000, b"b" * 200_000)]
    for thread in both:
        thread.join()
    return []


def view_reads_on(environ, start_response):
    stream = environ["wsgi.input"]
    begun = threading.Event()

    def work():
        begun.set()
        stream.read()

    noting(work)
    begun.wait()
    time.sleep(0.1)  # the other thread is in its wait, most likely: either way the reply is the same
    return answer(start_response, b"answered")


def view_writes_unstarted(environ, start_response):
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    try:
        raise ValueError("on purpose")
    except ValueError:
        try:
            start_response("this is no status", [], sys.exc_info())
        except ValueError:
            pass
    write(b"never to be seen")
    return []


def view_writes_nothing_first(environ, start_response):
    write = start_response("200 OK", [("X-First", "1")])
    write(b"")
    try:
        raise ValueError("on purpose")
    except ValueError:
        start_response("503 Later", [("X-Second", "2")], sys.exc_info())
    return [b"later"]


def view_reads(environ, start_response):
    body = environ["wsgi.input"].read()
    return answer(start_response, str(len(body)).encode())


def view_reads_and_wraps(environ, start_response):
    try:
        environ["wsgi.input"].read()
    except OSError as error:
        raise ValueError("this form cannot be read") from error
    return answer(start_response, b"read")


def view_reads_late(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])

    def parts():
        yield b"first"
        environ["wsgi.input"].read()

    return parts()


def view_reads_and_answers(environ, start_response):
    try:
        environ["wsgi.input"].read()
    except ConnectionResetError as error:
        start_response("400 Bad Request", [("Content-Type", "text/plain")])
        return [str(error).encode()]
    return answer(start_response, b"read")


def view_reads_and_fails(environ, start_response):
    environ["wsgi.input"].read(2)
    raise ValueError("a failure of its own")


def view_fails_late(environ, start_response):
    """Fails just before its deadline, with a log whose writing lasts beyond it."""
    import logging

    class Slow(logging.Handler):
        def emit(self, record):
            until = time.monotonic() + 2
            while time.monotonic() < until:
                pass
            NOTES.append("told")

    logging.getLogger("forehand.error").addHandler(Slow())
    time.sleep(max(0, environ["forehand.deadline"] - 1.2))
    raise ValueError("late")


def view_reset_content(environ, start_response):
    start_response("205 Reset Content", [("Content-Length", "6")])
    return [b"unseen"]

"""What applications do, well or badly: one path each."""

import os
import sys
import threading
import time

CLOSED = []
LOCK = threading.Lock()
KEPT = []
GATES = {}


class Closing:
    """An iterable that notes how often it was closed."""

    def __init__(self, name, parts, error=None):
        self.name, self.parts, self.error = name, iter(parts), error

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.parts)

    def close(self):
        with LOCK:
            CLOSED.append(self.name)
        if self.error:
            raise self.error


def forever():
    while True:
        yield b"x" * 65536


def failing(parts):
    yield from parts
    raise RuntimeError("raised on purpose")


def application(environ, start_response):
    path = environ["PATH_INFO"]
    view = globals().get("view_" + path.strip("/").replace("-", "_"))
    if view is None:
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"no such view"]
    return view(environ, start_response)


TEXT = [("Content-Type", "text/plain")]


def view_hello(environ, start_response):
    start_response("200 OK", TEXT)
    return [b"hello"]


def view_closed(environ, start_response):
    start_response("200 OK", TEXT)
    with LOCK:
        return [" ".join(CLOSED).encode()]


def view_generator(environ, start_response):
    start_response("200 OK", TEXT)
    return Closing("generator", [b"a", b"", b"b", b"c"])


def view_sized(environ, start_response):
    start_response("200 OK", [*TEXT, ("Content-Length", "3")])
    return Closing("sized", [b"a", b"b", b"c"])


def view_late_start(environ, start_response):
    def parts():
        start_response("200 OK", TEXT)
        yield b"late"

    return parts()


def view_write(environ, start_response):
    write = start_response("200 OK", TEXT)
    write(b"one ")
    write(b"two ")
    return [b"three"]


def view_raises(environ, start_response):
    raise RuntimeError("raised on purpose")


def view_raises_after_start(environ, start_response):
    start_response("200 OK", TEXT)
    raise RuntimeError("raised on purpose")


def view_raises_before_first(environ, start_response):
    start_response("200 OK", TEXT)
    return Closing("raises-before-first", failing([]))


def view_raises_after_first(environ, start_response):
    start_response("200 OK", TEXT)
    return Closing("raises-after-first", failing([b"x" * 100]))


def view_close_raises(environ, start_response):
    start_response("200 OK", TEXT)
    return Closing("close-raises", [b"fine"], ValueError("close failed on purpose"))


def view_none(environ, start_response):
    start_response("200 OK", TEXT)


def view_str(environ, start_response):
    start_response("200 OK", TEXT)
    return "text"


def view_bytes(environ, start_response):
    start_response("200 OK", TEXT)
    return b"bytes"


def view_strings(environ, start_response):
    start_response("200 OK", TEXT)
    return Closing("strings", ["text"])


def view_numbers(environ, start_response):
    start_response("200 OK", TEXT)
    return [1, 2]


def view_never_starts(environ, start_response):
    return [b"body"]


def view_twice(environ, start_response):
    start_response("200 OK", TEXT)
    start_response("200 OK", TEXT)
    return [b"body"]


def view_replaced(environ, start_response):
    start_response("200 OK", TEXT)
    try:
        raise RuntimeError("replaced")
    except RuntimeError:
        start_response("503 Service Unavailable", TEXT, sys.exc_info())
    return [b"replaced"]


def view_too_late(environ, start_response):
    write = start_response("200 OK", TEXT)
    write(b"gone")
    try:
        raise RuntimeError("too late on purpose")
    except RuntimeError:
        start_response("500 Oops", TEXT, sys.exc_info())
    return [b"never"]


def view_short(environ, start_response):
    start_response("200 OK", [*TEXT, ("Content-Length", "10")])
    return [b"12345"]


def view_long(environ, start_response):
    start_response("200 OK", [*TEXT, ("Content-Length", "10")])
    return [b"123456789012345"]


def view_short_parts(environ, start_response):
    start_response("200 OK", [*TEXT, ("Content-Length", "10")])
    return Closing("short-parts", [b"123", b"45"])


def view_long_parts(environ, start_response):
    start_response("200 OK", [*TEXT, ("Content-Length", "10")])
    return Closing("long-parts", [b"123456", b"789012", b"345"])


def view_injection(environ, start_response):
    start_response("200 OK", [("X", "a\r\nSet-Cookie: b")])
    return [b"body"]


def view_bad_name(environ, start_response):
    start_response("200 OK", [("X Y", "a")])
    return [b"body"]


def view_nul(environ, start_response):
    start_response("200 OK", [("X", "a\0")])
    return [b"body"]


def view_not_latin(environ, start_response):
    start_response("200 OK", [("X", "\u20ac")])
    return [b"body"]


def view_latin(environ, start_response):
    start_response("200 Gr\xfc\xdfe", [("X", "\xe4")])
    return [b"body"]


def view_bytes_header(environ, start_response):
    start_response("200 OK", [(b"X", b"a")])
    return [b"body"]


def view_bad_status(environ, start_response):
    start_response("OK", TEXT)
    return [b"body"]


def view_no_content(environ, start_response):
    start_response("204 No Content", [])
    return [b"must not be sent"]


def view_not_modified(environ, start_response):
    start_response("304 Not Modified", [("Content-Length", "7")])
    return [b"must not be sent"]


def view_endless(environ, start_response):
    start_response("200 OK", TEXT)
    return Closing("endless", forever())


def view_big(environ, start_response):
    start_response("200 OK", TEXT)
    return [b"b" * int(environ["QUERY_STRING"])]


def view_sleep(environ, start_response):
    time.sleep(float(environ["QUERY_STRING"] or 0.05))
    start_response("200 OK", TEXT)
    return [b"slept"]


def view_until(environ, start_response):
    """Waits until there is a file, and says so."""
    os.write(2, b"waits for the file\n")
    while not os.path.exists(os.environ["TEST_FILE"]):
        time.sleep(0.01)
    start_response("200 OK", TEXT)
    return [b"it is there"]


def view_burn(environ, start_response):
    until = time.monotonic() + float(environ["QUERY_STRING"])
    while time.monotonic() < until:
        pass
    start_response("200 OK", TEXT)
    return [b"burnt"]


def view_keeps(environ, start_response):
    KEPT.append(start_response)
    start_response("200 OK", TEXT)
    return [b"kept"]


def view_uses_kept(environ, start_response):
    start_response("200 OK", TEXT)
    try:
        KEPT[-1]("200 OK", TEXT)
    except RuntimeError as error:
        return [str(error).encode()]
    return [b"it worked, which it must not"]


def view_file(environ, start_response):
    start_response("200 OK", TEXT)
    file = open(os.environ["TEST_FILE"], "rb")  # noqa: SIM115
    file.seek(int(environ["QUERY_STRING"] or 0))
    return environ["wsgi.file_wrapper"](file, 4096)


def view_memory_file(environ, start_response):
    import io

    start_response("200 OK", TEXT)
    return environ["wsgi.file_wrapper"](io.BytesIO(b"from memory" * 1000))


def view_upload(environ, start_response):
    import hashlib

    digest, total = hashlib.sha256(), 0
    while True:
        part = environ["wsgi.input"].read(10_000)
        if not part:
            break
        digest.update(part)
        total += len(part)
    start_response("200 OK", TEXT)
    return [f"{total} {environ.get('CONTENT_LENGTH')} {digest.hexdigest()}".encode()]


def view_lines(environ, start_response):
    stream = environ["wsgi.input"]
    how = environ["QUERY_STRING"]
    if how == "readline":
        lines = list(iter(stream.readline, b""))
    elif how == "readline5":
        lines = list(iter(lambda: stream.readline(5), b""))
    elif how == "readlines":
        lines = stream.readlines()
    elif how == "hint":
        lines = [len(stream.readlines(4)), *stream.readlines()]
    elif how == "mixed":
        lines = [stream.read(0), stream.read(2), stream.readline(), stream.read(-1), stream.read(), stream.readline()]
    else:
        lines = list(stream)
    start_response("200 OK", TEXT)
    return [repr(lines).encode()]


def view_ignores_body(environ, start_response):
    start_response("200 OK", TEXT)
    return [b"ignored"]


def view_environ(environ, start_response):
    start_response("200 OK", TEXT)
    return [repr({k: (type(v).__name__, v if isinstance(v, (str, bool, tuple)) else "") for k, v in environ.items()})
            .encode()]  # fmt: skip


def view_exits(environ, start_response):
    raise SystemExit(3)


def validated(environ, start_response):
    """The same views through `wsgiref.validate`, for those that keep to PEP 3333."""
    from wsgiref.validate import validator

    return validator(application)(environ, start_response)


def view_burn_until(environ, start_response):
    """Computes until somebody opens the gate."""
    opened = gate(environ["QUERY_STRING"])
    os.write(2, b"burns until it is told\n")
    while not opened.is_set():
        pass
    start_response("200 OK", TEXT)
    return [b"burnt"]


def view_read_file(environ, start_response):
    with open(os.environ["TEST_FILE"], "rb") as file:
        body = file.read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def gate(name):
    with LOCK:
        return GATES.setdefault(name, threading.Event())


def view_gate(environ, start_response):
    gate(environ["QUERY_STRING"]).wait()
    start_response("200 OK", TEXT)
    return [b"through"]


def view_open(environ, start_response):
    gate(environ["QUERY_STRING"]).set()
    start_response("200 OK", TEXT)
    return [b"open"]


def view_header_kinds(environ, start_response):
    pairs = {"X-One": "1", "X-Two": "2"}
    kind = environ["QUERY_STRING"]
    headers = {
        "items": pairs.items(),
        "generator": ((name, value) for name, value in pairs.items()),
        "lists": [[name, value] for name, value in pairs.items()],
        "tuple": tuple(pairs.items()),
        "dict": pairs,
        "triples": [["X-One", "1", "2"]],
        "none": None,
        "number": 1,
    }[kind]
    start_response("200 OK", headers)
    return [b"body"]


def view_body_kinds(environ, start_response):
    import array

    write = start_response("200 OK", TEXT)
    kind = environ["QUERY_STRING"]
    whole = bytes(range(256)) * 500
    changing = bytearray(b"changing")
    if kind == "bytearray":
        return [bytearray(b"one ")]
    if kind == "memoryview":
        return [memoryview(b"one "), bytearray(b"two")]
    if kind == "generator":
        return (part for part in [bytearray(b"one "), memoryview(b"two ")[::2], memoryview(b""), b"three"])
    if kind == "large":
        return iter([bytearray(whole), memoryview(whole)])
    if kind == "write":
        write(changing)
        changing[:] = b"otherwise"
        write(memoryview(changing)[:5])
        return []
    if kind == "array":
        return [array.array("I", [1, 2])]
    if kind == "released":
        view = memoryview(b"gone")
        view.release()
        return [view]
    if kind == "write-str":
        write("text")
    return [b"never"]

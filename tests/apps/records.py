"""Replies that have to be cut into records, of every kind that there is: `KIND=SIZE` says which, and how large."""

import asyncio
import queue
import tempfile

#: Bodies that were given up, as the application has heard it.
LEFT = []
#: What `release` puts here ends one that is `held`.
RELEASED = queue.SimpleQueue()


def content(size):
    """Bytes of which no part looks like another."""
    return b"".join(b"%07d\n" % at for at in range((size + 7) // 8))[:size]


def _file(size):
    file = tempfile.TemporaryFile()
    file.write(b"skipped" + content(size))
    file.flush()
    file.seek(7)
    return file


class Parts:
    """As many bytes as there are, in parts of `step`."""

    def __init__(self, size, step):
        self.rest, self.step = content(size), step

    def __iter__(self):
        return self

    def __next__(self):
        if not self.rest:
            raise StopIteration
        part, self.rest = self.rest[: self.step], self.rest[self.step :]
        return part


class Held:
    """All bytes that were announced, and an end that is long in coming."""

    def __init__(self, size):
        self.rest = [content(size)]

    def __iter__(self):
        return self

    def __next__(self):
        if self.rest:
            return self.rest.pop()
        RELEASED.get(timeout=30)
        raise StopIteration


class Endless:
    """Parts without an end, until somebody closes them."""

    def __iter__(self):
        return self

    def __next__(self):
        return b"x" * 1000

    def close(self):
        LEFT.append("endless")


def application(environ, start_response):
    kind, _, number = environ["QUERY_STRING"].partition("=")
    size = int(number or "0")
    headers = []
    body = {
        "bytes": lambda: [content(size)],
        "bytearray": lambda: [bytearray(content(size))],
        "parts": lambda: Parts(size, 1000),
        "large": lambda: Parts(size, 200_000),
        "sized": lambda: Parts(size, 200_000),
        "file": lambda: environ["wsgi.file_wrapper"](_file(size)),
        "short": lambda: Parts(size, 100),
        "endless": Endless,
        "left": lambda: [b"%d" % len(LEFT)],
        "echo": lambda: [environ["wsgi.input"].read()],
        "length": lambda: [environ.get("CONTENT_LENGTH", "none").encode(), b" ", environ["wsgi.input"].read()],
        "client": lambda: [environ["REMOTE_ADDR"].encode()],
        "held": lambda: Held(size),
        "release": lambda: [RELEASED.put(None) or b"done"],
        "": lambda: [b"hello"],
    }[kind]()
    if kind in ("sized", "short", "held"):
        headers = [("Content-Length", str(size + (kind == "short")))]
    start_response("200 OK", headers)
    return body


async def app(scope, receive, send):
    if scope["type"] != "http":
        raise ValueError("there is no lifespan")
    kind, _, number = scope["query_string"].decode().partition("=")
    size = int(number or "0")
    headers = []
    if kind in ("sized", "short", "held"):
        headers = [(b"content-length", b"%d" % (size + (kind == "short")))]

    async def part(body, more=False):
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def whole_body():
        body, more = b"", True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                LEFT.append("body")
                raise ConnectionError("the client has left")
            body, more = body + event.get("body", b""), event.get("more_body", False)
        return body

    received = await whole_body()
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if kind in ("parts", "large", "sized", "short"):
        for piece in Parts(size, {"parts": 1000, "short": 100}.get(kind, 200_000)):
            await part(piece, True)
        await part(b"")
    elif kind == "file":
        with _file(size) as file:
            await send({"type": "http.response.zerocopysend", "file": file.fileno(), "offset": 7, "more_body": False})
    elif kind == "held":
        await part(content(size), True)
        while RELEASED.empty():
            await asyncio.sleep(0)
        RELEASED.get()
        await part(b"")
    elif kind == "endless":
        await part(b"x", True)
        while (await receive())["type"] != "http.disconnect":
            pass
        LEFT.append("endless")
    else:
        own = dict(scope["headers"]).get(b"content-length", b"none")
        await part({
            "bytes": content(size),
            "bytearray": bytearray(content(size)),
            "left": b"%d" % len(LEFT),
            "release": kind == "release" and (RELEASED.put(None) or b"done"),
            "echo": received,
            "length": own + b" " + received,
            "client": (scope["client"] or ("",))[0].encode(),
            "": b"hello",
        }[kind])  # fmt: skip

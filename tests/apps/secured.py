"""Tells what is known of the connection's TLS, sends much, takes much, and upgrades; as WSGI and as ASGI."""

import ctypes
import json
import sys
import time


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/cut":
        # More is promised than is sent.
        start_response("200 OK", [("Content-Type", "text/plain")])
        return cut(environ)
    if path == "/sleep":
        time.sleep(5)
    if path == "/large":
        start_response("200 OK", [("Content-Length", str(5_000_000))])
        return [large(5_000_000)]
    if path == "/parts":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (large(100_000) for _ in range(20))
    if path == "/upload":
        body = environ["wsgi.input"].read()
        answer = f"{len(body)} {body[:1].decode()}{body[-1:].decode()}".encode()
    elif path == "/allocated":
        answer = str(allocated()).encode()
    elif path == "/all":
        answer = json.dumps({key: value for key, value in environ.items() if isinstance(value, str)}).encode()
    else:
        told = {
            key: value for key, value in environ.items() if key.startswith("SSL_") or key in ("HTTPS", "SERVER_PORT")
        }
        answer = json.dumps({"scheme": environ["wsgi.url_scheme"], **told}).encode()
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


def allocated():
    """Bytes that glibc's allocator has given out; Python has arenas of its own."""
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    kind = type("Info", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_size_t) for name in names.split()]})
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = kind
    told = libc.mallinfo2()
    return told.uordblks + told.hblkhd


def large(size):
    return bytes(range(256)) * (size // 256) + bytes(size % 256)


def cut(environ):
    yield b"the first part"
    raise RuntimeError("the rest is missing")


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": f"{scope['scheme']} {event['text']}"})
        return
    path = scope["path"]
    headers = []
    if path == "/cut":
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"the first part", "more_body": True})
        raise RuntimeError("the rest is missing")
    if path == "/parts":
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for left in range(19, -1, -1):
            await send({"type": "http.response.body", "body": large(100_000), "more_body": left > 0})
        return
    if path == "/gone":
        await receive()
        while (await receive())["type"] != "http.disconnect":
            pass
        sys.stdout.write("the client has gone\n")
        sys.stdout.flush()
        return
    if path == "/large":
        answer = large(5_000_000)
    elif path == "/upload":
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        answer = f"{len(body)} {body[:1].decode()}{body[-1:].decode()}".encode()
    elif path == "/all":
        facts = {key: value for key, value in scope.items() if key not in ("asgi", "state")}
        answer = json.dumps(facts, default=bytes.decode).encode()
    else:
        answer = json.dumps({"scheme": scope["scheme"], "SERVER_PORT": str(scope["server"][1]), **told(scope)}).encode()
    headers.append((b"content-length", str(len(answer)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def told(scope):
    facts = scope["extensions"].get("tls")
    return {"tls": facts} if facts else {}

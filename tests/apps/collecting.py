"""Views that have the interpreter collect: `/collect/N` so many times, `/fork` in a child, `/clear` when nobody hears
of it any more, `/litter` by itself, from which on it does until `/quiet`. Each answers how often it has collected, by
generation, as the application has heard."""

import gc
import os

HEARD = [0, 0, 0]


def hears(phase, info):
    if phase == "stop":
        HEARD[info["generation"]] += 1


gc.callbacks.append(hears)
# What nobody has asked for would be counted, too, before or behind what is read of it.
gc.disable()


def answer(path):
    _, name, *rest = path.split("/")
    if name == "clear":
        gc.callbacks.clear()
    if name == "fork" and not (child := os.fork()):
        gc.collect()
        os._exit(0)
    if name == "fork":
        os.waitpid(child, 0)
    for _ in range(int(rest[0]) if rest else 0):
        gc.collect()
    if name == "quiet":
        gc.disable()
    if name == "litter":
        gc.enable()
        for _ in range(20_000):
            circle = []
            circle.append([circle])
    return " ".join(map(str, HEARD)).encode()


def application(environ, start_response):
    text = answer(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]


async def app(scope, receive, send):
    text = answer(scope["path"])
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})

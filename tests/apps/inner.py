"""Views with planted faults: one burns a processor, one sleeps, one leaks, one sorts for long in C."""

import asyncio
import functools
import time

CACHE = []
REGISTRY = {}


class Kept:
    def __init__(self, number):
        self.number = [number]


def burner(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def late(seconds):
    time.sleep(0.01)
    burner(seconds)


def other_burner(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def sleeper(seconds):
    time.sleep(seconds)


@functools.cache
def many():
    return list(range(2_000_000))


def sorter(seconds):
    numbers = many()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sorted(numbers, key=int.__neg__)


def leak(count):
    for number in range(count):
        CACHE.append(b"%d" % number + bytes(10_000))
        REGISTRY[len(REGISTRY)] = Kept(number)


WORK = {"burn": burner, "late": late, "other": other_burner, "sleep": sleeper, "sort": sorter}


def work(path):
    _, name, *rest = path.split("/")
    if name == "leak":
        leak(int(rest[0]))
    elif name in WORK:
        WORK[name](float(rest[0]))


def application(environ, start_response):
    work(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"ok"]


async def app(scope, receive, send):
    if scope["path"].startswith("/child/"):
        await asyncio.gather(asyncio.to_thread(work, scope["path"][6:]))
    else:
        await asyncio.sleep(0)
        work(scope["path"])
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})

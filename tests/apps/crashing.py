"""Requests that wait, and one that reads memory which is not there, as soon as another has come after it."""

import asyncio
import ctypes
import os
import threading
import time

LAST = threading.Event()


def application(environ, start_response):
    if environ["PATH_INFO"] == "/broken":
        # Not its first step.
        LAST.wait()
        ctypes.string_at(0)
    if environ["PATH_INFO"] == "/forks":
        worker = os.getpid()
        if os.fork() == 0:
            while os.getppid() == worker:
                time.sleep(0.001)
            os._exit(0)
    if environ["PATH_INFO"] == "/burns":
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            pass
        ctypes.string_at(0)
    if environ["PATH_INFO"] == "/last":
        LAST.set()
    time.sleep(60)
    start_response("204 No Content", [])
    return []


async def app(scope, receive, send):
    if scope["path"] == "/broken":
        while not LAST.is_set():
            await asyncio.sleep(0.01)
        ctypes.string_at(0)
    if scope["path"] == "/elsewhere":
        await asyncio.to_thread(lambda: LAST.wait() and ctypes.string_at(0))
    if scope["path"] == "/last":
        LAST.set()
    await asyncio.sleep(60)

"""Requests that wait, and one that reads memory which is not there."""

import asyncio
import ctypes
import time


def application(environ, start_response):
    if environ["PATH_INFO"] == "/broken":
        ctypes.string_at(0)
    time.sleep(60)
    start_response("204 No Content", [])
    return []


async def app(scope, receive, send):
    if scope["path"] == "/broken":
        # Not its first step.
        await asyncio.sleep(0.01)
        ctypes.string_at(0)
    if scope["path"] == "/elsewhere":
        await asyncio.to_thread(ctypes.string_at, 0)
    await asyncio.sleep(60)

"""Tells how often Python's collector has looked at young objects, and makes as many itself as a framework does; a path
holds the loop up, so that others wait."""

import gc
import time

gc.collect()


class Thing:
    """Something that the collector knows."""


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] == "/wait":
        time.sleep(0.05)
    things = [Thing() for _ in range(300)]
    text = str(gc.get_stats()[0]["collections"]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})
    del things

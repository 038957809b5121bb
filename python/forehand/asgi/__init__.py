"""ASGI: the engine under asyncio or uvloop, and the application's lifespan.

Knows: the public name. Does not know: anything else; `driver.py` joins loop and engine,
`lifespan.py` tells the application of start and stop.
"""

from __future__ import annotations

from forehand.asgi.driver import serve

__all__ = ["serve"]

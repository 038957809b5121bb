"""The event loops that are installed."""

from __future__ import annotations

import importlib.util

LOOPS = ["asyncio"] + (["uvloop"] if importlib.util.find_spec("uvloop") else [])

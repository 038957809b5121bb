"""uWSGI's log format in the words of ours. Facts: uWSGI's page on formatting request logs.

Knows: which of its variables mean one of our tokens. Does not know: anything else of either. %(uri) has
the query and %U has not: only the whole request line is carried over.
"""

from __future__ import annotations

import re

from forehand import _core

TOKENS = {
    "addr": "%h", "user": "%u", "method": "%m", "proto": "%H", "status": "%s", "rsize": "%b", "size": "%b",
    "micros": "%D", "msecs": "%M", "secs": "%T", "pid": "%p", "ltime": "%t", "ctime": "%t", "time": "%t",
    "host": "%{Host}i", "referer": "%{Referer}i", "uagent": "%{User-Agent}i",
}  # fmt: skip


def access_format(form: str) -> str:
    """The format that says the same, or nothing where some part of it has no token."""
    # Ours puts the brackets round the time.
    text = re.sub(r"\[%\((ltime|ctime|time)\)\]", "%t", form)
    text = text.replace("%(method) %(uri) %(proto)", "%r")
    missing = [name for name in re.findall(r"%\(([^)]*)\)", text) if name not in TOKENS]
    if missing:
        return ""
    text = re.sub(r"%\(([^)]*)\)", lambda match: TOKENS[match[1]], text)
    try:
        _core.check_access_format(text)
    except ValueError:
        return ""
    return text

"""How a line of the server's own log looks: plain, in colour on a terminal, or JSON.

Knows: the three forms, which are those of `server/log.rs`. Does not know: who writes lines, or where to. The supervisor
holds this for months, so that it imports next to nothing.
"""

from __future__ import annotations

import os
import time

PLAIN, COLOUR, JSON = "plain", "colour", "json"
#: What a person has to look at stands out; the rest is as it was.
COLOURS = {"warning": "\033[33m", "error": "\033[1;31m", "critical": "\033[1;31m"}
DIM, END = "\033[2m", "\033[0m"


def form(log_format: str, log_colors: str, fd: int = 2) -> str:
    """The form that lines on a descriptor have. `log_format`: text or json; `log_colors`: auto, on or off."""
    if log_format == "json":
        return JSON
    if log_colors == "auto":
        return COLOUR if os.isatty(fd) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb" else PLAIN
    return COLOUR if log_colors == "on" else PLAIN


def line(form: str, level: str, text: str, traceback: str = "") -> str:
    """One line, or in the two text forms several of one matter, with the newline at its end. `traceback` follows the
    text; in JSON it is a member of its own."""
    now = time.time()
    ms = int(now % 1 * 1000)
    if form == JSON:
        import json

        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        words = {"time": f"{stamp}.{ms:03d}Z", "level": level, "pid": os.getpid(), "message": text}
        return json.dumps({**words, "traceback": traceback} if traceback else words) + "\n"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
    front = f"{stamp}.{ms:03d}Z [{os.getpid()}]"
    rest = f"\n{traceback.rstrip()}" if traceback else ""
    if form == COLOUR:
        colour = COLOURS.get(level, "")
        first, newline, others = text.partition("\n")
        return f"{DIM}{front}{END} {colour}{level}: {first}{END if colour else ''}{newline}{others}{rest}\n"
    return f"{front} {level}: {text}{rest}\n"


def certificate(fingerprint: str) -> str:
    """The banner's line about a certificate that was made; nothing where there is none."""
    return f"  certificate  self-signed, SHA-256 {fingerprint}\n" if fingerprint else ""

"""An application that can be changed between two generations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SHOP = """
import os
import threading
import time

VERSION = "{version}"
{extra}


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/sleep":
        time.sleep(float(environ["QUERY_STRING"]))
    if path == "/wait":
        while not os.path.exists("gate"):
            time.sleep(0.01)
    if path == "/spin":
        while True: pass
    if path == "/deadlock":
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if path == "/stubborn":
        while True:
            try:
                while True:
                    pass
            except BaseException:
                continue
    if path == "/leak":
        KEPT.append(b"x" * 4_000_000)
    body = environ["wsgi.input"].read()
    text = f"{{VERSION}} {{os.getpid()}} {{len(body)}} {{environ.get('forehand.deadline', '')}}"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text.encode()]


KEPT = []
"""


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., Path]:
    """Write the application `shop` in a version; the folder that it is in."""

    def write(version: str = "one", extra: str = "") -> Path:
        (tmp_path / "shop.py").write_text(SHOP.format(version=version, extra=extra))
        return tmp_path

    return write

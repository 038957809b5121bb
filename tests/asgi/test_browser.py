"""A real browser on the chat's page: a WebSocket and server-sent events, before and behind a reload of the server."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_chromium
from serving import Serving

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("starlette")
pytestmark = needs_chromium
CHAT = Path(__file__).resolve().parents[2] / "examples" / "asgi_chat"


@pytest.fixture
def view(browser: Any) -> Iterator[Any]:
    """A page, and at the end: no script on it has failed."""
    page = browser.new_page(viewport={"width": 800, "height": 600})
    page.set_default_timeout(20_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    page.close()
    assert faults == []


def say(view: Any, text: str) -> None:
    """Say something and wait until it has come back."""
    view.fill("input", text)
    view.press("input", "Enter")
    view.wait_for_selector(f"li:has-text('{text}')")


def wait_for_a_tick(view: Any) -> None:
    view.evaluate("document.querySelector('#clock').textContent = 'none yet'")
    view.wait_for_function("/^[0-9]{2}:[0-9]{2}:[0-9]{2}$/.test(document.querySelector('#clock').textContent)")


def test_a_page_talks_listens_and_comes_back_behind_a_reload(
    serve: Callable[..., Serving], loop: str, view: Any, tmp_path: Path
) -> None:
    server = serve("chat:app", "--loop", loop, "--graceful-timeout", "1s", cwd=CHAT)
    streams: list[str] = []
    view.on("request", lambda request: streams.append(request.url) if request.url.endswith("/clock") else None)
    view.goto(server.url)
    view.wait_for_selector("#state[data-open=yes]")
    name = re.sub("connected as ", "", view.inner_text("#state"))
    assert name.startswith("guest ")
    view.wait_for_selector(f"li:has-text('{name} comes in')")
    say(view, "Grüße from <b>before</b>")
    assert view.inner_text("li:last-child") == f"{name}: Grüße from <b>before</b>"
    wait_for_a_tick(view)

    os.kill(server.process.pid, signal.SIGHUP)
    view.wait_for_selector("#state:has-text('closed (1012)')")
    view.wait_for_selector("#state[data-open=yes]")
    say(view, "back again")
    # The stream of the old worker ends with its grace; the browser asks for a new one by itself.
    server.until(lambda: view.wait_for_timeout(50) or len(streams) > 1)
    wait_for_a_tick(view)
    view.screenshot(path=tmp_path / "chat.png")
    assert server.stop() == 0 or "1 request was cut" in server.log()


def test_two_pages_hear_one_another(serve: Callable[..., Serving], view: Any, browser: Any) -> None:
    server = serve("chat:app", cwd=CHAT)
    other = browser.new_page()
    other.goto(server.url)
    other.wait_for_selector("#state[data-open=yes]")
    view.goto(server.url)
    view.wait_for_selector("#state[data-open=yes]")
    say(view, "is anybody there?")
    other.wait_for_selector("li:has-text('is anybody there?')")
    # A tab that is closed closes its socket in order: the other hears it.
    name = view.inner_text("#state").removeprefix("connected as ")
    view.goto("about:blank")
    other.wait_for_selector(f"li:has-text('{name} leaves')")
    other.close()
    assert "Traceback" not in server.log()

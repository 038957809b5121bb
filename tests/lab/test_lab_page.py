"""The report in a browser: it draws, it answers to the keyboard, it fits a phone, and it asks nobody."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import facts
import pytest
from forehand_lab import page

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")


def record() -> list[dict]:
    lines = [facts.manifest("alpha", "beta"), facts.contestant("alpha"), facts.contestant("beta")]
    for number in range(1, 4):
        for server in ("alpha", "beta"):
            for at in (100.0, 200.0, 400.0):
                values = tuple(500 + 37 * n * number for n in range(400))
                lines.append(facts.point(server, number, at, values=values, rate=at, errors={"refused": 9}, failed=9))
    return [*lines, {"kind": "end", "at": 2.0, "how": "complete"}]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The page of a record, and at the end: no error, and no request that leaves the file."""
    path = tmp_path / "report.html"
    path.write_text(page.built({"one": record()}))
    view = browser.new_page(viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    view.on("pageerror", lambda error: faults.append(str(error)))
    view.on(
        "request",
        lambda request: faults.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None,
    )
    view.goto(path.as_uri())
    yield view
    view.close()
    assert faults == []


def test_the_charts_are_drawn_each_with_its_table(opened: Any) -> None:
    assert int(opened.evaluate("document.documentElement.dataset.drawn")) >= 8
    assert opened.locator("figure details table").count() >= 8
    assert opened.locator("canvas").count() >= 9, "the heat map, too"


@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_nothing_is_wider_than_the_window(opened: Any, width: int) -> None:
    opened.set_viewport_size({"width": width, "height": 900})
    opened.wait_for_function("document.documentElement.scrollWidth <= innerWidth")


def test_the_legend_toggles_by_keyboard_and_the_address_keeps_it(opened: Any) -> None:
    first = opened.locator("#legend button").first
    first.focus()
    opened.keyboard.press("Space")
    assert opened.locator("#legend button").first.get_attribute("aria-pressed") == "false"
    assert "off=alpha" in opened.url
    opened.reload()
    assert opened.locator("#legend button").first.get_attribute("aria-pressed") == "false"
    opened.locator("#legend button").first.focus()
    opened.keyboard.press("Enter")
    assert "off" not in opened.url


def test_focus_highlights_a_servers_lines(opened: Any) -> None:
    opened.locator("#legend button").nth(1).focus()
    assert opened.evaluate("plots[0].series.map((s) => s.alpha)").count(1) >= 1
    assert opened.evaluate("plots[0].series[1].alpha") < 1


def test_dark_mode_is_a_choice_and_follows_the_system(opened: Any) -> None:
    opened.emulate_media(color_scheme="dark")
    opened.reload()
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.locator("#theme").click()
    assert opened.evaluate("document.documentElement.dataset.theme") == "light"
    assert "theme=light" in opened.url


def test_the_percentile_is_chosen_and_shared_by_the_address(opened: Any) -> None:
    opened.get_by_label("Percentile").select_option("50")
    assert "p=50" in opened.url
    opened.reload()
    assert opened.get_by_label("Percentile").input_value() == "50"


def test_the_raw_record_comes_back_as_it_was(opened: Any) -> None:
    with opened.expect_download() as waiting:
        opened.get_by_role("button", name="one.jsonl").click()
    lines = Path(waiting.value.path()).read_text().splitlines()
    assert len(lines) == len(record())
    assert '"kind":"manifest"' in lines[0]


def test_paper_gets_no_buttons(opened: Any) -> None:
    opened.emulate_media(media="print")
    assert not opened.locator("#legend").is_visible()
    assert not opened.locator("#theme").is_visible()

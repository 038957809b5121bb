"""The report in a browser: it draws, it answers to the keyboard, it fits a phone, and it asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import facts
import pytest
from browsing import needs_chromium
from forehand_lab import page

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = needs_chromium


def record() -> list[dict]:
    lines = [facts.manifest("alpha", "beta"), facts.contestant("alpha"), facts.contestant("beta")]
    abilities = {"http_1_1": True, "keep_alive_1_0": False}
    lines += [
        {
            "kind": "verified",
            "at": 1.0,
            "server": server,
            "differences": [],
            "capabilities": abilities,
            "why": "",
            "log": "",
        }
        for server in ("alpha", "beta")
    ]
    for number in range(1, 7):
        for server, most in (("alpha", 250.0), ("beta", 400.0)):
            for at in (100.0, 200.0, 4000.0):
                values = tuple(500 + 37 * n * number for n in range(400))
                errors = {"refused": 9, "reset_before_reply": 5}
                # Alpha is noisy at its last point alone, and wide in what its processor took.
                marks = (
                    ["noisy: others used 50% of the processors"] if (server, at, number) == ("alpha", 4000.0, 2) else []
                )
                made = facts.point(
                    server, number, at, values=values, rate=min(at, most) + number / 10, errors=errors, failed=14,
                    marks=marks, cpu_s=0.01 * (20 if number > 4 and server == "alpha" else 1),
                )  # fmt: skip
                made["result"]["totals"]["offered_per_s"] = at
                (second,) = made["result"]["series"]
                made["result"]["series"] = [second, {**second, "second": 1}]
                lines.append(made)
    lines.append({"kind": "lost", "at": 1.0, "round": 2, "server": "beta", "why": "it died", "log": "x\n ^^^^\nEnd"})
    return [*lines, {"kind": "end", "at": 2.0, "how": "complete"}]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a record, made once for all."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page.built({"one": record()}))
    return path


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Any]:
    """The page, and at the end: no error, and no request that leaves the file."""
    view = browser.new_page(viewport={"width": 1280, "height": 900})
    faults: list[str] = []
    view.on("pageerror", lambda error: faults.append(str(error)))
    view.on(
        "request",
        lambda request: faults.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None,
    )
    view.goto(report.as_uri())
    yield view
    view.close()
    assert faults == []


def test_the_charts_are_drawn_each_with_its_table(opened: Any) -> None:
    assert int(opened.evaluate("document.documentElement.dataset.drawn")) >= 8
    assert opened.locator("figure details table").count() >= 8
    assert opened.locator("canvas").count() >= 9, "the heat map, too"


def test_of_loads_beside_one_another_the_page_shows_who_starves(browser: Any, tmp_path: Path) -> None:
    lines = [facts.manifest("alpha", "beta", scenario_kind="mixed", points=[8.0], unit="connections of the fast view")]
    lines += [facts.contestant("alpha"), facts.contestant("beta")]
    for number in range(1, 7):
        for server, fast_us in (("alpha", 47_000), ("beta", 300)):
            made = facts.point(server, number, 8.0, values=(fast_us,) * 2000)
            made["beside"] = [{**facts.result(*(51_000,) * 2000), "by_request": {"slow": {}}}]
            lines.append(made)
    path = tmp_path / "report.html"
    path.write_text(page.built({"one": [*lines, {"kind": "end", "at": 2.0, "how": "complete"}]}))
    view = browser.new_page()
    view.goto(path.as_uri())
    rows = view.locator("ol.waits li")
    assert [row.get_attribute("data-name") for row in rows.all()] == ["beta", "alpha"], "who starves least comes first"
    assert "0.3 ms" in rows.nth(0).inner_text() and "47.0 ms" in rows.nth(1).inner_text()
    assert "slow: " in rows.nth(0).inner_text() and "99 % within 51.0 ms" in rows.nth(0).inner_text()
    widths = view.locator("ol.waits .bar i").evaluate_all(
        "bars => bars.map((bar) => bar.getBoundingClientRect().width)"
    )
    assert 0 < widths[0] < widths[1] / 4
    view.close()


# Of each chart: whether it, its last point, the name of this point and the names of its lines are within its card.
WITHIN = """() => plots.every((u) => {
  const card = u.root.closest("figure").getBoundingClientRect(), own = u.root.getBoundingClientRect();
  const canvas = u.ctx.canvas.width / devicePixelRatio, plot = (u.bbox.left + u.bbox.width) / devicePixelRatio;
  const last = u.bbox.left / devicePixelRatio + u.valToPos(u.data[0][u.data[0].length - 1], "x");
  return own.left >= card.left && own.right <= card.right && own.width <= u.root.parentElement.clientWidth
    && last <= plot && last + 14 <= canvas;
})"""


@pytest.mark.parametrize("width", [360, 420, 1280, 1920])
def test_nothing_is_wider_than_the_window(opened: Any, width: int) -> None:
    # A window that was wide and is narrowed, as well as one that is opened so.
    for again in (False, True):
        opened.set_viewport_size({"width": width, "height": 900})
        if again:
            opened.reload()
        opened.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
        opened.wait_for_function(WITHIN)


# After so many frames, and not after so much time, a page that was narrowed is drawn anew.
NARROWED = f"""(frames) => new Promise((done) => {{
  const step = () => (frames-- ? requestAnimationFrame(step) : done(({WITHIN})()));
  step();
}})"""


def test_a_window_that_is_narrowed_is_drawn_anew_at_once(opened: Any) -> None:
    opened.set_viewport_size({"width": 420, "height": 900})
    assert opened.evaluate(NARROWED, 4), "no chart is wider than its card, no last point is cut off"


def test_the_page_begins_with_who_how_much_and_how_sure(opened: Any) -> None:
    section = opened.locator("main #answer")
    assert section.locator("p").first.inner_text().startswith("Beta: 400 (400 – 401) replies/s at 4,000 offered")
    assert section.evaluate("e => e.compareDocumentPosition(document.querySelector('figure')) & 4"), "before the charts"
    rows = section.locator("ol.answer li")
    assert [row.get_attribute("data-name") for row in rows.all()] == ["beta", "alpha"]
    assert "0.625 × the first: told apart" in rows.nth(1).inner_text()
    assert "noisy in 1 of 6 rounds" in rows.nth(1).inner_text() and "noisy" not in rows.nth(0).inner_text()
    widths = section.locator(".bar i").evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().width)")
    assert widths[1] / widths[0] == pytest.approx(0.625, abs=0.02)
    assert section.locator(".bar b").count() == 2, "each with its interval"
    assert "1 of 36 measurements are noisy" in section.inner_text()


# The colour in the middle of each point of a chart's lines.
MIDDLES = """() => plots[0].series.slice(1, 3).map((series, n) => plots[0].data[0].map((x, k) => {
  const u = plots[0], at = (value, scale) => Math.round(u.valToPos(value, scale, true));
  return [...u.ctx.getImageData(at(x, "x"), at(u.data[n + 1][k], "y"), 1, 1).data].slice(0, 3).join();
}))"""


def test_a_noisy_point_is_hollow_where_it_stands(opened: Any) -> None:
    assert opened.evaluate("plots[0].noisy") == [[0, 0, 1], [0, 0, 0]]
    alpha, beta = opened.evaluate(MIDDLES)
    paper = opened.evaluate("css('--card').match(/[0-9a-f]{2}/gi).map((each) => parseInt(each, 16)).join()")
    assert alpha[2] == paper and paper not in beta, (alpha, beta, paper)
    assert "hollow point was noisy" in opened.locator("figure").first.inner_text()
    bars = opened.locator("figure", has_text="Errors by kind").locator(".bars > div")
    assert [bar.inner_text().count("○") for bar in bars.all()] == [1, 0]


def test_kinds_of_errors_have_no_colour_of_a_servers(opened: Any) -> None:
    figure = opened.locator("figure", has_text="Errors by kind")
    fills = set(figure.locator(".bars rect").evaluate_all("all => all.map((each) => each.getAttribute('fill'))"))
    assert fills == {"url(#hatch-0)", "url(#hatch-1)"}
    patterns = opened.locator("#hatches").inner_html().lower()
    assert "currentcolor" in patterns
    assert not any(each.lower() in patterns for each in opened.evaluate("[...COLOURS, ...DARK]"))


def test_lines_are_named_where_they_end(opened: Any) -> None:
    assert set(opened.evaluate("plots[0].labels")) == {"Alpha", "Beta", "all offered"}
    assert opened.evaluate("plots[0].scales.x.distr") == 3, "points over a decade are on a logarithmic axis"


def test_no_whisker_ends_above_its_chart(opened: Any) -> None:
    high = opened.evaluate("Math.max(...DATA[0].points.alpha.map((row) => row['CPU us/request'].high))")
    chart = "plots.find((u) => u.units.y === 'µs').scales.y.max"
    assert opened.evaluate(chart) >= high > 400


def test_the_heat_maps_labels_have_room(opened: Any) -> None:
    room = opened.evaluate("+document.querySelector('.heat').dataset.left")
    shown = "DATA[0].heat_edges_us.filter((us) => us < 2e4).map((us) => +(us / 1000).toPrecision(2) + ' ms')"
    widest = opened.evaluate(f"Math.max(...{shown}.map((text) => textWidth(text)))")
    assert room >= widest + 6


def test_what_stands_on_the_page_is_in_words(opened: Any) -> None:
    text = opened.locator("main").inner_text()
    assert "does: HTTP/1.1; does not: kept connections of HTTP/1.0" in text
    for raw in ("keep alive 1 0", "http 1 1", "After: ours", "^^^^", "environ ;", "busy "):
        assert raw not in text, raw
    assert "0.01 is the 99th percentile" not in text and "“1 of 100” is the 99th percentile" in text


def test_the_machines_own_curves_take_little_room(opened: Any) -> None:
    small = opened.locator(".multiples .uplot")
    assert small.count() >= 4
    great = opened.locator("figure .plot > .uplot").first.bounding_box()
    assert all(box["width"] * box["height"] < great["width"] * great["height"] / 3 for box in (
        each.bounding_box() for each in small.all()
    ))  # fmt: skip


def test_a_curve_over_time_has_more_than_one_second(browser: Any, tmp_path: Path) -> None:
    """A line of one point is not drawn: a chart of none would be left."""
    lines = [facts.manifest("alpha", rounds=1, scenario_kind="closed"), facts.contestant("alpha")]
    for seconds in (1, 2):
        row = facts.result(*(1000,) * 2000)["series"][0]
        series = [{**row, "second": second} for second in range(seconds)]
        made = [*lines, facts.point("alpha", 1, series=series), {"kind": "end", "at": 2.0, "how": "complete"}]
        path = tmp_path / "report.html"
        path.write_text(page.built({"one": made}))
        view = browser.new_page()
        view.goto(path.as_uri())
        headings = view.locator(".multiples h4").all_inner_texts()
        view.close()
        assert ("Response time, 99 %" in headings, "Memory" in headings) == (seconds > 1, True)


def test_what_a_server_does_is_no_column_of_single_words_on_a_phone(opened: Any) -> None:
    opened.set_viewport_size({"width": 360, "height": 900})
    made = opened.evaluate(
        "(text) => { const made = table(['server', 'does'], [['a', text]]);"
        " document.querySelector('main').append(made);"
        " return made.querySelector('td.longest').getBoundingClientRect().width; }",
        "pipelined requests, " * 10,
    )
    assert made > 250 and opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


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


def capacity() -> list[dict]:
    lines = [facts.manifest("alpha", "beta", scenario_kind="capacity", rounds=6)]
    lines += [facts.contestant("alpha"), facts.contestant("beta")]
    for number in range(1, 7):
        for server, rate in (("alpha", 1000.0), ("beta", 1500.0)):
            lines.append(
                {"kind": "capacity", "at": 1.0, "round": number, "server": server, "rate": rate + number, "tried": []}
            )
    return [*lines, {"kind": "end", "at": 2.0, "how": "complete"}]


def faults() -> list[dict]:
    told = [{"target": "/exit", "expected": "a worker is replaced"}]
    lines = [facts.manifest("alpha", scenario_kind="faults", faults=told, rounds=1), facts.contestant("alpha")]
    lines.append(
        {
            "kind": "fault", "at": 1.0, "round": 1, "server": "alpha", "target": "/exit", "told": ["a reset"],
            "collateral": {"reset_before_reply": 3}, "background": {"started": 100, "replies": 97}, "worst_ms": 12.5,
            "generator": "fit", "died": "", "marks": [], "back_s": 0.1, "replaced": 1, "pss_kib": [100, 200], "log": "",
        }
    )  # fmt: skip
    return [*lines, {"kind": "end", "at": 2.0, "how": "complete"}]


def nothing() -> list[dict]:
    return [
        facts.manifest("alpha"),
        facts.contestant("alpha", "not obtainable"),
        {"kind": "end", "at": 2.0, "how": "x"},
    ]


@pytest.mark.parametrize(
    "made, said",
    [
        (capacity, "Beta: 1,504 (1,502 – 1,506) requests/s, the most of 2. The difference is more than chance."),
        (faults, "Alpha: 1 of the faults outlived."),
        (nothing, "Nothing was measured that counts."),
    ],
)
def test_a_record_of_every_kind_has_its_answer(browser: Any, tmp_path: Path, made: Any, said: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(page.built({"one": made()}))
    view = browser.new_page(viewport={"width": 800, "height": 600})
    faulty: list[str] = []
    view.on("pageerror", lambda error: faulty.append(str(error)))
    view.goto(path.as_uri())
    assert view.locator("#answer p").first.inner_text() == said
    assert view.evaluate("document.documentElement.dataset.drawn") is not None
    view.close()
    assert faulty == []

"""The status page in a browser: it says what is wrong, draws, hears the keyboard, fits a phone, and runs nothing of
others."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_chromium
from serving import PATIENCE, Serving
from shared import GET, serving, settled, statistics
from tlsfiles import Authority

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = needs_chromium
Serve = Callable[..., Serving]
VIEWS = ("overview", "time", "workers", "requests", "limits")
HOSTILE = "/fail/<script>document.title='obeyed'</script>\"'&amp;"


def ask(server: Serving, path: str) -> None:
    """One request, and its whole reply."""
    server.raw(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())


class Planted:
    """A server with one of each: a quick route, a slow and a failing one, a hostile path, and a request that stays."""

    def __init__(self) -> None:
        self.server = Serving(
            "phases:application", "--workers", "1", "--threads", "2", "--slow-request", "0.2", "--limit-queue", "1",
            "--queue-timeout", "0", "--status-bind", "127.0.0.1:0",
        )  # fmt: skip
        self.url = status_url(self.server)
        paths = ["/quick"] * 6 + ["/sleep/0.25/1"] * 3 + ["/sleep/0.8/found"] + ["/fail/a"] * 2 + [HOSTILE] * 2
        for path in paths:
            ask(self.server, path)
        shared = statistics(self.server)
        settled(self.server, shared, len(paths))
        # Two threads stay inside, one request waits, and a fourth is refused.
        self.socks = [self.server.connect() for _ in range(3)]
        for number, sock in enumerate(self.socks):
            sock.sendall(GET.format(f"/sleep/600/{number}", "a", "").encode())
            waits = max(0, number - 1)
            self.server.until(lambda n=number, w=waits: self.at_work() == (min(n + 1, 2), w))
        ask(self.server, "/quick")
        self.server.counts("requests_not_queued", 1)
        # Both have been inside for as long as takes them among the slow ones.
        self.server.until(lambda: [one[3] > 0.2 for one in shared.inside(0, False)] == [True, True])

    def at_work(self) -> tuple[int, int]:
        """Threads that are inside, and requests that wait."""
        row = self.server.status()["workers"][0]
        return row["busy"], row["queued"]

    def end(self) -> None:
        for sock in self.socks:
            sock.close()
        self.server.kill()


def status_url(server: Serving) -> str:
    """Where its status endpoint is, as a browser on this machine reaches it."""
    server.says("  status       http://")
    return "http://127.0.0.1:" + re.findall(r"status       http://[\d.]+:(\d+)", server.log())[0] + "/"


@pytest.fixture(scope="module")
def planted() -> Iterator[Planted]:
    made = Planted()
    yield made
    made.end()


class Page:
    """The page in a window of its own. It notes every fault, and every request that goes elsewhere."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        self.view = self.context.new_page()
        self.view.set_default_timeout(PATIENCE * 1000)
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.view.on("pageerror", lambda error: self.faults.append(str(error)))
        self.view.on("request", lambda request: self.asked.append(request.url))
        self.url = url

    def open(self, where: str = "") -> Any:
        self.view.goto(self.url + where)
        self.answered(1)
        return self.view

    def until(self, expression: str) -> None:
        """Wait until it is true. Playwright's own way evaluates text within the page, which the policy forbids."""
        end = time.monotonic() + PATIENCE
        while not self.view.evaluate(expression):
            assert time.monotonic() < end, expression
            self.view.wait_for_timeout(20)

    def answered(self, count: int) -> None:
        """So many answers are shown."""
        self.until(f"+(document.documentElement.dataset.answers || 0) >= {count}")

    def close(self) -> None:
        self.context.close()
        assert self.faults == []
        assert [url for url in self.asked if not url.startswith((self.url, "data:"))] == [], "another host was asked"


@pytest.fixture
def page(browser: Any, planted: Planted) -> Iterator[Page]:
    made = Page(browser, planted.url)
    yield made
    made.close()


def test_the_page_is_one_small_file_under_a_strict_policy(planted: Planted, page: Page) -> None:
    reply = page.view.goto(planted.url)
    text = reply.body()
    assert len(text) <= 150 << 10 and len(gzip.compress(text)) <= 50 << 10
    policy = reply.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert not any("unsafe" in part or "*" in part for part in policy)
    assert len([part for part in policy if re.fullmatch(r"(script|style)-src 'sha256-[\w+/]{43}='", part)]) == 2
    page.answered(2)
    assert {url.removeprefix(planted.url).partition("#")[0] for url in page.asked} - {"data:,"} == {
        "", "status.json", "history.json",
    }  # fmt: skip


def test_what_is_wrong_stands_first(page: Page) -> None:
    view = page.open()
    found = view.locator("#findings li").all_inner_texts()
    text = "\n".join(found)
    assert "2 requests are inside for 200 ms or longer; the longest: GET /sleep/600/0" in text
    assert "Every thread of every worker is taken, and 1 request waits." in text
    assert "1 request was refused or cut in the last minutes: too many waited (--limit-queue)." in text
    assert "4 requests have failed in the last minutes; the last: GET /fail/<script>" in text
    assert view.locator("#wrong").evaluate("e => e.compareDocumentPosition(document.querySelector('figure')) & 4")
    view.get_by_role("link", name="Look at Limits").click()
    page.until("!document.getElementById('limits').hidden")
    assert "--limit-queue" in view.locator("#limits").inner_text()


def test_nothing_is_wrong_with_a_server_that_is_well(browser: Any, serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--status-bind", "127.0.0.1:0")
    ask(server, "/quick")
    made = Page(browser, status_url(server))
    view = made.open()
    assert view.locator("#findings li").all_inner_texts() == ["Nothing that shows here."]
    # What is asked meanwhile is seen without a reload.
    for _ in range(2):
        ask(server, "/fail")
    view.locator("#findings li", has_text="2 requests have failed").wait_for()
    server.stop()
    view.locator("#findings li", has_text="No answer since").wait_for()
    assert view.locator("#live").inner_text() == "stale"
    made.close()


def test_what_is_wrong_with_the_server_itself_is_told(browser: Any, serve: Serve, tmp_path: Path) -> None:
    """A reload that was given up, and a certificate that ends soon: as `forehand status` does."""
    code = tmp_path / "shop.py"
    code.write_text("from wsgiref.simple_server import demo_app as application\n")
    certificate = Authority(tmp_path).issue("shop", "localhost", days=-1)
    secured = ("--bind", "https://127.0.0.1:0", "--tls-cert", certificate[0], "--tls-key", certificate[1])
    server = serve("shop", *secured, "--workers", "1", "--status-bind", "127.0.0.1:0", cwd=tmp_path)
    code.write_text("import nowhere\n")
    assert server.order("reload")[0] != 0
    made = Page(browser, status_url(server))
    view = made.open()
    view.locator("#findings li", has_text="The certificate has expired at 20").wait_for()
    view.locator("#findings li", has_text="The last reload was given up at ").wait_for()
    code.write_text("from wsgiref.simple_server import demo_app as application\n")
    assert server.order("reload")[0] == 0
    view.locator("#findings li", has_text="The last reload").wait_for(state="detached")
    made.close()


def test_a_worker_that_dies_is_told(browser: Any, serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--status-bind", "127.0.0.1:0")
    made = Page(browser, status_url(server))
    view = made.open()
    ask(server, "/crash")
    view.locator("#findings li", has_text="signal:SIGSEGV 1. 1 request was inside").wait_for()
    made.close()


def test_the_overview_has_what_was_before_it_was_opened(browser: Any, serve: Serve) -> None:
    server = serve("phases:application", "--workers", "1", "--status-bind", "127.0.0.1:0")
    url = status_url(server)
    for _ in range(5):
        ask(server, "/sleep/0.02")
    assert server.order("reload")[0] == 0
    os.kill(serving(server), signal.SIGKILL)

    def known() -> bool:
        with urllib.request.urlopen(f"{url}history.json") as reply:
            return {"reload", "death"} <= {mark["kind"] for mark in json.load(reply)["marks"]}

    server.until(known)
    made = Page(browser, url)
    view = made.open("#overview")
    assert view.evaluate("samples.length") == 1, "it has only just begun to ask"
    for title in ("Requests a second", "How long requests take", "Threads, tasks"):
        chart = view.locator("#overview figure", has_text=title)
        assert chart.locator(".plot path.line").first.get_attribute("d")
        assert chart.locator(".plot g.mark text").all_text_contents() == ["R", "X"]
        assert "2 marks of what befell the server" in str(chart.locator("[role=img]").get_attribute("aria-label"))
    assert view.evaluate("Math.max(...timeline().map((one) => one.rate))") > 1
    rows = view.locator("#overview figure", has_text="Reloads, deaths of workers, limits").locator("tbody tr")
    told = [row.locator("td").all_text_contents() for row in rows.all()]
    assert [(one[0], one[2], one[3]) for one in told] == [
        ("X", "worker that ended unasked: signal:SIGKILL", "1"), ("R", "reload", "1"),
    ]  # fmt: skip
    # What happens while it is open comes to it, too.
    assert server.order("reload")[0] == 0
    made.until("document.querySelectorAll('#overview .plot g.mark').length >= 9")
    made.close()


def test_each_view_draws_and_each_chart_has_its_table(page: Page) -> None:
    view = page.open()
    counts = {}
    for name in VIEWS:
        view.locator(f"#tab-{name}").click()
        panel = view.locator(f"#{name}")
        assert panel.is_visible() and view.locator("[role=tabpanel]:visible").count() == 1
        charts = panel.locator("figure:has(.plot)")
        counts[name] = charts.count()
        for chart in charts.all():
            assert chart.locator(".plot svg[role=img], .plot [role=img]").first.get_attribute("aria-label")
            chart.locator("summary").click()
            assert chart.locator("table tbody tr").first.is_visible()
    assert counts == {"overview": 3, "time": 2, "workers": 1, "requests": 0, "limits": 2}
    assert page.view.locator("#requests table").count() == 4


def test_views_have_the_numbers_of_the_server(page: Page, planted: Planted) -> None:
    view = page.open("#time")
    routes = view.locator("#time figure", has_text="Routes by thread time").locator("tbody tr")
    first = routes.first.locator("td").all_text_contents()
    # A route is known from its second request on.
    assert first[0] == "GET /sleep/0.25/*" and 50 <= float(first[1].removesuffix(" %")) <= 100
    assert float(first[3].removesuffix(" ms")) >= 250
    failing = routes.filter(has_text="GET /fail/a").locator("td").all_text_contents()
    assert failing[-1] == "1"
    view.locator("#tab-workers").click()
    cells = view.locator("#workers .cell")
    assert cells.all_inner_texts() == ["L", "L"], "a letter, and not a colour alone"
    assert "GET /sleep/600/0" in str(cells.first.get_attribute("title"))
    view.locator("#tab-requests").click()
    slow = view.locator("#requests figure", has_text="Slow").locator("tbody tr")
    slow = slow.filter(has_text="GET /sleep/0.25/1")
    assert slow.count() == 3
    waited = re.search(r"in the application, waiting for something ([\d.]+) ms", slow.first.inner_text())
    assert waited is not None and float(waited[1]) >= 240


def test_a_slow_request_has_where_it_was_found_below_its_path(page: Page, planted: Planted) -> None:
    view = page.open("#requests")
    row = view.locator("#requests figure", has_text="Slow").locator("tbody tr", has_text="GET /sleep/0.8/found")
    found = row.locator("td.path .stood").inner_text()
    with urllib.request.urlopen(f"{planted.url}status.json") as reply:
        told = {one["request"]: one["where"] for one in json.load(reply)["ended"]}
    assert told["GET /sleep/0.8/found"] == found and told["GET /quick"] == ""
    line = re.fullmatch(r"(\d) of \1 looks found its thread at \S+/phases\.py:(\d+) in application", found)
    assert line is not None, found
    source = (Path(__file__).parent.parent / "apps" / "phases.py").read_text().splitlines()
    assert source[int(line[2]) - 1].strip() == "time.sleep(float(rest[0]))"
    assert view.locator("#requests figure", has_text="Failed").locator(".stood").count() == 0


def test_of_tasks_there_is_no_number_that_there_may_be(browser: Any, serve: Serve) -> None:
    server = serve("phases:app", "--interface", "asgi", "--workers", "1", "--status-bind", "127.0.0.1:0")
    made = Page(browser, status_url(server))
    with server.connect() as stuck:
        stuck.sendall(GET.format("/sleep/600", "a", "").encode())
        server.until(lambda: server.status()["workers"][0]["busy"] == 1)
        view = made.open("#overview")
        chart = view.locator("#overview figure", has_text="Threads, tasks")
        assert "inside: 1" in chart.inner_text() and "there are" not in chart.locator(".keys").inner_text()
        view.locator("#tab-workers").click()
        row = view.locator("#workers tbody tr").first.locator("td").all_text_contents()
        assert row[1:3] == ["1", "–"], row
        made.close()


def test_slow_requests_are_told_though_many_fail(serve: Serve) -> None:
    server = serve(
        "phases:application", "--workers", "2", "--slow-request", "0.05", "--status-bind", "127.0.0.1:0",
    )  # fmt: skip
    ask(server, "/sleep/0.06")
    # Each worker keeps 128 that have failed.
    for _ in range(2 * 128 + 40):
        ask(server, "/fail")
    settled(server, statistics(server), 2 * 128 + 41)
    with urllib.request.urlopen(f"{status_url(server)}status.json") as reply:
        told = json.load(reply)["ended"]
    assert [one["request"] for one in told if one["request"].startswith("GET /sleep")] == ["GET /sleep/0.06"]
    assert sum(one["status"] == 500 for one in told) == 100


def test_what_clients_have_sent_is_text(page: Page, planted: Planted) -> None:
    view = page.open("#requests")
    failed = view.locator("#requests figure", has_text="Failed").locator("td.path").all_text_contents()
    assert failed.count(f"GET {HOSTILE}") == 2
    view.locator("#tab-time").click()
    routes = view.locator("#time td.path").all_text_contents()
    assert any("<script>document.title='obeyed'</script>\"'&amp;" in route for route in routes), routes
    page.answered(2)
    assert view.title() == "phases:application – Forehand"
    assert view.locator("script").count() == 1
    # Whatever tried to would be stopped by the policy.
    trying = "try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); return 'done' } catch { return 'no' }"
    assert view.evaluate(f"() => {{ {trying} }}") == "no"


def test_the_keyboard_reaches_everything(page: Page) -> None:
    view = page.open()
    focused = "document.activeElement.id"
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.className") == "skip"
    view.locator("#tab-overview").focus()
    for key, wanted in (("ArrowRight", "time"), ("End", "limits"), ("ArrowRight", "overview"), ("ArrowLeft", "limits"),
                        ("Home", "overview"), ("ArrowRight", "time")):  # fmt: skip
        view.keyboard.press(key)
        assert view.evaluate(focused) == f"tab-{wanted}" and view.locator(f"#{wanted}").is_visible()
    assert view.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    view.keyboard.press("Tab")
    assert view.evaluate(focused) == "time", "of the tabs only the chosen one is a stop"
    view.keyboard.press("Tab")
    view.keyboard.press("Enter")
    assert view.locator("#time details").first.get_attribute("open") is not None
    # It stays open, and the focus where it is, when the next answer comes.
    page.answered(int(view.evaluate("document.documentElement.dataset.answers")) + 1)
    assert view.locator("#time details").first.get_attribute("open") is not None
    assert view.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert view.url.endswith("#time")
    view.go_back()
    page.until("!document.getElementById('overview').hidden")
    view.go_forward()
    view.reload()
    page.answered(1)
    assert view.locator("#time").is_visible(), "the address has the view"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_scrolls_only_downwards(browser: Any, planted: Planted, scheme: str) -> None:
    made = Page(browser, planted.url, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    view = made.open()
    dark = view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    for name in VIEWS:
        view.locator(f"#tab-{name}").click()
        for summary in view.locator(f"#{name} summary").all():
            summary.click()
        assert view.evaluate("document.documentElement.scrollWidth") <= 360, name
    made.close()


@pytest.mark.parametrize("forced", ["none", "active"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, planted: Planted, scheme: str, forced: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # The policy would keep axe out, too.
    made = Page(browser, planted.url, bypass_csp=True, color_scheme=scheme, forced_colors=forced,
                viewport={"width": 360, "height": 740})  # fmt: skip
    view = made.open()
    for name in VIEWS:
        view.locator(f"#tab-{name}").click()
        of_tabs = "all => all.map(one => [one.ariaSelected === 'true', getComputedStyle(one).backgroundColor])"
        tabs = view.locator("[role=tab]").evaluate_all(of_tabs)
        chosen, others = ({colour for is_it, colour in tabs if is_it == wanted} for wanted in (True, False))
        assert len(chosen) == 1 and not chosen & others, f"{name} is not seen to be chosen: {tabs}"
        for summary in view.locator(f"#{name} summary").all():
            summary.click()
        found = axe.Axe().run(view).response
        assert len(found["passes"]) > 10, "next to nothing was judged"
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]] == [], name
    made.close()


def test_colours_are_a_choice_that_stays(page: Page) -> None:
    view = page.open()
    view.get_by_role("button", name="Dark colours").click()
    view.reload()
    page.answered(1)
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    view.get_by_role("button", name="Light colours").click()
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_page_that_nobody_sees_asks_nothing(browser: Any, planted: Planted) -> None:
    made = Page(browser, planted.url)
    # Its minutes pass when it is told that they do.
    made.view.clock.install()
    view = made.open()
    polls = lambda: sum("status.json" in url for url in made.asked)  # noqa: E731
    for stop, go_on in (
        (lambda: view.evaluate(HIDE, True), lambda: view.evaluate(HIDE, False)),
        (lambda: view.locator("#pause").click(), lambda: view.locator("#pause").click()),
    ):
        stop()
        before = polls()
        view.clock.run_for(60_000)
        assert polls() == before
        shown = int(view.evaluate("document.documentElement.dataset.answers"))
        go_on()
        made.answered(shown + 1)
        assert polls() > before
    made.close()


def test_others_get_numbers_and_with_the_token_the_rest(browser: Any, serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-long-secret\n")
    server = serve(
        "phases:application", "--workers", "1", "--status-bind", "0.0.0.0:0", "--status-token-file", str(token),
    )  # fmt: skip
    for _ in range(2):
        ask(server, "/fail/hidden")
    made = Page(browser, status_url(server))
    view = made.open("#requests")
    with_stuck = server.connect()
    with_stuck.sendall(GET.format("/sleep/600/hidden", "a", "").encode())
    view.locator("#requests td", has_text="shown with the token").first.wait_for()
    for name in VIEWS:
        view.locator(f"#tab-{name}").click()
        assert "hidden" not in view.locator("main").inner_text()
    view.get_by_label("Token", exact=True).fill("another")
    view.get_by_role("button", name="Show them").click()
    view.get_by_text("That is not the token.").wait_for()
    view.get_by_label("Token", exact=True).fill("\N{LEFT DOUBLE QUOTATION MARK}a-long-secret")
    view.get_by_role("button", name="Show them").click()
    view.get_by_text("That is not the token.").wait_for()
    made.answered(1)
    assert "No answer since" not in view.locator("#wrong").inner_text(), "what no header carries is no silence"
    view.get_by_label("Token", exact=True).fill("a-long-secret")
    view.keyboard.press("Enter")
    made.until("document.getElementById('token-form').hidden")
    view.locator("#tab-requests").click()
    assert "GET /fail/hidden" in view.locator("#requests").inner_text()
    view.reload()
    made.answered(1)
    assert "GET /fail/hidden" in view.locator("#requests").inner_text(), "it is kept for this window"
    assert not any("a-long-secret" in url for url in made.asked)
    with_stuck.close()
    made.close()


def test_the_page_is_only_read_and_only_under_names_of_this_machine(planted: Planted, serve: Serve) -> None:
    port = int(planted.url.rpartition(":")[2].strip("/"))

    def status(method: str, host: str, path: str = "/") -> int:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return int(sock.makefile("rb").readline().split()[1])

    for method, wanted in (("GET", 200), ("HEAD", 200), ("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405)):
        assert status(method, "localhost") == wanted, method
    for path in ("/", "/status.json"):
        hosts = (f"127.0.0.1:{port}", "evil.example", f"127.0.0.1.evil.example:{port}")
        assert [status("GET", host, path) for host in hosts] == [200, 421, 421], path

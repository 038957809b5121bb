"""Requests that have come together may share a task (Python 3.10 and 3.11), and each is as if it had its own."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from loops import LOOPS
from serving import PATIENCE, Serving, read_reply

pytestmark = pytest.mark.interpreters

#: More than so many in a row do not wait before tasks are shared (`series.rs`).
QUIET = 32
ODD = (
    "/keep", "/know", "/be-told", "/attribute", "/cancel", "/only-cancel", "/rename", "/fail", "/give-up", "/wait",
    "/child", "/fork",
)  # fmt: skip
#: What comes before and behind it.
QUICK = [f"/quick-{number}" for number in range(6)]


@pytest.fixture(scope="module", params=LOOPS)
def in_line(request: pytest.FixtureRequest) -> Iterator[Serving]:
    server = Serving("in_line:app", "--loop", request.param, "--lifespan", "off", "--request-id")
    yield server
    server.kill()


class Together:
    """Connections on which requests come while the event loop is held, so that it finds all of them at one look."""

    def __init__(self, server: Serving, many: int) -> None:
        self.closing = ExitStack()
        self.gate = self.closing.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.gate.bind(("127.0.0.1", 0))
        self.gate.settimeout(PATIENCE)
        self.holder = self.closing.enter_context(server.connect())
        self.socks = [self.closing.enter_context(server.connect()) for _ in range(many)]
        # Those are known to the server, which has seen enough requests that did not wait.
        for _ in range(2 * QUIET // many + 1):
            for sock in self.socks:
                self.answer(sock, "/quick")

    def __enter__(self) -> Together:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.close()

    @property
    def port(self) -> int:
        port: int = self.gate.getsockname()[1]
        return port

    def ask(self, sock: socket.socket, target: str) -> None:
        sock.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())

    def answer(self, sock: socket.socket, target: str = "") -> dict:
        """A reply of the application; of another status that alone."""
        if target:
            self.ask(sock, target)
        status, fields, body = read_reply(sock, bytearray())
        return {"status": status, "id": fields.get("x-request-id"), **(json.loads(body) if status == 200 else {})}

    def held(self) -> tuple[str, int]:
        """Somebody holds the loop; where it is told to go on."""
        found: tuple[str, int] = self.gate.recvfrom(4)[1]
        return found

    def __call__(self, *targets: str) -> list[dict]:
        """The requests, and their replies."""
        self.begin(*targets)
        return [self.answer(sock) for sock, _ in zip(self.socks, targets, strict=True)]

    def begin(self, *targets: str, holder: str = "/hold") -> None:
        """The requests alone, while that view holds the loop."""
        self.ask(self.holder, f"{holder}?{self.port}")
        gate = self.held()
        for sock, target in zip(self.socks, targets, strict=True):
            self.ask(sock, target)
        self.gate.sendto(b"go", gate)
        assert self.answer(self.holder)["status"] == 200


def test_requests_that_do_not_wait_share_a_task(in_line: Serving) -> None:
    with Together(in_line, len(QUICK)) as together:
        alone = together.answer(together.socks[0], "/quick")["tasks"]
        assert [told["tasks"] for told in together(*QUICK)] == [alone] * len(QUICK)


def test_where_one_has_waited_lately_they_do_not(in_line: Serving) -> None:
    with Together(in_line, len(QUICK)) as together:
        alone = together.answer(together.socks[0], "/wait")
        # Those that are read at one look are there at the same time, but where each is over when the next is read.
        most = max(told["tasks"] for told in together(*QUICK))
        assert (most > alone["tasks"]) is not alone["eager"]


def test_each_has_a_context_and_a_name_of_its_own(in_line: Serving) -> None:
    with Together(in_line, len(QUICK)) as together:
        all_told = together(*QUICK)
        assert [(told["before"], told["after"]) for told in all_told] == [("none", path) for path in QUICK]
        assert len({told["name"] for told in all_told}) == len(QUICK)


@pytest.mark.parametrize("place", [0, 2])
def test_each_that_asks_is_told_of_itself_and_so_are_tasks_that_it_starts(in_line: Serving, place: int) -> None:
    with Together(in_line, len(QUICK)) as together:
        all_told = together(*QUICK[:place], *(f"{path}?ask" for path in QUICK[place:]))
        assert all(told["id"] for told in all_told)
        assert [told.get("asked") for told in all_told[place:]] == [[told["id"]] * 2 for told in all_told[place:]]


@pytest.mark.parametrize("place", [0, 2, len(QUICK)])
@pytest.mark.parametrize("odd", ODD)
def test_what_one_does_with_its_task_or_its_context_does_not_reach_the_next(
    in_line: Serving, odd: str, place: int
) -> None:
    with Together(in_line, len(QUICK) + 1) as together:
        before = together.answer(together.socks[0], "/quick")
        all_told = together(*QUICK[:place], odd, *QUICK[place:])
        told = all_told.pop(place)
        assert told["status"] == (500 if odd in ("/fail", "/give-up") else 200)
        for quick in all_told:
            assert quick["status"] == 200 and quick["before"] == "none" and quick["after"] == quick["path"]
            assert quick["same"] and quick["name after"] == quick["name"]
            marks = [quick[mark] for mark in ("is kept", "is known", "has an attribute", "is cancelled")]
            assert not any(marks), quick
        names = [quick["name"] for quick in all_told]
        assert len({*names, told.get("name")}) == len(QUICK) + 1
        if told["status"] == 200:
            assert told["same"] and told["after"] == odd and told["before"] == "none"
        wanted = {"/be-told": [f"{told.get('name')} False"], "/cancel": [f"{told.get('name')} True"], "/child": [odd]}

        def ends() -> list[str]:
            found: list[str] = together.answer(together.holder, "/quick")["ends"][len(before["ends"]) :]
            return found

        # Some come a round of the loop later than the replies.
        in_line.until(lambda: len(ends()) >= len(wanted.get(odd, [])))
        assert ends() == wanted.get(odd, [])


def test_those_whose_deadline_comes_before_they_begin_are_answered_and_leave_nothing_behind(
    serve: Callable[..., Serving], loop: str
) -> None:
    server = serve("in_line:app", "--loop", loop, "--lifespan", "off", "--request-timeouts", "/quick-=0.2")
    # None for those before and behind them: a machine may have no processor for one of them for as long.
    with Together(server, 5) as together:
        first, *others = together.socks
        alone = together.answer(first, "/quick")
        together.begin(f"/hold?{together.port}", *QUICK[:4])
        gate = together.held()
        time.sleep(0.3)  # The deadline is what this is about.
        together.gate.sendto(b"go", gate)
        statuses = [together.answer(sock)["status"] for sock in (first, *others)]
        assert set(statuses) <= {200, 504}
        with server.connect() as sock:
            after = together.answer(sock, "/quick")
        assert after["tasks"] == alone["tasks"]
        served = [path for path, status in zip(QUICK, statuses[1:], strict=False) if status == 200]
        begun = [path for path in after["begun"][len(alone["begun"]) :] if path in QUICK]
        # Where a task begins at once each is over before the next one is read.
        assert begun == served or alone["eager"]


def test_those_that_are_cancelled_before_they_begin_all_end(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("in_line:app", "--loop", loop, "--lifespan", "off")
    with Together(server, len(QUICK)) as together:
        alone = together.answer(together.socks[0], "/quick")
        together.begin(*QUICK, holder="/cancel-all")
        wanted = 200 if alone["eager"] else 500
        assert [together.answer(sock)["status"] for sock in together.socks] == [wanted] * len(QUICK)
        after = together.answer(together.holder, "/quick")
        assert after["tasks"] == alone["tasks"]
        begun = after["begun"][len(alone["begun"]) :]
        assert begun == ["/cancel-all", *(QUICK if alone["eager"] else ()), "/quick"]

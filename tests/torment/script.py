"""What each connection of a run does: drawn from the run's seed and the connection's number, and from nothing else.

Knows: kinds of hostile clients. Does not know: sockets, or how a server is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from torment.asked import Asked, Framing

Do = Literal["send", "pause", "until", "deaf", "hear", "half", "reset", "close", "end"]


@dataclass(frozen=True)
class Step:
    """One thing that a client does."""

    do: Do
    data: bytes = b""
    #: Requests that begin with these bytes.
    asked: tuple[Asked, ...] = ()
    #: Seconds of a pause, or how many whole replies are waited for.
    value: float = 0


@dataclass(frozen=True)
class Script:
    """A client's whole life."""

    number: int
    kind: str
    #: Seconds after the beginning of the run.
    starts: float
    steps: tuple[Step, ...]
    #: Behaves well enough to be owed every reply, whole, and the end of the connection in time.
    fair: bool = True
    #: The kernel's room for what it has not read; 0: as usual.
    room: int = 0
    #: Reads so many bytes, then waits so long.
    gulp: int = 1 << 18
    rest: float = 0


#: Bodies that are sent without a length end at this; so does what a request asks for, mostly.
SMALL, MIDDLE, LARGE = 2_000, 70_000, 1_500_000
#: Little room in the kernel of a slow client; with less, the kernels' own timers make it stop for long.
ROOM = 64 * 1024
GARBAGE = (
    b"GARBAGE\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
)


class Author:
    """Writes one script."""

    def __init__(self, seed: int, number: int, seconds: float) -> None:
        self.dice = Random(f"{seed}/{number}")
        self.seed = seed
        self.number = number
        self.starts = self.dice.uniform(0, seconds)
        self.made = 0

    def script(self) -> Script:
        """The kind is drawn first."""
        kind = self.dice.choices([name for name, _ in KINDS], [weight for _, weight in KINDS])[0]
        write: Callable[[], Script] = getattr(self, f"_{kind}")
        return write()

    def _make(self, kind: str, *steps: Step, **more: object) -> Script:
        return Script(self.number, kind, self.starts, steps, **more)  # type: ignore[arg-type]

    def request(self, *, most: int = MIDDLE, body: bool | None = None, close: bool = False) -> Asked:
        """Any request that a parser takes."""
        dice = self.dice
        name = f"{self.seed}.{self.number}.{self.made}"
        self.made += 1
        ways = ("whole", "parts", "unsized", "write", "file", "named", "lent", "raise", "raise-late")
        way = dice.choices(ways, (40, 15, 12, 10, 6, 4, 4, 2, 2))[0]
        has_body = dice.random() < 0.3 if body is None else body
        framing: Framing = dice.choice(("length", "chunks")) if has_body else "none"
        size = int(dice.choice((0, 1, 100, SMALL, most)) * dice.random())
        return Asked(
            name,
            way=way,  # type: ignore[arg-type]
            size=size,
            reading=dice.choices(("all", "some", "none", "lent"), (80, 8, 8, 4))[0],  # type: ignore[arg-type]
            body=int(dice.choice((1, 10, SMALL, MIDDLE)) * dice.random()) if has_body else 0,
            framing=framing,
            chunk=dice.choice((1, 100, 5000, 100_000)),
            pause_ms=dice.choices((0, 5, 50, 200), (70, 15, 12, 3))[0],
            burn_ms=dice.choices((0, 2, 5), (90, 7, 3))[0],
            method="POST" if has_body else dice.choices(("GET", "HEAD"), (9, 1))[0],
            expects=has_body and dice.random() < 0.1,
            close=close,
        )

    def requests(self, most: int, **more: int) -> list[Asked]:
        """A few of them."""
        return [self.request(**more) for _ in range(self.dice.randint(1, most))]  # type: ignore[arg-type]

    def _ending(self, count: int) -> list[Step]:
        """Wait for all replies, then leave as clients leave."""
        how = self.dice.choice(("half", "half", "close", "reset"))
        if how == "half":
            return [Step("until", value=count), Step("half"), Step("end")]
        return [Step("until", value=count), Step("close" if how == "close" else "reset")]

    def _polite(self) -> Script:
        """One request at a time."""
        steps: list[Step] = []
        asked = self.requests(6)
        for done, one in enumerate(asked, 1):
            steps += [Step("send", one.wire(), (one,)), Step("until", value=done)]
            if self.dice.random() < 0.3:
                steps.append(Step("pause", value=self.dice.random() * 0.2))
        return self._make("polite", *steps, *self._ending(len(asked)))

    def _pipeline(self) -> Script:
        """All at once; the end of its side comes with the last bytes, or after all replies."""
        asked = self.requests(24)
        all_at_once = Step("send", b"".join(one.wire() for one in asked), tuple(asked))
        if self.dice.random() < 0.5:
            return self._make("pipeline", all_at_once, Step("half"), Step("end"))
        return self._make("pipeline", all_at_once, *self._ending(len(asked)))

    def _pieces(self) -> Script:
        """The same, torn anywhere, with pauses."""
        asked = self.requests(5)
        steps: list[Step] = []
        for one in asked:
            steps += self._torn(one, self.dice.randint(2, 12), 0.05)
        return self._make("pieces", *steps, *self._ending(len(asked)))

    def _torn(self, one: Asked, count: int, pause: float) -> Iterator[Step]:
        data = one.wire()
        cuts = sorted(self.dice.randrange(len(data) + 1) for _ in range(count - 1))
        asked: tuple[Asked, ...] = (one,)
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if start < end:
                yield Step("send", data[start:end], asked)
                yield Step("pause", value=self.dice.random() * pause)
                asked = ()

    def _bytewise(self) -> Script:
        """A byte at a time."""
        one = self.request(body=False)
        first, *others = one.wire()
        steps = [Step("send", bytes((first,)), (one,))]
        for byte in others:
            steps += [Step("pause", value=0.001), Step("send", bytes((byte,)))]
        return self._make("bytewise", *steps, *self._ending(1))

    def _upload(self) -> Script:
        """Large bodies, or many chunks of a byte, as fast as it goes."""
        dice = self.dice
        bytewise = dice.random() < 0.3
        name = f"{self.seed}.{self.number}.{self.made}"
        asked = [
            Asked(
                f"{name}.{again}", "whole", 50, "all", dice.randint(1, 6_000 if bytewise else LARGE),
                framing="chunks" if bytewise else dice.choice(("length", "chunks")), chunk=1 if bytewise else 30_000,
                method="POST", expects=dice.random() < 0.2,
            )
            for again in range(dice.randint(1, 2))
        ]  # fmt: skip
        sends = [Step("send", one.wire(), (one,)) for one in asked]
        return self._make("upload", *sends, *self._ending(len(asked)))

    def _slow(self) -> Script:
        """Reads large replies slowly, without ever stopping."""
        asked = [self.request(most=LARGE, body=False) for _ in range(self.dice.randint(1, 4))]
        send = Step("send", b"".join(one.wire() for one in asked), tuple(asked))
        return self._make(
            "slow", send, *self._ending(len(asked)), room=ROOM, gulp=self.dice.choice((8_000, 30_000)), rest=0.01
        )

    def _late(self) -> Script:
        """Pipelines, and listens only after a while."""
        asked = [
            self.request(most=self.dice.choice((SMALL, LARGE)), body=False) for _ in range(self.dice.randint(2, 20))
        ]
        send = Step("send", b"".join(one.wire() for one in asked), tuple(asked))
        pause = Step("pause", value=self.dice.uniform(0.3, 1.2))
        return self._make("late", Step("deaf"), send, pause, Step("hear"), *self._ending(len(asked)), room=ROOM)

    def _deaf(self) -> Script:
        """Never listens, and stays until it is let go: by then it must have been thrown out.

        The last that it sends may be half a request.
        """
        asked = [self.request(most=LARGE, body=False) for _ in range(self.dice.randint(2, 30))]
        data = b"".join(one.wire() for one in asked) + self.dice.choice((b"", b"GE"))
        return self._make("deaf", Step("deaf"), Step("send", data, tuple(asked)), Step("end"), fair=False, room=ROOM)

    def _stalled(self) -> Script:
        """Says half of a request, and no more."""
        asked = self.requests(3)
        last = self.request(body=self.dice.random() < 0.7)
        data = last.wire()
        head = len(last.head())
        # In the head, right behind it, or in the body.
        cut = self.dice.choice((self.dice.randrange(1, head), head, self.dice.randrange(head, len(data) + 1)))
        cut = min(cut, len(data) - 1)
        send = Step("send", b"".join(one.wire() for one in asked) + data[:cut], (*asked, replace(last, torn=True)))
        how = self.dice.choice(("end", "half", "half"))
        steps = [Step("half"), Step("end")] if how == "half" else [Step("end")]
        return self._make("stalled", send, *steps, fair=False)

    def _leaver(self) -> Script:
        """Goes away in the midst of sending."""
        asked = self.requests(4)
        data = b"".join(one.wire() for one in asked)
        send = Step("send", data[: self.dice.randrange(len(data) + 1)], tuple(asked))
        pause = Step("pause", value=self.dice.choice((0, 0.001, 0.02, 0.3)))
        return self._make("leaver", send, pause, Step(self.dice.choice(("close", "reset"))), fair=False)  # type: ignore[arg-type]

    def _fed_up(self) -> Script:
        """Goes away in the midst of a reply."""
        asked = [self.request(most=LARGE, body=False) for _ in range(self.dice.randint(1, 8))]
        send = Step("send", b"".join(one.wire() for one in asked), tuple(asked))
        pause = Step("pause", value=self.dice.random() * 0.3)
        leave = Step(self.dice.choice(("close", "reset")))  # type: ignore[arg-type]
        return self._make("fed_up", send, pause, leave, fair=False, room=ROOM, gulp=5000, rest=0.005)

    def _garbage(self) -> Script:
        """Requests, and then something that is none."""
        asked = [self.request(body=False) for _ in range(self.dice.randint(0, 3))]
        asked.append(Asked(f"{self.seed}.{self.number}.x", garbage=self.dice.choice(GARBAGE)))
        send = Step("send", b"".join(one.wire() for one in asked), tuple(asked))
        return self._make("garbage", send, Step("end"))

    def _silent(self) -> Script:
        """Connects, and says nothing, or one byte."""
        data = self.dice.choice((b"", b"\r", b"G"))
        asked = (Asked("silence", garbage=b"G"),)
        return self._make("silent", Step("send", data, asked), Step("pause", value=1), Step("close"), fair=False)

    def _forker(self) -> Script:
        """Has the application fork, between other requests on the same connection."""
        how = self.dice.choice(("gone", "exit", "raise", "return", "linger", "spawn"))
        name = f"{self.seed}.{self.number}"
        asked = [
            Asked(f"{name}.0", size=10),
            Asked(f"{name}.1", size=1000, fork=how),  # type: ignore[arg-type]
            Asked(f"{name}.2", size=20, close=self.dice.random() < 0.5),
        ]
        steps = []
        for done, one in enumerate(asked, 1):
            steps += [Step("send", one.wire(), (one,)), Step("until", value=done)]
        last = [Step("end")] if asked[-1].close else self._ending(3)
        return self._make("forker", *steps, *last)


#: Kinds of clients, and how many of them there are beside each other.
KINDS = (
    ("polite", 14), ("pipeline", 14), ("pieces", 8), ("bytewise", 3), ("upload", 10), ("slow", 6), ("late", 8),
    ("deaf", 5), ("stalled", 8), ("leaver", 8), ("fed_up", 6), ("garbage", 4), ("silent", 3), ("forker", 2),
)  # fmt: skip


def script(seed: int, number: int, seconds: float) -> Script:
    """The life of connection `number` of the run of a seed that begins its connections within so many seconds."""
    return Author(seed, number, seconds).script()

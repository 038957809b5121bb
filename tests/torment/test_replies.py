"""The reader that judges replies finds what it is there to find."""

from __future__ import annotations

from collections import deque

import pytest

from torment.asked import Asked
from torment.pattern import PERIOD, block, content
from torment.replies import Replies, Wrong

SUPERVISOR = 7
OWN = "X-Id: {name}\r\nX-Took: {took}\r\nX-Process: 8 7\r\n"


def asked(name: str, size: int = 3000) -> Asked:
    return Asked(name, size=size)


def sized(one: Asked, **more: str) -> bytes:
    """A right reply."""
    own = OWN.format(**{"name": one.name, "took": one.taken(), **more})
    return f"HTTP/1.1 200 OK\r\n{own}Content-Length: {one.size}\r\n\r\n".encode() + content(one.name, 0, one.size)


def chunked(one: Asked, step: int = 1000) -> bytes:
    """The same, in chunks."""
    own = OWN.format(name=one.name, took=one.taken())
    head = f"HTTP/1.1 200 OK\r\n{own}Transfer-Encoding: chunked\r\n\r\n".encode()
    parts = [content(one.name, at, min(at + step, one.size)) for at in range(0, one.size, step)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def reading(*expected: Asked) -> Replies:
    return Replies(SUPERVISOR, deque(expected))


ONE, TWO = asked("1.1"), asked("1.2")
RIGHT = sized(ONE) + chunked(TWO)


def test_names_have_contents_of_their_own() -> None:
    assert len(block("a")) == PERIOD and block("a") != block("b")
    assert content("a", 500, 5000) == content("a", 0, 6000)[500:5000]


@pytest.mark.parametrize("step", [1, 2, 3, 50, 1000, 10_000])
def test_right_replies_are_right_however_they_are_cut(step: int) -> None:
    replies = reading(ONE, TWO)
    for at in range(0, len(RIGHT), step):
        replies.feed(RIGHT[at : at + step])
    assert (replies.answered, replies.idle, replies.unfinished(), replies.worker) == (2, True, "", 8)


@pytest.mark.parametrize(
    "wrong",
    [
        sized(TWO),
        sized(ONE)[:-1] + b"!",
        sized(ONE)[:-PERIOD] + sized(ONE)[-PERIOD + 1 :] + b"x",
        sized(ONE) + b"x",
        sized(ONE) + sized(ONE),
        sized(ONE, took="5:1"),
        sized(asked("1.1", 2999)),
        sized(ONE).replace(b"8 7", b"9 8"),
        sized(ONE).replace(b"X-Took", b"Content-Length: 3\r\nX-Took"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + sized(ONE),
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
        chunked(ONE).replace(b"0\r\n\r\n", b"0\r\nXX"),
        chunked(ONE).replace(b"\r\n3e8\r\n", b"\r\n3e7\r\n"),
        chunked(asked("1.1", 2000)),
        chunked(TWO),
        RIGHT[1:],
    ],
    ids=range(16),
)
def test_what_is_wrong_is_found(wrong: bytes) -> None:
    with pytest.raises(Wrong):
        reading(ONE, TWO).feed(wrong) if wrong.count(b"HTTP/1.1") > 1 else reading(ONE).feed(wrong)


@pytest.mark.parametrize("whole", [sized(ONE), chunked(ONE)])
def test_every_cut_shows(whole: bytes) -> None:
    for end in range(1, len(whole)):
        replies = reading(ONE)
        replies.feed(whole[:end])
        assert replies.unfinished() and not replies.answered, end


def test_a_reply_without_a_framing_must_be_whole_at_the_end() -> None:
    head = f"HTTP/1.1 200 OK\r\n{OWN.format(name='1.1', took=ONE.taken())}Connection: close\r\n\r\n".encode()
    for size, said in ((3000, ""), (2999, "1.1: 2999 of 3000 bytes, and nothing that shows it")):
        replies = reading(ONE)
        replies.feed(head + content("1.1", 0, size))
        assert replies.unfinished() == said


def test_nothing_may_come_after_the_last_reply() -> None:
    replies = reading(ONE, TWO)
    replies.feed(sized(ONE).replace(b"X-Id", b"Connection: close\r\nX-Id"))
    assert replies.closing
    with pytest.raises(Wrong):
        replies.feed(b"H")


def test_a_head_that_came_late_may_be_answered_with_a_text_whatever_its_method() -> None:
    """Of its first bytes the server knows no method, so that it cannot know that no content is wanted."""
    text = b"408 Request Timeout: the request's head took too long\n"
    head = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text)
    late = reading(Asked("1.1", method="HEAD"))
    late.excused = True
    late.feed(head + text)
    assert (late.refused, late.idle, late.unfinished()) == (1, True, "")
    with pytest.raises(Wrong):
        reading(Asked("1.1", method="HEAD")).feed(head + text)

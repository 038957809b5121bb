"""A server of the lab gets a port that stays free, and another one where somebody was quicker."""

from __future__ import annotations

import contextlib
import ctypes
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from forehand_lab import launching
from forehand_lab.contestant import Contestant, asked_for
from forehand_lab.environments import obtained
from forehand_lab.launching import StartFailed, free_port, started
from forehand_lab.places import Setting
from forehand_lab.problem import Problem


@pytest.fixture
def somebody() -> Iterator[int]:
    """The port of somebody who listens, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]


@pytest.fixture
def forehand() -> Iterator[Contestant]:
    yield asked_for("forehand")
    # Whoever starts a server takes its orphans, which other tests of this process do not want.
    ctypes.CDLL(None).prctl(launching.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def given(monkeypatch: pytest.MonkeyPatch, *ports: int) -> list[int]:
    """These ports are found to be free, one after the other; those that are left."""
    left = list(ports)
    monkeypatch.setattr(launching, "free_port", lambda host: left.pop(0))
    return left


def test_a_port_is_free_and_none_of_those_that_the_kernel_gives_by_itself() -> None:
    lowest, highest = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [free_port() for _ in range(50)]
    assert not any(lowest <= port <= highest for port in ports) or lowest < launching.FIRST_PORT + 1000
    # Not one after the other: two laboratories of a machine look at the same time.
    assert len(set(ports)) > 40
    with socket.create_server(("127.0.0.1", ports[-1])) as held:
        assert launching.taken(ports[-1], "127.0.0.1")
        assert held.getsockname()[1] == ports[-1]


def test_a_server_whose_port_is_taken_meanwhile_is_started_on_another(
    forehand: Contestant, somebody: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = given(monkeypatch, somebody, free_port())
    setting = Setting()
    with started(forehand, obtained(forehand), setting, tmp_path / "log") as running:
        assert running.port != somebody and not left
        with socket.create_connection((running.host, running.port), 5) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.")
        scratch = running.scratch
    assert f"{somebody} is in use" in (tmp_path / "log").read_text()
    assert not scratch.exists() and not any(root.poll() is None for root in running.roots)


def test_a_server_is_not_started_for_ever_where_each_port_is_taken(
    forehand: Contestant, somebody: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = given(monkeypatch, *[somebody] * launching.STARTS, 0)
    begun = started(forehand, obtained(forehand), Setting(), tmp_path / "log")
    with pytest.raises(StartFailed, match="ended with status 5"), contextlib.ExitStack() as stack:
        stack.enter_context(begun)
    assert left == [0]


def test_a_server_that_does_not_start_for_another_reason_is_not_started_again(
    forehand: Contestant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = given(monkeypatch, free_port(), 0)
    begun = started(forehand, obtained(forehand), Setting(module="absent"), tmp_path / "log")
    with pytest.raises(StartFailed, match="it did not start"), begun:
        pass
    assert left == [0]


def test_a_port_that_was_asked_for_is_not_replaced(forehand: Contestant, somebody: int, tmp_path: Path) -> None:
    begun = started(forehand, obtained(forehand), Setting(), tmp_path / "log", port=somebody)
    with pytest.raises(Problem, match=f"port {somebody} is taken"), begun:
        pass

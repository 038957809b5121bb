"""statsd gets what has come since, and nothing twice."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving, read_reply

Serve = Callable[..., Serving]
LINE = re.compile(r"shop\.forehand\.([\w.]+):([\d.]+)\|([cg])\|#env:test")


def view(server: Serving, path: str) -> int:
    with server.connect() as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        return read_reply(sock, bytearray())[0]


@pytest.mark.parametrize("kind", ["udp", "unix"])
def test_differences_are_sent_and_add_up(serve: Serve, tmp_path: Path, kind: str) -> None:
    if kind == "udp":
        collector = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        collector.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{collector.getsockname()[1]}"
    else:
        collector = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        collector.bind(str(tmp_path / "statsd.sock"))
        address = f"unix://{tmp_path}/statsd.sock"
    collector.settimeout(5)
    options = ("--statsd-host", address, "--statsd-interval", "0.1", "--statsd-prefix", "shop")
    with collector:
        server = serve("phases:application", "--workers", "2", *options, "--dogstatsd-tags", "env:test")
        counted: Counter[str] = Counter()
        gauges: dict[str, float] = {}
        # Each is of the time between two datagrams, into which requests fall as the machine has time for them.
        highest: dict[str, float] = {}

        def receive() -> None:
            for line in collector.recv(65536).decode().splitlines():
                found = LINE.fullmatch(line)
                assert found is not None, line
                if found[3] == "c":
                    counted[found[1]] += int(found[2])
                else:
                    gauges[found[1]] = float(found[2])
                    highest[found[1]] = max(highest.get(found[1], 0), float(found[2]))

        # What was counted before the first datagram is not sent.
        receive()
        for path in ("/quick", "/sleep/0.05", "/fail", "/missing"):
            view(server, path)
        server.until(lambda: receive() or counted["requests"] == 4)
        assert (counted["request.status.200"], counted["request.status.500"], counted["request.status.404"]) == (
            2,
            1,
            1,
        )
        server.until(lambda: receive() or counted["requests_total"] == 4)
        assert 45 <= highest["request.duration.p99"] < 1000
        server.until(lambda: receive() or gauges["workers"] == 2)
        receive()
        assert counted["requests"] == 4, "nothing is sent twice"


@pytest.mark.parametrize("beside", [(), ("--status-bind=127.0.0.1:0",)], ids=["alone", "beside the status endpoint"])
def test_a_collector_that_comes_late_is_found_and_the_one_that_takes_its_place(
    serve: Serve, tmp_path: Path, beside: tuple[str, ...]
) -> None:
    path = tmp_path / "statsd.sock"
    options = (f"--statsd-host=unix://{path}", "--statsd-interval=0.1", *beside)
    server = serve("phases:application", "--workers=1", *options)
    time.sleep(0.3)  # several intervals in which there is no way
    counted: Counter[str] = Counter()
    for replies in range(3):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as collector:
            path.unlink(missing_ok=True)
            collector.bind(str(path))
            collector.settimeout(10)
            told = False
            while not told or counted["forehand.requests"] < replies:
                told = True
                for line in collector.recv(65536).decode().splitlines():
                    name, value, kind = re.split("[:|]", line)
                    counted[name] += int(value) if kind == "c" else 0
        assert view(server, "/quick") == 200
    assert counted["forehand.requests"] == 2, "what nobody could be told is told later"
    assert "started again" not in server.log(), server.log()


@pytest.mark.parametrize("beside", [(), ("--status-bind=127.0.0.1:0",)], ids=["alone", "beside the status endpoint"])
def test_a_collector_that_cannot_be_reached_is_told_once_and_again_when_it_was_there_in_between(
    serve: Serve, tmp_path: Path, beside: tuple[str, ...]
) -> None:
    path = tmp_path / "statsd.sock"
    options = (f"--statsd-host=unix://{path}", "--statsd-interval=0.1", *beside)
    server = serve("phases:application", "--workers=1", *options)
    lost, found = f"--statsd-host unix://{path} cannot be reached", f"--statsd-host unix://{path} can be reached now"
    for times in (1, 2):
        server.until(lambda times=times: server.log().count(lost) == times)
        assert f"{lost}: No such file or directory; it is tried" in server.log()
        told = server.order("status")[1]
        assert f"- --statsd-host cannot be reached: unix://{path}: No such file" in told, told
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as collector:
            collector.bind(str(path))
            server.until(lambda times=times: server.log().count(found) == times)
            assert "--statsd-host" not in server.order("status")[1]
            path.unlink()
    assert server.log().count(lost) <= 3 and server.log().count(found) == 2, server.log()


def test_a_host_that_does_not_exist_is_named_with_the_error(serve: Serve) -> None:
    server = serve("phases:application", "--workers=1", "--statsd-host=nohost.invalid:8125", "--statsd-interval=0.1")
    # Who asks for a name may have to wait for a server of names that does not answer.
    server.until(lambda: re.search(r"warning.*nohost\.invalid:8125 cannot be reached: .+; it", server.log()), 60)


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    for address in ("localhost", "localhost:x", ":8125"):
        with pytest.raises(AssertionError, match="is not HOST:PORT or unix://PATH"):
            Serving("phases:application", "--statsd-host", address)

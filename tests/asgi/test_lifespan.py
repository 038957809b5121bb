"""Start and stop of ASGI servers: the lifespan in its three modes, what runs at a stop, the options."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, PATIENCE, PYTHON, Serving, read_all
from test_http import ask, noted, wait_for  # type: ignore[import-not-found]

pytestmark = pytest.mark.interpreters


def refused(target: str, *options: str) -> tuple[int, str]:
    """Exit status and words of a server that does not start."""
    command = [PYTHON, "-m", "forehand", target, "--bind", "127.0.0.1:0", *options]
    ended = subprocess.run(command, cwd=HERE / "apps", capture_output=True, text=True, timeout=PATIENCE)
    return ended.returncode, ended.stderr


def test_a_lifespan_goes_around_all_requests(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("lifespans:complete_app", "--loop", loop)
    server.says("startup is complete")
    assert ask(server, "/")[2] == b"['lifespan'] {'number': 7}"
    assert server.stop() == 0
    assert server.log().rstrip().endswith("shutdown is complete")


def test_switched_off_nobody_hears_of_it(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("lifespans:complete_app", "--lifespan", "off", "--loop", loop)
    assert ask(server, "/")[2] == b"[] {}"
    assert server.stop() == 0
    assert "is complete" not in server.log()


@pytest.mark.parametrize("target", ["lifespans:refusing", "lifespans:silent"])
@pytest.mark.parametrize("mode", ["auto", "off"])
def test_who_does_not_take_part_is_served(serve: Callable[..., Serving], target: str, mode: str) -> None:
    server = serve(target, "--lifespan", mode)
    assert ask(server, "/")[2] == b"{}"
    assert server.stop() == 0
    assert "Traceback" not in server.log()


def test_who_must_take_part_and_does_not_is_refused() -> None:
    status, words = refused("lifespans:refusing", "--lifespan", "on")
    assert status == 4 and "raised AssertionError" in words and "only HTTP here" in words
    status, words = refused("lifespans:silent", "--lifespan", "on")
    assert status == 4 and "does not support the lifespan protocol" in words


@pytest.mark.parametrize("mode", ["auto", "on"])
def test_a_start_that_fails_ends_the_server_with_its_reason(mode: str) -> None:
    status, words = refused("lifespans:start_fails", "--lifespan", mode)
    assert status == 4 and "the application's startup failed: the database is away" in words
    assert "Traceback" not in words


def test_a_start_that_raises_shows_its_traceback() -> None:
    status, words = refused("lifespans:start_raises", "--lifespan", "on")
    assert status == 4 and "LookupError: raised on purpose" in words
    assert "in raising" in words and "startup raised LookupError" in words


def test_a_start_that_raises_is_told_of_where_nobody_insists(serve: Callable[..., Serving]) -> None:
    server = serve("lifespans:start_raises")
    server.says("LookupError: raised on purpose")
    assert ask(server, "/")[0] == 200


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("target", ["start_exits", "start_exits_as_starlette", "start_raises_as_starlette"])
def test_a_start_that_exits_or_raises_is_told_once_and_with_its_own_frames(
    target: str, workers: str, loop: str
) -> None:
    status, words = refused(f"lifespans:{target}", "--workers", workers, "--loop", loop)
    innermost = "SystemExit: DATABASE_URL is missing" if "exits" in target else "LookupError: raised on purpose"
    assert status == 4, words
    assert words.count("Traceback (most recent call last)") == 1 and innermost in words, words
    assert "python/forehand/" not in words and "never retrieved" not in words, words
    assert "forehand: the application's startup " in words.rpartition(innermost)[0] + words.splitlines()[-2]


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("target", ["stop_exits", "stop_exits_as_starlette", "stop_raises_as_starlette"])
def test_a_stop_that_exits_or_raises_is_told_once_and_ends_in_order(
    serve: Callable[..., Serving], target: str, workers: str, loop: str
) -> None:
    server = serve(f"lifespans:{target}", "--workers", workers, "--loop", loop)
    assert server.stop() == 0
    assert server.log().count("Traceback (most recent call last)") == 1, server.log()
    assert "in exiting" in server.log() or "in raising" in server.log()


def test_words_that_nobody_asked_for_are_an_error() -> None:
    status, words = refused("lifespans:start_nonsense", "--lifespan", "on")
    assert status == 4 and "lifespan.nonsense" in words


def test_a_stop_that_fails_is_told(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("lifespans:stop_fails", "--loop", loop)
    assert server.stop() == 0
    server.says("shutdown failed: the database is away")
    server = serve("lifespans:stop_raises", "--loop", loop)
    assert server.stop() == 0
    server.says("LookupError: raised on purpose")


def test_a_stop_that_hangs_is_cancelled_in_time(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("lifespans:stop_hangs", "--graceful-timeout", "300ms", "--loop", loop)
    assert server.stop() == 0
    server.says("shutdown did not end within 0.5 s")
    server.says("the hanging stop was cancelled")


def test_what_runs_at_a_stop_is_finished(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /concurrent HTTP/1.1\r\nHost: a\r\n\r\nGET /noted HTTP/1.1\r\nHost: a\r\n\r\n")
        assert ask(server, "/hello")[2] == b"hello"  # the first has been read by now
        server.process.send_signal(signal.SIGTERM)
        reply = read_all(sock)
    assert b"slept" in reply
    assert server.process.wait(PATIENCE) == 0
    server.says("closed at the end")


def test_what_does_not_end_is_cancelled_once(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--graceful-timeout", "300ms", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: "slow begins" in noted(server), "it did not begin")
        server.process.send_signal(signal.SIGTERM)
        assert read_all(sock).startswith(b"HTTP/1.1 503 ")
    assert server.process.wait(PATIENCE) == 1
    assert server.log().count("cancelled once") == 1
    server.says("1 request was cut")
    server.says("closed at the end")


def test_a_stream_is_cut_at_the_stop_and_not_ended(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--graceful-timeout", "300ms", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(65536)
        server.process.send_signal(signal.SIGTERM)
        assert not read_all(sock).endswith(b"0\r\n\r\n")
    assert server.process.wait(PATIENCE) == 1


def test_who_swallows_its_cancellation_is_abandoned(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--workers", "0", "--graceful-timeout", "200ms", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /stubborn HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: "stubborn begins" in noted(server), "it did not begin")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 1
    server.says("went on after they were cancelled")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_thread_that_a_request_has_left_does_not_keep_the_server(serve: Callable[..., Serving], workers: str) -> None:
    server = serve("asgi_views:app", "--workers", workers, "--graceful-timeout", "200ms")
    with server.connect() as sock:
        sock.sendall(b"GET /thread HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: "thread begins" in noted(server), "it did not begin")
        server.process.send_signal(signal.SIGTERM)
        assert read_all(sock).startswith(b"HTTP/1.1 503 ")
    assert server.process.wait(PATIENCE) == 1


def test_a_second_signal_does_not_wait(serve: Callable[..., Serving], loop: str) -> None:
    server = serve("asgi_views:app", "--loop", loop)
    with server.connect() as sock:
        sock.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: "slow begins" in noted(server), "it did not begin")
        server.process.send_signal(signal.SIGINT)
        wait_for(lambda: "stopping" in server.log(), "the first signal")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 1


def test_an_interface_is_recognised_or_told(serve: Callable[..., Serving]) -> None:
    assert "lifespans:refusing (ASGI, " in serve("lifespans:refusing").log()
    assert "lifespans:refusing (ASGI)" in serve("lifespans:refusing", "--workers", "0").log()
    assert "behaviours (WSGI)" in serve("behaviours").log()
    server = serve("asgi_views:app", "--interface", "wsgi")
    assert ask(server, "/")[0] == 500


def test_a_wsgi_application_served_as_asgi_says_what_is_wrong(serve: Callable[..., Serving]) -> None:
    server = serve("behaviours", "--interface", "asgi", "--lifespan", "off")
    assert ask(server, "/")[0] == 500
    server.says("TypeError")


def test_a_loop_that_is_not_installed_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError('it is not installed')\n")
    away = str(tmp_path)
    status, words = refused("asgi_views:app", "--loop", "uvloop", "--pythonpath", away)
    assert status == 2 and "pip install uvloop" in words and "Traceback" not in words


def test_an_application_that_gevent_has_patched_is_served_by_the_loop_that_can(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    pytest.importorskip("gevent")
    lines = ["from gevent import monkey", "monkey.patch_all()", f"import sys; sys.path.append({str(HERE / 'apps')!r})"]
    (tmp_path / "patched.py").write_text("\n".join([*lines, "from lifespans import complete_app", ""]))
    server = serve("patched:complete_app", cwd=tmp_path)
    assert ask(server, "/")[2] == b"['lifespan'] {'number': 7}"
    server.says("patched:complete_app (ASGI, asyncio)")
    assert server.stop() == 0
    command = [PYTHON, "-m", "forehand", "patched:complete_app", "--bind", "127.0.0.1:0", "--loop", "uvloop"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 2 and "gevent has patched this process's threads" in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr

"""What the application counts with prometheus_client is told with the server's own, for all workers as one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families as prometheus
from serving import PATIENCE, PYTHON, Serving, read_all
from shared import OPEN, Samples, Watched, descriptors, settled, statistics

Serve = Callable[..., Serving]


def own(samples: Samples) -> Samples:
    return {key: value for key, value in samples.items() if key[0].startswith("shop_")}


def by_upstream(folder: Path) -> Samples:
    """What prometheus_client itself makes of a folder."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    return own(samples)


def opened(watched: Watched) -> Path:
    """The folder, which the supervisor has made after it had its own environment: some process of the server has a file
    of it open."""
    for pid in watched.server.workers:
        for _, place in descriptors(pid):
            if "forehand-metrics-" in place and place.endswith(".db"):
                return Path(place).parent
    raise AssertionError("no worker writes metrics")


@pytest.mark.parametrize("fields", [OPEN, ""], ids=["openmetrics", "prometheus"])
def test_one_scrape_has_both_and_says_what_upstream_would(serve: Serve, tmp_path: Path, fields: str) -> None:
    watched = Watched(serve, tmp_path, "--workers", "2", target="counting:application")
    for number in range(12):
        assert watched.view(f"/{number}") == 200
    settled(watched.server, statistics(watched.server), 12)
    samples = watched.samples(fields)
    assert own(samples) == by_upstream(opened(watched))
    page = frozenset({("page", 'a"b\\c\nd')})
    assert samples[("shop_views_total", page)] == 12
    assert samples[("shop_seconds_bucket", frozenset({("le", "1.0")}))] == 3
    assert samples[("shop_seconds_count", frozenset())] == 12
    assert samples[("shop_inside", frozenset())] == 2
    assert samples[("shop_most", frozenset())] == 11
    # The application's word goes before ours.
    assert samples[("forehand_queue_length", frozenset())] == 4711
    assert samples[("forehand_requests_total", frozenset())] == 12
    # Which is said, and once.
    watched.server.says("the application's forehand_queue_length in place of the server's")
    watched.samples(fields)
    assert watched.server.stop() == 0
    assert watched.server.log().count("in place of the server's") == 1, watched.server.log()


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
def test_workers_that_have_ended_leave_their_counts_and_no_files(
    serve: Serve, tmp_path: Path, preload: tuple[str, ...]
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", *preload, target="counting:application")
    server = watched.server
    folder = opened(watched)
    for number in (3, 5):
        assert watched.view(f"/{number}") == 200
    server.until(lambda: watched.samples().get(("shop_seconds_count", frozenset())) == 2)
    before = own(watched.samples())
    pid = server.status()["workers"][0]["pid"]
    os.kill(pid, signal.SIGKILL)
    server.until(
        lambda: [one["pid"] for one in server.status()["workers"] if one["state"] == "ready"] not in ([], [pid])
    )
    assert server.order("reload")[0] == 0
    server.until(lambda: len(server.status()["workers"]) == 1)
    after = own(watched.samples())
    changed = {key for key in before if before[key] != after.get(key)}
    # A gauge of those that live is theirs; with preload the process that was copied counts as one.
    assert changed <= {("shop_inside", frozenset())}, changed
    assert watched.view("/7") == 200
    server.until(lambda: watched.samples()[("shop_seconds_count", frozenset())] == 3)
    assert own(watched.samples()) == by_upstream(folder)
    processes = {file.name.split("_")[-1] for file in folder.iterdir()}
    assert f"{pid}.db" not in processes and len(processes) <= 3, processes
    assert server.stop() == 0
    assert not folder.exists()


@pytest.mark.parametrize("fields", [OPEN, ""], ids=["openmetrics", "prometheus"])
def test_names_that_only_new_scrapers_know_are_told_as_upstream_tells_them(
    serve: Serve, tmp_path: Path, fields: str
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="dotted:application")
    assert watched.view("/") == 200
    settled(watched.server, statistics(watched.server), 1)
    samples = watched.samples(fields)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(opened(watched)))  # type: ignore[no-untyped-call]
    wanted = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in prometheus(generate_latest(registry).decode())
        for sample in family.samples
    }
    assert wanted[("shop_orders_total", frozenset({("kind_of", "a.b")}))] == 1
    assert wanted.items() <= samples.items()
    assert samples[("forehand_requests_total", frozenset())] == 1, "nor are the server's own numbers lost"


@pytest.mark.parametrize("variable", ["PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir"])
def test_a_folder_of_the_user_s_is_left_alone(serve: Serve, tmp_path: Path, variable: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    env = {variable: str(theirs)}
    server = serve("counting:application", "--workers", "1", "--status-bind", f"unix:{tmp_path}/s.sock", env=env)
    server.until(lambda: list(theirs.glob("gauge_livesum_*.db")))
    assert server.stop() == 0
    assert list(theirs.glob("gauge_livesum_*.db")), "what is in it is theirs to sweep"


def test_children_of_workers_leave_their_counts_and_no_files(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", target="parents:application")
    for _ in range(5):
        assert watched.view("/") == 200
    by = {name: ("shop_done_total", frozenset({("by", name)})) for name in ("child", "view")}
    before = watched.samples()
    assert (before[by["child"]], before[by["view"]]) == (5, 5)
    folder, worker = opened(watched), str(watched.server.workers[0])

    def processes() -> set[str]:
        # Each look sees what no look before it has lost.
        found = watched.samples()
        assert (found[by["child"]], found[by["view"]]) == (5, 5)
        return {file.stem.rpartition("_")[2] for file in folder.iterdir()}

    watched.server.until(lambda: processes() == {worker, "gone"})
    assert watched.samples()[("shop_alive", frozenset())] == 1, "they are not there any more"
    assert own(watched.samples()) == by_upstream(folder)
    assert watched.view("/") == 200
    assert watched.samples()[by["child"]] == 6


def test_what_a_killed_server_has_left_goes_when_the_next_one_starts_and_nothing_of_those_that_live(
    serve: Serve, tmp_path: Path
) -> None:
    one, other = (tmp_path / name for name in ("one", "other"))
    one.mkdir()
    other.mkdir()
    living = Watched(serve, one, "--workers", "1", target="counting:application")
    killed = Watched(serve, other, "--workers", "1", target="counting:application")
    kept, left = opened(living), opened(killed)
    assert living.view("/3") == 200
    # A program of the same server goes on with its folder, and has not counted itself when it was checked.
    assert living.server.order("upgrade")[0] == 0
    living.server.until(lambda: len(living.server.status()["workers"]) == 1)
    assert living.samples()[("shop_inside", frozenset())] == 1
    workers = [*killed.server.workers]
    killed.server.process.kill()
    killed.server.process.wait()
    killed.server.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    # Whichever server starts next removes it: maybe that of another test.
    other.joinpath("status.sock").unlink(missing_ok=True)
    Watched(serve, other, "--workers", "1", target="counting:application")
    assert kept.is_dir() and not left.exists()
    assert living.samples()[("shop_seconds_count", frozenset())] == 1


@pytest.mark.parametrize("options", [("--no-metrics-app",), ()], ids=["switched off", "nobody would ask"])
def test_no_folder_is_made_where_nobody_looks(serve: Serve, tmp_path: Path, options: tuple[str, ...]) -> None:
    bind = ("--status-bind", f"unix:{tmp_path}/s.sock") if options else ()
    server = serve("counting:application", "--workers", "1", *bind, *options)
    names = [link for _, link in descriptors(server.workers[0])]
    assert not [name for name in names if "forehand-metrics-" in name]


#: A script that serves, and has imported prometheus_client before.
SCRIPT = """
import sys
from prometheus_client import Counter
{made}
import forehand
sys.exit(forehand.serve("shop:app", workers=2, status_bind=["unix:status.sock"], bind="unix:app.sock", {options}))
"""
SHOP = """
from prometheus_client import Counter
VIEWS = Counter("shop_views", "Views.")
def app(environ, start_response):
    VIEWS.inc()
    start_response("200 OK", [])
    return [b"ok"]
"""


def asked(path: Path, target: str) -> str:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(path))
        sock.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        return read_all(sock).decode()


@pytest.mark.parametrize("options", ["", "preload=True"], ids=["", "preload"])
@pytest.mark.parametrize("early", [(), ("first", "second")], ids=["imported before", "metrics made before"])
def test_a_script_that_has_imported_prometheus_client_before_it_serves_has_its_application_s_metrics(
    tmp_path: Path, early: tuple[str, ...], options: str
) -> None:
    made = "\n".join(f"Counter('early_{name}', 'Made too early.')" for name in early)
    (tmp_path / "own.py").write_text(SCRIPT.format(made=made, options=options))
    (tmp_path / "shop.py").write_text(SHOP)
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen([PYTHON, "own.py"], cwd=tmp_path, stdout=log, stderr=log)
    said = (tmp_path / "log").read_text
    try:
        until = time.monotonic() + 2 * PATIENCE
        while "Ctrl-C stops" not in said():
            assert server.poll() is None and time.monotonic() < until, said()
            time.sleep(0.02)
        for _ in range(6):
            assert asked(tmp_path / "app.sock", "/").endswith("ok")
        text = asked(tmp_path / "status.sock", "/metrics")
        assert "\nshop_views_total 6\n" in text.replace("6.0", "6"), text
        assert "early_" not in text
        warned = [line for line in said().splitlines() if "made with prometheus_client before" in line]
        assert len(warned) == (1 if early else 0), said()
        assert not early or "early_first, early_second" in warned[0]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)

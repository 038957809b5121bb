"""The load engine from the outside: one that the machine held up for all of a load has measured nothing."""

from __future__ import annotations

import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import laboratory
import pytest
from forehand_lab import engine, records
from forehand_lab.problem import Problem

try:
    ENGINE = engine.found()
except Problem:
    pytest.skip("forehand-load is not built: make load", allow_module_level=True)

# The real engine, which for as many loads as it is told stands still from before second 0 until after the end.
HELD_UP = """#!{python}
import json, os, signal, subprocess, sys, time
words, folder = [{engine!r}, *sys.argv[1:]], {folder!r}
loads = len(os.listdir(folder))
open(os.path.join(folder, str(loads)), "w").close()
if loads >= {times}:
    os.execv(words[0], words)
path = sys.argv[sys.argv.index("--plan") + 1]
with open(path) as file:
    plan = json.load(file)
plan["start_at"] = time.time() + 2
with open(path, "w") as file:
    json.dump(plan, file)
running = subprocess.Popen(words)
while len(os.listdir(f"/proc/{{running.pid}}/task")) < 2:
    time.sleep(0.001)
running.send_signal(signal.SIGSTOP)
time.sleep(plan["start_at"] + plan["duration_s"] + 0.2 - time.time())
running.send_signal(signal.SIGCONT)
sys.exit(running.wait())
"""


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Nothing: a load has many requests."""


@pytest.fixture
def plan() -> Iterator[dict[str, Any]]:
    """A closed load before a server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "url": f"http://127.0.0.1:{server.server_port}/",
            "duration_s": 0.3,
            "load": {"kind": "closed", "connections": 1},
        }
        server.shutdown()


def held_up(folder: Path, patch: pytest.MonkeyPatch, times: int) -> Path:
    """The engine of this process from now on; in the folder that is handed back lies a file for each load."""
    counted = folder / "loads"
    counted.mkdir()
    script = folder / "forehand-load"
    script.write_text(HELD_UP.format(python=sys.executable, engine=ENGINE, folder=str(counted), times=times))
    script.chmod(0o700)
    patch.setenv("FOREHAND_LOAD", str(script))
    return counted


def driven(source: engine.Here, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A load that nobody holds up: a busy machine may do that by itself."""
    for _ in range(engine.TRIES):
        try:
            return source.driven([plan])
        except engine.BegunLate:
            pass
    return source.driven([plan])


@pytest.mark.apart
def test_a_load_whose_engine_had_no_processor_is_worth_another_try(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_up(tmp_path, monkeypatch, 1)
    source = engine.Here()
    with pytest.raises(engine.BegunLate, match="the generator was held up"):
        source.driven([plan])
    (result,) = driven(source, plan)
    assert result["totals"]["replies"] > 0 and result["errors"] == {}


@pytest.mark.apart
def test_after_some_tries_what_came_of_it_is_told(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = held_up(tmp_path, monkeypatch, engine.TRIES)
    source = engine.Here()
    for _ in range(engine.TRIES - 1):
        with pytest.raises(engine.BegunLate):
            source.driven([plan])
    (result,) = source.driven([plan])
    assert (result["totals"]["replies"], result["generator"]["verdict"]) == (0, "at_fault")
    assert len(list(counted.iterdir())) == engine.TRIES


@pytest.mark.apart
def test_a_run_measures_such_a_point_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The load of the warm-up comes first, and is held up as well.
    counted, out = held_up(tmp_path, monkeypatch, 2), str(tmp_path / "records" / "r")
    brief = ("--profile", "quick", "--rounds", "1", "--seconds", "0.5", "--points", "2", "--servers", "forehand")
    told = laboratory.lab(laboratory.surroundings(tmp_path), "run", "hello", *brief, "--out", out)
    assert told.returncode == 0, told.stderr
    (point,) = (fact for fact in records.read(out) if fact["kind"] == "point")
    assert point["result"]["totals"]["replies"] > 0 and point["result"]["errors"] == {}
    # A busy machine may have held up one more by itself.
    assert len(list(counted.iterdir())) >= 3


def test_a_server_that_nobody_reaches_and_an_open_load_are_told_at_once() -> None:
    away = {"totals": {"started": 0}, "errors": {}, "generator": {"verdict": "at_fault", "reasons": ["held up"]}}
    closed, opened = {"load": {"kind": "closed"}}, {"load": {"kind": "open"}}
    assert engine.was_away(closed, away)
    assert not engine.was_away(opened, away)
    assert not engine.was_away(closed, {**away, "errors": {"connect_refused": 1}})
    assert not engine.was_away(closed, {**away, "totals": {"started": 1}})
    assert not engine.was_away(closed, {**away, "generator": {"verdict": "fit"}})

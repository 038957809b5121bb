"""The lab as a whole, briefly: real servers, the real engine, a real record. Nothing here judges a figure."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import laboratory
import psutil
import pytest
from forehand_lab import answer, engine, records
from forehand_lab.problem import Problem
from laboratory import PATIENCE, lab

try:
    engine.found()
except Problem:
    pytest.skip("forehand-load is not built: make load", allow_module_level=True)

pytestmark = pytest.mark.apart

BROKEN = {
    "absent": 'command = ["{python}", "-c", "import no_such_module"]',
    "deaf": 'command = ["{python}", "-c", "import time; time.sleep(60)"]\nsettle = 0.5',
    "wrong": 'command = ["{python}", "{folder}/serve.py", "{host}", "{port}"]',
    "stubborn": 'command = ["{python}", "{folder}/serve.py", "{host}", "{port}", "{app}"]',
    "mortal": 'command = ["{python}", "{folder}/serve.py", "{host}", "{port}", "{app}"]',
}
WRONG = """
import sys
from wsgiref.simple_server import make_server
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"Ping!"]
make_server(sys.argv[1], int(sys.argv[2]), application).serve_forever()
"""
# Answers rightly, and dies half a second after the fifteenth request: verification has fewer, the shortest load more.
MORTAL = """
import os, sys, threading
from wsgiref.simple_server import make_server
module, _, attribute = sys.argv[3].partition(":")
pong, seen = getattr(__import__(module), attribute), []
def application(environ, start_response):
    seen.append(1)
    if len(seen) == 15:
        threading.Timer(0.5, lambda: os._exit(9)).start()
    return pong(environ, start_response)
make_server(sys.argv[1], int(sys.argv[2]), application).serve_forever()
"""


# Answers rightly, and does not go when it is asked to.
STUBBORN = """
import signal, sys
from wsgiref.simple_server import make_server
signal.signal(signal.SIGTERM, signal.SIG_IGN)
module, _, attribute = sys.argv[3].partition(":")
make_server(sys.argv[1], int(sys.argv[2]), getattr(__import__(module), attribute)).serve_forever()
"""
# A machine without these programs, whatever this one has.
WITHOUT = """
import shutil, sys
found = shutil.which
shutil.which = lambda name, *more, **named: None if name in {names!r} else found(name, *more, **named)
from forehand_lab.cli import main
sys.exit(main({words!r}))
"""


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Places of its own, and contestants that are broken."""
    contestants = tmp_path / "contestants"
    for name, start in BROKEN.items():
        folder = contestants / name
        folder.mkdir(parents=True)
        text = f'title = "{name}"\nflavour = "thread"\n[install]\npython = ["own"]\n[start]\n{start}\n'
        (folder / "contestant.toml").write_text(text)
    (contestants / "wrong/serve.py").write_text(WRONG)
    (contestants / "mortal/serve.py").write_text(MORTAL)
    (contestants / "stubborn/serve.py").write_text(STUBBORN)
    unpackaged = contestants / "unpackaged"
    unpackaged.mkdir()
    (unpackaged / "contestant.toml").write_text(
        'title = "p"\nflavour = "thread"\n[install]\npackages = ["/no/such/package"]\n[start]\ncommand = ["x"]\n'
    )
    uninstallable = contestants / "uninstallable"
    uninstallable.mkdir()
    (uninstallable / "contestant.toml").write_text(
        'title = "u"\nflavour = "thread"\n[install]\nprograms = ["no-such-program=its-package"]\n'
        '[start]\ncommand = ["x"]\n'
    )
    return laboratory.surroundings(tmp_path, FOREHAND_LAB_CONTESTANTS=str(contestants))


def lab_without(names: tuple[str, ...], surroundings: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """The same on a machine that lacks these programs."""
    command = [sys.executable, "-c", WITHOUT.format(names=names, words=words)]
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def brief() -> Iterator[tuple[str, ...]]:
    """Options of the shortest run; no process of this test's may be left after it."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    yield ("--profile", "quick", "--rounds", "1", "--seconds", "0.5", "--points", "2")
    after = {process.pid for process in psutil.Process().children(recursive=True)}
    assert after - before == set()


def facts_of(surroundings: dict[str, str], folder: str) -> list[dict]:
    return records.read(os.path.join(surroundings["FOREHAND_LAB_RECORDS"], folder))


def test_a_run_makes_a_record_and_the_record_a_report(
    surroundings: dict[str, str], brief: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "records" / "r")
    told = lab(surroundings, "run", "hello", "--servers", "wsgiref,forehand,snakelets", *brief, "--out", out)
    assert told.returncode == 0, told.stderr
    assert "not obtainable" in told.stderr and "--checkout DIR" in told.stderr
    found = facts_of(surroundings, "r")
    # Which figure answers depends on how busy the machine was.
    assert " ".join(answer.of(found)["said"].split()) in " ".join(told.stderr.split()), "it ends with what it has found"
    points = [fact for fact in found if fact["kind"] == "point"]
    assert {fact["server"] for fact in points} == {"wsgiref", "forehand"}
    assert all(fact["result"]["totals"]["replies"] > 0 and fact["samples"][0]["pss_kib"] > 0 for fact in points)
    assert found[-1]["how"] == "complete"
    told = lab(surroundings, "report", out, "--csv")
    assert told.returncode == 0 and (tmp_path / "records/r/report.html").stat().st_size < 3_000_000
    assert "points.csv" in told.stdout
    assert lab(surroundings, "compare", out).returncode == 0
    assert "complete" in lab(surroundings, "list", "records").stdout
    again = lab(surroundings, "run", "--resume", out)
    assert again.returncode == 0 and "nothing is left" in again.stderr


def test_broken_servers_cost_a_line_each_and_the_rest_goes_on(
    surroundings: dict[str, str], brief: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "records" / "r")
    names = "absent,deaf,wrong,uninstallable,unpackaged,mortal,wsgiref"
    told = lab(surroundings, "run", "hello", "--servers", names, *brief, "--points", "1,2", "--out", out)
    assert told.returncode == 0, told.stderr
    for said in (
        "absent: it did not start", "ModuleNotFoundError", "deaf: it does not answer", "body of 5 bytes differs",
        "uninstallable: needs no-such-program (Debian: its-package)", "mortal: it died",
        "unpackaged: installing /no/such/package",
    ):  # fmt: skip
        assert said in told.stderr, told.stderr
    assert any(fact["kind"] == "point" and fact["server"] == "wsgiref" for fact in facts_of(surroundings, "r"))


def test_an_interruption_leaves_no_process_and_the_run_can_go_on(surroundings: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "records" / "r"
    words = ("--servers", "wsgiref", "--rounds", "2", "--seconds", "1", "--points", "1", "--out", str(out))
    with laboratory.begun(surroundings, "run", "hello", *words) as process:
        children: set[int] = set()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and process.poll() is None:
            children |= {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
            if (out / records.FILE).exists() and '"kind":"point"' in (out / records.FILE).read_text():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        said = process.stderr.read()
        assert process.wait(PATIENCE) == 130, said
    assert f"--resume {out}" in said
    assert [pid for pid in children if psutil.pid_exists(pid)] == []
    before = sum(fact["kind"] == "point" for fact in records.read(str(out)))
    assert before == 1
    told = lab(surroundings, "run", "--resume", str(out))
    assert told.returncode == 0, told.stderr
    points = [(fact["round"], fact["point"]) for fact in records.read(str(out)) if fact["kind"] == "point"]
    assert sorted(points) == [(1, 1.0), (2, 1.0)]


def test_the_proof_counts_each_call_of_the_application(
    surroundings: dict[str, str], brief: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "records" / "r")
    told = lab(surroundings, "run", "B", "--servers", "wsgiref,forehand", *brief, "--out", out)
    assert told.returncode == 0, told.stderr
    for fact in facts_of(surroundings, "r"):
        if fact["kind"] == "point":
            totals = fact["result"]["totals"]
            assert totals["replies"] <= fact["hits"] <= totals["started"]


def test_durability_tells_who_lost_what(surroundings: dict[str, str], tmp_path: Path) -> None:
    scenario = tmp_path / "faults.toml"
    scenario.write_text(
        'title = "F"\nkind = "faults"\nquestion = "What is lost?"\nexpected = "."\nservers = ["wsgiref"]\n'
        '[application]\nmodule = "faults"\n[load]\ntimeout_s = 1.0\n'
        "[profile.quick]\npoints = [40]\nseconds = 5\nrounds = 1\nwarmup_s = 0\ndrain_s = 1\n"
        '[[request]]\ntarget = "/ok"\n'
        '[[fault]]\ntarget = "/raise"\nexpected = "."\n[[fault]]\ntarget = "/exit"\nexpected = "."\n'
    )
    out = str(tmp_path / "records" / "r")
    told = lab(surroundings, "run", str(scenario), "--out", out)
    assert told.returncode == 0, told.stderr
    found = {fact["target"]: fact for fact in facts_of(surroundings, "r") if fact["kind"] == "fault"}
    assert found["/raise"]["back_s"] is not None and not found["/raise"]["died"]
    assert "status 17" in found["/exit"]["died"] and found["/exit"]["back_s"] is None
    assert found["/exit"]["collateral"]["refused"] > 0


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("rum",), 2, "there is no verb 'rum'; did you mean 'run'?"),
        (("run", "helo"), 2, "there is no scenario 'helo'; did you mean 'hello'?"),
        (("run", "hello", "--servers", "waitres"), 2, "there is no server 'waitres'; did you mean 'waitress'?"),
        (("run", "hello", "--points", "many"), 2, "is not numbers"),
        (("run", "hello", "--rounds", "0"), 2, "--rounds: 1 to 100"),
        (("report", "nowhere"), 2, "there is no record nowhere"),
        (("selftest", "nagle"), 2, "there is no truth test 'nagle'"),
        (("run", "hello", "--python", "3.99"), 3, "there is no such interpreter"),
    ],
)
def test_bad_words_are_answered_in_one_line(surroundings: dict[str, str], words: tuple, status: int, said: str) -> None:
    told = lab(surroundings, *words)
    assert told.returncode == status
    assert said in told.stderr and "Traceback" not in told.stderr


def test_a_port_that_is_taken_is_told_with_its_holder(surroundings: dict[str, str], brief: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        told = lab(surroundings, "run", "hello", "--servers", "wsgiref", *brief, "--port", str(port))
    assert told.returncode == 5
    assert f"port {port} is taken" in told.stderr and str(os.getpid()) in told.stderr


def test_without_an_engine_the_way_to_get_one_is_told(surroundings: dict[str, str]) -> None:
    told = lab({**surroundings, "FOREHAND_LOAD": "/nowhere/forehand-load"}, "run", "hello")
    assert told.returncode == 3 and "$FOREHAND_LOAD" in told.stderr


def test_a_server_that_will_not_stop_is_killed_and_the_report_says_so(
    surroundings: dict[str, str], brief: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "records" / "r")
    told = lab(surroundings, "run", "hello", "--servers", "stubborn,wsgiref", *brief, "--out", out)
    assert told.returncode == 0, told.stderr
    said = "it did not stop within 5 s of SIGTERM, and was killed"
    assert f"stubborn: {said}" in told.stderr and f"wsgiref: {said}" not in told.stderr
    killed = [fact for fact in facts_of(surroundings, "r") if fact["kind"] == "killed"]
    assert [(fact["server"], fact["why"]) for fact in killed] == [("stubborn", said)]
    assert {fact["server"] for fact in facts_of(surroundings, "r") if fact["kind"] == "point"} == {
        "stubborn",
        "wsgiref",
    }
    assert lab(surroundings, "report", out).returncode == 0
    assert said in (tmp_path / "records/r/report.html").read_text()


def test_without_nginx_its_servers_are_left_out_and_the_rest_goes_on(
    surroundings: dict[str, str], brief: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "records" / "r")
    words = ("run", "hello", "--servers", "forehand-nginx,forehand", *brief, "--out", out)
    told = lab_without(("nginx",), surroundings, *words)
    assert told.returncode == 0, told.stderr
    assert "forehand-nginx: needs nginx (Debian: nginx-light)" in told.stderr
    found = facts_of(surroundings, "r")
    assert {fact["server"] for fact in found if fact["kind"] == "point"} == {"forehand"}
    assert lab(surroundings, "report", out).returncode == 0
    assert "needs nginx (Debian: nginx-light)" in (tmp_path / "records/r/report.html").read_text()


def test_the_doctor_names_what_is_lacking_in_a_line_each(surroundings: dict[str, str]) -> None:
    told = lab_without(("nginx", "wrk", "httperf"), surroundings, "doctor")
    assert told.returncode == 0, told.stdout + told.stderr
    for name, package in (("nginx", "nginx-light"), ("wrk", "wrk"), ("httperf", "httperf")):
        lines = [line for line in told.stdout.splitlines() if line.split()[1:2] == [name]]
        assert len(lines) == 1 and lines[0].startswith("note") and f"not here (Debian: {package})" in lines[0]


def test_a_disk_that_fills_up_ends_the_run_in_one_line_and_it_can_go_on(
    surroundings: dict[str, str], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    out = disk / "r"
    words = ("run", "hello", "--servers", "wsgiref", "--rounds", "4", "--seconds", "0.5", "--points", "2")
    command = laboratory.words_of(*words, "--seed", "1", "--out", str(out))
    # A disk of its own, in a mount namespace of its own, that is gone with the command; what is on it comes out first.
    script = f'mount -t tmpfs -o size=16k lab {disk} && "$@"; s=$?; cp -r {out} {tmp_path}/kept; exit $s'
    told = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command],
        env={**surroundings, "FOREHAND_LAB_ROOM": "0"}, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    if "unshare:" in told.stderr or "mount:" in told.stderr:
        sys.stderr.write(f"no mount namespaces: {told.stderr}")
        pytest.skip(f"no mount namespaces here: {told.stderr.strip()}")
    assert told.returncode == 5, told.stderr
    assert f"{out / records.FILE}: No space left on device: what was measured before is kept" in told.stderr
    assert f"--resume {out}" in told.stderr and "Traceback" not in told.stderr
    kept = tmp_path / "kept"
    before = records.read(str(kept))
    assert before[0]["kind"] == "manifest"
    again = lab(surroundings, "run", "--resume", str(kept))
    assert again.returncode == 0, again.stderr
    after = records.read(str(kept))
    assert after[: len(before)] == before and after[-1]["how"] == "complete"
    assert sum(fact["kind"] == "point" for fact in after) == 4


def test_a_second_run_is_told_who_is_measuring(surroundings: dict[str, str], brief: tuple[str, ...]) -> None:
    with records.OneRun(Path(surroundings["FOREHAND_LAB_HOME"])):
        told = lab(surroundings, "run", "hello", "--servers", "wsgiref", *brief)
    assert told.returncode == 4 and f"another run is measuring on this machine (pid {os.getpid()})" in told.stderr


def test_a_record_of_another_version_is_one_line_for_every_verb(surroundings: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "records" / "old"
    folder.mkdir(parents=True)
    (folder / records.FILE).write_text('{"kind": "manifest", "format": 99}\n')
    for words in (("report", str(folder)), ("compare", str(folder)), ("run", "--resume", str(folder))):
        told = lab(surroundings, *words)
        assert told.returncode == 2 and "is a record of format 99" in told.stderr, words
        assert "update the lab" in told.stderr and "Traceback" not in told.stderr
    assert "is a record of format 99" in lab(surroundings, "list", "records").stdout


def test_the_manifest_is_enough_to_do_it_again(
    surroundings: dict[str, str], brief: tuple[str, ...], tmp_path: Path
) -> None:
    out = str(tmp_path / "records" / "r")
    assert (
        lab(surroundings, "run", "hello", "--servers", "wsgiref", *brief, "--seed", "5", "--out", out).returncode == 0
    )
    first = facts_of(surroundings, "r")[0]
    assert (first["seed"], first["rounds"], first["points"]) == (5, 1, [2.0])
    assert first["machine"]["kernel"] and first["engine"].startswith("forehand-load")
    assert json.dumps(first)

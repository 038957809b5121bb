"""Load from several machines: three hosts in network namespaces of their own, as article A had them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import laboratory
import netspace
import psutil
import pytest
from forehand_lab import engine, histograms, records
from forehand_lab.problem import Problem
from iproute import NoNamespaces
from laboratory import PATIENCE, lab

# Found and not imported: that takes a second, in each process that looks for tests.
if importlib.util.find_spec("distributed") is None:
    pytest.skip("load from several machines needs distributed: extra lab-cluster", allow_module_level=True)
try:
    engine.found()
except Problem:
    pytest.skip("forehand-load is not built: make load", allow_module_level=True)

BRIEF = ("--profile", "quick", "--rounds", "1", "--seconds", "2", "--seed", "7")
# Beyond this the test is wrong, and not the machine slow: hosts that did not wait for one moment begin seconds apart.
START_BOUND_S = 0.5


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[netspace.Net]:
    """Three hosts, for all tests of this file."""
    try:
        with netspace.three_hosts(tmp_path_factory.mktemp("net")) as made:
            yield made
    except NoNamespaces as why:
        sys.stderr.write(f"no network namespaces: {why}\n")
        pytest.skip(f"no network namespaces here: {why}")


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    # They are here: on a busy machine it takes dask seconds to reach them.
    return laboratory.surroundings(tmp_path, FOREHAND_LAB_HOSTS_WAIT=str(PATIENCE))


@pytest.fixture
def impatient(surroundings: dict[str, str]) -> dict[str, str]:
    """Who is not here will not come."""
    return {**surroundings, "FOREHAND_LAB_HOSTS_WAIT": "2"}


def points(path: Path) -> list[dict]:
    return [fact for fact in records.read(str(path)) if fact["kind"] == "point"]


def has_a_point(path: Path) -> bool:
    """Whether a record that is being written has one yet."""
    file = path / records.FILE
    return file.exists() and '"kind":"point"' in file.read_text()


def engines(net: netspace.Net) -> list[int]:
    """Engines that were sent to these hosts; others may run theirs on this machine."""
    sent = str(net.folder)
    return [each.pid for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [""])[0].startswith(sent)]


def seconds_of(pid: int) -> float:
    """How long an engine's load is planned for: what its plan says; nothing where it is gone already."""
    try:
        words = psutil.Process(pid).cmdline()
        return float(json.loads(Path(words[words.index("--plan") + 1]).read_text())["duration_s"])
    except (psutil.Error, OSError, ValueError):
        return 0.0


def until_a_point_runs(net: netspace.Net, process: subprocess.Popen[str]) -> None:
    """Waits for engines of a point, on all hosts: their plans are longer than a warm-up's."""
    end = time.monotonic() + PATIENCE
    while sum(seconds_of(pid) > 10 for pid in engines(net)) < len(net.hosts):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)


def test_three_hosts_share_one_load_and_nothing_is_lost(
    net: netspace.Net, surroundings: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "records" / "r"
    words = ("--scheduler", net.scheduler, "--hosts", "3", "--server-address", net.own, "--points", "61,301")
    told = lab(surroundings, "run", "A1", "--servers", "forehand", *BRIEF, *words, "--out", str(out))
    assert told.returncode == 0, told.stderr
    first = records.read(str(out))[0]
    assert [host["host"] for host in first["hosts"]] == net.hosts
    assert all("forehand-load" in host["engine"] and host["uncertainty_s"] < 0.005 for host in first["hosts"])
    assert first["setting"]["address"] == net.own
    found = points(out)
    assert [fact["point"] for fact in found] == [61.0, 301.0], told.stdout + told.stderr
    for fact in found:
        result, hosts = fact["result"], fact["result"]["hosts"]
        totals = result["totals"]
        assert sorted(host["host"] for host in hosts) == net.hosts
        # 61 and 301 are no multiples of three: what is dealt round adds up to the very plan.
        assert totals["offered"] == fact["point"] * 2 == sum(host["offered"] for host in hosts)
        assert max(host["offered"] for host in hosts) - min(host["offered"] for host in hosts) <= 1
        assert totals["started"] == totals["replies"] + totals["failed"] == sum(host["started"] for host in hosts)
        assert result["errors"] == {} and totals["replies"] == totals["offered"], "a quiet server answers all"
        for name, each in result["times"].items():
            whole = histograms.merged([each["hdr"]])
            seconds = histograms.merged(row["times"][name] for row in result["series"])
            assert whole.get_total_count() == each["count"] == seconds.get_total_count(), name
        assert result["times"]["response"]["count"] == totals["replies"]
        assert sum(row["replies"] for row in result["series"]) == totals["replies"]
        assert len({host["planned_at"] for host in hosts}) == 1, "one moment for all"
        assert all(0 <= host["uncertainty_s"] < START_BOUND_S for host in hosts)
        assert all(abs(host["started_at"] - host["planned_at"]) < START_BOUND_S for host in hosts)
    assert engines(net) == []


def test_a_closed_loop_shares_out_its_connections_and_the_report_names_the_hosts(
    net: netspace.Net, surroundings: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "records" / "r"
    # One second: each of these requests has a connection of its own, whose port is waited for before the next point.
    words = ("--scheduler", net.scheduler, "--points", "2,7", "--seconds", "1")
    told = lab(surroundings, "run", "C1", "--servers", "forehand", *BRIEF, *words, "--out", str(out))
    assert told.returncode == 0, told.stderr
    two, seven = (fact["result"] for fact in points(out))
    assert len(two["hosts"]) == 2, "two connections are for two hosts"
    assert len(seven["hosts"]) == 3 and seven["totals"]["replies"] == sum(host["replies"] for host in seven["hosts"])
    report = tmp_path / "report.html"
    assert lab(surroundings, "report", str(out), "--out", str(report)).returncode == 0
    text = report.read_text()
    assert all(host in text for host in net.hosts) and "Hosts of the load" in text


def test_hosts_that_begin_late_are_given_more_time_and_no_point_is_lost(
    net: netspace.Net, surroundings: dict[str, str], tmp_path: Path
) -> None:
    slow = tmp_path / "slow-engine"
    # The first that shall drive a load is not ready before its moment has passed.
    slow.write_text(
        f'#!/bin/sh\n[ "$1" != --plan ] || mkdir {tmp_path}/once 2>&- && sleep 4\nexec {engine.found()} "$@"\n'
    )
    slow.chmod(0o755)
    out = tmp_path / "records" / "r"
    words = ("--scheduler", net.scheduler, "--points", "2", "--seconds", "1")
    told = lab({**surroundings, "FOREHAND_LOAD": str(slow)}, "run", "C1", "--servers", "forehand", *BRIEF, *words,
               "--out", str(out))  # fmt: skip
    assert told.returncode == 0, told.stderr
    [fact] = points(out)
    assert len(fact["result"]["hosts"]) == 2 and (tmp_path / "once").exists()


def test_a_host_that_is_lost_makes_the_point_invalid(
    net: netspace.Net, surroundings: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "records" / "r"
    words = ["--scheduler", net.scheduler, "--points", "50,60", "--seconds", "30"]
    lost = net.hosts[1]
    command = ("run", "A1", "--servers", "forehand", *BRIEF, *words, "--out", str(out))
    with laboratory.begun(surroundings, *command) as process:
        try:
            until_a_point_runs(net, process)
            net.end(net.workers[lost])
            assert process.stderr
            said = process.stderr.read()
            assert process.wait(PATIENCE) == 0, said
        finally:
            process.kill()
            space = net.spaces[net.hosts.index(lost)]
            (net.folder / f"{space}.ready").unlink(missing_ok=True)
            net.workers[lost] = net.start(space, netspace.WORKER, net.scheduler, lost, space=space)
    facts = records.read(str(out))
    why = [fact["why"] for fact in facts if fact["kind"] == "lost"]
    assert len(why) == 2 and points(out) == []
    assert f"host {lost} was lost while it drove the load" in why[0] and f"host {lost} is gone" in why[1]
    assert said.count(f"host {lost} was lost") == 1 and "Traceback" not in said
    assert engines(net) == [], "no host goes on alone"


def test_ctrl_c_ends_the_engines_of_all_hosts(net: netspace.Net, surroundings: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "records" / "r"
    # More points than are waited for: what comes after the first is interrupted, and the first is kept.
    words = ("--servers", "forehand", *BRIEF, "--points", "20,21,22,23,24,25,26,27", "--out", str(out))
    with laboratory.begun(surroundings, "run", "A1", *words, "--scheduler", net.scheduler) as process:
        end = time.monotonic() + PATIENCE
        while not has_a_point(out) or len(engines(net)) < 3:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        process.send_signal(2)
        assert process.stderr
        said = process.stderr.read()
        assert process.wait(PATIENCE) == 130, said
    assert "--resume" in said
    end = time.monotonic() + 20
    while engines(net) and time.monotonic() < end:
        time.sleep(0.1)
    assert engines(net) == []
    without = lab(surroundings, "run", "--resume", str(out))
    assert without.returncode == 2 and "came from 3 hosts" in without.stderr


def test_more_hosts_than_there_are_is_one_line(net: netspace.Net, surroundings: dict[str, str]) -> None:
    words = ("run", "A1", "--servers", "forehand", *BRIEF, "--points", "20")
    # Until dask has been reached the same time is waited for it.
    usual = {**surroundings, "FOREHAND_LAB_HOSTS_WAIT": "10"}
    told = lab(usual, *words, "--scheduler", net.scheduler, "--hosts", "4")
    assert told.returncode == 5 and "4 hosts were asked for, and the scheduler has 3" in told.stderr
    assert "Traceback" not in told.stderr


def test_hosts_that_cannot_run_the_engine_say_so(
    net: netspace.Net, surroundings: dict[str, str], tmp_path: Path
) -> None:
    # It says its version here and would not on another machine: the very bytes cannot be run anywhere else.
    false = tmp_path / "forehand-load"
    false.write_text(f'#!/bin/sh\n[ "$0" = "{false}" ] && exec {engine.found()} "$@"\necho "no such machine"; exit 1\n')
    false.chmod(0o755)
    told = lab({**surroundings, "FOREHAND_LOAD": str(false)}, "run", "A1", *BRIEF, "--scheduler", net.scheduler)
    assert told.returncode == 5, told.stderr
    assert f"{net.hosts[0]}: it cannot run the engine" in told.stderr and "no such machine" in told.stderr
    assert "$FOREHAND_LOAD of its worker" in told.stderr


def test_hosts_that_cannot_reach_the_lab_say_so(net: netspace.Net, surroundings: dict[str, str]) -> None:
    words = ("run", "A1", *BRIEF, "--scheduler", net.scheduler)
    told = lab(surroundings, *words, "--server-address", "127.0.0.1")
    assert told.returncode == 5 and f"{net.hosts[0]}: it cannot reach the lab at 127.0.0.1" in told.stderr
    told = lab(surroundings, *words, "--server-address", "192.0.2.1")
    assert told.returncode == 2 and "servers cannot listen there" in told.stderr


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("--scheduler", "tcp://127.0.0.1:9"), 5, "--scheduler tcp://127.0.0.1:9: it cannot be reached"),
        (("--scheduler", "nonsense"), 2, "--scheduler nonsense: an address is like tcp://"),
        (("--hosts", "3"), 2, "name a --scheduler"),
        (("--scheduler", "tcp://127.0.0.1:9", "--hosts", "0"), 2, "--hosts: 1 to 256"),
    ],
)
def test_a_scheduler_that_cannot_be_used_is_one_line(
    impatient: dict[str, str], words: tuple, status: int, said: str
) -> None:
    told = lab(impatient, "run", "hello", *words)
    assert (told.returncode, said in told.stderr, "Traceback" in told.stderr) == (status, True, False), told.stderr


def test_without_distributed_the_way_to_get_it_is_told(surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text("raise ModuleNotFoundError('no distributed', name='distributed')\n")
    hidden = {**surroundings, "PYTHONPATH": str(tmp_path)}
    told = lab(hidden, "run", "hello", "--scheduler", "tcp://127.0.0.1:9")
    assert told.returncode == 3 and "pip install distributed" in told.stderr


def test_a_host_that_is_cut_off_is_noticed_by_its_silence(
    net: netspace.Net, surroundings: dict[str, str], tmp_path: Path
) -> None:
    # The last of this file that needs the hosts: dask may take minutes to find one again that was cut off.
    out = tmp_path / "records" / "r"
    words = ["--scheduler", net.scheduler, "--points", "50,60", "--seconds", "60"]
    command = ("run", "A1", "--servers", "forehand", *BRIEF, *words, "--out", str(out))
    with laboratory.begun(surroundings, *command) as process:
        try:
            until_a_point_runs(net, process)
            netspace.ip("-n", net.spaces[2], "link", "set", "eth0", "down")
            assert process.stderr
            said = process.stderr.read()
            assert process.wait(PATIENCE) == 0, said
        finally:
            process.kill()
            netspace.ip("-n", net.spaces[2], "link", "set", "eth0", "up")
    why = [fact["why"] for fact in records.read(str(out)) if fact["kind"] == "lost"]
    assert len(why) == 2 and points(out) == [], why
    assert f"host {net.hosts[2]} was lost while it drove the load: it has said nothing for 10 s" in why[0]
    assert f"host {net.hosts[2]}" in why[1]

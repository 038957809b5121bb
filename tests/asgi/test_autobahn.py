"""The WebSocket framing before an outside judge: the Autobahn test suite, 517 cases against an echo application.

The suite runs on Python 2.7 only. It is fetched into an environment of its own, `.venvs/autobahn`, where such an
interpreter is found. A part of its cases is for every day; `make autobahn` is for all of them (ten minutes).
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Serving

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venvs" / "autobahn"
SUITE = "autobahntestsuite==25.10.1"
WHOLE = os.environ.get("FOREHAND_TEST_AUTOBAHN") == "all"
START = """
import site, sys
home = sys.argv.pop(1)
site.addsitedir(home)
sys.path.insert(0, home)
from autobahntestsuite.wstest import run
run()
"""
#: Framing, pings, reserved bits, opcodes, fragments, UTF-8, closing in full; of sizes and of compression a choice
#: that has each kind of message and each kind of offer.
CHOICE = [
    *("1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"),
    *("9.1.1", "9.1.3", "9.2.1", "9.2.3", "9.3.5", "9.4.5", "9.5.4", "9.6.4", "9.7.1", "9.8.1"),
    *("12.1.1", "12.1.5", "12.2.2", "12.3.3", "12.4.1", "12.5.4"),
    *("13.1.1", "13.2.2", "13.3.1", "13.4.3", "13.5.1", "13.6.2", "13.7.1"),
]
#: 247 cases of the first line, and one of each that is named.
CHOSEN = 247 + 23
#: NON-STRICT: the server refuses a broken frame at once, before the echo of what came ahead of it has gone out.
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}


def python_2() -> str | None:
    """An interpreter that the suite runs on: in PATH, or among pyenv's."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    named = [shutil.which(name) for name in ("python2.7", "pypy")]
    for path in [*named, *glob.glob(f"{root}/versions/2.7*/bin/python2.7")]:
        if path and subprocess.run([path, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return path
    return None


@pytest.fixture(scope="session")
def judge() -> list[str]:
    """The suite's command."""
    python = python_2()
    if python is None:
        pytest.skip("no Python 2.7 with pip here (`pyenv install 2.7.18`), which the Autobahn suite needs")
    if not HOME.exists():
        fetched = HOME.with_name(f"autobahn-{os.getpid()}")
        fetch = [python, "-m", "pip", "install", "-q", "--target", str(fetched), SUITE]
        # Parts of it are compiled, on a machine that may be busy.
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=1500, check=False)
        if done.returncode:
            shutil.rmtree(fetched, ignore_errors=True)
            pytest.skip(f"{SUITE} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
        try:
            fetched.rename(HOME)
        except OSError:  # somebody else was quicker
            shutil.rmtree(fetched)
    return [python, "-c", START, str(HOME)]


def verdicts(server: Serving, judge: list[str], cases: list[str], folder: Path) -> dict[str, dict[str, object]]:
    """What the suite thinks, by case."""
    spec = {
        "outdir": str(folder / "reports"),
        "servers": [{"agent": "forehand", "url": f"ws://127.0.0.1:{server.port}/echo"}],
        "cases": cases,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    run = [*judge, "-m", "fuzzingclient", "-s", str(folder / "spec.json")]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=3000, check=False)
    index = folder / "reports" / "index.json"
    assert index.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, dict[str, object]] = json.loads(index.read_text())["forehand"]
    return found


def test_autobahn_finds_nothing_wrong(serve: Callable[..., Serving], judge: list[str], tmp_path: Path) -> None:
    # It cuts four megabytes into fragments of 64 bytes, which is more than the default allows.
    server = serve("asgi_sockets:app", "--limit-ws-fragments", "65537")
    found = verdicts(server, judge, ["*"] if WHOLE else CHOICE, tmp_path)
    assert len(found) == (517 if WHOLE else CHOSEN)
    bad = {
        case: (verdict["behavior"], verdict["behaviorClose"])
        for case, verdict in found.items()
        if verdict["behavior"] not in GOOD or verdict["behaviorClose"] not in GOOD
    }
    assert bad == {}
    assert "Traceback" not in server.log()


def test_autobahn_would_find_something(serve: Callable[..., Serving], judge: list[str], tmp_path: Path) -> None:
    """The same judge over an application that is no echo, and over limits that are too small."""
    server = serve("asgi_sockets:app", "--limit-ws-message-bytes", "100")
    found = verdicts(server, judge, ["1.1.1", "1.1.4", "7.1.1"], tmp_path)
    assert {case: verdict["behavior"] for case, verdict in found.items()} == {
        "1.1.1": "OK", "1.1.4": "FAILED", "7.1.1": "OK",
    }  # fmt: skip

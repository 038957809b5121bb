"""What runs on a host that lends its processors to the load: the clock's difference, the engine, its result.

Sent to dask workers as it stands, by value, so that they need nothing of the lab installed: the standard library only,
and nothing of this package. Runs in a worker's thread. Every answer is a plain dictionary; what went wrong is its
`problem`.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any

# The clock's difference is that of the quickest of so many round trips (as NTP has it): its error is half of that trip.
ROUND_TRIPS = 24
LIFE_SECONDS, BEAT_SECONDS = 10.0, 0.5
# Later than this before the planned moment and the engine would not be there in time.
LEAST_LEAD_SECONDS = 0.1
# The engine's word for a moment that had passed when it had begun.
LATE = "give a moment to come"
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def version_of(path: str) -> tuple[str, str]:
    """What an engine says of itself, or why it cannot be run."""
    try:
        told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return "", "it said nothing within 10 s"
    except OSError as error:
        return "", error.strerror or str(error)
    words = (told.stdout or told.stderr).strip().splitlines()
    return (
        (words[0], "") if told.returncode == 0 and words else ("", words[0] if words else f"status {told.returncode}")
    )


def placed(version: str, digest: str, data: bytes | None) -> dict[str, Any]:
    """An engine of the lab's version on this host: one that is here, or the lab's own, sent as `data`."""
    told: dict[str, Any] = {
        "machine": platform.machine(), "kernel": platform.release(), "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)), "boot": boot(), "problem": "", "wants": False, "path": "",
    }  # fmt: skip
    here = os.environ.get("FOREHAND_LOAD") or shutil.which("forehand-load")
    if here and version_of(here)[0] == version:
        return {**told, "path": here, "engine": f"{version} (its own)"}
    folder = os.path.join(tempfile.gettempdir(), f"forehand-load-{os.getuid()}")
    path = os.path.join(folder, digest, "forehand-load")
    if not is_ours(folder, path, digest):
        if data is None:
            return {**told, "wants": True}
        try:
            written(folder, path, data)
        except OSError as error:
            return {**told, "problem": f"the engine cannot be written to {folder}: {error.strerror}"}
    says, why = version_of(path)
    if says != version:
        hint = "install the lab there, or name an engine in $FOREHAND_LOAD of its worker"
        said = why or f"it is {says}, not {version}"
        return {**told, "problem": f"it cannot run the engine ({told['machine']}): {said}; {hint}"}
    return {**told, "path": path, "engine": f"{version} (sent)"}


def is_ours(folder: str, path: str, digest: str) -> bool:
    """Whether the very bytes are there, in a folder that nobody else may write to."""
    try:
        state = os.lstat(folder)
        if state.st_uid != os.getuid() or state.st_mode & 0o077:
            return False
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def written(folder: str, path: str, data: bytes) -> None:
    """The engine as a program of this user's; raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    state = os.lstat(folder)
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(13, "the folder belongs to somebody else, or others may write to it")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # Two hosts may share a disk: written beside, then moved.
    descriptor, beside = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.chmod(beside, 0o700)
    os.replace(beside, path)


def boot() -> str:
    """Which start of which kernel this is: two hosts of the same are one machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


class Life:
    """The line to the lab: asks it the time, tells it what the engine says, and ends when either of them does."""

    def __init__(self, lab: tuple[str, int], greeting: str) -> None:
        self._socket = socket.create_connection(lab, LIFE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self.broken = threading.Event()
        self.tell(greeting)

    def tell(self, line: str) -> None:
        """One line; a lab that is gone is noticed and no error."""
        try:
            with self._lock:
                self._socket.sendall(line.encode() + b"\n")
        except OSError:
            self.broken.set()

    def clock(self) -> dict[str, float]:
        """What has to be added to this clock to get the lab's, and how wrong that can be, in seconds."""
        best = (float("inf"), 0.0)
        for _ in range(ROUND_TRIPS):
            begun, mono = time.time(), time.monotonic()
            self.tell("?")
            theirs = float(self._lines.readline() or "nan")
            trip = time.monotonic() - mono
            if theirs != theirs:
                raise ConnectionError("the lab ended the connection")
            best = min(best, (trip, theirs - (begun + trip / 2)))
        return {"offset_s": best[1], "uncertainty_s": best[0] / 2}

    def listen(self) -> None:
        """From now on the lab says nothing: what comes is its end."""

        def until_the_end() -> None:
            try:
                self._socket.settimeout(None)
                self._lines.readline()
            except (OSError, ValueError):
                pass
            self.broken.set()

        threading.Thread(target=until_the_end, name="lab-life", daemon=True).start()

    def close(self) -> None:
        """The end of it: the lab sees it at once, and a thread that listens wakes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def clock(lab: tuple[str, int], greeting: str) -> dict[str, Any]:
    """The clock's difference alone."""
    try:
        life = Life(lab, greeting)
    except OSError as error:
        return {"problem": f"it cannot reach the lab at {lab[0]}:{lab[1]}: {error}"}
    try:
        return {"problem": "", **life.clock()}
    except (OSError, ValueError) as error:
        return {"problem": f"it lost the lab while it asked for the time: {error}"}
    finally:
        life.close()


def driven(
    lab: tuple[str, int], greeting: str, path: str, plans: list[dict[str, Any]], start_at: float
) -> dict[str, Any]:
    """Runs engines with these plans from one moment of the lab's clock on; their results, and its difference. `late` in
    the answer: the moment had passed before all was ready."""
    try:
        life = Life(lab, greeting)
    except OSError as error:
        return {"problem": f"it cannot reach the lab at {lab[0]}:{lab[1]}: {error}"}
    try:
        told = life.clock()
        start_here = start_at - told["offset_s"]
        left = start_here - time.time()
        if left < LEAST_LEAD_SECONDS:
            why = f"it was told {-left:.2f} s after the planned moment, or too shortly before"
            return {"problem": why, "late": True, **told}
        life.listen()
        results, why = engines(life, path, [{**plan, "start_at": start_here} for plan in plans])
        return {"problem": why, "late": LATE in why, "results": results, "start_here": start_here, **told}
    except (OSError, ValueError) as error:
        return {"problem": f"it failed: {error}"}
    finally:
        life.tell("done")
        life.close()


def in_child() -> None:
    """After the fork: the engine ends with the worker, and not with the worker's terminal."""
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def engines(life: Life, path: str, plans: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """All of them to their end, or to the lab's. Nothing is left of them."""
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="lab-load-") as folder:
        try:
            for number, plan in enumerate(plans):
                with open(f"{folder}/plan-{number}.json", "w") as file:
                    json.dump(plan, file)
                words = [path, "--plan", file.name, "--output", f"{folder}/result-{number}.json", "--live-json"]
                with open(f"{folder}/said-{number}", "wb") as said:
                    running.append(
                        subprocess.Popen(
                            words,
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE if number == 0 else said,
                            preexec_fn=in_child,
                        )
                    )
            pump = threading.Thread(target=told_of, args=(life, running[0], f"{folder}/said-0"), name="lab-live")
            pump.start()
            while any(process.poll() is None for process in running) and not life.broken.is_set():
                life.tell(".")
                life.broken.wait(BEAT_SECONDS)
            if life.broken.is_set():
                return [], "the lab is gone, or ended the load"
            pump.join()
            return results_of(folder, running)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                process.wait()


def told_of(life: Life, process: subprocess.Popen[bytes], path: str) -> None:
    """Hands on the engine's line of each second; what is no such line is kept for its last words."""
    assert process.stderr
    with open(path, "ab") as kept, process.stderr:
        for line in process.stderr:
            if line.startswith(b"{"):
                life.tell(line.decode().strip())
            else:
                kept.write(line)


def results_of(folder: str, running: list[subprocess.Popen[bytes]]) -> tuple[list[dict[str, Any]], str]:
    """What the engines wrote, without their plans; or the last words of the one that wrote nothing."""
    found = []
    for number, process in enumerate(running):
        path = f"{folder}/result-{number}.json"
        if process.returncode != 0 or not os.path.exists(path):
            with open(f"{folder}/said-{number}", errors="replace") as file:
                said = [line for line in file.read().splitlines() if line.strip() and not line.startswith("{")]
            return [], f"its engine gave no result: {said[-1] if said else f'status {process.returncode}'}"
        with open(path) as file:
            result = json.load(file)
        result.pop("plan", None)
        found.append(result)
    return found, ""

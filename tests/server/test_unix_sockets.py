"""Unix sockets: who may connect, from the first moment on."""

from __future__ import annotations

import grp
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import HERE, PYTHON, Serving


def mode_of(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def tight() -> object:
    """A umask that leaves others nothing, as services have it."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ([], 0o666),
        (["--socket-mode", "660"], 0o660),
        (["--chmod-socket=600"], 0o600),
        (["--umask", "007"], 0o660),
        (["--umask", "007", "--socket-mode", "666"], 0o666),
        (["--workers", "0"], 0o666),
    ],
)
def test_a_unix_socket_has_the_mode_that_is_asked_for(
    serve: Callable[..., Serving], tmp_path: Path, options: list[str], mode: int
) -> None:
    serve("echo", f"--bind=unix:{tmp_path}/s", *options)
    assert mode_of(tmp_path / "s") == mode


def test_a_mode_that_is_none_is_refused() -> None:
    for value in ("888", "rw", "7777"):
        done = subprocess.run(
            [PYTHON, "-m", "forehand", "echo", "--socket-mode", value, "--check"],
            cwd=HERE / "apps", capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"'{value}' is not an octal mode such as 660" in done.stderr


@pytest.mark.parametrize("option", ["--socket-group", "--socket-user"])
def test_an_owner_that_is_not_there_is_named_with_its_option(tmp_path: Path, option: str) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "forehand", "echo", "--bind", f"unix:{tmp_path}/s", option, "nosuch"],
        cwd=HERE / "apps", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{option}: there is no {option.rpartition('-')[2]} 'nosuch'" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_unix_socket_belongs_to_whom_it_is_given(serve: Callable[..., Serving], tmp_path: Path) -> None:
    group = grp.getgrnam("www-data").gr_gid
    serve("echo", f"--bind=unix:{tmp_path}/s", "--socket-mode=660", "--socket-group=www-data", "--socket-user=daemon")
    found = os.stat(tmp_path / "s")
    assert (found.st_uid, found.st_gid) == (1, group)
    os.chmod(tmp_path, 0o755)
    for parent in list(tmp_path.parents)[:4]:
        if parent.name.startswith(("pytest-", "popen-")):
            os.chmod(parent, 0o755)
    for gid, works in ((group, True), (65534, False)):
        # The import comes first: an interpreter of the tests may be root's alone.
        asked = (
            "import os, socket, sys\nsock = socket.socket(socket.AF_UNIX)\nos.setgroups([])\n"
            f"os.setgid({gid})\nos.setuid(65534)\nsock.connect(sys.argv[1])"
        )
        done = subprocess.run([sys.executable, "-c", asked, f"{tmp_path}/s"], capture_output=True, text=True)
        assert (done.returncode == 0) is works, done.stderr
        assert works or "PermissionError" in done.stderr


def test_nobody_connects_before_the_mode_is_set(tmp_path: Path) -> None:
    from forehand import unix_socket

    seen = []
    chmod = os.chmod

    def looked_at(path: str, mode: int) -> None:
        seen.append(mode_of(Path(path)))
        chmod(path, mode)

    os.chmod = looked_at  # type: ignore[assignment]
    try:
        sock = unix_socket.listen(f"{tmp_path}/s", 5, {"mode": 0o640, "user": "", "group": ""})
    finally:
        os.chmod = chmod
    sock.close()
    assert seen == [0]
    assert mode_of(tmp_path / "s") == 0o640


def test_an_unknown_group_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "forehand", "echo", f"--bind=unix:{tmp_path}/s", "--socket-group=nobody-at-all"],
        cwd=HERE / "apps", capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no group 'nobody-at-all'" in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_path_that_is_abstract_has_no_file(serve: Callable[..., Serving]) -> None:
    name = f"@forehand-test-{os.getpid()}"
    serve("echo", f"--bind=unix:{name}")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + name[1:])

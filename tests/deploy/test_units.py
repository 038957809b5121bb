"""The units under deploy/, judged by systemd's own tools, and against what the command understands."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forehand import cli
from forehand.settings import OPTIONS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = ("forehand.service", "forehand.socket")
PROGRAM = "/srv/shop/venv/bin/forehand"
WAIT = 60
# systemd-analyze security: 0 is a perfect sandbox, 10 is none; by default the report calls 2 "OK" and 5 "MEDIUM".
EXPOSURE = 20


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: install it (Debian: systemd)"
    return found


def section(unit: str, name: str) -> list[tuple[str, str]]:
    """The settings of a section, in order; a name may come again."""
    text = (DEPLOY / unit).read_text().split(f"[{name}]\n")[1].split("\n[")[0]
    return [line.partition("=")[::2] for line in text.splitlines() if re.match(r"\w+=", line)]


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units in a folder, with a program that is there."""
    for name in UNITS:
        text = (DEPLOY / name).read_text()
        (tmp_path / name).write_text(text.replace(PROGRAM, str(Path(sys.executable).with_name("forehand"))))
    return tmp_path


def test_systemd_understands_every_line(units: Path) -> None:
    done = subprocess.run([tool("systemd-analyze"), "verify", "--man=no", *(str(units / name) for name in UNITS)],
                          capture_output=True, text=True, timeout=WAIT)  # fmt: skip
    # Other units of the machine may have faults of their own.
    told = [line for line in done.stderr.splitlines() if "forehand" in line]
    assert told == []
    assert str(units) not in done.stderr


def test_what_is_offered_in_comments_is_understood_too(units: Path) -> None:
    """Folders of a database and of uploads are named by taking a `#` away."""
    path = units / "forehand.service"
    offered = "#ReadWritePaths=/srv/shop/data /srv/shop/media\n"
    text = path.read_text()
    assert offered in text
    path.write_text(text.replace(offered, offered[1:]))
    done = subprocess.run([tool("systemd-analyze"), "verify", "--man=no", *(str(units / name) for name in UNITS)],
                          capture_output=True, text=True, timeout=WAIT)  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "forehand" in line] == []


def test_a_line_that_systemd_does_not_understand_would_be_told(units: Path) -> None:
    path = units / "forehand.service"
    path.write_text(path.read_text().replace("Restart=always", "Restarts=always"))
    done = subprocess.run([tool("systemd-analyze"), "verify", "--man=no", str(path), str(units / "forehand.socket")],
                          capture_output=True, text=True, timeout=WAIT)  # fmt: skip
    assert "Restarts" in done.stderr, done.stderr


def test_the_sandbox_is_tight(units: Path) -> None:
    command = [tool("systemd-analyze"), "security", "--offline=yes", f"--threshold={EXPOSURE}"]
    done = subprocess.run([*command, str(units / "forehand.service")], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stdout[-600:] + done.stderr


def test_the_command_of_the_service_is_one_of_ours() -> None:
    settings = dict(section("forehand.service", "Service"))
    program, *words = settings["ExecStart"].split()
    assert program == PROGRAM
    asked, _ = cli.parse(words)
    assert asked.target == "shop.wsgi"
    assert settings["ExecReload"] == f"{PROGRAM} reload"


def test_the_times_of_the_service_are_longer_than_the_server_s_own() -> None:
    settings = dict(section("forehand.service", "Service"))
    assert int(settings["TimeoutStopSec"]) > OPTIONS["graceful_timeout"].default
    if "startup_timeout" in OPTIONS:
        assert int(settings["TimeoutStartSec"]) > OPTIONS["startup_timeout"].default
    assert int(settings["LimitNOFILE"]) > 2 * OPTIONS["limit_connections"].default


def test_socket_folder_and_control_are_at_one_place() -> None:
    listen = dict(section("forehand.socket", "Socket"))["ListenStream"]
    folder = str(Path(listen).parent)
    service = section("forehand.service", "Service")
    assert ("ReadWritePaths", folder) in service
    assert ("Environment", f"FOREHAND_CONTROL={folder}/control.sock") in service
    assert f"\nd {folder} " in (DEPLOY / "tmpfiles.conf").read_text()
    assert f"server unix:{listen};" in (DEPLOY / "nginx.conf").read_text()
    assert int(dict(section("forehand.socket", "Socket"))["Backlog"]) == OPTIONS["backlog"].default


def test_tmpfiles_are_understood(tmp_path: Path) -> None:
    import grp
    import os
    import pwd

    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    text = (DEPLOY / "tmpfiles.conf").read_text()
    config = tmp_path / "shop.conf"
    config.write_text(text.replace("shop shop -", f"{user} {group} -").replace("d /run/shop", f"d {tmp_path}/shop"))
    subprocess.run([tool("systemd-tmpfiles"), "--create", str(config)], check=True, timeout=WAIT)
    assert (tmp_path / "shop").is_dir()
    assert (tmp_path / "shop").stat().st_mode & 0o777 == 0o755


def test_units_are_plain_files_of_sections() -> None:
    for name in UNITS:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read(DEPLOY / name)
        assert {"Unit", "Install"} < set(parser.sections())

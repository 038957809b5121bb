"""Python's logging for the server's own lines: `--log-config` and `--log-syslog`.

Knows: files for `logging.config`, syslog's addresses, and how lines of the engine, which knows no Python, come to a
logger: through a pipe that a thread reads. Does not know: what lines are about. Nothing of it is imported where neither
option is used.
"""

from __future__ import annotations

import atexit
import json
import logging
import logging.config
import os
import select
import threading
import time

from forehand import errors, loggers
from forehand.errors import Problem
from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ERROR, ACCESS = "forehand.error", "forehand.access"
#: How long the end of a process waits for the next of the lines that are still in a pipe, and how long for all.
PATIENCE, LONGEST = 1.0, 5.0
#: A line that the engine never writes: whoever reads it has told all that was written before.
MARK = b"\0"
_relays: list[Relay] = []


def is_wanted(plan: dict[str, Any]) -> bool:
    """Whether lines go to Python's logging at all."""
    return bool(plan["log_config"] or plan["log_syslog"])


def set_up(plan: dict[str, Any]) -> None:
    """Configure logging in this process, and send its own lines there. Raises Problem."""
    if plan["log_config"]:
        _configure(plan["log_config"])
    if plan["log_syslog"]:
        _add_syslog(plan)
    for name in (ERROR, ACCESS):
        logger = logging.getLogger(name)
        logger.disabled = False
        if logger.level == logging.NOTSET:
            logger.setLevel(log.LEVELS[plan["log_level"]] if name == ERROR else logging.INFO)
    left = _left_alone(plan)
    log.redirect = _said
    if left:
        log.write("warning", f"--log-config: {plan['log_config']} has no handler for {left}")


def _left_alone(plan: dict[str, Any]) -> str:
    """Give loggers that the configuration has no handler for the ones that they have without a configuration; what to
    say of it, if it is the first time. One that is written for another server would lose every line."""
    left = []
    if not logging.getLogger(ERROR).hasHandlers():
        loggers.form = log.form
        loggers.error_logger()
        left.append(f"{ERROR}: its lines go to standard error")
    if not logging.getLogger(ACCESS).hasHandlers():
        loggers.access_logger()
        if plan["engine"]["access_log"] not in ("auto", "none"):
            left.append(f"{ACCESS}: its lines go to standard output")
    return ", and for ".join(left)


def _said(level: str, text: str) -> None:
    logging.getLogger(ERROR).log(log.LEVELS[level], "%s", text)


def _configure(path: str) -> None:
    if not os.path.exists(path):
        # Of a file that is not there `fileConfig` says that it is no configuration.
        raise Problem(errors.CONFIG, f"--log-config: {path} cannot be read: No such file or directory")
    try:
        if path.endswith((".ini", ".conf", ".cfg")):
            logging.config.fileConfig(path, disable_existing_loggers=False)
        else:
            logging.config.dictConfig(_dictionary(path))
    except Problem:
        raise
    except Exception as error:
        cause = f": {error.__cause__}" if error.__cause__ else ""
        raise Problem(
            errors.CONFIG,
            f"--log-config: {path} is not a configuration for Python's logging: {error}{cause}",
            hint="see logging.config.dictConfig in Python's documentation; the loggers are forehand.error and "
            "forehand.access",
        ) from None


def _dictionary(path: str) -> dict[str, Any]:
    """What a file in JSON, TOML or YAML holds. Raises Problem."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(errors.CONFIG, f"--log-config: {path} cannot be read: {error}") from None
    try:
        if path.endswith(".toml"):
            try:
                import tomllib
            except ImportError:  # Python 3.10
                import tomli as tomllib  # type: ignore[import-not-found,no-redef]
            return dict(tomllib.loads(text))
        if path.endswith((".yaml", ".yml")):
            import yaml  # type: ignore[import-untyped,unused-ignore]

            return dict(yaml.safe_load(text))
        return dict(json.loads(text))
    except ImportError:
        raise Problem(
            errors.CONFIG,
            f"--log-config: {path} needs the package PyYAML",
            hint="pip install pyyaml; or write it as JSON or TOML",
        ) from None
    except Exception as error:
        raise Problem(errors.CONFIG, f"--log-config: {path} cannot be read: {error}") from None


def syslog_address(text: str) -> tuple[str, str | tuple[str, int]]:
    """`udp`, `tcp` or `unix`, and what `SysLogHandler` takes as its address. ValueError says what is allowed."""
    kind, found, rest = text.partition("://")
    host, _, port = rest.rpartition(":")
    if kind == "unix" and found and rest:
        return kind, rest.partition("#")[0]
    if kind in ("udp", "tcp") and host and port.isdigit():
        return kind, (host.strip("[]"), int(port))
    raise ValueError(f"'{text}' is none of unix:///dev/log, udp://HOST:PORT, tcp://HOST:PORT")


def _add_syslog(plan: dict[str, Any]) -> None:
    import socket
    from logging.handlers import SysLogHandler

    kind, address = syslog_address(plan["log_syslog_to"])
    if isinstance(address, str) and not os.path.exists(address):
        # The handler itself would wait for it without a word.
        raise _nobody(plan, "there is no such socket")
    stream = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    facility = SysLogHandler.facility_names[plan["log_syslog_facility"]]
    try:
        handler = SysLogHandler(address, facility, stream)
    except OSError as error:
        raise _nobody(plan, str(error.strerror or error)) from None
    handler.ident = f"{plan['log_syslog_prefix']}[{os.getpid()}]: "
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    for name in (ERROR, ACCESS):
        logger = logging.getLogger(name)
        for earlier in [one for one in logger.handlers if isinstance(one, SysLogHandler)]:
            # The supervisor's, in a worker that was forked from it.
            logger.removeHandler(earlier)
        logger.addHandler(handler)
        logger.propagate = False


def _nobody(plan: dict[str, Any], why: str) -> Problem:
    return Problem(
        errors.ADDRESS,
        f"--log-syslog: nobody takes lines at {plan['log_syslog_to']}: {why}",
        hint="name where syslog listens with --log-syslog-to",
    )


def engine_settings() -> dict[str, Any]:
    """Descriptors for the engine's lines, which a thread of this process gives to the loggers."""
    for name in (ERROR, ACCESS):
        # The application may have been loaded, and have configured logging, which disables what was there before.
        logging.getLogger(name).disabled = False
    own, access = Relay(_tell_own), Relay(_tell_access)
    _relays.extend((own, access))
    # Runs before logging's own callback, which closes the handlers, as that was registered before.
    atexit.unregister(flush)
    atexit.register(flush)
    return {"log_fd": own.writer, "log_form": "json", "access_log_fd": access.writer, "access_log_form": "plain"}


class Relay:
    """A pipe that lines are written to, and the thread that tells them."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.pid = os.getpid()
        self.reader, self.writer = os.pipe()
        self.told = threading.Event()
        self.lines = 0
        threading.Thread(target=self._live, name="forehand-log-relay", daemon=True).start()

    def _live(self) -> None:
        read = _reading(self.reader)
        rest = b""
        while data := read(self.reader, 1 << 16):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                if line == MARK:
                    self.told.set()
                    continue
                try:
                    self.tell(line.decode(errors="backslashreplace"))
                except Exception:
                    logging.getLogger(ERROR).exception("a handler of --log-config has failed")
                self.lines += 1
        os.close(self.reader)

    def flush(self) -> None:
        """Wait until what was written is told, while lines are."""
        if self.pid != os.getpid():
            return  # in a child that somebody has forked there is no thread that reads
        until = time.monotonic() + LONGEST
        poll = select.poll()
        poll.register(self.writer, select.POLLOUT)
        self.told.clear()
        marked, seen = False, -1
        while seen != self.lines and time.monotonic() < until:
            seen = self.lines
            if marked:
                if self.told.wait(PATIENCE):
                    return
            elif poll.poll(PATIENCE * 1000):
                os.write(self.writer, MARK + b"\n")
                marked, seen = True, -1

    def close(self) -> None:
        """Nothing more will be written: its thread ends when the engine has let go, too."""
        os.close(self.writer)


def _reading(fd: int) -> Callable[[int, int], bytes]:
    """How a pipe is read: in a thread, or under gevent, whose threads are greenlets, without blocking its hub."""
    import sys

    if "gevent.monkey" in sys.modules:
        from gevent.monkey import is_module_patched  # type: ignore[import-not-found,unused-ignore]

        if is_module_patched("threading"):
            from gevent.os import make_nonblocking, nb_read  # type: ignore[import-not-found,unused-ignore]

            make_nonblocking(fd)
            return nb_read  # type: ignore[no-any-return,unused-ignore]
    return os.read


def _tell_own(line: str) -> None:
    told = json.loads(line)
    logger = logging.getLogger(ERROR)
    logger.log(log.LEVELS[told["level"]], "%s", told["message"])


def _tell_access(line: str) -> None:
    logging.getLogger(ACCESS).info("%s", line)


def flush() -> None:
    """Wait until what the engine has written was told, before this process ends."""
    for relay in _relays:
        relay.flush()


def close(engine: dict[str, Any]) -> None:
    """An engine that had these settings has ended, and its process goes on."""
    for relay in [one for one in _relays if one.writer in (engine["log_fd"], engine["access_log_fd"])]:
        relay.flush()
        _relays.remove(relay)
        relay.close()

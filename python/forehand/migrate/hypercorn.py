"""hypercorn's flags and TOML, and what becomes of each. Facts: its help and its page on configuration, version 0.18."""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem
from forehand.migrate import asgi, tls
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome, not_needed, same, switch, unsupported
from forehand.migrate.service import read
from forehand.migrate.uvicorn import tell_unknown
from forehand.toml import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule


def _bind(outcome: Outcome, origin: str, value: Any) -> None:
    for address in [value] if isinstance(value, str) else value:
        outcome.put("bind", address if "$" in address else [address], origin)


def _log(name: str) -> Rule:
    def rule(outcome: Outcome, origin: str, value: Any) -> None:
        if value == "-":
            outcome.not_needed(origin, value, "lines go to standard error already")
        elif value:
            outcome.put(name, value, origin)

    return rule


def _access(outcome: Outcome, origin: str, value: Any) -> None:
    # Its format may come later; `translate` looks whether one has.
    if value:
        outcome.put("access_log_file", value, origin)


def _umask(outcome: Outcome, origin: str, value: Any) -> None:
    # Its flag takes a decimal number, and only unix sockets follow it.
    outcome.put("socket_mode", f"{0o666 & ~int(value):o}", origin)


def _worker(outcome: Outcome, origin: str, value: Any) -> None:
    if str(value).rpartition(".")[2] == "trio":
        outcome.unsupported(
            origin, value, "the loops are asyncio and uvloop: an application that needs trio cannot be served"
        )
    else:
        asgi.loop(outcome, origin, value)


RULES: dict[str, Rule] = {
    "--access-logfile": _access,
    "--access-logformat": same("access_log"),
    "--backlog": same("backlog"),
    "--bind": _bind,
    "--config": not_needed("it was read"),
    "--daemon": not_needed("a worker ends with its supervisor"),
    "--debug": unsupported("PYTHONASYNCIODEBUG=1 is asyncio's debug mode"),
    "--error-logfile": _log("log_file"),
    "--graceful-timeout": same("graceful_timeout"),
    "--read-timeout": unsupported("a body may take as long as it keeps to limit_body_rate and body_idle_timeout"),
    "--max-requests": same("max_requests"),
    "--max-requests-jitter": same("max_requests_jitter"),
    "--user": same("socket_user"),
    "--group": same("socket_group"),
    "--umask": _umask,
    "--worker-class": _worker,
    "--keep-alive": same("keep_alive_timeout", "75 s cost nothing here and outlast load balancers"),
    "--insecure-bind": tls.note("plain"),
    "--quic-bind": unsupported("no HTTP/3 here: let a proxy speak it"),
    "--log-config": asgi.log_config,
    "--log-level": lambda outcome, origin, value: outcome.put("log_level", str(value).lower(), origin),
    "--pid": same("pid_file"),
    "--reload": switch(same("reload")),
    "--root-path": same("script_name"),
    "--server-name": unsupported("a proxy or the application decides which hosts are served"),
    "--statsd-host": same("statsd_host", "names begin with `forehand.`, and are sent every ten seconds"),
    "--statsd-prefix": same("statsd_prefix"),
    "--websocket-ping-interval": same("ws_ping_interval"),
    "--workers": same("workers"),
    "--certfile": tls.note("certificate"),
    "--keyfile": tls.note("key"),
    "--keyfile-password": tls.note("password"),
    "--ca-certs": tls.note("authorities"),
    "--cert-reqs": tls.note("verify"),
    "--verify-mode": tls.note("verify"),
    "--ciphers": tls.note("ciphers"),
    "--help": not_needed("it only shows help"),
}  # fmt: skip
OTHER_NAMES = {
    "-b": "--bind", "-c": "--config", "-g": "--group", "-k": "--worker-class", "-m": "--umask", "-p": "--pid",
    "-u": "--user", "-w": "--workers", "--access-log": "--access-logfile", "--error-log": "--error-logfile",
    "--log-file": "--error-logfile",
}  # fmt: skip
SWITCHED = ("--daemon", "--debug", "--reload", "--help")
GRAMMAR = Grammar(
    {**{flag: flag for flag in RULES if flag not in SWITCHED}, **OTHER_NAMES},
    {**{flag: (flag, True) for flag in SWITCHED}, "-h": ("--help", True)},
)
# Keys of its TOML that are not their flag's name.
KEYS: dict[str, str] = {
    "accesslog": "--access-logfile", "access_log_format": "--access-logformat", "errorlog": "--error-logfile",
    "keep_alive_timeout": "--keep-alive", "logconfig": "--log-config", "loglevel": "--log-level",
    "pid_path": "--pid", "use_reloader": "--reload", "server_names": "--server-name",
}  # fmt: skip
ONLY_KEYS: dict[str, Rule] = {
    "websocket_max_message_size": asgi.message_size,
    "shutdown_timeout": same("graceful_timeout"),
    "startup_timeout": same("startup_timeout"),
    "wsgi_max_body_size": same("limit_body_bytes"),
    "h11_max_incomplete_size": not_needed("heads have limits of their own: limit_header_bytes"),
    "include_server_header": not_needed("no Server header is sent unless server_header says what"),
    "include_date_header": not_needed("a Date is sent, as RFC 9110 section 6.6.1 asks"),
}


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line, and of the TOML file that it names. Raises Problem."""
    given, others, unknown = GRAMMAR.read(command.words)
    target = others[0] if others else ""
    for kind in ("asgi", "wsgi"):
        # `wsgi:module:app` says what it is called with.
        if target.startswith(f"{kind}:") and target.count(":") > 1:
            target = target.removeprefix(f"{kind}:")
            outcome.put("interface", kind, "the target")
    outcome.target = target
    flags = {flag for flag, _ in given}
    for flag, value in given:
        if flag == "--config":
            _file(outcome, str(value), command.folder, flags)
    for flag, value in sorted(given, key=lambda pair: pair[0] != "--access-logformat"):
        outcome.take(RULES[flag], flag, value)
    if "access_log_file" not in outcome.settings:
        if "access_log" in outcome.settings:
            outcome.put("access_log", "none", "hypercorn writes an access log where a file is named")
    elif "access_log" not in outcome.settings:
        outcome.put("access_log", "combined", outcome.origins["access_log_file"])
    asgi.closed_socket(outcome, "755", "hypercorn's, as umask 022 leaves it")
    asgi.default_address(outcome, "hypercorn's default")
    tls.translate(outcome)
    outcome.differs("forwarded_allow_ips", "", asgi.BELIEVED)
    tell_unknown(outcome, GRAMMAR, unknown)


def _file(outcome: Outcome, path: str, folder: str, flags: set[str]) -> None:
    if path.startswith(("python:", "file:")):
        raise Problem(errors.CONFIG, f"hypercorn's configuration {path} is a program, and is not run",
                      hint="give its settings as flags: forehand migrate 'hypercorn --bind ... APP'")  # fmt: skip
    outcome.read.append(path)
    path = os.path.join(folder, path)
    for key, value in (table(path, read(path)) or {}).items():
        flag = KEYS.get(key, "--" + key.replace("_", "-"))
        if flag in flags:
            continue
        rule = ONLY_KEYS.get(key) or RULES.get(flag) or unsupported("hypercorn is not known to have this setting")
        # A list of names is taken one by one.
        for one in value if isinstance(value, list) else [value]:
            outcome.take(rule, key, one)

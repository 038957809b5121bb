"""daphne's flags and what becomes of each. Facts: `daphne --help`, version 4, and Twisted's page on endpoints."""

from __future__ import annotations

import re

from forehand.migrate import asgi
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome, differs, not_needed, same, unsupported
from forehand.migrate.uvicorn import tell_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule

TLS = "not taken over: write https:// before its address in bind, and name tls_cert and tls_key (docs/tls.md)"


def _unix(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("bind", f"unix:{value}" if "$" in str(value) else [f"unix:{value}"], origin)


def _descriptor(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("bind", f"fd://{value}", origin)


def _endpoint(outcome: Outcome, origin: str, value: Any) -> None:
    """`tcp:8000:interface=127.0.0.1` and its like, as Twisted describes servers."""
    kind, *parts = (part.replace("\\:", ":") for part in re.split(r"(?<!\\):", str(value)))
    named = dict(part.partition("=")[::2] for part in parts if "=" in part)
    first = next((part for part in parts if "=" not in part), "")
    if kind == "tcp":
        host = named.get("interface", "0.0.0.0")
        host = f"[{host}]" if ":" in host else host
        address = f"{host}:{named.get('port', first)}"
        outcome.put("bind", address if "$" in address else [address], origin)
    elif kind == "unix":
        _unix(outcome, origin, named.get("address", first))
        if "mode" in named:
            asgi.socket_mode(outcome, origin, named["mode"])
    elif kind in ("ssl", "tls"):
        outcome.unsupported(origin, value, TLS)
    else:
        outcome.unsupported(origin, value, "bind takes HOST:PORT, unix:PATH and fd://N")


def _access(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("access_log", "common", origin)
    outcome.put("access_log_file", value, origin)


def _verbosity(outcome: Outcome, origin: str, value: Any) -> None:
    level = {"0": "warning", "1": "info"}.get(str(value), "debug")
    outcome.put("log_level", level, origin)


RULES: dict[str, Rule] = {
    "--bind": same("host"),
    "--port": same("port"),
    "--unix-socket": _unix,
    "--fd": _descriptor,
    "--endpoint": _endpoint,
    "--websocket_timeout": unsupported("a WebSocket stays open as long as both sides want it"),
    "--websocket_connect_timeout": unsupported("an application that does not answer a handshake holds nobody else up"),
    "--verbosity": _verbosity,
    "--http-timeout": same("request_timeout"),
    "--access-log": _access,
    "--log-fmt": unsupported("lines have one form, or JSON with log_format; log_config gives them to Python's logging"),
    "--ping-interval": same("ws_ping_interval"),
    "--ping-timeout": same("ws_ping_timeout"),
    "--websocket-max-message-size": asgi.message_size,
    "--websocket-max-frame-size": unsupported("limit_ws_message_bytes bounds whole messages"),
    "--application-close-timeout": not_needed("an application may go on after its client has left"),
    "--ws-protocol": unsupported("the application chooses the subprotocol"),
    "--root-path": same("script_name"),
    "--proxy-headers": differs("forwarding headers are understood from the peers in forwarded_allow_ips; daphne "
                               "believes everybody"),
    "--proxy-headers-host": unsupported("X-Forwarded-For and Forwarded are understood"),
    "--proxy-headers-port": unsupported("X-Forwarded-For and Forwarded are understood"),
    "--server-name": same("server_header"),
    "--no-server-name": not_needed("no Server header is sent unless server_header says what"),
    "--help": not_needed("it only shows help"),
}  # fmt: skip
SHORT = {
    "-p": "--port", "-b": "--bind", "-u": "--unix-socket", "-e": "--endpoint", "-v": "--verbosity",
    "-t": "--http-timeout", "-s": "--server-name",
}  # fmt: skip
SWITCHED = ("--proxy-headers", "--no-server-name", "--help")
GRAMMAR = Grammar(
    {**{flag: flag for flag in RULES if flag not in SWITCHED}, **SHORT},
    {**{flag: (flag, True) for flag in SWITCHED}, "-h": ("--help", True)},
)


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line."""
    given, others, unknown = GRAMMAR.read(command.words)
    outcome.target = others[0] if others else ""
    values = dict(given)
    if {"--bind", "--port"} & values.keys() and {"--unix-socket", "--fd", "--endpoint"} & values.keys():
        # daphne listens on all that it is told.
        address = f"{values.pop('--bind', '127.0.0.1')}:{values.pop('--port', 8000)}"
        given = [(flag, value) for flag, value in given if flag not in ("--bind", "--port")]
        outcome.put("bind", address if "$" in address else [address], "--bind and --port")
    for flag, value in given:
        outcome.take(RULES[flag], flag, value)
    if "--access-log" not in values:
        silent = str(values.get("--verbosity", 1)) == "0"
        outcome.put("access_log", "none" if silent else "common", "daphne writes one unless --verbosity is 0")
    if "--proxy-headers" not in values:
        outcome.differs("--proxy-headers", "", asgi.BELIEVED)
    asgi.default_address(outcome, "daphne's default")
    tell_unknown(outcome, GRAMMAR, unknown)

"""What ASGI servers have in common: loops, lifespan, WebSockets, files of variables and of logging.

Knows: the words that uvicorn, granian, hypercorn, daphne and gunicorn share. Does not know: which of them it is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Outcome

LOGGERS = "the loggers of the server's own lines are forehand.error and forehand.access: name them in that file"
DEFLATE = "a client that offers permessage-deflate gets it"
NO_SOCKETS = "WebSockets cannot be switched off; an application that accepts none refuses them with 403"
WATCHED = "templates, .env and whatever else lies in the watched folders is watched too"
BELIEVED = (
    "that server trusts no proxy unless told; here loopback and unix sockets are trusted. "
    'forwarded_allow_ips = "" believes nobody'
)


def loop(outcome: Outcome, origin: str, value: Any) -> None:
    """`--loop` and its like."""
    text = str(value).lower()
    if text == "auto":
        outcome.not_needed(origin, value, "uvloop is used here too, if it is installed")
    elif text in ("asyncio", "uvloop"):
        outcome.put("loop", text, origin)
    else:
        outcome.unsupported(origin, value, "the loops are asyncio and uvloop (`loop`)")


def lifespan(outcome: Outcome, origin: str, value: Any) -> None:
    """`--lifespan`."""
    if str(value).lower() == "auto":
        outcome.not_needed(origin, value, "it is so by default")
    else:
        outcome.put("lifespan", str(value).lower(), origin)


def interface(outcome: Outcome, origin: str, value: Any) -> None:
    """`--interface`: ours looks at the application, unless it is told."""
    text = str(value).lower()
    if text == "auto":
        outcome.not_needed(origin, value, "it is so by default")
    elif text in ("wsgi", "asgi", "asgi3"):
        outcome.put("interface", text[:4], origin)
    elif text == "asginl":
        outcome.put("interface", "asgi", origin)
        outcome.put("lifespan", "off", origin)
    elif text == "asgi2":
        outcome.unsupported(
            origin, value, "ASGI 3 is served: asgiref.compatibility.guarantee_single_callable makes it of 2"
        )
    else:
        outcome.unsupported(origin, value, "WSGI and ASGI applications are served: name one of those")


def message_size(outcome: Outcome, origin: str, value: Any) -> None:
    """The longest message of a WebSocket; 0 means none, which we do not have."""
    if str(value).strip() == "0":
        outcome.unsupported(origin, value, "there is always a limit here; limit_ws_message_bytes is 16M")
    else:
        outcome.put("limit_ws_message_bytes", value, origin)


def sockets(outcome: Outcome, origin: str, value: Any) -> None:
    """`--ws`: an implementation there."""
    if str(value).lower() in ("none", "false"):
        outcome.unsupported(origin, value, NO_SOCKETS)
    else:
        outcome.not_needed(origin, value, "WebSockets are spoken by the server itself")


def deflate(outcome: Outcome, origin: str, value: Any) -> None:
    """`--ws-per-message-deflate`."""
    if str(value).lower() in ("false", "0", "no", "off"):
        outcome.unsupported(origin, value, DEFLATE)
    else:
        outcome.not_needed(origin, value, DEFLATE)


def env_file(outcome: Outcome, origin: str, value: Any) -> None:
    """A file of variables; one, and python-dotenv reads it."""
    if outcome.settings.get("env_file"):
        outcome.unsupported(origin, value, f"one file is read, {outcome.settings['env_file']}: put both into it")
        return
    outcome.put("env_file", value, origin)
    if outcome.took("env_file", origin):
        outcome.differs(origin, value, "it needs the package python-dotenv here")


def log_config(outcome: Outcome, origin: str, value: Any) -> None:
    """A file for Python's logging."""
    outcome.put("log_config", str(value).removeprefix("json:").removeprefix("toml:"), origin)
    if outcome.took("log_config", origin):
        outcome.differs(origin, value, LOGGERS)


def access_log(outcome: Outcome, origin: str, value: Any) -> None:
    """A switch: on or off. `auto` would keep one on a terminal."""
    outcome.put("access_log", "common" if value else "none", origin)


def colors(outcome: Outcome, origin: str, value: Any) -> None:
    """A switch for colours in the log."""
    outcome.put("log_colors", "on" if value else "off", origin)


def socket_mode(outcome: Outcome, origin: str, value: Any) -> None:
    """Permissions of unix sockets, octal."""
    outcome.put("socket_mode", str(value).strip().removeprefix("0o").lstrip("0") or "0", origin)


def closed_socket(outcome: Outcome, mode: str, why: str) -> None:
    """Without a word about permissions a unix socket is not to be wider open than it was."""
    bound = [*outcome.settings.get("bind", []), *outcome.flags]
    if "socket_mode" not in outcome.settings and any("unix:" in address for address in bound):
        outcome.put("socket_mode", mode, why)
        outcome.differs("socket_mode", mode, f"{why}: nobody but its owner could connect. "
                        "666 lets every user connect, a proxy's too; 660 with socket_group that group")  # fmt: skip


def default_address(outcome: Outcome, why: str) -> None:
    """The address is named where nobody has named one: a variable PORT would open all addresses here, and not there."""
    given = [flag.partition(" ")[0] for flag in outcome.flags]
    if {"bind", "host"} & outcome.settings.keys() or {"--bind", "--host"} & set(given):
        return
    if "--port" in given:
        outcome.put("host", "127.0.0.1", why)
    elif "port" not in outcome.settings:
        outcome.put("bind", ["127.0.0.1:8000"], why)

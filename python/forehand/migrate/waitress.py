"""waitress-serve's flags and what becomes of each. Facts: `waitress-serve --help`, version 3."""

from __future__ import annotations

from forehand.migrate import asgi
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome, differs, not_needed, same, switch, unsupported, wider
from forehand.migrate.uvicorn import tell_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule

OWN = "there is nothing to tune: the engine does this by itself"


def _listen(outcome: Outcome, origin: str, value: Any) -> None:
    for address in str(value).split():
        text = address.replace("*:", ":", 1)
        outcome.put("bind", text if "$" in text else [text], origin)


def _unix(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("bind", f"unix:{value}", origin)


def _prefix(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("script_name", "/" + str(value).strip("/"), origin)


RULES: dict[str, Rule] = {
    "--host": same("host"),
    "--port": same("port"),
    "--listen": _listen,
    "--unix-socket": _unix,
    "--unix-socket-perms": asgi.socket_mode,
    "--ipv4": not_needed("the address itself says whether it is IPv4 or IPv6"),
    "--no-ipv4": unsupported("name the addresses: --bind [::]:8080"),
    "--ipv6": not_needed("the address itself says whether it is IPv4 or IPv6"),
    "--no-ipv6": not_needed("the address itself says whether it is IPv4 or IPv6"),
    "--url-scheme": same("url_scheme"),
    "--url-prefix": _prefix,
    "--ident": same("server_header"),
    "--threads": same("threads"),
    "--backlog": same("backlog"),
    "--recv-bytes": not_needed(OWN),
    "--send-bytes": not_needed(OWN),
    "--outbuf-overflow": unsupported("a reply is not written to a file: its thread waits for a slow reader beyond "
                                     "limit_response_buffer_bytes"),
    "--outbuf-high-watermark": unsupported("limit_response_buffer_bytes is the bound for a slow reader"),
    "--inbuf-overflow": same("limit_body_memory_bytes"),
    "--connection-limit": same("limit_connections"),
    "--cleanup-interval": not_needed("every connection has a timer of its own"),
    "--channel-timeout": same("keep_alive_timeout"),
    "--log-socket-errors": not_needed("a client that leaves is no error"),
    "--no-log-socket-errors": not_needed("a client that leaves is no error"),
    "--max-request-header-size": wider("limit_header_bytes"),
    "--max-request-body-size": same("limit_body_bytes"),
    "--expose-tracebacks": unsupported("tracebacks go to the log, and never to a client"),
    "--no-expose-tracebacks": not_needed("tracebacks go to the log, and never to a client"),
    "--asyncore-loop-timeout": not_needed(OWN),
    "--asyncore-use-poll": not_needed(OWN),
    "--channel-request-lookahead": not_needed("a client that leaves while its request waits is noticed"),
    "--trusted-proxy": same("forwarded_allow_ips"),
    "--trusted-proxy-count": unsupported("name every proxy in forwarded_allow_ips: the right-most address that is not "
                                         "trusted is the client"),
    "--trusted-proxy-headers": differs("of the trusted proxy all of X-Forwarded-For, -Proto, -Host, -Port, -Prefix and "
                                       "Forwarded are believed: let it set or remove those that a client may send"),
    "--clear-untrusted-proxy-headers": not_needed("untrusted forwarding headers never reach the application"),
    "--no-clear-untrusted-proxy-headers": unsupported("untrusted forwarding headers never reach the application"),
    "--log-untrusted-proxy-headers": unsupported("untrusted forwarding headers are dropped, and not logged"),
    "--no-log-untrusted-proxy-headers": not_needed("untrusted forwarding headers are dropped, and not logged"),
    "--server-name": unsupported("SERVER_NAME is the Host of the request"),
    "--call": switch(same("factory")),
    "--app": lambda outcome, _origin, value: setattr(outcome, "target", str(value)),
    "--help": not_needed("it only shows help"),
}  # fmt: skip

TURNED = ("ipv4", "ipv6", "log-socket-errors", "expose-tracebacks", "clear-untrusted-proxy-headers",
          "log-untrusted-proxy-headers")  # fmt: skip
SWITCHED = ("call", "asyncore-use-poll", "help")
GRAMMAR = Grammar(
    {flag: flag for flag in RULES if flag[2:] not in (*TURNED, *SWITCHED) and not flag.startswith("--no-")},
    {
        **{f"--{name}": (f"--{name}", True) for name in (*TURNED, *SWITCHED)},
        **{f"--no-{name}": (f"--no-{name}", False) for name in TURNED},
    },
)


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line."""
    given, others, unknown = GRAMMAR.read(command.words)
    outcome.target = others[0] if others else ""
    flags = {flag for flag, _ in given}
    for flag, value in given:
        outcome.take(RULES[flag], flag, value)
    if not flags & {"--listen", "--unix-socket"}:
        # waitress listens everywhere on 8080; Forehand on loopback.
        if "--host" not in flags:
            outcome.put("host", "0.0.0.0", "waitress's default")
        if "--port" not in flags:
            outcome.put("port", 8080, "waitress's default")
    asgi.closed_socket(outcome, "600", "waitress's default")
    if "--threads" not in flags:
        outcome.put("threads", 4, "waitress's default")
    if "--trusted-proxy" not in flags:
        outcome.differs("--trusted-proxy", "", "waitress trusts no proxy unless told; here loopback and unix sockets "
                        'are believed. forwarded_allow_ips = "" believes nobody')  # fmt: skip
    tell_unknown(outcome, GRAMMAR, unknown)

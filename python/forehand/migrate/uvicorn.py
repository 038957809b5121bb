"""uvicorn's flags and what becomes of each. Facts: `uvicorn --help`, up to version 0.40 and its successors."""

from __future__ import annotations

from forehand.migrate import asgi, tls
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome, not_needed, same, switch, unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule


HTTP2 = (
    "HTTP/2 needs no option: clients choose it at https:// addresses, and at h2c:// it is without TLS (docs/http2.md)"
)


def _unix(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("bind", f"unix:{value}" if "$" in str(value) else [f"unix:{value}"], origin)


def _descriptor(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("bind", f"fd://{value}", origin)


def _level(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("log_level", str(value).lower().replace("trace", "debug"), origin)


RULES: dict[str, Rule] = {
    "--host": same("host"),
    "--port": same("port"),
    "--uds": _unix,
    "--fd": _descriptor,
    "--reload": switch(same("reload")),
    "--reload-dir": same("reload_dir"),
    "--reload-include": same("reload_include"),
    "--reload-exclude": same("reload_exclude"),
    "--reload-delay": not_needed("the system reports which files have changed"),
    "--workers": same("workers"),
    "--loop": asgi.loop,
    "--http": not_needed("there is one parser, written in Rust, and HTTP/2 needs no option (docs/http2.md)"),
    "--http2": not_needed(HTTP2),
    "--ws": asgi.sockets,
    "--ws-max-size": asgi.message_size,
    "--ws-max-queue": same("limit_ws_queue"),
    "--ws-ping-interval": same("ws_ping_interval"),
    "--ws-ping-timeout": same("ws_ping_timeout"),
    "--ws-per-message-deflate": asgi.deflate,
    "--lifespan": asgi.lifespan,
    "--interface": asgi.interface,
    "--env-file": asgi.env_file,
    "--log-config": asgi.log_config,
    "--log-level": _level,
    "--access-log": asgi.access_log,
    "--use-colors": asgi.colors,
    "--proxy-headers": not_needed("forwarding headers are understood, from the peers in forwarded_allow_ips"),
    "--no-proxy-headers": lambda outcome, origin, _: outcome.put("forwarded_allow_ips", "", origin),
    "--server-header": not_needed("no Server header is sent unless server_header says what"),
    "--date-header": not_needed("a Date is sent, as RFC 9110 section 6.6.1 asks"),
    "--no-date-header": unsupported("a Date is sent, as RFC 9110 section 6.6.1 asks"),
    "--forwarded-allow-ips": same("forwarded_allow_ips"),
    "--root-path": same("script_name"),
    "--limit-concurrency": same("limit_concurrency"),
    "--backlog": same("backlog"),
    "--limit-max-requests": same("max_requests"),
    "--limit-max-requests-jitter": same("max_requests_jitter"),
    "--timeout-keep-alive": same("keep_alive_timeout", "75 s cost nothing here and outlast load balancers"),
    "--timeout-graceful-shutdown": same("graceful_timeout"),
    "--timeout-worker-healthcheck": not_needed("a worker that dies is replaced at once"),
    "--ssl-certfile": tls.note("certificate"),
    "--ssl-keyfile": tls.note("key"),
    "--ssl-keyfile-password": tls.note("password"),
    "--ssl-version": tls.note("version"),
    "--ssl-cert-reqs": tls.note("verify"),
    "--ssl-ca-certs": tls.note("authorities"),
    "--ssl-ciphers": tls.note("ciphers"),
    "--header": unsupported("let the application or the proxy add headers"),
    "--app-dir": same("pythonpath"),
    "--h11-max-incomplete-event-size": not_needed("heads have limits of their own: limit_header_bytes"),
    "--reset-contextvars": unsupported("each request has a context of its own, a copy of the loop's"),
    "--factory": switch(same("factory")),
    "--version": not_needed("it only shows the version"),
}  # fmt: skip

SWITCHED = ("reload", "http2", "factory", "reset-contextvars", "version")
TURNED = ("access-log", "use-colors", "proxy-headers", "server-header", "date-header")
GRAMMAR = Grammar(
    {flag: flag for flag in RULES if flag[2:] not in (*SWITCHED, *TURNED) and not flag.startswith("--no-")},
    {
        **{f"--{name}": (f"--{name}", True) for name in (*SWITCHED, *TURNED)},
        **{f"--no-{name}": (f"--no-{name}" if f"--no-{name}" in RULES else f"--{name}", False) for name in TURNED},
    },
)


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line."""
    given, others, unknown = GRAMMAR.read(command.words)
    outcome.target = others[0] if others else ""
    for flag, value in given:
        outcome.take(RULES[flag], flag, value)
    flags = {flag for flag, _ in given}
    if not flags & {"--access-log"}:
        outcome.put("access_log", "common", "uvicorn writes one unless told not to")
    asgi.default_address(outcome, "uvicorn's default")
    tls.translate(outcome)
    if "--uds" in flags and not flags & {"--forwarded-allow-ips", "--no-proxy-headers"}:
        outcome.differs("--forwarded-allow-ips", "", "uvicorn believes no proxy on a unix socket unless told '*'; here "
                        'it is believed. forwarded_allow_ips = "127.0.0.1" believes none there')  # fmt: skip
    if "--workers" not in flags and (count := command.environment.get("WEB_CONCURRENCY")):
        outcome.put("workers", count, "WEB_CONCURRENCY")
    tell_unknown(outcome, GRAMMAR, unknown)


def tell_unknown(outcome: Outcome, grammar: Grammar, unknown: list[str]) -> None:
    """A remark for each flag that the server does not have, as far as is known here."""
    for flag in unknown:
        outcome.unsupported(flag, "", f"{outcome.server} is not known to have this option{grammar.nearest(flag)}")

"""Settings that cannot both be meant, and those that mean nothing by themselves.

Knows: which of them exclude one another, and which only say more about another. Does not know: how they were given.
What comes from a stronger source (the command line before a variable before a file) wins without a word: only what was
said in the same place is refused.
"""

from __future__ import annotations

import os

from forehand import tls_options, tracing_options
from forehand.certificates import speaks_https
from forehand.kinds import others
from forehand.lanes import dropped
from forehand.listen import GATEWAYS, judge, kind_and_place
from forehand.settings import DEFAULT, FILE, OPTIONS, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What an address for a web server's own protocol begins with.
GATEWAY_WORDS = tuple(f"{word}:" for word in GATEWAYS)

#: What means nothing where there are no workers.
OF_WORKERS = (
    "preload", "reload", "reload_dir", "reload_include", "reload_exclude", "max_requests",
    "max_worker_age", "max_worker_memory", "status_bind", "statsd_host", "slow_request", "slow_requests",
    "shutdown_delay", "trace_endpoint", "trace_sample", "server_timing", "on_reload", "startup_timeout",
    "reload_strategy",
)  # fmt: skip

#: What only says more about another option, and that one.
SAYS_MORE = {
    "log_syslog_to": "log_syslog", "log_syslog_facility": "log_syslog", "log_syslog_prefix": "log_syslog",
    "status_token_file": "status_bind",
    "statsd_interval": "statsd_host", "statsd_prefix": "statsd_host", "dogstatsd_tags": "statsd_host",
}  # fmt: skip


def doubts(settings: Settings, plan: dict[str, Any]) -> list[str]:
    """What was said and has no effect, or another one than it says, a sentence each. It is no mistake: a file may be
    for several servers, a variable for every program of a machine. `plan`: what follows from the settings."""
    alone: dict[str, list[str]] = {}
    for name, other in SAYS_MORE.items():
        if _said(settings, name) and not settings[other]:
            alone.setdefault(other, []).append(name)
    found = [f"{', '.join(names)}: without effect without {other}" for other, names in alone.items()]
    token = settings["status_token_file"]
    if token and not settings["status_bind"] and not os.path.exists(os.path.join(plan["folder"], token)):
        found.append(f"status_token_file: {token} is not there")
    if plan["tracing"] is not None:
        found += tracing_options.doubts(settings["trace_sample"], settings.variables())
    elif _said(settings, "trace_sample") and not settings["trace_endpoint"]:
        found.append("trace_sample: without effect without trace_endpoint, as nothing is traced")
    return found


def find(settings: Settings, target: str | None = None) -> str:
    """The first contradiction, in a sentence; empty: all is well. `target`: what the command line names."""
    for look in (_addresses, _tls, _lanes, _greenlets, _concurrency, _interfaces, _processes):
        found = look(settings)
        if found:
            return found
    return _targets(settings, target)


def _said(settings: Settings, name: str) -> bool:
    """Whether somebody wants something else than the default."""
    return settings.ranks[name] != DEFAULT and settings[name] != OPTIONS[name].default


def _together(settings: Settings, one: str, other: str) -> bool:
    return settings.ranks[one] == settings.ranks[other] != DEFAULT


def _addresses(settings: Settings) -> str:
    for address in (*settings.addresses(), *settings["status_bind"]):
        # What is wrong with an address itself is told before what other settings want of it.
        judge(address)
    for address in settings["status_bind"]:
        if kind_and_place(address)[0] != "http":
            return (
                f"the status endpoint speaks plain HTTP, and status_bind says '{address}': name HOST:PORT or unix:PATH"
            )
    for name in ("host", "port"):
        if settings.ranks[name] >= FILE and _together(settings, "bind", name):
            return f"bind and {name} both say where to listen: name one of them ({settings.sources[name]})"
    if not any("?proxy=" in address for address in settings["bind"]):
        for name in ("proxy_protocol_from", "proxy_protocol_tls"):
            if _said(settings, name):
                return f"{name} is about addresses that expect PROXY headers: add ?proxy=v2 to one in bind"
    if not any(address.startswith(GATEWAY_WORDS) for address in settings["bind"]) and _said(settings, "gateway_allow"):
        return (
            "gateway_allow is about addresses for a web server's own protocol: write fastcgi:, uwsgi: or scgi: before "
            "one in bind"
        )
    return ""


def _tls(settings: Settings) -> str:
    found = tls_options.contradiction(settings)
    if found:
        return found
    for name in ("tls_client_verify", "tls_client_crl"):
        # Also where it says what it would be anyway: whoever writes it wants clients to be asked.
        if settings.ranks[name] != DEFAULT and settings[name] and not settings["tls_client_ca"]:
            # Without it nobody would be asked for anything.
            return f"{name} is about clients' certificates: name those who have issued them with tls_client_ca"
    for name in OPTIONS:
        if name.startswith("tls_") and _said(settings, name):
            if not speaks_https(settings.addresses()):
                return f"{name} is about addresses that speak HTTPS: write https:// before one in bind"
    return ""


def _lanes(settings: Settings) -> str:
    if settings["threads"] != "auto" and _said(settings, "threads_max"):
        return "threads_max is about --threads auto: leave it out, or let threads be auto"
    for name in ("lanes", "route_limits", "priorities", "fair_by"):
        if not _said(settings, name):
            continue
        if settings.is_gevent():
            return f"{name} is about threads: with worker_class gevent each request has a greenlet, and none is kept"
        if settings["interface"] == "asgi":
            return f"{name} is about threads, and interface says asgi, where requests run in an event loop"
    return dropped(settings)


def _greenlets(settings: Settings) -> str:
    if settings.is_gevent() and _said(settings, "threads"):
        return (
            "threads has no meaning with worker_class gevent, where each request has a greenlet: "
            "worker_connections says how many"
        )
    if not settings.is_gevent() and _said(settings, "worker_connections"):
        return (
            "worker_connections belongs to worker_class gevent: for threads, threads says how many requests run "
            "at the same time, and limit_connections how many connections are open"
        )
    return ""


def _interfaces(settings: Settings) -> str:
    if settings["interface"] == "asgi" and settings.is_gevent():
        return "worker_class gevent runs WSGI applications, and interface says asgi: leave one of them out"
    for interface, kind, other in (("wsgi", "WSGI", "ASGI"), ("asgi", "ASGI", "WSGI")):
        for name in others(kind, gevent=settings.is_gevent()) if settings["interface"] == interface else ():
            if _said(settings, name) and _together(settings, "interface", name):
                return f"{name} is for {other} applications, and interface says {interface}: leave one of them out"
    return ""


def for_one_kind(settings: Settings) -> dict[str, list[str]]:
    """What somebody has said that is for one kind of application alone, by the kind for which it has no effect: which
    one it is shows when it is loaded."""
    return {
        kind: [name for name in others(kind, gevent=settings.is_gevent()) if _said(settings, name)]
        for kind in ("ASGI", "WSGI")
    }


def _concurrency(settings: Settings) -> str:
    if not _said(settings, "limit_concurrency"):
        return ""
    if settings.is_gevent():
        return "limit_concurrency is for ASGI applications: with worker_class gevent, worker_connections is the bound"
    if settings["interface"] == "wsgi":
        return "limit_concurrency is for ASGI applications, and interface says wsgi: see threads and limit_queue"
    return ""


def _processes(settings: Settings) -> str:
    if settings["workers"] != 0:
        return ""
    for name in OF_WORKERS:
        if _said(settings, name) and _together(settings, "workers", name):
            flag = OPTIONS[name].flag
            return f"{flag} is about workers, and with --workers 0 there are none: leave --workers 0 out, or {flag}"
    return ""


def _targets(settings: Settings, target: str | None) -> str:
    if target and settings.sources["application"] == "command line":
        return f"the application is named twice: '{target}' and --application {settings['application']}"
    named = target or settings["application"]
    if settings["factory"] and named.endswith(")"):
        return f"factory calls what the target names, and '{named}' is a call already: leave one of them out"
    return ""

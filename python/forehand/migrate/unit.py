"""NGINX Unit's configuration, JSON, and what becomes of it. Facts: Unit's documentation, version 1.34.

One Python application is taken: the only one, or that of the first listener that leads to one.
"""

from __future__ import annotations

import json
import re

from forehand import errors
from forehand.errors import Problem
from forehand.migrate import asgi, unit_share
from forehand.migrate.outcome import Outcome, differs, not_needed, same, unsupported, wider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from forehand.migrate.outcome import Rule

# Strings first, so that what looks like a comment inside of one stays.
COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|#[^\n]*', re.S)
ROUTES = "routes and upstreams are a proxy's work (docs/behind-nginx.md)"
TLS = (
    "certificates are in Unit's own store: put the bundle and its key into files, name them in tls_cert and tls_key, "
    "and write https:// before this address (docs/tls.md)"
)
TICKETS = (
    "each key goes, decoded from base64, into a file of its own, and tls_ticket_keys names them; the first is the one "
    "that makes tickets"
)
# By key of `forwarded`, and of `client_ip`, which came before it: the header that we understand.
HEADERS = {"client_ip": "X-Forwarded-For", "header": "X-Forwarded-For", "protocol": "X-Forwarded-Proto"}
TYPES = "a file's type follows from its name by a table of ours"


def read(text: str, path: str) -> dict[str, Any]:
    """The configuration of a file; Unit allows comments. Raises Problem."""
    try:
        document = json.loads(COMMENT.sub(lambda match: match[1] or " ", text))
    except ValueError as error:
        raise Problem(errors.CONFIG, f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Problem(
            errors.CONFIG, f"{path}: the JSON is not an object, and so neither Unit's configuration nor uWSGI's"
        )
    # As `GET /` tells it, or as `PUT /config` takes it.
    inner = document.get("config", document)
    return inner if isinstance(inner, dict) else {}


def _environment(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("env", [f"{name}={text}" for name, text in value.items()], origin)


def _processes(outcome: Outcome, origin: str, value: Any) -> None:
    if isinstance(value, dict):
        outcome.put("workers", value.get("max", 1), f"{origin}.max")
        outcome.unsupported(origin, value, "Unit adds processes by load, up to max; here that many run all the "
                            "time, and hold their memory. `forehand workers +1` adds one")  # fmt: skip
    else:
        outcome.put("workers", value, origin)


def _path(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("pythonpath", value if isinstance(value, str) else ",".join(value), origin)


def _home(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.program = f"{str(value).rstrip('/')}/bin/forehand"
    outcome.differs(origin, value, "install forehand there, and start it from there")


def _version(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.not_needed(origin, value, "the interpreter is the one that runs forehand")


APPLICATION: dict[str, Rule] = {
    "type": _version,
    "environment": _environment,
    "group": same("group"),
    "user": same("user"),
    "working_directory": same("chdir"),
    "processes": _processes,
    "threads": same("threads"),
    "path": _path,
    "home": _home,
    "protocol": asgi.interface,
    "prefix": same("script_name"),
    "factory": same("factory"),
    "isolation": unsupported("systemd: PrivateTmp=, ProtectSystem= and others (deploy/forehand.service)"),
    "stderr": same("log_file"),
    "stdout": not_needed("what the application prints goes where the server's output goes"),
    "thread_stack_size": unsupported("threads have the system's stack size: ulimit -s"),
    "limits.timeout": same("request_timeout"),
    "limits.requests": same("max_requests"),
    "limits.reschedule_timeout": unsupported(
        "a worker whose threads are all busy accepts nothing; queue_timeout bounds the wait"
    ),
}
SETTINGS: dict[str, Rule] = {
    "http.header_read_timeout": same("header_timeout"),
    "http.body_read_timeout": differs("a body may take as long as it keeps to limit_body_rate, after body_grace"),
    "http.send_timeout": same("write_timeout"),
    "http.idle_timeout": same("keep_alive_timeout"),
    "http.max_body_size": same("limit_body_bytes"),
    "http.body_buffer_size": same("limit_body_memory_bytes"),
    "http.body_temp_path": unsupported("bodies that do not fit into memory go to TMPDIR, into files without a name"),
    "http.large_header_buffer_size": wider("limit_header_bytes"),
    "http.discard_unsafe_fields": not_needed("header names with an underscore are dropped"),
    "http.server_version": not_needed("no Server header is sent unless server_header says what"),
    "http.log_route": unsupported("there are no routes to be logged"),
    "http.chunked_transform": not_needed("chunked bodies are taken"),
    "http.static": unsupported(TYPES),
}


def translate(outcome: Outcome, config: Mapping[str, Any], path: str) -> None:
    """What becomes of a configuration. Raises Problem where there is no Python application."""
    applications = {
        name: app
        for name, app in (config.get("applications") or {}).items()
        if isinstance(app, dict) and str(app.get("type", "")).startswith("python")
    }
    if not applications:
        raise Problem(errors.CONFIG, f"{path} has no Python application under 'applications'",
                      hint="of the JSON files those of NGINX Unit and of uWSGI are understood")  # fmt: skip
    led = [name for listener in (config.get("listeners") or {}).values() for name in _led_to(config, _lead(listener))]
    chosen = next((name for name in led if name in applications), next(iter(applications)))
    for name in applications:
        if name != chosen:
            outcome.unsupported(
                f"applications.{name}",
                "",
                f"one server runs one application, here {chosen}: give this one a "
                "forehand.toml and a service of its own",
            )
    _listeners(outcome, config, chosen)
    _application(outcome, f"applications.{chosen}", applications[chosen])
    for key, value in _flat(config.get("settings") or {}):
        key = key if key in SETTINGS else ".".join(key.split(".")[:2])
        outcome.take(SETTINGS.get(key, unsupported("there is no such setting here")), f"settings.{key}", value)
    if "threads" not in applications[chosen]:
        outcome.differs("threads", "", "a process of Unit's runs one request at a time; here up to 32 run in each. "
                        "Where the application is not made for threads: threads = 1")  # fmt: skip
    if "user" not in applications[chosen]:
        outcome.differs("user", "", "Unit runs applications as a user of its own (unit, or nobody); here it is whoever "
                        "starts the server, unless user = or the service names one")  # fmt: skip
    asgi.default_address(outcome, "no listener leads to the application")
    if config.get("access_log"):
        _access_log(outcome, config["access_log"])
    leads = [_lead(listener) for listener in (config.get("listeners") or {}).values()]
    unit_share.translate(outcome, config, [lead for lead in leads if chosen in _led_to(config, lead)])
    if config.get("upstreams"):
        outcome.unsupported("upstreams", "", ROUTES)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and key != "environment" and key != "processes":
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _application(outcome: Outcome, where: str, app: Mapping[str, Any]) -> None:
    targets = app.get("targets") or {}
    named = next(iter(targets.values()), app)
    outcome.target = f"{named.get('module', '')}:{named.get('callable', 'application')}"
    for name in list(targets)[1:]:
        outcome.unsupported(f"{where}.targets.{name}", "", "one target is served; route inside of the application")
    for key, value in _flat(app):
        if key in ("module", "callable") or key.startswith("targets.") or "comment" in key:
            continue
        key = "isolation" if key.startswith("isolation.") else key
        if not (key == "isolation" and outcome.about(f"{where}.isolation")):
            outcome.take(APPLICATION.get(key, unsupported("there is no such option here")), f"{where}.{key}", value)
    for key in ("prefix", "factory"):
        if targets and key in named:
            outcome.take(APPLICATION[key], f"{where}.targets.{key}", named[key])


def _led_to(config: Mapping[str, Any], lead: str) -> list[str]:
    """The applications that a `pass` leads to, through routes, in order."""
    seen: list[str] = []
    found: list[str] = []
    waiting = [lead]
    while waiting:
        lead = waiting.pop(0)
        if lead in seen:
            continue
        seen.append(lead)
        kind, _, name = lead.partition("/")
        if kind == "applications":
            found.append(name.split("/")[0])
        elif kind == "routes":
            routes = config.get("routes") or []
            steps = routes.get(name, []) if isinstance(routes, dict) else routes
            waiting += re.findall(r'"pass": "([^"]+)"', json.dumps(steps))
        elif "/" not in lead and lead in (config.get("applications") or {}):
            found.append(lead)  # the old key `application`
    return found


def _lead(listener: Any) -> str:
    return str(listener.get("pass", listener.get("application", ""))) if isinstance(listener, dict) else ""


def _listeners(outcome: Outcome, config: Mapping[str, Any], chosen: str) -> None:
    for address, listener in (config.get("listeners") or {}).items():
        where = f"listeners.{address}"
        lead = _lead(listener)
        if chosen not in _led_to(config, lead):
            other = (
                "it leads to another application" if _led_to(config, lead) else "it does not lead to the application"
            )
            outcome.unsupported(where, lead, f"{other}: this address is not bound")
            continue
        outcome.put("bind", [re.sub(r"^\*:", ":", address)], where)
        if tls := listener.get("tls"):
            outcome.unsupported(f"{where}.tls", "", TLS)
            session = tls.get("session") if isinstance(tls, dict) else None
            if isinstance(session, dict) and isinstance(session.get("tickets"), str | list):
                outcome.unsupported(f"{where}.tls.session.tickets", "...", TICKETS)
        if listener.get("backlog"):
            outcome.put("backlog", listener["backlog"], f"{where}.backlog")
        forwarded = listener.get("forwarded") or listener.get("client_ip")
        if forwarded:
            source = forwarded.get("source", "")
            outcome.put(
                "forwarded_allow_ips", source if isinstance(source, str) else ",".join(source), f"{where}.forwarded"
            )
            for key, known in HEADERS.items():
                if str(forwarded.get(key, known)).lower() != known.lower():
                    outcome.unsupported(f"{where}.forwarded.{key}", forwarded[key],
                                        f"the proxy has to say it in {known}, or in Forwarded")  # fmt: skip


def _access_log(outcome: Outcome, value: Any) -> None:
    table = value if isinstance(value, dict) else {"path": value}
    outcome.put("access_log", "combined", "access_log")
    if table.get("path"):
        outcome.put("access_log_file", table["path"], "access_log.path")
    if table.get("format"):
        outcome.unsupported(
            "access_log.format",
            table["format"],
            "nginx's variables are not known here; access_log takes a format such as '%h %r %s %D'",
        )

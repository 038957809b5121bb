"""granian's flags and what becomes of each. Facts: `granian --help`, up to version 2.6 and its successors."""

from __future__ import annotations

import os

from forehand.migrate import asgi, static_files, tls
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome, differs, not_needed, same, switch, unsupported
from forehand.migrate.uvicorn import tell_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule

STATIC = "route, folder, index and age are one value here: `--static '/static=FOLDER;index=FILE;max-age=SECONDS'`"
METRICS = "for Prometheus at /metrics, with names of our own, in a process of its own (docs/looking-inside.md)"
#: Where granian's metrics are, unless something else is said.
METRICS_AT = {"--metrics-address": "127.0.0.1", "--metrics-port": "9090"}
HTTP2 = (
    "HTTP/2 needs no option: clients choose it at https:// addresses, and at h2c:// it is without TLS (docs/http2.md)"
)
LOOP = "each worker has one loop; there is nothing to choose"


def _unix(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("bind", f"unix:{value}", origin)


def _level(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("log_level", {"warn": "warning", "notset": "debug"}.get(str(value).lower(), value), origin)


def _memory(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("max_worker_memory", f"{value}M", origin)


def _milliseconds(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("header_timeout", f"{value}ms", origin)


def _ignored_path(outcome: Outcome, origin: str, value: Any) -> None:
    """granian's is a whole path, ours lies below a folder that is watched."""
    below = os.path.relpath(str(value)) if "$" not in str(value) else os.pardir
    if below.startswith(os.pardir):
        outcome.unsupported(origin, value, "reload_exclude has paths below the folders that are watched")
    else:
        outcome.put("reload_exclude", [below], origin)


def _format(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.unsupported(
        origin,
        value,
        "granian's names are not known here; access_log takes common, combined, json or a format such as '%h %r %s %D'",
    )


def _keep_alive(outcome: Outcome, origin: str, value: Any) -> None:
    if value:
        outcome.not_needed(origin, value, "connections are kept")
    else:
        outcome.put("keep_alive_timeout", 0, origin)


def _metrics(outcome: Outcome, origin: str, value: Any) -> None:
    """The endpoint: granian says host and port in two options, which may be one of them alone."""
    if value is False:
        outcome.not_needed(origin, value, "there are none unless status_bind names an address")
        return
    at = {**METRICS_AT, **({origin: str(value)} if origin in METRICS_AT else value if isinstance(value, dict) else {})}
    host, port = at["--metrics-address"], at["--metrics-port"]
    outcome.put("status_bind", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", origin)
    if outcome.took("status_bind", origin):
        outcome.differs(origin, "", METRICS)


RULES: dict[str, Rule] = {
    "--host": same("host"),
    "--port": same("port"),
    "--uds": _unix,
    "--uds-permissions": asgi.socket_mode,
    "--interface": asgi.interface,
    "--http": unsupported(HTTP2),
    "--ws": asgi.sockets,
    "--no-ws": unsupported(asgi.NO_SOCKETS),
    "--workers": same("workers"),
    "--blocking-threads": same("threads"),
    "--blocking-threads-idle-timeout": not_needed("an idle thread costs nothing"),
    "--runtime-threads": not_needed(LOOP),
    "--runtime-blocking-threads": not_needed(LOOP),
    "--runtime-mode": not_needed(LOOP),
    "--loop": asgi.loop,
    "--task-impl": not_needed("tasks are the loop's own"),
    "--backlog": same("backlog"),
    "--backpressure": differs("requests beyond `threads` wait; a worker whose threads are all busy accepts nothing. "
                              "Of ASGI, limit_concurrency is a bound: 503 beyond it"),
    "--http1-buffer-size": not_needed("heads have limits of their own: limit_header_bytes"),
    "--http1-header-read-timeout": _milliseconds,
    "--http1-keep-alive": _keep_alive,
    "--http1-pipeline-flush": not_needed("replies to pipelined requests go out together"),
    **dict.fromkeys(
        ("--http2-adaptive-window", "--http2-initial-connection-window-size", "--http2-initial-stream-window-size",
         "--http2-keep-alive-interval", "--http2-keep-alive-timeout", "--http2-max-concurrent-streams",
         "--http2-max-frame-size", "--http2-max-headers-size", "--http2-max-send-buffer-size"),
        unsupported(HTTP2),
    ),
    "--log": not_needed("lines go to standard error"),
    "--no-log": lambda outcome, origin, _: outcome.put("log_level", "critical", origin),
    "--log-level": _level,
    "--log-config": asgi.log_config,
    "--access-log": asgi.access_log,
    "--access-log-fmt": _format,
    "--ssl-certificate": tls.note("certificate"),
    "--ssl-keyfile": tls.note("key"),
    "--ssl-keyfile-password": tls.note("password"),
    "--ssl-protocol-min": tls.note("minimum"),
    "--ssl-ca": tls.note("authorities"),
    "--ssl-crl": tls.note("revoked"),
    "--ssl-client-verify": tls.note("verify"),
    "--url-path-prefix": same("script_name"),
    "--respawn-failed-workers": not_needed("a worker that dies is replaced"),
    "--no-respawn-failed-workers": differs("a worker that dies is replaced, always"),
    "--respawn-interval": not_needed("the replacement comes first"),
    "--rss-sample-interval": not_needed("max_worker_memory is checked every five seconds"),
    "--rss-samples": not_needed("max_worker_memory is checked every five seconds"),
    "--workers-lifetime": same("max_worker_age"),
    "--workers-max-rss": _memory,
    "--workers-kill-timeout": same("graceful_timeout"),
    "--factory": switch(same("factory")),
    "--working-dir": same("chdir"),
    "--env-files": asgi.env_file,
    # Read together in `_static`; each by itself for somebody who has typed it here.
    **dict.fromkeys(
        ("--static-path-route", "--static-path-mount", "--static-path-dir-to-file", "--static-path-expires"),
        unsupported(STATIC),
    ),
    # Read together in `translate`.
    **dict.fromkeys(("--metrics", *METRICS_AT), _metrics),
    "--metrics-scrape-interval": not_needed("numbers are those of the moment at which they are asked for"),
    "--reload": switch(same("reload")),
    "--reload-paths": same("reload_dir"),
    "--reload-ignore-dirs": same("reload_exclude"),
    "--reload-ignore-paths": _ignored_path,
    "--reload-ignore-patterns": unsupported("reload_exclude takes patterns such as '*.tmp', no regular expressions"),
    "--reload-tick": not_needed("the system reports which files have changed"),
    "--reload-ignore-worker-failure": not_needed("a reload that fails leaves the old workers serving"),
    "--process-name": same("process_name"),
    "--pid-file": same("pid_file"),
    "--version": not_needed("it only shows the version"),
}  # fmt: skip

TURNED = (
    "ws", "http1-keep-alive", "http1-pipeline-flush", "http2-adaptive-window", "log", "access-log",
    "ssl-client-verify", "respawn-failed-workers", "factory", "metrics", "reload", "reload-ignore-worker-failure",
)  # fmt: skip
GRAMMAR = Grammar(
    {flag: flag for flag in RULES if flag[2:] not in (*TURNED, "version") and not flag.startswith("--no-")},
    {
        **{f"--{name}": (f"--{name}", True) for name in (*TURNED, "version")},
        **{f"--no-{name}": (f"--no-{name}" if f"--no-{name}" in RULES else f"--{name}", False) for name in TURNED},
    },
)


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line, with the GRANIAN_ variables that it is given."""
    given, others, unknown = GRAMMAR.read(command.words)
    outcome.target = others[0] if others else ""
    flags = {flag for flag, _ in given}
    for variable, text in sorted(command.environment.items()):
        flag = "--" + variable.removeprefix("GRANIAN_").lower().replace("_", "-")
        if not variable.startswith("GRANIAN_") or flag in flags:
            continue
        if flag in GRAMMAR.valued:
            given.append((flag, text))
        else:
            outcome.unsupported(variable, text, "only variables for options with a value are read here")
    where = {flag: str(value) for flag, value in given if flag in METRICS_AT}
    for flag, value in given:
        if flag == "--metrics" and value:
            outcome.take(RULES[flag], flag, where)
        elif flag in METRICS_AT:
            taken = ("--metrics", True) in given
            outcome.not_needed(flag, value, "`status_bind` has it" if taken else "without --metrics nothing is there")
        elif not flag.startswith("--static-path-"):
            outcome.take(RULES[flag], flag, value)
    _static(outcome, [(flag, str(value)) for flag, value in given if flag.startswith("--static-path-")])
    flags = {flag for flag, _ in given}
    if "--interface" not in flags:
        outcome.differs("--interface", "rsgi", "granian's default is an interface of its own; here WSGI and ASGI "
                        "applications are served")  # fmt: skip
    if "--blocking-threads" not in flags and outcome.settings.get("interface") == "wsgi":
        outcome.differs("--blocking-threads", "", "granian chooses their number by itself; here up to 32 requests run "
                        "in each worker: threads says otherwise")  # fmt: skip
    asgi.closed_socket(outcome, "755", "granian's, as umask 022 leaves it")
    asgi.default_address(outcome, "granian's default")
    tls.translate(outcome, minimum="1.3")
    outcome.differs("forwarded_allow_ips", "", asgi.BELIEVED)
    tell_unknown(outcome, GRAMMAR, unknown)


def _static(outcome: Outcome, given: list[tuple[str, str]]) -> None:
    """The folders, each with the route that was given with it; a file that is not there is 404, as there."""
    routes = [value for flag, value in given if flag == "--static-path-route"]
    folders = [value for flag, value in given if flag == "--static-path-mount"]
    others = dict(given)
    index, age = others.get("--static-path-dir-to-file"), others.get("--static-path-expires", "86400")
    for at, folder in enumerate(folders):
        route = routes[at] if at < len(routes) else "/static"
        more = [*([f"index={index}"] if index else []), f"max-age={age}"]
        try:
            static_files.put(outcome, "--static-path-mount", folder, static_files.mount(route, folder, *more))
        except ValueError as error:
            outcome.unsupported("--static-path-mount", folder, str(error))
    if outcome.took("static", "--static-path-mount"):
        static_files.tell(outcome, "--static-path-mount")
    for flag, value in given:
        if flag != "--static-path-mount":
            outcome.not_needed(flag, value, "`static` has it" if folders else "no folder is served")

"""mod_wsgi-express's flags and what becomes of each. Facts: its own option list, version 4 and 5.

What Apache did beside running the application is a proxy's work here, and said to be so.
"""

from __future__ import annotations

import os

from forehand.migrate import static_files
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome, not_needed, same, switch, unsupported, wider
from forehand.migrate.uvicorn import tell_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.migrate.outcome import Rule

PROXY = "this is a proxy's work (docs/behind-nginx.md)"
APACHE = "this configures Apache, which is not used here"
DEBUG = "a development tool of mod_wsgi-express; run the framework's own server for that"
AUTH = "Apache's part: a proxy's work, or a WSGI middleware's"
NEWRELIC = "start with `newrelic-admin run-program forehand …`"


def _port(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("port", value, origin)


def _environment(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.unsupported(origin, value, "it sets keys of each request's environ; `env` sets variables of the process")


def _mount(outcome: Outcome, origin: str, value: Any) -> None:
    if str(value).strip("/"):
        outcome.put("script_name", "/" + str(value).strip("/"), origin)


def _level(outcome: Outcome, origin: str, value: Any) -> None:
    levels = {"emerg": "critical", "alert": "critical", "crit": "critical", "warn": "warning", "notice": "info"}
    outcome.put("log_level", levels.get(str(value).lower(), str(value).lower()), origin)


def _format(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("access_log", value, origin)


def _paths(outcome: Outcome, origin: str, value: Any) -> None:
    before = outcome.settings.get("pythonpath", "")
    outcome.put("pythonpath", f"{before},{value}".strip(","), origin)


RULES: dict[str, Rule] = {
    "--host": same("host"),
    "--port": _port,
    "--processes": same("workers"),
    "--threads": same("threads"),
    "--max-clients": same("limit_connections"),
    "--limit-request-body": same("limit_body_bytes"),
    "--maximum-requests": same("max_requests"),
    "--restart-interval": same("max_worker_age"),
    "--shutdown-timeout": not_needed("graceful_timeout is the whole time"),
    "--graceful-timeout": same("graceful_timeout"),
    "--eviction-timeout": unsupported("there is no eviction"),
    "--deadlock-timeout": not_needed("an overdue request is logged with its stack (request_timeout)"),
    "--inactivity-timeout": unsupported("idle workers stay"),
    "--startup-timeout": same("startup_timeout"),
    "--request-timeout": same("request_timeout", "mod_wsgi takes the average of all threads, and restarts the process; "
                              "here it is each request's deadline"),
    "--connect-timeout": unsupported("there is no hop between a proxy's process and the workers"),
    "--socket-timeout": same("write_timeout"),
    "--queue-timeout": same("queue_timeout"),
    "--header-timeout": same("header_timeout"),
    "--header-max-timeout": not_needed("header_timeout is not extended by bytes that arrive"),
    "--header-min-rate": not_needed("header_timeout is not extended by bytes that arrive"),
    "--body-timeout": same("body_grace"),
    "--body-max-timeout": unsupported("a body may take as long as it keeps to limit_body_rate"),
    "--body-min-rate": same("limit_body_rate"),
    "--server-backlog": same("backlog"),
    "--keep-alive-timeout": same("keep_alive_timeout"),
    "--reload-on-changes": switch(same("reload")),
    "--user": same("user"),
    "--group": same("group"),
    "--mount-point": _mount,
    "--server-name": unsupported(PROXY),
    "--setenv": _environment,
    "--passenv": _environment,
    "--working-directory": same("chdir"),
    "--pid-file": same("pid_file"),
    "--log-level": _level,
    "--access-log": switch(lambda outcome, origin, _: outcome.put("access_log", "common", origin)),
    "--access-log-format": _format,
    "--access-log-name": unsupported("access_log_file says where the access log goes"),
    "--error-log-name": unsupported("log_file says where the log goes"),
    "--error-log-format": unsupported("the log has one format"),
    "--log-to-terminal": switch(not_needed("the log is standard error")),
    "--log-directory": unsupported("log_file and access_log_file name files"),
    "--rotate-logs": unsupported("logrotate, and SIGUSR1 reopens"),
    "--max-log-size": unsupported("logrotate, and SIGUSR1 reopens"),
    "--startup-log": not_needed("what goes wrong at the start is told on standard error"),
    "--python-path": _paths,
    "--limit-request-line": wider("limit_request_line_bytes"),
    "--chunked-request": switch(not_needed("chunked bodies are taken")),
    "--trust-proxy-header": not_needed("forwarding headers are understood, from the peers in forwarded_allow_ips"),
    "--trust-proxy": same("forwarded_allow_ips"),
    "--map-head-to-get": not_needed("HEAD reaches the application as HEAD"),
    "--with-newrelic": switch(unsupported(NEWRELIC)),
    "--with-newrelic-agent": switch(unsupported(NEWRELIC)),
    "--with-newrelic-platform": switch(unsupported(NEWRELIC)),
    "--newrelic-config-file": unsupported(NEWRELIC),
    "--newrelic-environment": unsupported(NEWRELIC),
    "--service-script": unsupported("run it as a service of its own"),
    "--service-user": unsupported("run it as a service of its own"),
    "--service-group": unsupported("run it as a service of its own"),
    "--service-log-file": unsupported("run it as a service of its own"),
    **dict.fromkeys(
        ("--server-metrics", "--server-status"),
        switch(unsupported("`forehand status` and `forehand top` show them; status_bind answers over HTTP")),
    ),
    "--disable-reloading": not_needed("nothing is reloaded unless `reload` says so"),
    "--isatty": not_needed("nothing depends on a terminal"),
    "--lang": unsupported("set LANG in the environment"),
    "--locale": unsupported("set LC_ALL in the environment"),
    "--ignore-activity": unsupported("idle workers stay"),
    "--enable-sendfile": switch(not_needed("wsgi.file_wrapper uses sendfile(2)")),
    "--interval": unsupported("idle workers stay"),
    "--cpu-time-limit": unsupported("systemd: LimitCPU="),
    "--cpu-priority": unsupported("systemd: Nice="),
    "--memory-limit": unsupported("systemd: MemoryMax=; max_worker_memory replaces a worker that has grown"),
    "--virtual-memory-limit": unsupported("systemd: LimitAS="),
    "--thread-request-timeout": same("request_timeout"),
    "--switch-interval": unsupported("the engine sets it"),
    "--python-eggs": not_needed("eggs are not unpacked any more"),
    "--directory-listing": switch(unsupported("folders are not listed")),
    **dict.fromkeys(
        ("--error-document", "--error-override", "--compress-responses", "--https-only", "--https-port", "--ssl-port",
         "--hsts-policy",
         "--ssl-certificate", "--ssl-certificate-file", "--ssl-certificate-key-file", "--ssl-certificate-chain-file",
         "--ssl-ca-certificate-file", "--ssl-verify-client", "--ssl-environment", "--http2", "--server-alias",
         "--allow-localhost", "--proxy-mount-point", "--proxy-url-alias", "--proxy-virtual-host", "--add-handler",
         "--include-file", "--with-cgi", "--with-php5", "--rewrite-rules", "--destroy-interpreter", "--allow-override",
         "--cache-control", "--mime-types"),
        unsupported(PROXY),
    ),
    **dict.fromkeys(
        ("--server-root", "--server-mpm", "--httpd-executable", "--modules-directory", "--process-name",
         "--initial-workers", "--minimum-spare-workers", "--maximum-spare-workers", "--daemon-backlog",
         "--send-buffer-size", "--receive-buffer-size", "--header-buffer-size", "--response-buffer-size",
         "--response-socket-timeout", "--proxy-buffer-size", "--rotatelogs-executable", "--envvars-script",
         "--embedded-mode", "--setup-only", "--enable-docs", "--daemon-name", "--verbose-debugging"),
        not_needed(APACHE),
    ),
    **dict.fromkeys(
        ("--host-access-script", "--auth-user-script", "--auth-type", "--auth-group-script", "--auth-group"),
        unsupported(AUTH),
    ),
    **dict.fromkeys(
        ("--debug-mode", "--enable-debugger", "--debugger-startup", "--enable-coverage", "--coverage-directory",
         "--enable-profiler", "--profiler-directory", "--enable-recorder", "--recorder-directory", "--enable-gdb",
         "--gdb-executable"),
        unsupported(DEBUG),
    ),
}  # fmt: skip

# Read in `_target`, and in `_static`.
TARGET = ("--application-type", "--entry-point", "--callable-object")
STATIC = ("--url-alias", "--document-root", "--directory-index")
# With these Apache may have kept files from people who get them here.
CLOSED = (
    "--host-access-script", "--auth-user-script", "--auth-type", "--auth-group-script", "--auth-group",
    "--include-file", "--allow-override",
)  # fmt: skip
SWITCHED = (
    "reload-on-changes", "error-override", "compress-responses", "server-metrics", "server-status", "access-log",
    "startup-log", "log-to-terminal", "rotate-logs", "chunked-request", "with-newrelic", "with-newrelic-agent",
    "with-newrelic-platform", "with-php5", "with-cgi", "enable-docs", "debug-mode", "enable-debugger",
    "debugger-startup", "enable-coverage", "enable-profiler", "enable-recorder", "enable-gdb", "setup-only",
    "https-only", "allow-localhost", "disable-reloading", "isatty", "ignore-activity", "enable-sendfile",
    "embedded-mode", "ssl-environment", "http2", "directory-listing", "verbose-debugging",
)  # fmt: skip
GRAMMAR = Grammar(
    {flag: flag for flag in (*RULES, *TARGET, *STATIC) if flag[2:] not in SWITCHED},
    {f"--{name}": (f"--{name}", True) for name in SWITCHED},
    pairs=("--url-alias", "--error-document", "--setenv", "--add-handler", "--proxy-mount-point", "--proxy-url-alias",
           "--proxy-virtual-host", "--service-script", "--service-user", "--service-group", "--service-log-file"),
)  # fmt: skip


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line: `start-server`, `setup-server` or Django's `runmodwsgi`."""
    given, others, unknown = GRAMMAR.read(command.words)
    values = {flag: str(value) for flag, value in given if flag in TARGET}
    for flag, value in given:
        if flag not in (*TARGET, *STATIC):
            outcome.take(RULES[flag], flag, value)
    _static(outcome, [(flag, str(value)) for flag, value in given if flag in (*STATIC, *CLOSED)])
    flags = {flag for flag, _ in given}
    _target(outcome, [word for word in others if word not in ("start-server", "setup-server")], values)
    if "--host" not in flags:
        outcome.put("host", "0.0.0.0", "mod_wsgi-express's default")
    if "--threads" not in flags:
        outcome.put("threads", 5, "mod_wsgi-express's default")
    if "--limit-request-body" not in flags:
        outcome.put("limit_body_bytes", 10485760, "mod_wsgi-express's default")
    if "--request-timeout" not in flags:
        outcome.differs("--request-timeout", "", "a process whose requests take 60 s on average is restarted; "
                        "here nothing is ended unless request_timeout says so")  # fmt: skip
    if "--access-log-format" in flags and "--access-log" not in flags:
        outcome.settings.pop("access_log", None)
        outcome.not_needed("--access-log-format", "", "without --access-log there is none")
    tell_unknown(outcome, GRAMMAR, unknown)


def _target(outcome: Outcome, words: list[str], values: dict[str, str]) -> None:
    kind = values.get("--application-type", "script")
    name = values.get("--entry-point") or (words[0] if words else "")
    attribute = values.get("--callable-object", "application")
    if kind == "module":
        outcome.target = f"{name}:{attribute}"
    elif kind in ("paste", "static") or not name:
        outcome.unsupported("--application-type", kind, "name the module that has the application as the target")
    else:
        script_target(outcome, name, attribute, outcome.settings.get("chdir", ""))


def _static(outcome: Outcome, given: list[tuple[str, str]]) -> None:
    """The aliases, and the root, whose missing files are the application's."""
    index = next((value.split()[0] for flag, value in given if flag == "--directory-index" and value.split()), "")
    closed = next((flag for flag, _ in given if flag in CLOSED), "")
    origin = ""
    for flag, value in given:
        if flag not in ("--url-alias", "--document-root"):
            continue
        path, _, folder = value.partition(" ") if flag == "--url-alias" else ("/", "", value)
        has_index = index and not static_files.is_one_file(path, folder)
        more = [*(["try"] if flag == "--document-root" else []), *([f"index={index}"] if has_index else [])]
        try:
            text = static_files.mount(path, folder, *more)
        except ValueError as error:
            outcome.unsupported(flag, value, str(error))
            continue
        if closed:
            outcome.unsupported(flag, value, f"{closed} may have kept these files from somebody; "
                                f"{static_files.BY_HAND.format(repr(text))}")  # fmt: skip
        elif static_files.put(outcome, flag, value, text):
            origin = origin or flag
    if origin:
        static_files.tell(outcome, origin)
    if index:
        reason = "the mounts have its first name" if origin else "no folder is served"
        outcome.not_needed("--directory-index", index, reason)


def script_target(outcome: Outcome, path: str, attribute: str, folder: str) -> None:
    """The target for a file: the module's name as seen from the folder, or from its own; or the file, where no module
    has such a name."""
    stem, suffix = os.path.splitext(os.path.normpath(path))
    colon = f":{attribute}" if attribute else ""
    file = (path if "/" in path or suffix == ".py" else f"./{path}") + colon
    if suffix != ".py" or not os.path.basename(stem).isidentifier():
        outcome.target = file
        return
    if os.path.isabs(stem):
        inside = folder and os.path.isabs(folder) and (stem + "/").startswith(os.path.normpath(folder) + "/")
        if inside:
            stem = os.path.relpath(stem, folder)
        else:
            parts = [outcome.settings.get("pythonpath", ""), os.path.dirname(stem)]
            outcome.put("pythonpath", ",".join(filter(None, parts)), "the script's folder")
            stem = os.path.basename(stem)
    module = stem.replace("/", ".").lstrip(".")
    outcome.target = module + colon if all(part.isidentifier() for part in module.split(".")) else file

"""gunicorn's settings and what becomes of each. Names are those of its configuration file.

Knows: what gunicorn's settings mean. Does not know: how they are given; `gunicorn_file.py` and the flags
below do. Facts: gunicorn's own documentation of its settings, up to version 27.
"""

from __future__ import annotations

import os
import re

from forehand.migrate import asgi, tls
from forehand.migrate.outcome import Outcome, bound, not_needed, same, switch, unsupported, wider
from forehand.settings import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from forehand.migrate.outcome import Rule

# gunicorn's own default format is Apache's "combined".
COMBINED = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"'
SYNC = ("sync", "gunicorn.workers.sync.SyncWorker", "egg:gunicorn#sync")
THREADS = ("gthread", "gunicorn.workers.gthread.ThreadWorker", "egg:gunicorn#gthread")

TLS = "OpenSSL is not used, so that a function has nothing to change: tls_cert and its neighbours say what there is"
NO_HTTP2 = (
    "HTTP/2 needs no option: clients choose it at https:// addresses, and at h2c:// it is without TLS (docs/http2.md)"
)
NO_DIRTY = "there are no workers of a second kind; use a task queue"
LOGGING = "log_config gives the server's own lines to Python's logging; your application's logging is its own as before"
STATSD = (
    "names begin with `forehand.`, and are sent every ten seconds and not with each request (docs/looking-inside.md)"
)


def _bind(outcome: Outcome, origin: str, value: Any) -> None:
    for address in [value] if isinstance(value, str) else value:
        for one in str(address).split(","):
            text = re.sub(r"^unix:(//)(?=/)", "unix:", one.strip())
            outcome.put("bind", [text] if "$" not in text else text, origin)


def _worker_class(outcome: Outcome, origin: str, value: Any) -> None:
    name = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    if name in SYNC or name in THREADS:
        outcome.not_needed(origin, name, "no worker class is needed: threads start when a request blocks")
    elif _is_asgi(name):
        outcome.put("interface", "asgi", origin)
        if "h11worker" in name.lower():
            outcome.put("loop", "asyncio", origin)
    elif _is_gevent(name):
        outcome.put("worker_class", "gevent", origin)
    elif "eventlet" in name.lower():
        outcome.unsupported(
            origin,
            name,
            "no eventlet: requests run in threads, as many as `threads` at a time, or with "
            "worker_class gevent in greenlets; remove eventlet's monkey patching",
        )
    else:
        outcome.unsupported(origin, name, "requests run in threads, or with worker_class gevent in greenlets")


def _is_gevent(kind: Any) -> bool:
    return "gevent" in (kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))).lower()


def _is_asgi(kind: Any) -> bool:
    name = (kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))).lower()
    return "uvicorn" in name or "asgi" in name


def _logging(outcome: Outcome, origin: str, value: Any) -> None:
    if value:
        asgi.log_config(outcome, origin, value)


def _syslog_address(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("log_syslog_to", str(value).partition("#")[0], origin)


def _level(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("log_level", str(value).lower().replace("trace", "debug"), origin)


def _umask(outcome: Outcome, origin: str, value: Any) -> None:
    # gunicorn reads 027 as octal, as C does.
    octal = isinstance(value, str) and value.isdigit() and value.startswith("0")
    number = int(value, 8 if octal else 0) if isinstance(value, str) else int(value)
    if number:
        outcome.put("umask", f"{number:03o}", origin)


def _error_log(outcome: Outcome, origin: str, value: Any) -> None:
    if value and value != "-":
        outcome.put("log_file", value, origin)
    else:
        outcome.not_needed(origin, value, "lines go to standard error already")


def _extra_files(outcome: Outcome, origin: str, value: Any) -> None:
    for path in [value] if isinstance(value, str) else value:
        below = os.path.relpath(str(path)) if "$" not in str(path) else os.pardir
        if below.startswith(os.pardir):
            outcome.unsupported(origin, path, "reload_include has files below the folders that are watched, which "
                                "reload_dir names")  # fmt: skip
        else:
            outcome.put("reload_include", [below], origin)


def _relaxed(name: str) -> Rule:
    return switch(lambda outcome, origin, value: outcome.put("http_relax", [name], origin))


def _header_map(outcome: Outcome, origin: str, value: Any) -> None:
    if value == "drop":
        outcome.not_needed(origin, value, "header names with an underscore are dropped")
    else:
        ours = "http_refuse" if value == "refuse" else "http_relax"
        outcome.put(ours, ["underscore-names"], origin)


def _scheme_headers(outcome: Outcome, origin: str, value: Any) -> None:
    names = {str(name).upper() for name in value} if isinstance(value, dict) else set()
    if names <= {"X-FORWARDED-PROTO", "X-FORWARDED-PROTOCOL", "X-FORWARDED-SSL"}:
        outcome.not_needed(origin, value, "X-Forwarded-Proto and Forwarded are understood, from trusted peers")
    else:
        outcome.unsupported(origin, value, "let the proxy send X-Forwarded-Proto; other headers are not read")


def _paste(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.unsupported(
        origin,
        value,
        "PasteDeploy files are not read: write a module with "
        "`application = paste.deploy.loadapp('config:/path/file.ini')` and name it as the target",
    )


def _env(outcome: Outcome, origin: str, value: Any) -> None:
    for pair in [value] if isinstance(value, str) else value:
        outcome.put("env", pair if "$" in pair else [pair], origin)


def _allowed(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.put("forwarded_allow_ips", _listed(value), origin)


def _application(outcome: Outcome, origin: str, value: Any) -> None:
    outcome.target = outcome.target or str(value)


SETTINGS: dict[str, Rule] = {
    "wsgi_app": _application,
    "bind": _bind,
    "backlog": same("backlog"),
    "workers": same("workers"),
    "worker_class": _worker_class,
    "max_requests": same("max_requests"),
    "max_requests_jitter": same("max_requests_jitter"),
    "graceful_timeout": same("graceful_timeout"),
    "limit_request_line": bound("limit_request_line_bytes", 4094),
    "limit_request_fields": bound("limit_header_lines", 100),
    "limit_request_field_size": wider("limit_header_bytes"),
    "reload": switch(same("reload")),
    "reload_engine": not_needed("the system reports which files have changed"),
    "reload_extra_files": _extra_files,
    "spew": switch(unsupported("`forehand stacks` shows what every thread is doing")),
    "preload_app": switch(same("preload")),
    "sendfile": not_needed("wsgi.file_wrapper uses sendfile(2)"),
    "reuse_port": switch(not_needed("workers share one listener; a connection goes to one that is free")),
    "chdir": same("chdir"),
    "pythonpath": same("pythonpath"),
    "raw_env": _env,
    "user": same("user"),
    "group": same("group"),
    "umask": _umask,
    "initgroups": switch(not_needed("the supplementary groups of `user` are taken")),
    "daemon": switch(unsupported("let systemd run it: deploy/forehand.service")),
    "pidfile": same("pid_file"),
    "proc_name": same("process_name"),
    "worker_tmp_dir": not_needed("workers need no file to show that they are alive"),
    "tmp_upload_dir": unsupported("bodies that do not fit into memory go to TMPDIR, into files without a name"),
    "errorlog": _error_log,
    "loglevel": _level,
    "capture_output": switch(not_needed("what the application prints goes where the server's output goes")),
    "enable_stdio_inheritance": switch(not_needed("set PYTHONUNBUFFERED=1 where lines come late")),
    "logger_class": unsupported(LOGGING),
    "logconfig": _logging,
    "logconfig_dict": switch(unsupported("write the dictionary to a JSON or TOML file, and name that with log_config; "
                                         "the loggers are forehand.error and forehand.access")),
    "logconfig_json": _logging,
    "syslog": switch(same("log_syslog")),
    "syslog_addr": _syslog_address,
    "syslog_prefix": same("log_syslog_prefix"),
    "syslog_facility": same("log_syslog_facility"),
    "disable_redirect_access_to_syslog": switch(unsupported("with log_syslog the access log goes there too")),
    "statsd_host": same("statsd_host", STATSD),
    "statsd_prefix": same("statsd_prefix"),
    "dogstatsd_tags": same("dogstatsd_tags"),
    "enable_backlog_metric": switch(unsupported("connections that wait are forehand_listen_backlog (--status-bind)")),
    "forwarded_allow_ips": _allowed,
    "forwarder_headers": unsupported("SCRIPT_NAME comes from X-Forwarded-Prefix of a trusted peer, or from "
                                     "script_name"),
    "secure_scheme_headers": _scheme_headers,
    "header_map": _header_map,
    "strip_header_spaces": switch(unsupported("a space before the colon is refused: it hides headers from proxies")),
    "permit_obsolete_folding": _relaxed("obs-fold"),
    "permit_unconventional_http_method": switch(not_needed("methods that are valid tokens reach the application")),
    "permit_unconventional_http_version": switch(unsupported("HTTP/1.0 and 1.1 are spoken")),
    "casefold_http_method": switch(unsupported("methods are case-sensitive (RFC 9110 section 9.1)")),
    "http_parser": not_needed("there is one parser, written in Rust"),
    "root_path": same("script_name"),
    "paste": _paste,
    "raw_paste_global_conf": unsupported("PasteDeploy files are not read"),
    "config": not_needed("it was read"),
    "check_config": switch(not_needed("`forehand --check` does it")),
    "print_config": switch(not_needed("`forehand --print-config` does it")),
    "control_socket": same("control", "other commands: `forehand status`, `reload`, `stop`"),
    "control_socket_mode": not_needed("the control socket is the user's alone (0600)"),
    "control_socket_disable": switch(lambda outcome, origin, _: outcome.put("control", "none", origin)),
    "certfile": tls.note("certificate"),
    "keyfile": tls.note("key"),
    "ca_certs": tls.note("authorities"),
    "cert_reqs": tls.note("verify"),
    "ciphers": tls.note("ciphers"),
    "ssl_version": tls.note("version"),
    "do_handshake_on_connect": not_needed("handshakes take place on a thread of their own"),
    "suppress_ragged_eofs": not_needed("a body that is cut is told from one that is complete"),
    "asgi_loop": asgi.loop,
    "asgi_lifespan": asgi.lifespan,
    "asgi_disconnect_grace_period": not_needed("an application may go on after its client has left"),
    "websocket_max_message_size": asgi.message_size,
    **dict.fromkeys(
        ("http_protocols", "http2_max_concurrent_streams", "http2_initial_window_size", "http2_max_frame_size",
         "http2_max_header_list_size", "http2_cleartext"),
        unsupported(NO_HTTP2),
    ),
    **dict.fromkeys(
        ("dirty_apps", "dirty_workers", "dirty_timeout", "dirty_threads", "dirty_graceful_timeout"),
        unsupported(NO_DIRTY),
    ),
    "default_proc_name": not_needed("processes are named after the application, or by process_name"),
}  # fmt: skip

# Read together, in `translate`: what they mean depends on the kind of worker, or on one another.
TOGETHER = (
    "timeout", "keepalive", "threads", "worker_connections", "accesslog", "access_log_format", "proxy_protocol",
    "proxy_allow_ips", "protocol", "uwsgi_allow_ips",
)  # fmt: skip

# gunicorn's function, our option, and what else differs.
HOOKS = {
    "on_starting": ("on_start", ""),
    "when_ready": ("on_start", "it runs before the application is there; `readiness` waits for it"),
    "on_reload": ("on_reload", ""),
    "post_fork": ("on_worker_start", ""),
    "post_worker_init": ("on_worker_ready", ""),
    "worker_exit": ("on_worker_exit", ""),
    "child_exit": ("on_worker_exit", "it runs in the worker"),
    "on_exit": ("on_stop", ""),
    "pre_fork": ("", "what is to happen before workers start goes to on_start"),
    "pre_exec": ("", "an upgrade runs no code of the application"),
    "pre_request": ("", "a WSGI middleware sees every request"),
    "post_request": ("", "a WSGI middleware sees every reply"),
    "worker_int": ("", "a stop runs on_worker_exit"),
    "worker_abort": ("", "an overdue request is logged with its stack (request_timeout)"),
    "nworkers_changed": ("", "`forehand status` shows how many workers there are"),
    "ssl_context": ("", TLS),
    **dict.fromkeys(("on_dirty_starting", "dirty_post_fork", "dirty_worker_init", "dirty_worker_exit"), ("", NO_DIRTY)),
}


def translate(outcome: Outcome, values: Mapping[str, Any]) -> None:
    """What becomes of gunicorn's settings, given with their names there."""
    for name, value in values.items():
        if value is None or name in HOOKS or name in TOGETHER:
            continue
        outcome.take(SETTINGS[name], name, value)
    kind = str(values.get("worker_class") or "sync")
    sync = kind in SYNC and str(values.get("threads", 1)) == "1"
    _deadline(outcome, values.get("timeout"), sync)
    _threads(outcome, values.get("threads"), kind)
    _connections(outcome, values, sync)
    _access_log(outcome, values)
    tls.translate(outcome)
    _protocol(outcome, values)
    _proxy_protocol(outcome, values)
    _unix_peers(outcome)
    if values.get("syslog") and "log_syslog_to" not in outcome.settings:
        outcome.put("log_syslog_to", "udp://localhost:514", "gunicorn's default of syslog_addr")
    if sync and "threads" not in values:
        outcome.differs("worker_class", kind, "a sync worker runs one request at a time; here up to 32 run in each. "
                        "Where the application is not made for threads: threads = 1")  # fmt: skip


def _proxy_protocol(outcome: Outcome, values: Mapping[str, Any]) -> None:
    value, allowed = values.get("proxy_protocol"), values.get("proxy_allow_ips")
    if not value or str(value).lower() in ("0", "false", "no", "off"):
        if allowed is not None:
            outcome.not_needed("proxy_allow_ips", allowed, "it has no effect without proxy_protocol")
        return
    versions = str(value).lower() if str(value).lower() in ("v1", "v2") else "any"
    if not _changed(outcome, values, "proxy_protocol", lambda address: f"{address}?proxy={versions}"):
        outcome.unsupported("proxy_protocol", value, f"add ?proxy={versions} to the end of the address")
        return
    outcome.differs(
        "proxy_protocol", value, "an address that expects PROXY headers takes no connection without one; both "
        "versions are taken where gunicorn was not told which"
    )  # fmt: skip
    if allowed is not None:
        outcome.put("proxy_protocol_from", _listed(allowed), "proxy_allow_ips")


def _protocol(outcome: Outcome, values: Mapping[str, Any]) -> None:
    """`protocol`: our addresses say what is spoken at each."""
    value, allowed = values.get("protocol"), values.get("uwsgi_allow_ips")
    if str(value or "http").lower() == "uwsgi":
        if not _changed(outcome, values, "protocol", lambda address: f"uwsgi:{address}"):
            outcome.unsupported("protocol", value, "write uwsgi: before the address")
        if allowed is not None:
            outcome.put("gateway_allow", _listed(allowed), "uwsgi_allow_ips")
        return
    if value and str(value).lower() != "http":
        outcome.unsupported("protocol", value, "HTTP, uwsgi, FastCGI and SCGI are spoken (docs/behind-nginx.md)")
    if allowed is not None:
        outcome.not_needed("uwsgi_allow_ips", allowed, "it has no effect without protocol = uwsgi")


def _unix_peers(outcome: Outcome) -> None:
    """Whoever connects to a unix socket is believed by gunicorn, whatever its lists of addresses say."""
    if not outcome.binds_unix():
        return
    for name in ("forwarded_allow_ips", "proxy_protocol_from", "gateway_allow"):
        peers = str(outcome.settings.get(name, "")).split(",")
        if peers != [""] and not {"unix", "*"} & set(peers):
            outcome.put(name, ",".join([*peers, "unix"]), outcome.origins[name])


def _changed(outcome: Outcome, values: Mapping[str, Any], origin: str, change: Callable[[str], str]) -> bool:
    """Change every address that is bound. False: none is known here, as a shell's variable names it."""
    addresses = outcome.settings.get("bind", [] if "bind" in values else list(OPTIONS["bind"].default))
    if not addresses:
        return False
    outcome.settings.pop("bind", None)
    outcome.put("bind", [change(address) for address in addresses], origin)
    return True


def _listed(allowed: Any) -> str:
    """Addresses of peers as we write them."""
    text = allowed if isinstance(allowed, str) else ",".join(allowed)
    return ",".join(part.strip() for part in text.split(","))


def _deadline(outcome: Outcome, value: Any, sync: bool) -> None:
    if not sync:
        if value is not None:
            outcome.unsupported(
                "timeout",
                value,
                "with this worker it is a heartbeat of the process and ends no request; "
                "a deadline for requests is request_timeout",
            )
    elif value is None:
        outcome.differs("timeout", "", "gunicorn kills a sync worker whose request takes 30 s; "
                        "here nothing is ended unless request_timeout says so")  # fmt: skip
    elif str(value) == "0":
        outcome.not_needed("timeout", value, "no request is ended")
    else:
        outcome.put("request_timeout", value, "timeout")
        outcome.differs("timeout", value, "the client gets 504 and the others go on; gunicorn kills "
                        "the worker. The whole reply counts, downloads too: request_timeouts has others")  # fmt: skip


def _threads(outcome: Outcome, value: Any, kind: str) -> None:
    if value is None:
        return
    if _is_gevent(kind):
        outcome.not_needed("threads", value, "a gevent worker does not read it")
    elif _is_asgi(kind):
        outcome.not_needed("threads", value, "a worker of ASGI does not read it")
    else:
        outcome.take(same("threads"), "threads", value)


def _connections(outcome: Outcome, values: Mapping[str, Any], sync: bool) -> None:
    if (connections := values.get("worker_connections")) is not None:
        if sync:
            outcome.not_needed("worker_connections", connections, "a sync worker does not read it")
        elif _is_asgi(values.get("worker_class") or ""):
            outcome.not_needed("worker_connections", connections, "limit_connections bounds connections, with 16384")
        elif _is_gevent(values.get("worker_class") or ""):
            outcome.put("worker_connections", connections, "worker_connections")
            outcome.differs("worker_connections", connections, "it bounds requests that run, and no idle connections; "
                            "those are bounded by limit_connections")  # fmt: skip
        else:
            outcome.put("limit_connections", connections, "worker_connections")
    if (seconds := values.get("keepalive")) is not None:
        if sync:
            outcome.differs("keepalive", seconds, "a sync worker keeps no connection; here they are kept for 75 s, "
                            "which costs nothing and outlasts load balancers")  # fmt: skip
        elif str(seconds) != "0":
            outcome.put("keep_alive_timeout", seconds, "keepalive")
            outcome.differs("keepalive", seconds, "idle connections hold no thread here: the default of 75 s outlasts "
                            "load balancers, so that they close first")  # fmt: skip
        else:
            outcome.put("keep_alive_timeout", 0, "keepalive")


def _access_log(outcome: Outcome, values: Mapping[str, Any]) -> None:
    where, form = values.get("accesslog"), values.get("access_log_format") or COMBINED
    if not where:
        if values.get("access_log_format"):
            outcome.not_needed("access_log_format", form, "gunicorn writes no access log unless accesslog says where")
        return
    before = len(outcome.remarks)
    outcome.put("access_log", "combined" if form == COMBINED else form,
                "access_log_format" if values.get("access_log_format") else "accesslog")  # fmt: skip
    if len(outcome.remarks) > before and "access_log" not in outcome.settings:
        outcome.put("access_log", "combined", "accesslog")
    outcome.put("access_log_file", where, "accesslog")

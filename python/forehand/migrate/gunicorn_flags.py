"""gunicorn's flags, and which of its settings each is.

Knows: how a command line and GUNICORN_CMD_ARGS are written. Does not know: what a setting means (`gunicorn.py`).
"""

from __future__ import annotations

from forehand.migrate.command_lines import Grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = {
    "-b": "bind", "--bind": "bind", "--backlog": "backlog", "-w": "workers", "--workers": "workers",
    "-k": "worker_class", "--worker-class": "worker_class", "--threads": "threads",
    "--worker-connections": "worker_connections", "--max-requests": "max_requests",
    "--max-requests-jitter": "max_requests_jitter", "-t": "timeout", "--timeout": "timeout",
    "--graceful-timeout": "graceful_timeout", "--keep-alive": "keepalive",
    "--limit-request-line": "limit_request_line", "--limit-request-fields": "limit_request_fields",
    "--limit-request-field_size": "limit_request_field_size", "--reload-engine": "reload_engine",
    "--reload-extra-file": "reload_extra_files", "--chdir": "chdir", "-e": "raw_env", "--env": "raw_env",
    "-p": "pidfile", "--pid": "pidfile", "--worker-tmp-dir": "worker_tmp_dir", "-u": "user", "--user": "user",
    "-g": "group", "--group": "group", "-m": "umask", "--umask": "umask",
    "--forwarded-allow-ips": "forwarded_allow_ips", "--forwarder-headers": "forwarder_headers",
    "--access-logfile": "accesslog", "--access-logformat": "access_log_format", "--error-logfile": "errorlog",
    "--log-file": "errorlog", "--log-level": "loglevel", "--logger-class": "logger_class",
    "--log-config": "logconfig", "--log-config-json": "logconfig_json", "--log-syslog-to": "syslog_addr",
    "--log-syslog-prefix": "syslog_prefix", "--log-syslog-facility": "syslog_facility",
    "--statsd-host": "statsd_host", "--statsd-prefix": "statsd_prefix", "--dogstatsd-tags": "dogstatsd_tags",
    "-n": "proc_name", "--name": "proc_name", "--pythonpath": "pythonpath", "--paste": "paste", "--paster": "paste",
    "--paste-global": "raw_paste_global_conf", "--proxy-allow-from": "proxy_allow_ips",
    "--proxy-protocol": "proxy_protocol", "--protocol": "protocol", "--uwsgi-allow-from": "uwsgi_allow_ips",
    "--header-map": "header_map", "--http-parser": "http_parser", "--root-path": "root_path", "-c": "config",
    "--config": "config", "--keyfile": "keyfile", "--certfile": "certfile", "--ssl-version": "ssl_version",
    "--cert-reqs": "cert_reqs", "--ca-certs": "ca_certs", "--ciphers": "ciphers", "--asgi-loop": "asgi_loop",
    "--asgi-lifespan": "asgi_lifespan", "--asgi-disconnect-grace-period": "asgi_disconnect_grace_period",
    "--control-socket": "control_socket", "--control-socket-mode": "control_socket_mode",
    "--websocket-max-message-size": "websocket_max_message_size", "--http-protocols": "http_protocols",
    "--http2-max-concurrent-streams": "http2_max_concurrent_streams",
    "--http2-initial-window-size": "http2_initial_window_size", "--http2-max-frame-size": "http2_max_frame_size",
    "--http2-max-header-list-size": "http2_max_header_list_size", "--http2-cleartext": "http2_cleartext",
    "--dirty-app": "dirty_apps", "--dirty-workers": "dirty_workers", "--dirty-timeout": "dirty_timeout",
    "--dirty-threads": "dirty_threads", "--dirty-graceful-timeout": "dirty_graceful_timeout",
}  # fmt: skip
SWITCHES: dict[str, tuple[str, object]] = {
    "--reload": ("reload", True), "--preload": ("preload_app", True), "--spew": ("spew", True),
    "--no-sendfile": ("sendfile", False), "--reuse-port": ("reuse_port", True), "-D": ("daemon", True),
    "--daemon": ("daemon", True), "--initgroups": ("initgroups", True), "--check-config": ("check_config", True),
    "--print-config": ("print_config", True), "--capture-output": ("capture_output", True),
    "-R": ("enable_stdio_inheritance", True), "--enable-stdio-inheritance": ("enable_stdio_inheritance", True),
    "--log-syslog": ("syslog", True), "--disable-redirect-access-to-syslog":
    ("disable_redirect_access_to_syslog", True), "--strip-header-spaces": ("strip_header_spaces", True),
    "--permit-obsolete-folding": ("permit_obsolete_folding", True),
    "--permit-unconventional-http-method": ("permit_unconventional_http_method", True),
    "--permit-unconventional-http-version": ("permit_unconventional_http_version", True),
    "--casefold-http-method": ("casefold_http_method", True),
    "--do-handshake-on-connect": ("do_handshake_on_connect", True),
    "--suppress-ragged-eofs": ("suppress_ragged_eofs", True), "--no-control-socket": ("control_socket_disable", True),
    "--enable-backlog-metric": ("enable_backlog_metric", True),
}  # fmt: skip
GRAMMAR = Grammar(FLAGS, SWITCHES, bare=("--proxy-protocol",))
REPEATED = ("bind", "raw_env", "reload_extra_files", "raw_paste_global_conf", "dirty_apps")


def read_words(words: list[str]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Settings of a command line or of GUNICORN_CMD_ARGS, the other words, and unknown flags."""
    given, others, unknown = GRAMMAR.read(words)
    values: dict[str, Any] = {}
    for name, value in given:
        if name in REPEATED:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    return values, others, unknown

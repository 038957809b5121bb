"""The options of `forehand.serve` and `forehand.Server`, for editors and type checkers.

Made by `make docs` from the one definition (`settings.py`). Sizes are bytes or a text such as `10M`; times
are seconds or a text such as `500ms`.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Options(TypedDict, total=False):
    """All of them; docs/settings.md says what each is for."""

    chdir: str
    pythonpath: str | list[str]
    app_dir: str | list[str]
    env: str | list[str] | dict[str, Any]
    env_file: str
    env_files: str
    factory: bool
    script_name: str
    root_path: str
    bind: str | list[str]
    host: str
    port: int
    socket_mode: str
    chmod_socket: str
    uds_permissions: str
    socket_user: str
    socket_group: str
    backlog: int
    defer_accept: bool
    tls_cert: str | list[str]
    certfile: str | list[str]
    ssl_certfile: str | list[str]
    ssl_certificate: str | list[str]
    tls_key: str | list[str]
    keyfile: str | list[str]
    ssl_keyfile: str | list[str]
    tls_self_signed: bool
    tls_strict_sni: bool
    tls_min: Literal["1.2", "1.3"]
    tls_ticket_lifetime: float | str
    tls_ticket_keys: str | list[str]
    tls_client_ca: str | list[str]
    tls_client_verify: Literal["required", "optional"]
    tls_client_crl: str | list[str]
    threads: int | Literal["auto"]
    threads_max: int
    lanes: str | list[str] | dict[str, Any]
    route_limits: str | list[str] | dict[str, Any]
    priorities: str | list[str] | dict[str, Any]
    fair_by: str
    request_buffering: bool
    static: str | list[str] | dict[str, Any]
    sendfile: str | list[str] | dict[str, Any]
    server_header: str
    forwarded_allow_ips: str | list[str]
    forwarded_headers: Literal["both", "x-forwarded", "forwarded"]
    proxy_protocol_from: str | list[str]
    proxy_protocol_tls: bool
    gateway_allow: str | list[str]
    url_scheme: Literal["http", "https"]
    access_log: str | bool
    log_format: Literal["text", "json"]
    log_colors: Literal["auto", "on", "off"]
    log_config: str
    log_config_json: str
    log_syslog: bool
    log_syslog_to: str
    log_syslog_facility: str
    log_syslog_prefix: str
    access_log_file: str
    access_logfile: str
    log_level: Literal["debug", "info", "warning", "error", "critical"]
    workers: int | Literal["auto"]
    preload: bool
    preload_app: bool
    reload: bool
    reload_dir: str | list[str]
    reload_dirs: str | list[str]
    reload_include: str | list[str]
    reload_includes: str | list[str]
    reload_exclude: str | list[str]
    reload_excludes: str | list[str]
    reload_strategy: Literal["rolling", "together"]
    readiness: str
    startup_timeout: float | str
    max_requests: int
    limit_max_requests: int
    max_requests_jitter: int
    limit_max_requests_jitter: int
    max_worker_age: float | str
    max_worker_lifetime: float | str
    max_worker_memory: int | str
    worker_memory_kind: Literal["pss", "rss"]
    computing_apart: bool
    shutdown_delay: float | str
    request_timeouts: str | list[str] | dict[str, Any]
    control: str
    control_socket: str
    process_name: str
    name: str
    pid_file: str
    pid: str
    user: str
    group: str
    umask: str
    log_file: str
    error_logfile: str
    log_output: str
    status_bind: str | list[str]
    health_paths: str | list[str]
    status_token_file: str
    metrics_app: bool
    statsd_host: str
    statsd_interval: float | str
    statsd_prefix: str
    dogstatsd_tags: str
    liveness_stall: float | str
    request_id: str | bool
    request_id_header: str | bool
    server_timing: Literal["off", "trusted", "all"]
    trace_endpoint: str | bool
    trace_sample: str
    slow_request: float | str
    slow_requests: str | list[str] | dict[str, Any]
    on_start: str
    on_worker_start: str
    on_worker_ready: str
    on_worker_exit: str
    on_reload: str
    on_stop: str
    http_relax: str | list[str]
    http_refuse: str | list[str]
    worker_class: Literal["thread", "gevent", "sync", "gthread"]
    worker_connections: int
    interface: Literal["auto", "wsgi", "asgi"]
    lifespan: Literal["auto", "on", "off"]
    loop: Literal["auto", "asyncio", "uvloop"]
    limit_request_line_bytes: int | str
    limit_header_bytes: int | str
    limit_header_lines: int
    limit_proxy_header_bytes: int | str
    limit_body_bytes: int | str
    limit_body_memory_bytes: int | str
    limit_bodies_memory_bytes: int | str
    limit_bodies_disk_bytes: int | str
    limit_chunk_extension_bytes: int | str
    limit_trailer_bytes: int | str
    limit_trailer_lines: int
    limit_response_buffer_bytes: int | str
    limit_kept_bytes: int | str
    limit_static_memory_bytes: int | str
    limit_static_file_bytes: int | str
    limit_static_descriptors: int
    static_recheck: float | str
    limit_disk_threads: int
    limit_send_burst_bytes: int | str
    limit_drain_bytes: int | str
    limit_ws_message_bytes: int | str
    ws_max_size: int | str
    limit_ws_fragments: int
    limit_ws_queue: int
    ws_max_queue: int
    limit_ws_queue_bytes: int | str
    limit_connections: int
    limit_cached_heads: int
    limit_cached_head_bytes: int | str
    cached_head_idle: float | str
    limit_cached_names: int
    first_byte_timeout: float | str
    header_timeout: float | str
    keep_alive_timeout: float | str
    keep_alive: float | str
    timeout_keep_alive: float | str
    limit_body_rate: int | str
    body_grace: float | str
    body_idle_timeout: float | str
    write_timeout: float | str
    limit_write_rate: int | str
    ws_ping_interval: float | str
    ws_ping_timeout: float | str
    ws_close_timeout: float | str
    limit_handshakes: int
    handshake_timeout: float | str
    handshake_hold: float | str
    linger_timeout: float | str
    graceful_timeout: float | str
    timeout_graceful_shutdown: float | str
    workers_kill_timeout: float | str
    drain_keep_alive: float | str
    request_timeout: float | str
    timeout: float | str
    request_timeout_grace: float | str
    queue_timeout: float | str
    newest_first_after: float | str
    limit_queue: int
    limit_concurrency: int
    slow_callback_duration: float | str
    limit_slow_callback_places: int
    limit_h2_streams: int
    limit_h2_heads_bytes: int | str
    limit_h2_block_bytes: int | str
    limit_h2_continuations: int
    limit_h2_table_bytes: int | str
    limit_h2_frame_bytes: int | str
    limit_h2_window_bytes: int | str
    limit_h2_connection_window_bytes: int | str
    limit_h2_window_most_bytes: int | str
    limit_h2_control_bytes: int | str
    limit_h2_glitches: int
    limit_h2_glitch_rate: int
    limit_h2_small_frames: int
    h2_settings_timeout: float | str
    h2_goaway_grace: float | str
    error_log_rate: int

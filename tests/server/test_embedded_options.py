"""What `forehand.serve` and `forehand.Server` take and refuse as options, beside those of the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import forehand
import pytest
from embedding import asgi, get, wsgi
from forehand import embedded, settings
from forehand.errors import Problem

pytestmark = pytest.mark.interpreters

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"nosuch": 1}, "'nosuch' is not an option"),
    ({"thread": 1}, "did you mean 'threads'"),
    ({"uds": "/run/shop.sock"}, "uvicorn's --uds is bind = ["),
    ({"proxy_headers": True}, "uvicorn's --proxy-headers is not needed here, leave it out"),
    ({"proxy_headers": False}, "uvicorn's --no-proxy-headers is forwarded_allow_ips = "),
    ({"log_config": None}, "leave it out for the default"),
    ({"log_config": {"version": 1}}, "a dictionary for logging.config.dictConfig in JSON or TOML"),
    ({"threads": 0}, "threads: 0 is not between"),
    ({"reload": True}, "reload has no effect"),
    ({"preload": True}, "preload has no effect"),
    ({"workers": 4}, "workers has no effect"),
    ({"on_start": "nosuch:f"}, "on_start has no effect"),
    ({"control": "/x"}, "control has no effect"),
    ({"readiness": "/x"}, "readiness has no effect"),
    ({"env": ["A=b"]}, "env has no effect"),
    ({"timeout": 3, "request_timeout": 4}, "are the same option"),
    ({"bind": ":1", "port": 2}, "both say where to listen"),
    ({"statsd_prefix": "shop"}, "statsd_prefix has no effect"),
    ({"metrics_app": False}, "metrics_app has no effect"),
    ({"log_syslog_prefix": "shop"}, "log_syslog_prefix has no effect without log_syslog"),
    ({"liveness_stall": 5}, "liveness_stall has no effect without health_paths"),
    ({"socket_mode": "600"}, "socket_mode is about unix sockets"),
    ({"loop": "asyncio"}, "loop is for ASGI applications"),
    ({"limit_concurrency": 5}, "limit_concurrency is for ASGI applications"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[" ".join(options) for options, _ in REFUSED])
def test_what_is_unknown_or_has_no_effect_is_refused(options: dict[str, Any], words: str) -> None:
    for call in (lambda: forehand.Server(wsgi, **options), lambda: forehand.serve(wsgi, **options)):
        with pytest.raises(Problem, match=re.escape(words)):
            call()


def test_what_is_about_threads_is_refused_for_an_asgi_application() -> None:
    for options in ({"threads": 4}, {"lanes": "/x=slow"}, {"limit_queue": 9}, {"request_buffering": False}):
        with pytest.raises(Problem, match=f"{next(iter(options))} is for WSGI applications"):
            forehand.Server(asgi, **options)  # type: ignore[arg-type]
    with forehand.Server(asgi, limit_concurrency=5, ws_ping_interval="1m") as server:
        assert get(server.url) == b"asgi"


#: What `Server` heeds of the table, for either kind of application; the limits of the engine aside.
HEEDED = {
    "script_name", "bind", "host", "port", "socket_mode", "socket_user", "socket_group", "backlog", "defer_accept",
    "tls_cert", "tls_key", "tls_self_signed", "tls_strict_sni", "tls_min", "tls_ticket_lifetime", "tls_ticket_keys",
    "tls_client_ca", "tls_client_verify", "tls_client_crl", "threads", "threads_max", "lanes", "route_limits",
    "priorities", "fair_by", "request_buffering", "static", "sendfile", "server_header", "forwarded_allow_ips",
    "forwarded_headers", "proxy_protocol_from", "proxy_protocol_tls", "gateway_allow", "url_scheme", "access_log",
    "log_format", "log_colors", "log_config", "log_syslog", "log_syslog_to", "log_syslog_facility",
    "log_syslog_prefix", "access_log_file", "log_level", "request_timeouts", "health_paths", "liveness_stall",
    "request_id", "http_relax", "http_refuse", "interface", "lifespan", "loop",
}  # fmt: skip
#: What `serve` has for an application object, beside that.
OF_SERVE = {"worker_class", "worker_connections"}


def test_each_option_is_heeded_or_refused() -> None:
    table, refused = set(settings.OPTIONS), set(embedded.COMMAND_ONLY)
    assert len(embedded.COMMAND_ONLY) == len(refused) and not refused & (HEEDED | OF_SERVE)
    limits = {option.name for option in settings.LIMITS.values()} - refused
    assert table - refused - limits == HEEDED | OF_SERVE, "a new option: does `Server` heed it?"


def test_a_text_stands_for_a_list_as_on_the_command_line(tmp_path: Path) -> None:
    addresses = f"127.0.0.1:0,unix:{tmp_path}/s"
    with forehand.Server(wsgi, bind=addresses, http_relax="obs-fold,trace", health_paths="/livez,/readyz") as server:
        assert len(server.urls) == 2 and server.urls[1] == f"unix:{tmp_path}/s"
        assert get(server.url + "/readyz") == b"ok\n"
    found = embedded.settings_of({"env": "A=b,c", "static": f"/s={tmp_path}"}, "here")
    assert (found["env"], found["static"]) == (["A=b,c"], [f"/s={tmp_path}"])


def test_tables_stand_for_pairs() -> None:
    with forehand.Server(wsgi, request_timeouts={"/slow": 3}, lanes={"/x": "slow"}, route_limits={"/y": 2}) as server:
        assert get(server.url) == b"wsgi"


def test_aliases_are_understood() -> None:
    with forehand.Server(wsgi, root_path="/x", timeout=30, limit_body_bytes="10M", host="localhost", port=0) as server:
        assert get(server.url + "/x/") == b"wsgi"

"""A real Prometheus server scrapes while workers are killed, reloaded, upgraded and recycled: no counter is ever reset,
and what it has counted is what clients got."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from crowd import Crowd, died_inside, ready
from scraper import PROGRAM, Prometheus, last, status_address
from serving import Serving
from shared import settled, statistics

Serve = Callable[..., Serving]
COUNT = f"sum({last('http_server_request_duration_seconds_count')})"
#: Everything that only grows, over all that was scraped.
GROWING = '{metric=~".+_(total|count|sum|bucket)"}[1h]'
REPLACED = last('forehand_reloads_total{outcome="done"}')
KILLED = last('forehand_worker_exits_total{reason="signal:SIGKILL"}')
RECYCLED = "sum(" + last('forehand_worker_exits_total{reason=~"max.requests"}') + ")"
DIED_INSIDE = last("forehand_requests_died_inside_total")
COUNTED_AS_DEAD = "sum(" + last('http_server_request_duration_seconds_count{error_type="worker_died"}') + ")"


def kill_a_worker(server: Serving, prometheus: Prometheus) -> None:
    killed = max(0, prometheus.number(KILLED))
    os.kill(server.until(lambda: ready(server))[0], signal.SIGKILL)
    prometheus.until(lambda: prometheus.number(KILLED) == killed + 1)


def replace_all(server: Serving, prometheus: Prometheus, order: str) -> None:
    done = prometheus.number(REPLACED)
    assert server.order(order)[0] == 0
    prometheus.until(lambda: prometheus.number(REPLACED) == done + 1)


@pytest.mark.skipif(PROGRAM is None, reason="no prometheus here (Debian's package prometheus)")
def test_no_counter_is_reset_by_kills_a_reload_an_upgrade_or_recycling(serve: Serve, tmp_path: Path) -> None:
    options = ("--threads", "4", "--max-requests", "400", "--status-bind", "127.0.0.1:0")
    server = serve("phases:application", "--workers", "3", *options)
    with Prometheus(tmp_path, status_address(server)) as prometheus:
        prometheus.scrapes()
        with Crowd(server, 6) as crowd:
            for step in ("kill", "reload", "kill", "upgrade", "kill"):
                # Each begins when Prometheus has seen what came before it.
                wanted = len(crowd.replied) + 200
                prometheus.until(lambda wanted=wanted: prometheus.number(COUNT) > wanted)
                if step == "kill":
                    kill_a_worker(server, prometheus)
                else:
                    replace_all(server, prometheus, step)
            prometheus.until(lambda: prometheus.number(RECYCLED) >= 3)
        named = died_inside(server)
        found = settled(server, statistics(server), len(crowd.replied | named))
        prometheus.until(lambda: prometheus.number(COUNT) == found["requests"])
        assert prometheus.number(DIED_INSIDE) == len(named)
        assert max(0, prometheus.number(COUNTED_AS_DEAD)) == len(named)
        resets = prometheus.ask(f"resets({GROWING})")
        assert len(resets) > 200, "every family and bucket is a series"
        assert [one for one in resets if one[1] != 0] == []

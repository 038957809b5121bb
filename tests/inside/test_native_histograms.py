"""Prometheus' own messages, which have native histograms: a server that wants them reads what the text says, and finer
quantiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families as families_of
from scraper import PROGRAM, Prometheus, last, status_address
from serving import PATIENCE, Serving
from shared import Samples, settled, statistics

Serve = Callable[..., Serving]
#: Families with finer buckets: of them Prometheus keeps those, and not the others.
FINE = ("forehand_request_seconds", "forehand_request_phase_seconds")
#: What changes though nobody asks.
RESTLESS = {
    "forehand_looks_total", "forehand_listen_overflows_total", "forehand_pressure_stalled_seconds_total",
    "forehand_cgroup_memory_bytes", "forehand_cgroup_cpu_throttled_seconds_total",
    "forehand_cgroup_cpu_throttled_periods_total",
}  # fmt: skip
VIEWS = {
    "phases": ["/quick", "/fail", "/missing", "/sleep/0.004", "/sleep/0.03", "/sleep/0.03", "/sleep/0.3"],
    "counting": ["/1", "/2", "/3", "/30"],
}


def view(server: Serving, path: str) -> None:
    server.raw(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())


def page(server: Serving, path: str) -> str:
    """What the status endpoint says to who does not say what it likes."""
    with urlopen(f"http://{status_address(server)}{path}", timeout=PATIENCE) as reply:
        return str(reply.read(), "utf-8")


def read_by(prometheus: Prometheus, server: Serving) -> Samples:
    """All that it has of a server, by names and the labels that the server gives."""
    samples = {}
    every = last(f'{{instance="{status_address(server)}", metric=~".+"}}')
    for labels, value in prometheus.ask(every):
        own = frozenset(labels.items() - {(name, labels[name]) for name in ("__name__", "job", "instance", "metric")})
        samples[(labels["__name__"], own)] = value
    return samples


def said_in_text(server: Serving) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families_of(page(server, "/metrics"))
        for sample in family.samples
    }


@pytest.mark.skipif(PROGRAM is None, reason="no prometheus here (Debian's package prometheus)")
def test_prometheus_reads_in_messages_what_the_text_says(serve: Serve, tmp_path: Path) -> None:
    options = ("--workers", "2", "--status-bind", "127.0.0.1:0")
    servers = {name: serve(f"{name}:application", *options) for name in VIEWS}
    for name, server in servers.items():
        for path in VIEWS[name]:
            view(server, path)
        settled(server, statistics(server), len(VIEWS[name]))
    with Prometheus(tmp_path, *map(status_address, servers.values()), native=True) as prometheus:
        prometheus.scrapes()
        for server in servers.values():
            is_the_same(read_by(prometheus, server), said_in_text(server))
        has_native_histograms(prometheus, servers["phases"])


def is_the_same(read: Samples, said: Samples) -> None:
    fine = {key for key in said if key[0].startswith(FINE)}
    assert {key[0] for key in read if key[0].startswith(FINE)} == set(FINE), "these are native"
    classic = {key for key in read if key[0] not in FINE}
    assert classic == said.keys() - fine
    assert {key[0] for key in classic if read[key] != said[key]} <= RESTLESS


def has_native_histograms(prometheus: Prometheus, server: Serving) -> None:
    said, instance = said_in_text(server), f'instance="{status_address(server)}"'
    # Counts and sums are those of classic ones.
    for family, phase in ((FINE[0], {}), *((FINE[1], {"phase": phase}) for phase in ("app", "queue", "upstream"))):
        labels = ",".join([instance, *(f'{name}="{value}"' for name, value in phase.items())])
        for part in ("count", "sum"):
            wanted = said[(f"{family}_{part}", frozenset(phase.items()))]
            found = prometheus.comes(f"histogram_{part}({family}{{{labels}}})")
            assert found == pytest.approx(wanted), (family, phase, part)
    exactly = json.loads(page(server, "/status.json"))["phases"]["total"]
    for share, name in ((0.5, "p50"), (0.95, "p95")):
        # Both know the bucket, and no more.
        native = prometheus.comes(f"histogram_quantile({share}, {FINE[0]}{{{instance}}})")
        assert native == pytest.approx(exactly[name], rel=0.05), name

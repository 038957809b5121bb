"""Buckets of durations name a request that stands for the others, where requests have names."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from serving import Serving, read_reply
from shared import GET, OPEN, Watched, settled, statistics, told

Serve = Callable[..., Serving]
DURATION = "http_server_request_duration_seconds"


def ask(watched: Watched, path: str, name: str) -> int:
    with watched.server.connect() as sock:
        sock.sendall(GET.format(path, "a", f"X-Request-ID: {name}\r\n").encode())
        return read_reply(sock, bytearray())[0]


def exemplars(watched: Watched) -> dict[str, tuple[Any, dict[str, str]]]:
    """By the requests' names: the exemplar, and the labels of its bucket."""
    return {exemplar.labels["request_id"]: (exemplar, labels) for exemplar, labels in all_of(watched)}


def all_of(watched: Watched) -> list[tuple[Any, dict[str, str]]]:
    """All exemplars, with the labels of their buckets."""
    samples = [one for family in open_metrics(watched.ask("/metrics", OPEN)[1]) for one in family.samples]
    found = [one for one in samples if one.exemplar is not None]
    assert all(one.name == f"{DURATION}_bucket" for one in found)
    return [(one.exemplar, one.labels) for one in found]


def test_a_name_is_told_whole_and_one_that_is_too_long_for_an_exemplar_in_lists_alone(
    serve: Serve, tmp_path: Path
) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--request-id", "--slow-request", "0.2")
    names = ["0f8fad5b-d9cb-469f-a165-70867728950e", "x" * 118, "y" * 119, "z" * 128]
    for name in names:
        # Each in a bucket of its own.
        assert ask(watched, "/fail" if name[0] == "x" else "/sleep/0.3", name) in (200, 500)
        settled(watched.server, statistics(watched.server), names.index(name) + 1)
        assert told(watched.server, "--last", "1")[0]["id"] == name
        assert set(exemplars(watched)) <= {name for name in names if len(name) <= 118}
    assert set(exemplars(watched)) == set(names[:2])


def test_a_slow_and_a_failed_request_are_named_in_their_buckets(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--request-id", "--slow-request", "0.2")
    assert ask(watched, "/sleep/0.3", "slow") == 200
    assert ask(watched, "/fail", "failed") == 500
    settled(watched.server, statistics(watched.server), 2)
    found = exemplars(watched)
    assert {"slow", "failed"} <= found.keys()
    exemplar, labels = found["slow"]
    assert (labels["http_response_status_code"], "error_type" in labels) == ("200", False)
    # The parser has seen that no exemplar is longer than its bucket.
    assert 0.299 <= exemplar.value <= float(labels["le"]) and float(labels["le"]) >= 0.5
    assert found["failed"][1]["http_response_status_code"] == "500"
    # The other format has no place for them, and those who read it must not meet one.
    assert "request_id" not in watched.ask("/metrics")[1]


def test_the_newest_stands_for_its_bucket_also_when_its_worker_is_dead(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1", "--request-id", target="phases:application")
    for name in ("first", "second"):
        assert ask(watched, "/fail", name) == 500
    settled(watched.server, statistics(watched.server), 2)
    buckets = {labels["le"]: name for name, (_, labels) in exemplars(watched).items()}
    newest = exemplars(watched)["second"][1]
    assert buckets[newest["le"]] == "second"
    worker = watched.server.status()["workers"][0]["pid"]
    os.kill(worker, signal.SIGKILL)
    ended = "forehand_worker_exits_total", frozenset({("reason", "signal:SIGKILL")})
    watched.server.until(lambda: watched.samples().get(ended) == 1)
    assert exemplars(watched)["second"][1] == newest


def test_a_request_that_is_recorded_is_named_by_its_trace_first_and_by_its_name_where_that_fits(
    serve: Serve, tmp_path: Path
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    # Nobody listens there.
    options = ("--trace-endpoint", "http://127.0.0.1:9", "--access-log", "json")
    for names in (("x" * 55, "y" * 56), ("",)):
        watched = Watched(serve, tmp_path, "--workers", "1", *options, *(["--request-id"] if names[0] else []))
        for number, name in enumerate(names):
            # Each in a bucket of its own.
            assert ask(watched, "/sleep/0.3" if number else "/fail", name) in (200, 500)
            settled(watched.server, statistics(watched.server), number + 1)
            trace = re.compile(r'"trace_id":"(\w{32})","span_id":"(\w{16})"')
            found = watched.server.until(lambda: trace.findall(watched.server.log())[number:])  # noqa: B023
            wanted = {"trace_id": found[0][0], "span_id": found[0][1]}
            if len(name) == 55:
                wanted["request_id"] = name
            assert [one.labels for one, _ in all_of(watched) if one.labels["trace_id"] == found[0][0]] == [wanted]
        watched.server.stop()


def test_requests_without_names_are_no_exemplars(serve: Serve, tmp_path: Path) -> None:
    watched = Watched(serve, tmp_path, "--workers", "1")
    assert ask(watched, "/fail", "ignored") == 500
    settled(watched.server, statistics(watched.server), 1)
    assert exemplars(watched) == {}

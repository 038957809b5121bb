"""`--trace-endpoint`: spans of requests, as a collector has them that was written by others."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from collector import Collected, Collector, env
from serving import HERE, PATIENCE, PYTHON, Serving, read_reply
from shared import settled, statistics

pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")

Serve = Callable[..., Serving]
DRIVERS = {"threads": ("traced:application",), "asyncio": ("traced:app", "--interface", "asgi")}
if importlib.util.find_spec("gevent"):
    DRIVERS["gevent"] = ("traced:application", "--worker-class", "gevent")
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER, ERROR = 2, 2


@pytest.fixture
def collector() -> Iterator[Collector]:
    one = Collector()
    yield one
    one.close()


def ask(server: Serving, path: str, *fields: str, method: str = "GET") -> tuple[int, str]:
    lines = "".join(f"{field}\r\n" for field in fields)
    with server.connect() as sock:
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
        status, _, body = read_reply(sock, bytearray())
    return status, body.decode()


def one(server: Serving, collector: Collector, path: str) -> Collected:
    """The span of a path, once it has come."""
    found: list[Collected] = server.until(lambda: collector.of(path))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_span_says_which_request_it_was_and_where_its_time_went(
    serve: Serve, collector: Collector, driver: str
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--trace-endpoint", collector.url, "--status-bind",
                   "127.0.0.1:0", env=env())  # fmt: skip
    asked = time.time_ns()
    status, told = ask(server, "/sleep/0.05?secret=1")
    assert status == 200
    span = one(server, collector, "/sleep/0.05")
    known = span.attributes
    # Clocks that are compared ten times a second may be apart by some microseconds. And who has looked at the kernel,
    # and then waits for the interpreter, finds what has come meanwhile: all of that wait is told.
    begins, waits = span.span.start_time_unix_nano, round(1e9 * known.get("forehand.gil_seconds", 0))
    assert asked - 1_000_000 <= begins + waits <= span.span.end_time_unix_nano <= time.time_ns()
    assert collector.paths == {"/v1/traces"}
    assert (span.name, span.span.kind, span.parent) == ("GET /sleep/{seconds}", SERVER, "")
    assert told == f"00-{span.trace}-{span.id}-01", "the application's spans are children of this one"
    assert known["http.request.method"] == "GET" and known["http.route"] == "/sleep/{seconds}"
    assert (known["http.response.status_code"], known["url.scheme"]) == (200, "http")
    assert known["network.protocol.version"] == "1.1" and "error.type" not in known
    assert "secret" not in str(span.span)
    assert span.resource["service.name"] == "traced" and span.scope == "forehand"
    took = (span.span.end_time_unix_nano - span.span.start_time_unix_nano) / 1e9
    assert 0.049 <= known["forehand.app_seconds"] <= took < PATIENCE
    phases = [known.get(f"forehand.{name}_seconds", 0) for name in ("receive", "gil", "queue", "app", "send")]
    assert abs(sum(phases) - took) < 1e-6
    begun, replied = span.events["app"], span.events["send"]
    assert span.span.start_time_unix_nano <= span.events["complete"] <= begun
    # Timers of event loops come up to a millisecond early.
    assert begun + 49_000_000 <= replied <= span.span.end_time_unix_nano
    unsampled = f"00-{TRACE}-{SPAN}-00"
    assert ask(server, "/unsampled", f"traceparent: {unsampled}")[1] == unsampled, "its sender has decided otherwise"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_trusted_proxy_s_trace_is_continued_and_its_word_on_sampling_heeded(
    serve: Serve, collector: Collector, driver: str
) -> None:
    server = serve(*DRIVERS[driver], "--workers", "1", "--trace-endpoint", collector.url, "--trace-sample", "0",
                   env=env())  # fmt: skip
    assert ask(server, "/mine")[1] == "none", "of what is not recorded nobody has to be told"
    unsampled = f"00-{TRACE}-{SPAN}-00"
    assert ask(server, "/unsampled", f"traceparent: {unsampled}")[1] == unsampled
    told = ask(server, "/sampled", f"Traceparent: 00-{TRACE}-{SPAN}-01")[1]
    span = one(server, collector, "/sampled")
    assert (span.trace, span.parent) == (TRACE, SPAN)
    assert told == f"00-{TRACE}-{span.id}-01" and span.id != SPAN
    assert server.stop() == 0
    assert [found.attributes["url.path"] for found in collector.spans] == ["/sampled"]


def test_a_stranger_s_trace_is_linked_and_its_word_not_heeded(serve: Serve, collector: Collector) -> None:
    options = ("--forwarded-allow-ips", "", "--trace-endpoint", collector.url)
    server = serve("traced:application", "--workers", "1", *options, env=env())
    told = ask(server, "/stranger", f"traceparent: 00-{TRACE}-{SPAN}-00")[1]
    span = one(server, collector, "/stranger")
    assert told == f"00-{span.trace}-{span.id}-01" and span.trace != TRACE and span.parent == ""
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.span.links] == [(TRACE, SPAN)]
    server = serve("traced:application", "--workers", "1", *options, "--trace-sample", "0", env=env())
    told = ask(server, "/unpaid", f"traceparent: 00-{TRACE}-{SPAN}-01")[1]
    assert TRACE not in told and told.endswith("-00"), "nor has it the application record anything"


@pytest.mark.parametrize(
    "given", [f"00-{TRACE.upper()}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01"]
)
def test_what_is_no_traceparent_begins_a_new_trace(serve: Serve, collector: Collector, given: str) -> None:
    server = serve("traced:application", "--workers", "1", "--trace-endpoint", collector.url, env=env())
    told = ask(server, "/odd", f"traceparent: {given}")[1]
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", told) and TRACE not in told


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("whose", ["a proxy's", "a stranger's", "none"])
def test_what_is_said_of_a_trace_goes_with_it_and_with_no_other(
    serve: Serve, collector: Collector, driver: str, whose: str
) -> None:
    trusted = "" if whose == "a stranger's" else "*"
    server = serve(*DRIVERS[driver], "--workers", "1", "--forwarded-allow-ips", trusted, "--trace-endpoint",
                   collector.url, env=env())  # fmt: skip
    given = f"00-{TRACE}-{SPAN}-01" if whose != "none" else f"ff-{TRACE}-{SPAN}-01"
    known = ask(server, "/state", f"traceparent: {given}", "TraceState: shop=1", "tracestate: b=2")[1]
    if whose == "a proxy's":
        assert known in ("shop=1,b=2", "shop=1, b=2", "shop=1 b=2")
        assert one(server, collector, "/state").span.trace_state == "shop=1,b=2"
    else:
        assert known == "none", "its trace begins here"
        assert one(server, collector, "/state").span.trace_state == ""
        assert ask(server, "/state", "tracestate: a=1")[1] == "none"


def test_what_is_no_tracestate_is_not_sent_and_its_span_is(serve: Serve, collector: Collector) -> None:
    server = serve("traced:application", "--workers", "1", "--trace-endpoint", collector.url, env=env())
    given = (f"traceparent: 00-{TRACE}-{SPAN}-01", "tracestate: Shop=1, =,;")
    ask(server, "/odd", *given)
    long = f"long={'y' * 256}"
    ask(server, "/long", given[0], f"tracestate: {long}, {long.upper()}, b=2")
    assert one(server, collector, "/odd").span.trace_state == ""
    assert one(server, collector, "/long").span.trace_state == f"{long},b=2", "what does not fit is left out"


def test_failures_are_errors_and_named_as_the_metrics_name_them(serve: Serve, collector: Collector) -> None:
    options = ("--request-timeout", "1", "--request-id", "--access-log", "json")
    server = serve("traced:application", "--workers", "1", *options, "--trace-endpoint", collector.url, env=env())
    assert ask(server, "/fail")[0] == 500
    assert ask(server, "/sleep/2")[0] == 504
    server.raw(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n")
    failed, late = one(server, collector, "/fail"), one(server, collector, "/sleep/2")
    short = one(server, collector, "/short")
    assert (failed.span.status.code, failed.attributes["error.type"]) == (ERROR, "500")
    assert (late.span.status.code, late.attributes["error.type"]) == (ERROR, "timeout")
    assert (short.span.status.code, short.attributes["error.type"]) == (ERROR, "cut_off"), "whatever its status"
    assert failed.attributes["forehand.request_id"] == failed.trace, "one name for both, where nobody gives another"
    server.says(f'"trace_id":"{failed.trace}","span_id":"{failed.id}"')


def test_a_name_that_was_given_is_an_attribute_and_a_request_without_has_its_trace_s(
    serve: Serve, collector: Collector
) -> None:
    given = "0f8fad5b-d9cb-469f-a165-70867728950e/checkout.eu-west-1+a"
    server = serve("traced:application", "--workers", "1", "--request-id", "--trace-endpoint", collector.url, env=env())
    ask(server, "/given", f"X-Request-ID: {given}")
    ask(server, "/own")
    ask(server, "/sent", f"traceparent: 00-{TRACE}-{SPAN}-01")
    named, own, sent = (one(server, collector, path) for path in ("/given", "/own", "/sent"))
    assert named.attributes["forehand.request_id"] == given
    assert own.attributes["forehand.request_id"] == own.trace
    assert (sent.attributes["forehand.request_id"], sent.trace) == (TRACE, TRACE)


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_name_and_a_span_ask_nothing_of_the_kernel(serve: Serve, collector: Collector, tmp_path: Path) -> None:
    server = serve("traced:application", "--workers", "1", "--request-id", "--trace-endpoint", collector.url, env=env())
    with server.connect() as sock:
        buffer = bytearray()

        def asks(count: int) -> None:
            for _ in range(count):
                sock.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
                assert read_reply(sock, buffer)[0] == 200

        asks(3)
        worker, log = server.workers[0], tmp_path / "calls"
        calls = "trace=getpid,gettid,getrandom,clock_gettime,sendto"
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", str(log), "-e", calls, "-p", str(worker)])
        tasks = [task / "status" for task in Path(f"/proc/{worker}/task").iterdir()]
        server.until(lambda: tracer.poll() is not None or all("TracerPid:\t0" not in one.read_text() for one in tasks))
        if tracer.poll() is not None:
            pytest.skip("strace cannot look at another process here")
        asks(20)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(PATIENCE)
    names = re.findall(r"\b(\w+)\(", log.read_text())
    assert names.count("sendto") >= 20, "it has seen the replies"
    assert not {"getpid", "gettid", "getrandom"} & set(names), names


def test_a_share_is_recorded_and_all_of_those_arrive(serve: Serve, collector: Collector) -> None:
    variables = env(OTEL_TRACES_EXPORTER="otlp", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
                    OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0.25",
                    OTEL_SERVICE_NAME="the shop", OTEL_EXPORTER_OTLP_HEADERS="x-key=abc",
                    OTEL_EXPORTER_OTLP_COMPRESSION="gzip")  # fmt: skip
    server = serve("traced:application", "--workers", "2", env=variables)
    told = []
    with server.connect() as sock:
        buffer = bytearray()
        for _ in range(400):
            sock.sendall(b"GET /share HTTP/1.1\r\nHost: a\r\n\r\n")
            told.append(read_reply(sock, buffer)[2].decode())
    recorded = {one.split("-")[1] for one in told if one != "none"}
    assert 50 <= len(recorded) <= 150
    server.until(lambda: {span.trace for span in collector.spans} == recorded)
    assert {span.resource["service.name"] for span in collector.spans} == {"the shop"}
    assert {fields.get("x-key") for fields in collector.fields} == {"abc"}
    assert {fields.get("content-encoding") for fields in collector.fields} == {"gzip"}


def test_spans_of_a_worker_that_was_killed_and_of_a_reload_and_an_upgrade_arrive(
    serve: Serve, collector: Collector
) -> None:
    server = serve("traced:application", "--workers", "1", "--trace-endpoint", collector.url, env=env())
    ask(server, "/first")
    # A reply is with its client before its request has ended.
    settled(server, statistics(server), 1)
    old = server.workers[0]
    # What it has left is in no process of its own.
    os.kill(old, signal.SIGKILL)
    one(server, collector, "/first")
    server.until(
        lambda: [one["pid"] for one in server.status()["workers"] if one["state"] == "ready"] not in ([], [old])
    )
    for number, order in enumerate(("reload", "upgrade")):
        ask(server, f"/before{number}")
        status, said = server.order(order)
        assert status == 0, said
        ask(server, f"/behind{number}")
        one(server, collector, f"/before{number}")
        one(server, collector, f"/behind{number}")
    assert server.stop() == 0


def test_what_is_left_at_a_stop_is_sent(serve: Serve, collector: Collector) -> None:
    server = serve("traced:application", "--workers", "1", "--trace-endpoint", collector.url, env=env())
    ask(server, "/first")
    one(server, collector, "/first")
    ask(server, "/last")
    assert server.stop() == 0
    assert len(collector.of("/last")) == 1


def exporter(server: Serving) -> int:
    """The process that exports, or zero."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    names = {int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
    return next((pid for pid, name in names.items() if name == "forehand-traces"), 0)


def test_the_process_that_exports_comes_back_and_takes_what_waits(serve: Serve, collector: Collector) -> None:
    server = serve("traced:application", "--workers", "1", "--trace-endpoint", collector.url, env=env())
    first: int = server.until(lambda: exporter(server))
    ask(server, "/a")
    one(server, collector, "/a")
    os.kill(first, signal.SIGKILL)
    ask(server, "/b")
    one(server, collector, "/b")
    assert exporter(server) != first
    server.says("the process that exports traces has ended")
    gone = exporter(server)
    server.kill()
    server.until(lambda: not Path(f"/proc/{gone}").exists())


def test_a_collector_that_refuses_costs_spans_and_nothing_else(serve: Serve) -> None:
    refusing = Collector(status=400)
    try:
        server = serve("traced:application", "--workers", "1", "--trace-endpoint", refusing.url, env=env())
        for _ in range(3):
            assert ask(server, "/x")[0] == 200
        server.says("spans were not taken by the collector, and are lost" if len(refusing.fields) != 1 else "lost")
        assert server.stop() == 0
    finally:
        refusing.close()


def test_what_finds_no_room_is_dropped_and_counted(serve: Serve, collector: Collector, tmp_path: Path) -> None:
    """While nobody takes spans out, a worker keeps 1,024 of them."""
    options = ("--workers", "1", "--status-bind", f"unix:{tmp_path}/status", "--trace-endpoint", collector.url)
    server = serve("traced:application", *options, env=env())
    assert ask(server, "/first")[0] == 200
    one(server, collector, "/first")
    pid = exporter(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        with server.connect() as sock:
            buffer = bytearray()
            for _ in range(1030):
                sock.sendall(b"GET /many HTTP/1.1\r\nHost: a\r\n\r\n")
                assert read_reply(sock, buffer)[0] == 200
        asked = ["curl", "-s", "--unix-socket", f"{tmp_path}/status", "http://localhost/metrics"]

        def metrics() -> dict[str, Any]:
            text = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
            return {name: float(value) for name, value in re.findall(r"^(forehand_trace\w+) (\d+)$", text, re.M)}

        expected = {"forehand_trace_spans_total": 1025.0, "forehand_trace_spans_dropped_total": 6.0}
        server.until(lambda: metrics() == expected)
    finally:
        os.kill(pid, signal.SIGCONT)
    server.until(lambda: len(collector.spans) == 1025)
    server.says("6 spans were dropped")


def test_without_it_nothing_is_traced_and_the_header_is_like_any_other(serve: Serve) -> None:
    server = serve("traced:application", "--workers", "1", env=env())
    given = f"00-{TRACE}-{SPAN}-01"
    assert ask(server, "/x", f"traceparent: {given}")[1] == given
    assert not exporter(server)


def test_what_cannot_be_meant_is_refused() -> None:
    for options, words in [
        (("--trace-endpoint", "collector:4318"), "is not http://HOST:PORT"),
        (("--trace-endpoint", "http://a", "--trace-sample", "1.5"), "is not a number from 0 to 1"),
        (("--trace-endpoint", "http://a", "--workers", "0"), "is about workers"),
    ]:
        with pytest.raises(AssertionError, match=words):
            Serving("traced:application", *options, env=env())


def test_a_plan_follows_opentelemetry_s_variables() -> None:
    from forehand.tracing_options import plan, sampler

    for named, share, expected in [
        ("", "0.5", (1.0, True)),
        ("always_off", "", (0.0, False)),
        ("traceidratio", "0.5", (0.5, False)),
        ("parentbased_traceidratio", "0.01", (0.01, True)),
        ("parentbased_traceidratio", "2", (1.0, True)),
        ("parentbased_traceidratio", "half", (1.0, True)),
        ("xray", "0.5", (1.0, True)),
    ]:
        assert sampler({"OTEL_TRACES_SAMPLER": named, "OTEL_TRACES_SAMPLER_ARG": share}) == expected, named
    off = {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}
    assert plan("http://a", "", off) is None
    found = plan("env", "0.1", {"OTEL_TRACES_SAMPLER": "always_on"})
    assert found == {"endpoint": "", "ratio": 0.1, "by_parent": True}
    assert json.dumps(found)


@pytest.mark.parametrize(
    ("variables", "options", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, (), "_OTLP_PROTOCOL=grpc: spans are sent by http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, (), ""),
        ({"OTEL_TRACES_SAMPLER": "nonsense"}, (), "SAMPLER=nonsense is not known here: parentbased_always_on"),
        ({"OTEL_TRACES_SAMPLER": "nonsense"}, ("--trace-sample", "1"), ""),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "5"}, (),
         "OTEL_TRACES_SAMPLER_ARG=5 is no number from 0 to 1: every trace"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, (), ""),
        ({}, (), ""),
    ],
)  # fmt: skip
def test_variables_that_ask_for_what_is_not_done_are_told_with_what_is_done(
    variables: dict[str, str], options: tuple[str, ...], said: str
) -> None:
    known = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    for traced in (("--trace-endpoint", "http://127.0.0.1:4318"), ()):
        command = [PYTHON, "-m", "forehand", "traced:application", "--check", *traced, *(options if traced else ())]
        done = subprocess.run(command, cwd=HERE / "apps", env={**known, **variables}, capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        warned = [line for line in done.stderr.splitlines() if "warning" in line]
        assert len(warned) == (1 if said and traced else 0), done.stderr
        assert not warned or said in warned[0]

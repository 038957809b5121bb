"""Sends what workers have recorded of requests, with OpenTelemetry's own SDK: its exporter has the ways to a collector,
its retries, its compression and every OTEL_EXPORTER_OTLP_* variable.

Knows: OpenTelemetry's names for an HTTP server. Does not know: sampling, which workers have done. A process of its own,
the only one that holds the SDK: workers are not slower by a collector that is, and fork as they like.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import time
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from forehand import __version__, _core, errors
from forehand.supervisor import log

#: How often rings are looked at that were empty, in seconds: a fifth of the time in which a busy worker fills one.
EVERY = 0.1
#: Spans in one request to the collector, as the SDK's own batches have at most.
BATCH = 512
#: The same complaint is written so often at most, in seconds.
COMPLAINS_EVERY = 60.0
#: Methods that OpenTelemetry knows; others are `_OTHER` there, so that nobody makes names of spans.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"})
VERSIONS = {10: "1.0", 11: "1.1", 20: "2"}
#: Where a request spends its time, in the order in which it does; `cpu` and `off` are parts of `app`.
PHASES = ("receive", "gil", "queue", "app", "cpu", "off", "send")
#: What begins with an event of its own, and which phases come before it.
EVENTS = (("complete", PHASES[:1]), ("app", PHASES[:3]), ("send", PHASES[:4]))
#: How replies end that had begun and are not completed.
CUT = ("cut_off", "timeout")
RECORDED = TraceFlags(TraceFlags.SAMPLED)


def run(fd: int, stopping: int, settings: dict[str, Any]) -> int:
    """Export what is left in the rings behind `fd`, until `stopping` can be read; the exit status."""
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    exporter = OTLPSpanExporter(endpoint=_endpoint(settings["tracing"]["endpoint"]))
    spans = Spans(settings)
    # Two readers would take the same: one that was there before sends what it has, and lets go.
    own = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    fcntl.flock(own, fcntl.LOCK_EX)
    rings = _core.Spans(own)
    over, dropped = False, rings.dropped()
    while True:
        found = rings.take(BATCH)
        for at in range(0, len(found), BATCH):
            batch = [spans.made(one) for one in found[at : at + BATCH]]
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                complaints.say(f"{len(batch)} spans were not taken by the collector, and are lost")
        if rings.dropped() > dropped:
            complaints.say(f"{rings.dropped() - dropped} spans were dropped, as those before them were not sent yet")
            dropped = rings.dropped()
        if not found and over:
            break
        if not found:
            over = bool(select.select([stopping], [], [], EVERY)[0])
    return errors.OK


def _endpoint(given: str) -> str | None:
    """Where spans go; None: as the variables say. A base becomes the URL of traces, as theirs does."""
    if not given:
        return None
    _, _, path = given.removeprefix("https://").removeprefix("http://").partition("/")
    return given if path else f"{given.rstrip('/')}/v1/traces"


class Complaints(logging.Handler):
    """What the SDK and this process have to say, in the server's log: each matter now and then."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """One of the SDK's."""
        self.say(record.getMessage(), str(record.msg))

    def say(self, text: str, matter: str = "") -> None:
        """Say it, unless the same was said a moment ago."""
        now = time.monotonic()
        matter = matter or text.lstrip("0123456789")
        if now - self.said.get(matter, -COMPLAINS_EVERY) >= COMPLAINS_EVERY:
            self.said[matter] = now
            log.write("warning", f"traces: {text}")


class Spans:
    """Makes OpenTelemetry's spans of what workers have recorded."""

    def __init__(self, settings: dict[str, Any]) -> None:
        own = {"service.name": settings["process_name"] or settings["target"].partition(":")[0]}
        known = os.environ
        named = known.get("OTEL_SERVICE_NAME") or "service.name=" in known.get("OTEL_RESOURCE_ATTRIBUTES", "")
        self.resource = Resource.create({} if named else own)
        self.scope = InstrumentationScope("forehand", __version__)

    def made(self, one: dict[str, Any]) -> ReadableSpan:
        """A request's span."""
        began, phases = one["began"], one["phases"]
        method = one["method"] if one["method"] in METHODS else "_OTHER"
        shown = "HTTP" if method == "_OTHER" else method
        trace, parent = one["trace"], one["parent"]
        state = TraceState.from_header([one["state"]]) if one["state"] else None
        sender = SpanContext(trace, parent, True, RECORDED, state) if parent else None
        links = []
        if one["link"] is not None:
            stranger, span = one["link"]
            links.append(Link(SpanContext(stranger, span, is_remote=True), {"forehand.untrusted": True}))
        error = one["error"]
        # A reply may have begun as if nothing would be wrong.
        failed = one["status"] >= 500 or error in CUT or (one["status"] == 0 and error not in ("", "client_gone"))
        return ReadableSpan(
            f"{shown} {one['route']}" if one["route"] else shown,
            context=SpanContext(trace, one["span"], False, RECORDED, state),
            parent=sender,
            resource=self.resource,
            attributes=_attributes(one, method, phases),
            events=_events(began, phases),
            links=links,
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=began,
            end_time=began + phases["total"],
            instrumentation_scope=self.scope,
        )


def _attributes(one: dict[str, Any], method: str, phases: dict[str, int]) -> dict[str, Any]:
    """What OpenTelemetry's conventions have of an HTTP server's span, and ours."""
    found: dict[str, Any] = {
        "http.request.method": method,
        "url.path": one["path"],
        "url.scheme": "https" if one["https"] else "http",
        "network.protocol.version": VERSIONS.get(one["version"], ""),
        "http.response.body.size": one["sent"],
        "process.pid": one["process"],
        "forehand.request_number": one["number"],
    }
    if method == "_OTHER":
        found["http.request.method_original"] = one["method"]
    if one["received"]:
        found["http.request.body.size"] = one["received"]
    if one["status"]:
        found["http.response.status_code"] = one["status"]
    if one["route"]:
        found["http.route"] = one["route"]
    if one["id"]:
        found["forehand.request_id"] = one["id"]
    if one["error"] or one["status"] >= 500:
        found["error.type"] = one["error"] or str(one["status"])
    for name in PHASES:
        if phases.get(name):
            found[f"forehand.{name}_seconds"] = phases[name] / 1e9
    if phases["upstream"]:
        found["forehand.upstream_seconds"] = phases["upstream"] / 1e9
    return found


def _events(began: int, phases: dict[str, int]) -> list[Event]:
    """When the request was complete, when the application had it, and when its reply began to go: for who looks at a
    picture of the trace."""
    return [Event(name, timestamp=began + sum(phases[phase] for phase in before)) for name, before in EVENTS]

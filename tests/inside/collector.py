"""A collector of OpenTelemetry traces for tests: what it is sent is read with OpenTelemetry's own protocol."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

trace_service_pb2 = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


def plain(value: Any) -> Any:
    """A value of an attribute, without its wrapping."""
    return getattr(value, value.WhichOneof("value"))


class Collected:
    """A span as it came: names, numbers, attributes as a dictionary, and of whom it is."""

    def __init__(self, span: Any, resource: Any, scope: Any) -> None:
        self.span = span
        self.name: str = span.name
        self.trace: str = span.trace_id.hex()
        self.id: str = span.span_id.hex()
        self.parent: str = span.parent_span_id.hex()
        self.attributes = {one.key: plain(one.value) for one in span.attributes}
        self.resource = {one.key: plain(one.value) for one in resource.attributes}
        self.scope: str = scope.name
        self.events = {event.name: event.time_unix_nano for event in span.events}


class Collector:
    """Listens on a port of its own. `status`: what it answers."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.spans: list[Collected] = []
        self.fields: list[dict[str, str]] = []
        self.paths: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._take(self)

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        data = request.rfile.read(int(request.headers["Content-Length"]))
        if request.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        told = trace_service_pb2.ExportTraceServiceRequest.FromString(data)
        self.paths.add(request.path)
        self.fields.append({name.lower(): value for name, value in request.headers.items()})
        if self.status == 200:
            self.spans += [
                Collected(span, of.resource, scope.scope)
                for of in told.resource_spans
                for scope in of.scope_spans
                for span in scope.spans
            ]
        request.send_response(self.status)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def of(self, path: str) -> list[Collected]:
        """The spans of a path, as far as they have come."""
        return [span for span in self.spans if span.attributes["url.path"] == path]


def env(**more: str) -> dict[str, str]:
    """Variables in which no OpenTelemetry of whoever runs the tests is left."""
    return {"OTEL_TRACES_EXPORTER": "", "OTEL_TRACES_SAMPLER": "", "OTEL_SERVICE_NAME": "", **more}


Until = Callable[[Callable[[], Any]], Any]

"""Counts under names that Prometheus knows only from version 3 on, as OpenTelemetry's are."""

from prometheus_client import Counter, Histogram

ORDERS = Counter("shop.orders", "Orders.", ["kind.of"])
TOOK = Histogram("2nd shop.took", "How long they took.", ["where \u00e4"], buckets=(0.1, 1))


def application(environ, start_response):
    ORDERS.labels("a.b").inc()
    TOOK.labels("c d").observe(0.5)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

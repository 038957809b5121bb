"""An application that counts with prometheus_client, and knows nothing of processes."""

from prometheus_client import Counter, Gauge, Histogram, Summary

VIEWS = Counter("shop_views", 'Views, "quoted" and \\ escaped.', ["page"])
TOOK = Histogram("shop_seconds", "How long they took.", buckets=(0.1, 1, 10))
SIZES = Summary("shop_bytes", "How large they were.")
INSIDE = Gauge("shop_inside", "Processes that are there.", multiprocess_mode="livesum")
MOST = Gauge("shop_most", "The most that was seen.", multiprocess_mode="max")
# This name is the server's own, too.
QUEUE = Gauge("forehand_queue_length", "What its author means by it.", multiprocess_mode="livemax")

INSIDE.set(1)
QUEUE.set(4711)


def application(environ, start_response):
    number = int(environ["PATH_INFO"].rpartition("/")[2])
    VIEWS.labels(page='a"b\\c\nd').inc()
    VIEWS.labels(page="\u00e4\U0001f600").inc(2)
    TOOK.observe(number / 2)
    SIZES.observe(number)
    MOST.set(number)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

"""The article's application: a short answer of a known length, and nothing else."""

BODY = b"Pong!"
HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY)))]


def application(environ, start_response):
    """200 and five bytes, whatever was asked."""
    start_response("200 OK", list(HEADERS))
    return [BODY]

"""Burns a moment for whomever is asked for, and tells which route that was."""

import time


def application(environ, start_response):
    until = time.thread_time() + 0.01
    while time.thread_time() < until:
        pass
    environ["forehand.route"] = "/people/<name>/x"
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]

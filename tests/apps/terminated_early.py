"""Each forked child is told to end before anything of the server's has run in it."""

import os
import posix
import signal

os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))


def application(environ, start_response):
    # Not gevent's, which may miss the end of a child that is as short as this.
    child = posix.fork()
    if child == 0:
        posix._exit(0)
    body = str(os.waitstatus_to_exitcode(posix.waitpid(child, 0)[1])).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asynchronous(scope, receive, send):
    headers = []
    answer = application({}, lambda status, fields: headers.extend(fields))
    lines = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": 200, "headers": lines})
    await send({"type": "http.response.body", "body": answer[0]})

"""What a client is told whose file cannot be opened now."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

from forehand.supervisor import concerns
from serving import Serving, read_reply

Serve = Callable[..., Serving]


def test_a_file_that_cannot_be_opened_now_is_to_be_asked_for_again_at_different_times(
    serve: Serve, tmp_path: Path
) -> None:
    """Otherwise all would come back together."""
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text("x")
    served = serve("lanes:application", "--workers", "1", "--threads", "2", "--static", f"/s={tmp_path}")
    sock = served.connect()
    sock.sendall(b"GET /inside HTTP/1.1\r\nHost: a\r\n\r\n")
    buffer = bytearray()
    assert read_reply(sock, buffer)[0] == 200
    pid = served.status()["workers"][0]["pid"]
    found = concerns.descriptors(pid)
    assert found is not None
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, found["most"]))
    told = []
    with sock:
        for number in range(6):
            sock.sendall(f"GET /s/{number}.txt HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            status, fields, _ = read_reply(sock, buffer)
            assert status == 503
            told.append(fields["retry-after"])
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert set(told) == {"1", "2", "3"}

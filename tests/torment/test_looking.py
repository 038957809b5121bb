"""What the torment knows of connections, whose they are, also while they go between processes; and of memory."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path

from torment import looking


def test_a_connection_on_its_way_is_nobody_s_and_ends_with_whom_it_was_sent_to() -> None:
    """It is in the queue of a socket that only its receiver reads, as `server/handoff.rs` sends it."""
    here = os.getpid()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        port = listener.getsockname()[1]
        client.connect(listener.getsockname())
        own = client.getsockname()[1]
        assert looking.connections(here, port) == set(), "nobody has accepted it"
        server, _ = listener.accept()
        assert looking.peers(here, port) == {own} and looking.on_their_way([here], port) == set()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # A receiver that is there, and does not receive.
            command = [sys.executable, "-c", "import time; time.sleep(600)"]
            receiver = subprocess.Popen(command, pass_fds=[theirs.fileno()])
            theirs.close()
            socket.send_fds(ours, [b"x"], [server.fileno()])
            server.close()
            sent = looking.on_their_way([here, receiver.pid], port)
            assert [one for one, _ in sent] == [own] and sent <= looking.connections(here, port)
            receiver.kill()
            assert looking.ended(receiver.pid)
            assert not sent & looking.connections(here, port)
            receiver.wait()
        client.settimeout(20)
        assert client.recv(1) == b"", "it ended with its receiver"


def test_pages_of_files_that_a_process_has_given_back_are_no_growth(tmp_path: Path) -> None:
    """As a server gives back code that it does not run, and needs some of it again while it is measured."""
    here, kib = os.getpid(), 4096
    path = tmp_path / "code"
    path.write_bytes(b"x" * kib * 1024)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped:
        assert mapped.find(b"y") < 0, "all of it was read"
        mapped.madvise(mmap.MADV_DONTNEED)
        given_back = looking.holding(here)
        looking.forget_peak(here)
        before = looking.holding(here)
        assert mapped.find(b"y") < 0
        after = looking.holding(here)
    assert given_back and before and after
    assert before.rss_kib - given_back.rss_kib >= kib
    assert after.peak_kib - before.rss_kib < kib // 2
    assert after.anonymous_kib - given_back.anonymous_kib < kib // 2

"""Python starts with this where `bench/supervision.py` asks for it: workers cannot give connections to one
another, as the way on which they would go is full from the start, and nothing comes on the other end."""

import socket

from forehand.supervisor import scoreboard

#: They stay open.
ENDS: list[socket.socket] = []


def _blocked_pair() -> tuple[int, int]:
    give, full = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    empty, take = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ENDS.extend((full, empty))
    give.setblocking(False)
    try:
        while True:
            give.send(b"full")
    except BlockingIOError:
        pass
    return give.detach(), take.detach()


scoreboard._handoff_pair = _blocked_pair

"""The scoreboard: a page of memory where each worker keeps its numbers, for all to read; and how workers help one
another.

Knows: rows and fields, the same as `server/rows.rs`. Does not know: what follows from them.
The supervisor makes it and hands out rows; each worker's engine writes its own row, also when
its interpreter is stuck, and reads the others' to see who is free.
"""

from __future__ import annotations

import _socket as socket
import os

#: The order is that of `server/rows.rs`.
FIELDS = (
    "pid", "level", "watching", "requests", "connections", "busy", "threads", "queued", "refused", "timeouts",
    "errors", "updated_ms", "strained", "rows", "wants", "loop_held",
)  # fmt: skip
#: Where the first row has how many rows have ever been used, so that nobody reads the others.
USED = FIELDS.index("rows") * 8
#: Of what a worker wants, above connections that it has given away: what it does of requests that compute
#: (`server/apart.rs`); the uppermost bit says that it takes those of all workers.
WANTED = (1 << 20) - 1
APART = 1 << 63
#: What stands behind that in each row.
BEHIND = USED + 8
ROW = 128
ROWS = 512


class Scoreboard:
    """The page. Raises OSError where the system gives no memory."""

    def __init__(self, fd: int = -1, wakeup: int = -1, *handoff: int, apart: tuple[int, ...] = ()) -> None:
        if fd < 0:
            fd = os.memfd_create("forehand-scoreboard")
            os.ftruncate(fd, ROW * ROWS)
            wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.fd = fd
        #: Workers ring it for one another (`server/share.rs`).
        self.wakeup = wakeup
        #: Both ends of the way on which a worker gives idle connections to others (`server/accept.rs`).
        self.handoff = handoff or _handoff_pair()
        #: The same to the worker that takes requests that compute (`server/share/apart.rs`).
        self.apart = apart or _handoff_pair()
        self.taken: set[int] = set()
        self.used = int.from_bytes(os.pread(self.fd, 8, USED), "little")

    def place(self, row: int) -> tuple[int, ...]:
        """What the worker of that row is given: page, row, wakeup, and both ends of each way for connections."""
        return (self.fd, row, self.wakeup, *self.handoff, *self.apart)

    @property
    def fds(self) -> list[int]:
        """Descriptors for a new program that goes on with them; those of `apart` are left beside these."""
        return [self.fd, self.wakeup, *self.handoff]

    def take(self) -> int:
        """A free row, cleared. With none free (which takes 512 workers) the last is shared."""
        row = next((row for row in range(ROWS - 1) if row not in self.taken), ROWS - 1)
        self.taken.add(row)
        self.clear(row)
        if row >= self.used:
            self.used = row + 1
            os.pwrite(self.fd, self.used.to_bytes(8, "little"), USED)
        return row

    def clear(self, row: int) -> None:
        """Zeros: nobody lives here, so that nobody counts on it."""
        os.pwrite(self.fd, bytes(USED), row * ROW)
        os.pwrite(self.fd, bytes(ROW - BEHIND), row * ROW + BEHIND)

    def free(self, row: int) -> None:
        """Give a row back."""
        self.clear(row)
        self.taken.discard(row)

    def read(self, row: int) -> dict[str, int]:
        """A worker's numbers."""
        data = os.pread(self.fd, ROW, row * ROW)
        found = {name: int.from_bytes(data[index * 8 : index * 8 + 8], "little") for index, name in enumerate(FIELDS)}
        # As one number (`server/rows.rs`): those that wait, and of them those that wait for others of their route.
        found["limited"], found["queued"] = divmod(found["queued"], 1 << 32)
        found["apart"] = int(found["wants"] >= APART)
        found["wants"] &= WANTED
        # More than one: nothing holds it up now, and new connections are best off there. Workers tell one another.
        found["strained"] = int(found["strained"] == 1)
        return found


def _handoff_pair() -> tuple[int, int]:
    give, take = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return give.detach(), take.detach()

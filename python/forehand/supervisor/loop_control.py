"""What the supervisor can order a worker to do whose requests an event loop drives: the orders are passed on to the
driver.

Knows: the line to the supervisor, and what a driver can be told. Does not know: which loop it is; `asgi/worker.py` and
`greenlets/worker.py` do, and listen.
"""

from __future__ import annotations

from forehand import errors
from forehand.ending import cut_message
from forehand.supervisor import log
from forehand.supervisor.worker_control import WorkerControl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forehand.graceful import Stoppable
    from forehand.supervisor.worker_process import WorkerProcess


class LoopControl(WorkerControl):
    """The supervisor's orders. A class of its loop adds how they are heard."""

    #: How the driver is called where something cannot be told.
    kind: str

    def __init__(self, process: WorkerProcess, driver: Stoppable) -> None:
        super().__init__(process, None)
        self.driver = driver

    def _retire(self) -> None:
        self.driver.stop("retire")

    def _stop(self) -> None:
        self.driver.stop("stop")

    def _quit(self) -> None:
        self.driver.stop("quit")

    def _routes(self) -> None:
        # Requests of one loop overlap, so that memory cannot be told apart by route.
        self.channel.tell("routes", f"not told for {self.kind}")


def ended(process: WorkerProcess, driver: Stoppable, status: int) -> int:
    """The driver serves no more; the process's exit status."""
    if driver.cut:
        log.write("warning", cut_message(driver.cut, hurried=driver.order == "quit"))
    process.exits(status)
    return errors.INTERNAL if driver.cut else status

"""`forehand status`: what happened how often in every worker, asked of them at that moment, for one client.

Knows: how a worker's counters travel. Does not know: what they count (`_core.counters`, `_core.limits`). Runs in the
supervisor.
"""

from __future__ import annotations

from forehand.supervisor.collection import Collection
from forehand.supervisor.status import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forehand.supervisor.children import Child
    from forehand.supervisor.control import Client
    from forehand.supervisor.supervisor import Supervisor


class CounterCollection(Collection):
    """The counters of all workers. One that does not answer in time has none."""

    word = "counters"
    patience = 1.0

    def __init__(self, supervisor: Supervisor, client: Client) -> None:
        super().__init__(supervisor, client)
        self.found: dict[int, dict[str, int]] = {}

    def take(self, child: Child, text: str) -> None:
        """One worker's counters."""
        self.found[child.number] = parsed(text)

    def complete(self) -> None:
        """The status, with the counters of each worker that are not zero, and the sums of all."""
        sums: dict[str, int] = {}
        self.supervisor.concerns.note_lost(sum(found.get("log_lines_lost", 0) for found in self.found.values()))
        told = status(self.supervisor)
        for worker in told["workers"]:
            found = self.found.get(worker["worker"])
            worker["counters"] = None if found is None else {name: count for name, count in found.items() if count}
            for name, count in (found or {}).items():
                sums[name] = sums.get(name, 0) + count
        self.client.tell(ok=True, **told, counters=sums)


def parsed(text: str) -> dict[str, int]:
    """Counters by name, as `WorkerControl` has written them: a name and a number a line."""
    pairs = (line.rpartition(" ") for line in text.splitlines())
    return {name: int(count) for name, _, count in pairs}

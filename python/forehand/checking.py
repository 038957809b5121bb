"""`--check`, beside the application itself: what a start would use only when it has begun.

Knows: hooks, owners of sockets, and files that are read late. Does not know: addresses and certificates, which are
judged for every start (`contradictions.py`). What may be made between a check and a start, such as a folder for
sockets, is not looked at.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def prove(plan: dict[str, Any]) -> None:
    """Find what would stop the server later, or be missing at its end. Raises Problem."""
    from forehand.supervisor import hooks, panel, privileges

    for name in hooks.NAMES:
        if plan["hooks"].get(name):
            hooks.find(plan["hooks"][name], name)
    # Those of --user and --group have been looked for.
    privileges.resolve(plan["socket_access"]["user"], plan["socket_access"]["group"], "socket-")
    if plan["status_bind"]:
        panel.token(plan["status_token_file"])

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


#: What the engine says by itself when it starts (`bridge/asgi/server.rs`).
SAID_BY_ENGINE = ("lanes", "route_limits", "priorities", "fair_by", "limit_concurrency")
WHY = {
    "ASGI": "about threads, and without effect for this application, which is ASGI, so that its requests run in an "
    "event loop: {}. --limit-concurrency bounds how many do (docs/asgi.md)",
    "WSGI": "about event loops and WebSockets, and without effect for this application, which is WSGI: {}",
}


def doubt(plan: dict[str, Any], kind: str, *, left_out: tuple[str, ...] = ()) -> None:
    """Say what has no effect for an application of that kind, ASGI or WSGI."""
    from forehand.supervisor import log

    said = [name for name in plan["for_one_kind"][kind] if name not in left_out]
    if said:
        log.write("warning", WHY[kind].format(", ".join(said)))

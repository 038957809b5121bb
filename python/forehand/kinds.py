"""Options that are for one kind of application alone, WSGI or ASGI.

Knows: their names. Does not know: which kind an application is, or where it is told what has no effect.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What is about threads, which no request of an ASGI application has.
WSGI_ONLY = (
    "threads", "threads_max", "lanes", "route_limits", "priorities", "fair_by", "request_buffering", "limit_queue",
    "queue_timeout", "newest_first_after",
)  # fmt: skip
#: What is about an event loop, or of protocols that WSGI does not have.
ASGI_ONLY = (
    "loop", "lifespan", "limit_concurrency", "slow_callback_duration", "limit_slow_callback_places",
    "limit_ws_message_bytes", "limit_ws_fragments", "limit_ws_queue", "limit_ws_queue_bytes", "ws_ping_interval",
    "ws_ping_timeout", "ws_close_timeout",
)  # fmt: skip
#: Of these, what gevent's hub has as well.
OF_HUBS = ("slow_callback_duration", "limit_slow_callback_places")
#: What the engine says by itself when it starts (`bridge/asgi/server.rs`).
SAID_BY_ENGINE = ("lanes", "route_limits", "priorities", "fair_by", "limit_concurrency")
WHY = {
    "ASGI": "about threads, and without effect for this application, which is ASGI, so that its requests run in an "
    "event loop: {}. --limit-concurrency bounds how many do (docs/asgi.md)",
    "WSGI": "about event loops and WebSockets, and without effect for this application, which is WSGI: {}",
}


def others(kind: str, *, gevent: bool) -> tuple[str, ...]:
    """Options that have no effect for an application of that kind."""
    if kind == "ASGI":
        return WSGI_ONLY
    return tuple(name for name in ASGI_ONLY if not (gevent and name in OF_HUBS))


def without_effect(plan: dict[str, Any], kind: str, *, left_out: tuple[str, ...] = ()) -> list[str]:
    """What was said and has no effect for an application of that kind, as lines of a log."""
    said = [name for name in plan["for_one_kind"][kind] if name not in left_out]
    return [WHY[kind].format(", ".join(said))] if said else []

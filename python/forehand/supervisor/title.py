"""What `ps` and `top` show of the server's processes.

Knows: the two names that the kernel keeps. Does not know: who is shown them.
"""

from __future__ import annotations

from forehand import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def show(plan: dict[str, Any], role: str, short: str) -> None:
    """`forehand: shop.wsgi, worker 1` as the command line, and a short name for `top`."""
    name(short)
    _core.set_title(shown(plan, role))


def shown(plan: dict[str, Any], role: str) -> str:
    """What `ps` shows."""
    # A file's name may be any bytes.
    return f"forehand: {plan['process_name'] or plan['target']}, {role}".encode(errors="backslashreplace").decode()


def name(short: str) -> None:
    """The short name, of 15 bytes at most."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(short)
    except OSError:
        pass  # only a name

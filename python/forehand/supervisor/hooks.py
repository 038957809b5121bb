"""Functions of the user's that are called when something happens: `on_start` and its kin.

Knows: `module:callable`. Does not know: what they do. Each is called with one dictionary of
facts. One that raises before a worker serves fails its start, with its own traceback; later
ones are told to the log and change nothing.
"""

from __future__ import annotations

from forehand import errors, forked
from forehand.errors import Problem
from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A server or worker whose hook fails here does not start.
FATAL = ("on_start", "on_worker_start")
NAMES = ("on_start", "on_worker_start", "on_worker_ready", "on_worker_exit", "on_reload", "on_stop")


def call(plan: dict[str, Any], name: str, facts: dict[str, Any]) -> None:
    """Call a hook, if there is one. Raises Problem where a failure is fatal."""
    target = plan["hooks"].get(name)
    if not target:
        return
    try:
        forked.parent_only(find(target, name), facts)
    except Problem:
        raise
    except BaseException as error:
        import traceback

        shown = errors.own_frames(error.__traceback__)
        text = "".join(traceback.format_exception(type(error), error.with_traceback(shown), shown))
        message = f"the hook {name} ('{target}') raised {type(error).__name__}"
        if name in FATAL:
            raise Problem(errors.APPLICATION, message, hint="the traceback above is its own", traceback=text) from None
        log.write("error", f"{message}; going on\n{text.rstrip()}")


def find(target: str, name: str) -> Any:
    """The callable that `module:callable` names. Raises Problem."""
    from forehand import target as targets

    module, colon, _ = target.partition(":")
    if not colon or not module:
        raise Problem(errors.USAGE, f"--{name.replace('_', '-')}: '{target}' is not module:callable")
    found = targets.find(target)
    if not callable(found):
        raise Problem(errors.USAGE, f"--{name.replace('_', '-')}: '{target}' is a {type(found).__name__}, not callable")
    return found

"""Keywords that a notebook completes: IPython looks at signatures of what runs, and into no types.

Knows: the table of options. Does not know: IPython, which has imported `inspect` where this is used; elsewhere nothing
here is imported.
"""

from __future__ import annotations

import inspect

from forehand.settings import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def spell_out(taking: Callable[..., Any]) -> None:
    """Show every option as a keyword of what takes them all as `**options`."""
    first = inspect.Parameter("application", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keys = [key for option in OPTIONS.values() if option.name != "application" for key in option.keys]
    keywords = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=...) for key in keys]
    taking.__signature__ = inspect.Signature([first, *keywords])  # type: ignore[attr-defined]

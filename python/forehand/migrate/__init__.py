"""`forehand migrate`: another server's configuration as a forehand.toml, with what has no counterpart.

Knows: nothing but its parts. `recognition.py` finds out what was given, one file a server says what becomes
of each of its options, `outcome.py` gathers what came of it, `page.py` writes it down.
Does not know: how a server is run. None of this is imported by one.
"""

from __future__ import annotations

import os

from forehand.migrate.outcome import Outcome
from forehand.migrate.page import written
from forehand.migrate.recognition import recognised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Outcome", "page", "recognised", "written"]


def page(source: str, folder: str = ".", environment: Mapping[str, str] | None = None) -> str:
    """The TOML for a file's path or a command line. Raises Problem for what cannot be read."""
    known = dict(os.environ if environment is None else environment)
    return written(recognised(source, folder, known), source)

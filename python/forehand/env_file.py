"""Variables from a file: `--env-file`.

Knows: python-dotenv, which reads the file as uvicorn, Flask and Django's tools do. Does not know: what they are for.
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem


def variables(path: str) -> dict[str, str]:
    """The variables of a file, but for those that the environment has already. Raises Problem."""
    try:
        from dotenv import dotenv_values
    except ImportError:
        raise Problem(
            errors.USAGE, "--env-file needs the package python-dotenv", hint="pip install python-dotenv"
        ) from None
    if not os.path.isfile(path):
        raise Problem(errors.USAGE, f"--env-file: there is no file {path}")
    try:
        found = dotenv_values(path)
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(errors.USAGE, f"--env-file: {path} cannot be read: {error}") from None
    return {name: value for name, value in found.items() if value is not None and name not in os.environ}

"""The subcommand `forehand migrate`.

Knows: its words, and what to say without any. Does not know: how anything is migrated.
"""

from __future__ import annotations

import os
import shlex
import sys

from forehand import errors, toml
from forehand.errors import Problem
from forehand.migrate import page
from forehand.migrate.recognition import UNDERSTOOD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = """\
usage: forehand migrate FILE | 'COMMAND LINE'

Print another server's configuration as a forehand.toml, with what has no counterpart in comments:

    forehand migrate gunicorn.conf.py > forehand.toml
    forehand migrate 'gunicorn -w 4 shop.wsgi --timeout 30'

A gunicorn configuration file is a program, and is run as gunicorn runs it; one that starts a server is refused
and not run. Nothing is started, and no file is written.

"""
LIKELY = (
    "gunicorn.conf.py",
    "gunicorn_config.py",
    "uwsgi.ini",
    "Procfile",
    "Dockerfile",
    "docker-compose.yml",
    "compose.yaml",
)


def main(arguments: Sequence[str]) -> int:
    """What `forehand migrate` does; the exit status. Raises Problem."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(HELP + UNDERSTOOD[0].upper() + UNDERSTOOD[1:] + "\n")
        return errors.OK
    if not arguments:
        here = [name for name in LIKELY if os.path.isfile(name)]
        raise Problem(errors.USAGE, "no configuration was named",
                      hint="\n".join(f"try: forehand migrate {name}" for name in here) or UNDERSTOOD)  # fmt: skip
    # A command line may come in quotes or without.
    toml.write(page(arguments[0] if len(arguments) == 1 else shlex.join(arguments)))
    return errors.OK

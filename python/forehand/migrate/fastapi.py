"""`fastapi run` and `fastapi dev`: uvicorn, started with other defaults. Facts: `fastapi run --help`, version 0.0.8."""

from __future__ import annotations

import os

from forehand.migrate import asgi, uvicorn
from forehand.migrate.command_lines import Command, Grammar
from forehand.migrate.outcome import Outcome

# Its own flags; the others are uvicorn's, and mean the same.
OWN = ("--app", "--entrypoint")
SHARED = ("--host", "--port", "--reload-dir", "--workers", "--root-path", "--forwarded-allow-ips")
TURNED = ("--reload", "--proxy-headers")
GRAMMAR = Grammar(
    {**{flag: flag for flag in (*OWN, *SHARED)}, "-e": "--entrypoint"},
    {**{flag: (flag, True) for flag in TURNED}, **{f"--no-{flag[2:]}": (f"--no-{flag[2:]}", True) for flag in TURNED}},
)
# Where it looks for the application when none is named.
PLACES = ("main.py", "app.py", "api.py", "app/main.py", "app/app.py", "app/api.py")


def translate(outcome: Outcome, command: Command) -> None:
    """What becomes of a command line."""
    given, others, unknown = GRAMMAR.read(command.words)
    dev = others[:1] == ["dev"]
    values = {flag: str(value) for flag, value in given}
    outcome.target = values.get("--entrypoint") or _target(
        outcome, others[1:], values.get("--app", "app"), command.folder
    )
    flags = {flag for flag, _ in given}
    for flag, value in given:
        if flag in uvicorn.RULES:
            outcome.take(uvicorn.RULES[flag], flag, value)
    if "--host" not in flags:
        outcome.put("host", "127.0.0.1" if dev else "0.0.0.0", f"the default of `fastapi {'dev' if dev else 'run'}`")
    if dev and not flags & {"--reload", "--no-reload"}:
        outcome.put("reload", True, "the default of `fastapi dev`")
    if "--workers" not in flags and (count := command.environment.get("WEB_CONCURRENCY")):
        outcome.put("workers", count, "WEB_CONCURRENCY")
    outcome.put("access_log", "common", "uvicorn writes one unless told not to")
    asgi.default_address(outcome, "fastapi's default")
    uvicorn.tell_unknown(outcome, GRAMMAR, unknown)


def _target(outcome: Outcome, named: list[str], attribute: str, where: str) -> str:
    """The module of a file as FastAPI imports it: from the first folder above it that is no package."""
    path = named[0] if named else next((place for place in PLACES if os.path.isfile(os.path.join(where, place))), "")
    if not path:
        return ""
    stem = os.path.splitext(os.path.normpath(path))[0]
    folder, name = os.path.split(stem)
    parts = [name]
    while folder and os.path.isfile(os.path.join(where, folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    if folder:
        outcome.put("pythonpath", folder, "the file's folder")
    return f"{'.'.join(parts)}:{attribute}"

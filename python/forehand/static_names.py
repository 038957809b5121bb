"""Names of static files that never change their content, as Django's `collectstatic` lists them.

Knows: `staticfiles.json`, which ManifestStaticFilesStorage writes beside the files it has given names with a hash. Does
not know: mounts' other options (`static_files.py`). In each worker before it serves: at the start and at a reload.
"""

from __future__ import annotations

import os

from forehand.supervisor import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILE = "staticfiles.json"


def engine_settings(plan: dict[str, Any]) -> dict[str, Any]:
    """What is added to a plan's settings of the engine: its mounts, each with what its folder's list names."""
    mounts = plan["engine"]["static"]
    named = [{**mount, "names": [] if mount["file"] else listed(mount["folder"])} for mount in mounts]
    return {"static": named} if mounts else {}


def listed(folder: str) -> list[str]:
    """Paths below a folder whose content never changes; none where it has no list, or one that cannot be used."""
    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            import json  # a server without such a file does not hold it

            document = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError, RecursionError) as error:
        return _useless(path, str(error))
    names = document.get("paths") if isinstance(document, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        return _useless(path, "it has no table 'paths' of names, as ManifestStaticFilesStorage writes it")
    # A name that stands for itself may get another content.
    return [name for plain, name in names.items() if name != plain]


def _useless(path: str, why: str) -> list[str]:
    log.write("warning", f"{path} is not used: {why}. Names in it with a hash of their own are told by that; "
              "collectstatic writes the file anew")  # fmt: skip
    return []

"""Network namespaces of a test's own, by iproute2."""

from __future__ import annotations

import subprocess


class NoNamespaces(Exception):
    """This machine does not let a test have networks of its own."""


def ip(*words: str) -> None:
    """One order to iproute2. Raises NoNamespaces with what it said."""
    try:
        subprocess.run(["ip", *words], capture_output=True, text=True, check=True, timeout=20)
    except FileNotFoundError:
        raise NoNamespaces("there is no `ip` here (Debian: iproute2)") from None
    except subprocess.CalledProcessError as error:
        raise NoNamespaces(f"ip {' '.join(words)}: {error.stderr.strip()}") from None

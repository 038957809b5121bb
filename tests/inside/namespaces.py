"""Machines of their own for a balancer and its servers: network namespaces on a bridge that no other one sees.

Named after this process, and gone when the block is left. Addresses are those of the recipes: no other namespace has
the bridge, so that they cannot be somebody else's here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from iproute import ip

BALANCER = "10.0.0.1"


def within(space: str, *command: str) -> tuple[str, ...]:
    """A command that runs in a namespace, or here where that is empty: the same process, as `ip` becomes it."""
    return ("ip", "netns", "exec", space, *command) if space else command


@contextlib.contextmanager
def networks(*addresses: str) -> Iterator[list[str]]:
    """Names of namespaces: that of the balancer, and one for each address. Raises NoNamespaces."""
    tag = f"fh{os.getpid() % 65536:x}"
    spaces = [f"{tag}-{number}" for number in range(len(addresses) + 1)]
    balancer = spaces[0]
    try:
        for space in spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", balancer, "link", "add", "bridge", "type", "bridge")
        ip("-n", balancer, "address", "add", f"{BALANCER}/24", "dev", "bridge")
        ip("-n", balancer, "link", "set", "bridge", "up")
        for number, (space, address) in enumerate(zip(spaces[1:], addresses, strict=True)):
            port = f"port{number}"
            ip("-n", balancer, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", balancer, "link", "set", port, "master", "bridge", "up")
            ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
        yield spaces
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "delete", space], capture_output=True, check=False)

"""Runs in a network of its own: gives it twelve local ports, and asks a good server for forty connections at once.

ports.py ENGINE. The engine's result goes to standard output. `unshare -n` makes the network; nothing outside is
touched.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PORTS = "40000 40011"
CONNECTIONS = 40
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def loopback_up() -> None:
    """What `ip link set lo up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        told = fcntl.ioctl(sock, SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", told)[1]
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def main() -> None:
    """One load."""
    loopback_up()
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(PORTS)
    planted = Path(__file__).with_name("planted.py")
    with subprocess.Popen([sys.executable, str(planted)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            port = int(server.stdout.readline())
            plan = {
                "url": f"http://127.0.0.1:{port}/ok", "load": {"kind": "closed", "connections": CONNECTIONS},
                "duration_s": 0.5, "threads": 1,
            }  # fmt: skip
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(plan, file)
                file.flush()
                subprocess.run([sys.argv[1], "--plan", file.name], check=True, timeout=60)
        finally:
            server.kill()


if __name__ == "__main__":
    main()

"""TLS as the supervisor sees it: it reads certificates and keys, hands them to workers, and looks whether they change.

Knows: files, ticket keys, and when each is due. Does not know: handshakes. Runs in the supervisor, which may read keys;
its workers may not, once they have become another user.
"""

from __future__ import annotations

import os
import time

from forehand import certificates
from forehand.errors import Problem
from forehand.supervisor import handed_tls, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forehand.certificates import Part
    from forehand.supervisor.supervisor import Supervisor

#: How often files are looked at, in seconds. No notification: links are swapped (certbot, Kubernetes), and some file
#: systems tell nothing.
LOOK = 5.0

#: What a file is known by: device, inode, times, size; none where it is not there.
Stamp = tuple[int, ...]


def begin(supervisor: Supervisor, left: dict[str, Any] | None) -> None:
    """Read certificates and keys, as an address needs them. `left` by the program before. Raises Problem."""
    handed = supervisor.tls = Tls(supervisor, supervisor.settings, left)
    handed.begin()
    supervisor.settings["tls_fingerprint"] = handed.fingerprint


class Tls:
    """What one supervisor's workers are handed."""

    def __init__(self, supervisor: Supervisor, settings: dict[str, Any], left: dict[str, Any] | None = None) -> None:
        self.supervisor = supervisor
        self.settings = settings
        self.fd: int = handed_tls.make() if left is None else left["fd"]
        #: The certificate that vouches for itself, kept over reloads, as somebody has told a browser to trust it.
        self.made: list[Part] = []
        self.fingerprint = ""
        #: The first makes tickets, the second will, the third did: a worker knows each before and after its time.
        self.keys: list[bytes] = [certificates.ticket_key(), certificates.ticket_key()]
        #: What files had that made tickets before, which are good until then.
        self.retired: list[tuple[float, bytes]] = []
        if left is not None:
            self.made = [(name, label, text.encode()) for name, label, text in left["made"]]
            self.fingerprint = left["fingerprint"]
            self.keys = [bytes.fromhex(key) for key in left["keys"]]
            # The clock is the machine's, and goes on.
            self.retired = [(until, bytes.fromhex(key)) for until, key in left.get("retired", [])]
        self.stamps: dict[str, Stamp] = {}
        #: What was read and judged last.
        self.parts: list[Part] = []
        self.next_look = self.next_keys = self.deadline = 0.0
        #: What was said last of files that cannot be used: by itself it is said once.
        self.said = ""
        #: When the first certificate expires, in seconds since 1970, and for how many it was good in all.
        self.validity = (0, 0)

    def told(self) -> dict[str, Any]:
        """What is said of certificates to who asks; `unused`: why files that have changed cannot be used."""
        return {"expires": self.validity[0], "lasts": self.validity[1], "unused": self.said}

    def left(self) -> dict[str, Any]:
        """What the next program goes on with."""
        made = [(name, label, data.decode()) for name, label, data in self.made]
        return {
            "fd": self.fd,
            "made": made,
            "fingerprint": self.fingerprint,
            "keys": [key.hex() for key in self.keys],
            "retired": [(until, key.hex()) for until, key in self.retired],
        }

    def begin(self) -> None:
        """Read everything for the first time. Raises Problem."""
        self._hand_over(self.settings)
        now = time.monotonic()
        self.next_keys = now + self._keys_last()
        self._rest(now)
        self.supervisor.timers.append(self)

    def _keys_last(self) -> float:
        """For how many seconds a key makes tickets."""
        lifetime: float = self.settings["tls"]["ticket_lifetime"]
        return max(1.0, lifetime) if lifetime else float("inf")

    def _rest(self, now: float) -> None:
        self.next_look = now + LOOK
        self.deadline = min(self.next_look, self.next_keys)

    def _hand_over(self, settings: dict[str, Any]) -> None:
        """Read, judge, hand over. Raises Problem, and then what was handed over before stays."""
        tls = settings["tls"]
        if tls["self_signed"] and not self.made:
            self.made, self.fingerprint = certificates.self_signed(settings["addresses"])
        # Taken before they are read: what changes meanwhile is found the next time.
        stamps = {path: stamp(path) for path in certificates.paths(tls)}
        parts = certificates.read(settings, self.made if tls["self_signed"] else [])
        try:
            _, warnings, self.validity = certificates.judged(parts)
        finally:
            self.stamps = stamps
        certificates.warn(warnings)
        self._retire(parts)
        self.parts, self.settings, self.said = parts, settings, ""
        self._put()

    def _retire(self, parts: list[Part]) -> None:
        """Keys of files that others have replaced open their tickets as long as these are good."""
        named = {key for name, _, key in parts if name == certificates.KEY_OF_FILE}
        until = time.monotonic() + self._keys_last()
        gone = [key for name, _, key in self.parts if name == certificates.KEY_OF_FILE and key not in named]
        kept = [(end, key) for end, key in self.retired if key not in named]
        self.retired = [*((until, key) for key in gone), *kept]

    def _put(self) -> None:
        """Hand over what was judged, with the keys of tickets."""
        parts = [*self.parts, *certificates.for_tickets(self.settings["tls"], self.keys)]
        now = time.monotonic()
        self.retired = [(until, key) for until, key in self.retired if until > now]
        parts += [(certificates.KEY_OF_FILE, "tickets", key) for _, key in self.retired]
        handed_tls.put(self.fd, certificates.packed(parts))
        if self.supervisor.children is not None:
            for child in self.supervisor.children.all.values():
                child.channel.tell("renew_tls")

    def renew(self, settings: dict[str, Any] | None = None, *, asked: bool = True) -> tuple[bool, str]:
        """Read everything again, with other settings at a reload. Whether that is used from now on, and in words.

        `asked`: somebody wants it, who is told each time."""
        settings = settings or self.settings
        if settings["tls"] is None:
            return False, "certificates stay, as addresses with https:// do"
        try:
            self._hand_over(settings)
        except Problem as problem:
            text = f"the certificates stay as they were: {problem}"
            if asked or text != self.said:
                log.write("error", text)
            self.said = text
            return False, text
        text = "certificates were read again: handshakes from now on have them"
        log.write("info", text)
        return True, text

    def look(self, now: float) -> None:
        """Look whether files have changed, and whether it is time for other ticket keys."""
        if now < self.deadline:
            return
        if now >= self.next_keys:
            self.next_keys = now + self._keys_last()
            last, following = self.keys[:2]
            self.keys = [following, certificates.ticket_key(), last]
            self._put()
        elif any(stamp(path) != known for path, known in self.stamps.items()):
            self.renew(asked=False)
        self._rest(now)


def stamp(path: str) -> Stamp:
    """What a file is known by, behind all links."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)

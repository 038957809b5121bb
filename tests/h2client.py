"""A client of HTTP/2 that is not ours (Python's h2), one connection at a time, as it should and should not behave."""

from __future__ import annotations

import socket
from collections import defaultdict

import h2.config
import h2.connection
import h2.events
import h2.settings

PATIENCE = 30
#: Error codes (RFC 9113 section 7).
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, CALM = 0, 2, 7, 8, 11
GOAWAY = 7


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame, whatever is wrong with it."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Client:
    """One connection. `window`: what each stream's reply may be ahead, where that is not the usual."""

    def __init__(
        self, port: int, window: int | None = None, *, before: bytes = b"", sock: socket.socket | None = None
    ) -> None:
        self.sock = sock or socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.sock.sendall(before)
        config = h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False)
        self.machine = h2.connection.H2Connection(config)
        if window is not None:
            values = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
            self.machine.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self.machine.initiate_connection()
        #: What each GOAWAY said: the last stream that is answered, and a code.
        self.farewells: list[tuple[int, int]] = []
        self.ended = False
        #: By stream: what has come of each.
        self.heads: dict[int | None, dict[str, str]] = {}
        self.content: dict[int | None, bytes] = defaultdict(bytes)
        self.resets: dict[int | None, int] = {}
        self.done: set[int | None] = set()
        #: What a test has read itself.
        self.raw = b""
        self._bytes = b""
        self.flush()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def flush(self) -> None:
        try:
            self.sock.sendall(self.machine.data_to_send())
        except ConnectionError:
            # What the server has said last is still to be read.
            self.machine.clear_outbound_data_buffer()

    def ask(self, path: str, *, body: bool = False, method: str = "", fields: tuple[tuple[str, str], ...] = ()) -> int:
        stream = self.machine.get_next_available_stream_id()
        method = method or ("POST" if body else "GET")
        head = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a"), *fields]
        self.machine.send_headers(stream, head, end_stream=not body)
        return stream

    def events(self, *, gives_back: bool = True) -> list[h2.events.Event]:
        """What one read brings; nothing at the end. Windows are given back at once, unless not."""
        data = self.sock.recv(65536)
        self.ended = not data
        events = self._heard(data)
        for event in events:
            if gives_back and isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                assert event.stream_id is not None
                self.machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return events

    def _heard(self, data: bytes) -> list[h2.events.Event]:
        """Python's h2 takes a farewell for the end, and it is not: streams that are open go on behind it, so that it
        does not hear of one. What ends the connection raises here, as it would there."""
        self._bytes += data
        events: list[h2.events.Event] = []
        while len(self._bytes) >= 9 and len(self._bytes) >= (end := 9 + int.from_bytes(self._bytes[:3], "big")):
            frame, self._bytes = self._bytes[:end], self._bytes[end:]
            if frame[3] == GOAWAY:
                last, code = (int.from_bytes(part, "big") for part in (frame[9:13], frame[13:17]))
                self.farewells.append((last, code))
            else:
                events += self.machine.receive_data(frame)
        for event in events:
            if isinstance(event, h2.events.ResponseReceived):
                self.heads[event.stream_id] = {str(name): str(value) for name, value in event.headers or ()}
            elif isinstance(event, h2.events.DataReceived):
                self.content[event.stream_id] += event.data or b""
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = int(event.error_code or 0)
            elif isinstance(event, h2.events.StreamEnded):
                self.done.add(event.stream_id)
        return events

    def send(self, stream: int, content: bytes, *, end: bool = True) -> None:
        """A body, as the server's windows let it go; what comes meanwhile is kept for nobody."""
        at = 0
        while at < len(content):
            room = min(self.machine.local_flow_control_window(stream), 16_384, len(content) - at)
            if room > 0:
                self.machine.send_data(stream, content[at : at + room])
                at += room
            if room <= 0 or not at % (1 << 17):
                self.flush()
            if room <= 0:
                self.events()
        if end:
            self.machine.end_stream(stream)
        self.flush()

    def is_heard(self) -> None:
        """Until the server has read what was sent so far: it answers a PING that came behind it."""
        self.machine.ping(b"so far..")
        self.flush()
        while not any(isinstance(event, h2.events.PingAckReceived) for event in self.events()):
            assert self.lives(), self.farewells

    def replies(self, streams: list[int]) -> dict[int, bytes]:
        """The content of each, when all have ended."""
        while not self.done.issuperset(streams):
            assert not self.resets.keys() & set(streams), self.resets
            assert self.lives(), self.farewells
            self.events()
        return {stream: self.content[stream] for stream in streams}

    def get(self, path: str) -> bytes:
        """The content of one reply."""
        stream = self.ask(path)
        self.flush()
        return self.replies([stream])[stream]

    def head(self, stream: int) -> dict[str, str]:
        """The fields of a reply's head, when it comes."""
        while stream not in self.heads:
            assert self.lives(), self.farewells
            self.events()
        return self.heads[stream]

    def take(self, stream: int, length: int) -> bytes:
        """So many bytes of a stream, when they have come; they are not there any more."""
        while len(self.content[stream]) < length:
            assert self.lives(), self.farewells
            self.events()
        taken = self.content[stream][:length]
        self.content[stream] = self.content[stream][length:]
        return taken

    def reset_code(self, stream: int) -> int:
        """With what code a stream is cut."""
        while stream not in self.resets:
            assert stream not in self.done and self.lives(), (self.farewells, self.done)
            self.events()
        return self.resets[stream]

    def lives(self) -> bool:
        """The server has neither left nor said that there was a fault."""
        return not self.ended and all(code == NO_ERROR for _, code in self.farewells)

    def raw_frames(self, kind: int, stream: int) -> list[bytes]:
        """The payloads of whole frames of a kind in what a test has read itself."""
        found, rest = [], self.raw
        while len(rest) >= 9 and len(rest) >= (end := 9 + int.from_bytes(rest[:3], "big")):
            if rest[3] == kind and int.from_bytes(rest[5:9], "big") == stream:
                found.append(rest[9:end])
            rest = rest[end:]
        return found

    def until_the_end(self) -> int | None:
        """The code of its farewell; an end that is no orderly one raises."""
        while not self.ended:
            self.events()
        return self.farewells[-1][1] if self.farewells else None

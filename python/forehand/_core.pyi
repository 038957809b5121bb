"""The engine, written in Rust (crates/bridge)."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

def limits() -> list[tuple[str, str, int, str, str, str]]:
    """Every limit: (name, kind, default, reason, answer, counter)."""

def counters() -> list[tuple[str, str]]:
    """Every counter but those of refusals: (name, what it counts)."""

def relaxable() -> list[tuple[str, str]]:
    """Names for `http_relax`, and what each allows."""

def refusable() -> list[tuple[str, str]]:
    """Names for `http_refuse`, and what each refuses."""

def check_access_format(format: str) -> None:
    """ValueError says what is wrong with an access log's format."""

def check_trust(value: str) -> None:
    """ValueError says what is wrong with a list of trusted peers."""

def check_tls(material: bytes, /) -> tuple[list[str], int, int]:
    """What people should know of what is handed over for TLS, and when the first certificate expires, in seconds since
    1970, and for how many it was good in all. ValueError says what cannot be used."""

def self_signed(names: list[str], /) -> tuple[bytes, bytes, str]:
    """A certificate that vouches for itself and its key, in DER, and the certificate's fingerprint."""

#: The signal on which a worker writes the stacks of its threads.
STACKS_SIGNAL: int

def watch_parent(fd: int, patience_ms: int, /) -> None:
    """End this process so many milliseconds after a pipe has ended: its supervisor is gone."""

def end_within(patience_ms: int, status: int) -> None:
    """End this process so many milliseconds from now, whatever holds the interpreter. Said once more: from then."""

def keep_from_children(fd: int) -> None:
    """Put something dead in this descriptor's place in every forked child, from its first moment on."""

def release(fd: int) -> None:
    """The descriptor is about to be closed, and its number may be somebody else's."""

def set_title(text: str, /) -> bool:
    """Show a text instead of the command line in `ps`, cut to that line's length. False: it cannot be done here."""

def give_back_memory() -> None:
    """Give back what this process needed only to begin: free memory, and code, which comes back when it is called."""

def bound_arenas() -> None:
    """Have the C library make no more heaps for threads than can run at once, unless the environment says how many."""

def write_within(fd: int, text: bytes, patience_ms: int, /) -> None:
    """Write to a descriptor. OSError: TimeoutError where nobody makes room there for so many milliseconds."""

def become_subreaper() -> bool:
    """Become the parent of descendants whose parents have ended. False: there is no such thing here."""

def serve_status(told: int, /) -> None:
    """Serve the status endpoint until this process ends. `told`: a descriptor of pairs of a name and a value, each of
    which ends in a zero (`server/status/process.rs`).
    """

def request() -> CurrentRequest | None:
    """The request that this thread works on, where each has a thread of its own; None: none."""

def carry_in(variable: ContextVar[Any], /) -> None:
    """Have requests of an event loop stand in that variable while their tasks run, those that begin from now on."""

class CurrentRequest:
    """A request, as it was when `forehand.request()` was called."""

    #: What names it; None without `--request-id`.
    id: Final[str | None]
    #: Which trace records it, and as which span, in hexadecimal digits; None where none does.
    trace_id: Final[str | None]
    span_id: Final[str | None]
    #: Seconds until it is overdue; None where it may take for ever.
    deadline: Final[float | None]
    #: The route that it is counted for: `GET /orders/{number}`.
    route: Final[str | None]
    #: Seconds, by the names of phases: `receive`, `queue`, `gil`, `app` until now, `upstream` where a proxy tells.
    phases: Final[dict[str, float]]

class Statistics:
    """What all workers count and time, in memory that they share."""

    #: So many bytes there must be behind the descriptor.
    BYTES: int

    def __init__(self, fd: int, writable: bool, /) -> None:
        """Those behind a descriptor, which is copied; writable: the supervisor's, and new ones begin with it."""

    def told(self) -> str:
        """All that was counted until now, as a text for another program."""

    def take_over(self, text: str, /) -> None:
        """Go on from what another program has counted, in the text that it has left."""

    def take(self, row: int, /) -> None:
        """A worker is about to live in that row."""

    def set(self, name: str, value: int, /) -> None:
        """Say something of the server."""

    def count(self, name: str, /) -> None:
        """Count something that has happened to the server."""

    def count_exit(self, reason: str, /) -> int:
        """A worker has ended for that reason: where that stands."""

    def fold(self, row: int, died: tuple[int, int], metrics: tuple[str, int] | None = None, /) -> None:
        """The worker of that row has ended: its numbers become those of all dead, and what was inside is kept with its
        number and where it stands why. metrics: the folder of the application's own, and the process that has ended."""

    def fold_metrics(self, folder: str, pid: int, /) -> None:
        """A process that was no worker has ended: what the application has counted in it is kept."""

    def at(self, row: int, thread: int, /) -> int | None:
        """The number of the request that a thread of a worker was at, which has ended; None: it was at none."""

    def inside(self, row: int, dead: bool, /) -> list[tuple[int, str, int, float, float, str, bool]]:
        """Requests inside a worker, the oldest first: (number, method and path, its thread's ident, seconds since the
        first byte, seconds since it was begun, its name, whether it is being sent: no thread is at it then, and its
        ident is 0). dead: it has ended."""

    def records(self, row: int | None, /) -> list[dict[str, Any]]:
        """Requests that have ended in a worker and were kept, the oldest first; None: in those that are dead."""

    def totals(self) -> dict[str, Any]:
        """What all workers have counted, those included that are dead."""

class Spans:
    """What workers have recorded of requests, in memory that they share with whoever exports it."""

    #: So many bytes there must be behind the descriptor.
    BYTES: int

    def __init__(self, fd: int, /) -> None:
        """Those behind a descriptor, which is copied."""

    def take(self, most: int, /) -> list[dict[str, Any]]:
        """Take spans out, of each worker at most so many, the oldest first."""

    def dropped(self) -> int:
        """Spans for which there was no room, since the memory was made."""

class Controls:
    """What can be said to each server, whoever drives it."""

    def stop(self) -> None:
        """Begin a graceful stop; may be called again, and from a signal handler."""

    def retire(self) -> None:
        """Let other workers go on: accept nothing more, finish what runs, answer idle connections once more."""

    def announce_end(self) -> None:
        """The end will come: answer everybody as before, and make each reply the last of its connection."""

    def check_listeners(self) -> None:
        """Look at the listeners: a connection may wait for a worker that is no more."""

    def renew_tls(self, material: bytes, /) -> None:
        """Go on with other certificates in handshakes that begin from now on. ValueError: nothing changes."""

    def reopen_access_log(self, fd: int, /) -> None:
        """Go on with another file for the access log, of which a copy is kept."""

    def profile(self, fd: int, seconds: float, rate: int, running: bool, /) -> None:
        """Look at this process's stacks for so long, so often a second at most, on a thread that never asks for the
        interpreter; a report goes to a copy of the descriptor. `running`: only of threads that use a processor."""

    def abort(self) -> None:
        """End at once: connections are cut, late threads are not waited for."""

    def counters(self) -> dict[str, int]:
        """What happened how often, by name."""

    def flush_logs(self) -> None:
        """Wait a moment for log lines that are still to be written."""

class Server(Controls):
    """One WSGI server over listeners that the caller keeps open."""

    def __init__(
        self,
        application: Callable[..., Any],
        listeners: Sequence[tuple[int, str, str]],
        settings: Mapping[str, object],
        /,
    ) -> None: ...
    def start(self) -> None:
        """Start the threads; returns at once."""

    def slow(self) -> list[tuple[int, int]]:
        """Threads inside requests that take long, to be looked at: (thread, number of the request)."""

    def stands_at(self, number: int, place: str, /) -> None:
        """A thread stood there, inside the request of that number."""

    def overdue_fd(self) -> int:
        """A descriptor that can be read when `overdue` has something to tell."""

    def overdue(self) -> list[tuple[int, str, float, int]]:
        """Requests that have become overdue: (thread, request line, seconds, serial)."""

    def interrupt(self, thread: int, serial: int, exception: type[BaseException], /) -> bool:
        """Raise an exception in a thread, if it is still inside the request of that serial."""

    def routes(self) -> list[tuple[str, int, int]]:
        """Routes that have grown most: (route, KiB, requests)."""

    def join(self, timeout: float | None = None) -> bool:
        """Wait until every thread has ended, at most so many seconds. True: they have."""

    def ended(self) -> bool:
        """True once the loop has ended; threads stuck in the application may be left."""

    def fileno(self) -> int:
        """The engine's descriptor, for an event loop that drives it instead of threads."""

    def turn(self, most: int = 64) -> int | None:
        """Do what is ready on this thread, at most so many requests; None: a worker leads."""

class AsgiServer(Controls):
    """One ASGI server over listeners that the caller keeps open, driven by an event loop."""

    def __init__(
        self,
        application: Callable[..., Any],
        listeners: Sequence[tuple[int, str, str]],
        settings: Mapping[str, object],
        life: tuple[Any, dict[str, Any], Callable[[], object]],
        /,
    ) -> None:
        """`life`: the running loop, the state that scopes get copies of, what is called at the end."""

    def fileno(self) -> int:
        """The descriptor to watch for reading."""

    def turn(self) -> None:
        """Do what is ready; called when the descriptor is readable."""

    def start(self) -> None:
        """Be ready for the first request."""

    def end_watch(self) -> None:
        """Nobody watches the loop any more: it, or the interpreter, is about to end."""

    def tasks(self) -> list[Any]:
        """The tasks of requests that run, also of those whose response is complete."""

class GeventServer(Controls):
    """One WSGI server over listeners that the caller keeps open, driven by gevent's hub."""

    def __init__(
        self,
        application: Callable[..., Any],
        listeners: Sequence[tuple[int, str, str]],
        settings: Mapping[str, object],
        life: tuple[Any, Callable[[Any, str, float], object], Callable[[], object]],
        /,
    ) -> None:
        """`life`: the hub, what is called with an overdue greenlet, its request line and seconds, what is called
        at the end."""

    def fileno(self) -> int:
        """The descriptor to watch for reading."""

    def turn(self) -> None:
        """Do what is ready; called in the hub when the descriptor is readable."""

    def step(self, slot: int, /) -> int:
        """A step of the request in that slot of the statistics runs from now on (0: of none); the slot until now."""

    def start(self) -> None:
        """Be ready for the first request."""

    def end_watch(self) -> None:
        """Nobody watches the hub any more: it, or the interpreter, is about to end."""

    def request(self, greenlet: Any, /) -> CurrentRequest | None:
        """The request of a greenlet that is one's, and runs."""

    def greenlets(self) -> list[tuple[Any, str]]:
        """Requests that have begun and wait for something: (greenlet, request line)."""

class FileWrapper:
    """`wsgi.file_wrapper`: a file-like object as an iterable of blocks."""

    filelike: Any
    blksize: int
    def __init__(self, filelike: Any, blksize: int = 8192) -> None: ...
    def __iter__(self) -> FileWrapper: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None: ...

class Input:
    """`wsgi.input`: a request body as a binary file."""

    def read(self, size: int | None = None, /) -> bytes: ...
    def read1(self, size: int | None = None, /) -> bytes: ...
    def readline(self, size: int | None = None, /) -> bytes: ...
    def readlines(self, hint: int | None = None, /) -> list[bytes]: ...
    def __iter__(self) -> Input: ...
    def __next__(self) -> bytes: ...
    def readable(self) -> bool: ...

"""What an import has left behind that processes cannot share after a fork.

Knows: threads, sockets, database handles. Does not know: whether they matter: it warns, and
names the module. Runs in the template process, once.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

#: (module, type name) of handles that must not be used from two processes.
DATABASES = (
    ("sqlite3", "Connection"), ("psycopg2.extensions", "connection"), ("psycopg", "Connection"),
    ("psycopg_pool.pool", "ConnectionPool"), ("MySQLdb.connections", "Connection"),
    ("pymysql.connections", "Connection"), ("redis.client", "Redis"), ("pymongo.mongo_client", "MongoClient"),
    ("pymongo.synchronous.mongo_client", "MongoClient"), ("oracledb.connection", "Connection"),
)  # fmt: skip
HINT = "open it in --on-worker-start or at the first request, or leave --preload out"


def warnings() -> list[str]:
    """A sentence for each thread, socket and database handle that forking would share."""
    return [*_threads(), *_handles()]


def _threads() -> Iterator[str]:
    threading = sys.modules.get("threading")
    known = 1
    if threading is not None:
        for thread in threading.enumerate():
            if thread is threading.main_thread():
                continue
            known += 1
            target = getattr(thread, "_target", None)
            module = getattr(target, "__module__", None) or type(thread).__module__
            yield f"--preload: the thread '{thread.name}' of the module '{module}' does not run in workers; {HINT}"
    try:
        running = len(os.listdir("/proc/self/task"))
    except OSError:
        return
    # `watch_parent` has one of its own.
    native = running - known - 1
    if native > 0:
        yield f"--preload: the import has started {native} threads that are not Python's; they do not run in workers"


def _handles() -> Iterator[str]:
    import gc

    seen: set[int] = set()
    # Frozen objects are not listed: this is asked for once, before workers are made.
    gc.unfreeze()
    objects = gc.get_objects()
    for value in objects:
        kind = _kind(value)
        if kind and id(value) not in seen:
            seen.add(id(value))
            owner = _owner(value, objects)
            yield f"--preload: the module '{owner}' holds {kind}, which all workers would share; {HINT}"
    del objects
    gc.freeze()


def _kind(value: Any) -> str:
    """What a handle is, or nothing."""
    kind = type(value)
    if any((base.__module__, base.__qualname__) in DATABASES for base in kind.__mro__):
        return f"a database handle ({kind.__module__}.{kind.__qualname__})"
    if kind.__module__ == "socket" and kind.__qualname__ == "socket" and value.fileno() >= 0:
        return f"an open socket (descriptor {value.fileno()})"
    return ""


def _owner(value: Any, objects: list[Any]) -> str:
    """The module from which a handle can be reached, by at most three steps."""
    import gc

    modules = {id(vars(module)): name for name, module in list(sys.modules.items()) if _is_module(module)}
    layer = [value]
    ours = {id(objects), id(layer)}
    for _ in range(4):
        above = [one for one in gc.get_referrers(*layer) if id(one) not in ours and type(one).__name__ != "frame"]
        for one in above:
            if id(one) in modules:
                return modules[id(one)]
        layer = above[:200]
        ours |= {id(layer), id(above)}
        if not layer:
            break
    return type(value).__module__


def _is_module(module: ModuleType | None) -> bool:
    return isinstance(module, type(sys)) and isinstance(getattr(module, "__dict__", None), dict)

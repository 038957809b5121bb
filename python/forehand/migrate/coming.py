"""Options that are known by name before the table of options has them. To be deleted when it has them all."""

from __future__ import annotations

from forehand.settings import OPTIONS, Option

COMING = {
    name: Option(name, kind, [] if kind == "list" else "", "Work", name)
    for name, kind in {
        "workers": "int",
        "reload": "bool",
        "reload_dir": "list",
        "reload_strategy": "str",
        "preload": "bool",
        "max_requests": "int",
        "max_requests_jitter": "int",
        "max_worker_age": "time",
        "max_worker_memory": "size",
        "request_timeout": "time",
        "request_timeout_grace": "time",
        "queue_timeout": "time",
        "startup_timeout": "time",
        "control": "str",
        "pid_file": "str",
        "user": "str",
        "group": "str",
        "umask": "str",
        "log_file": "str",
        "readiness": "str",
        "drain_keep_alive": "time",
    }.items()
    if name not in OPTIONS
}


def option(name: str) -> Option:
    """An option of ours by its name."""
    return OPTIONS.get(name) or COMING[name]

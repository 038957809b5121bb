"""The options of supervision: how many workers, how they come and go, who is told.

Knows: names, defaults and reasons. Does not know: what is done with them. Part of the one
table of `forehand.settings`.
"""

from __future__ import annotations

from forehand import lanes, tracing_options
from forehand.digits import is_whole, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

GROUPS = {
    "Workers": "processes, and how they are replaced",
    "Process": "the server as the system sees it",
    "Looking inside": "what a running server tells of itself (docs/looking-inside.md)",
    "Hooks": "functions of yours, module:callable, called with a dictionary of facts",
}
STRATEGIES = ("rolling", "together")
#: What probes ask, as Kubernetes calls it.
CHECKS = ("livez", "readyz", "startupz")


def cpus() -> int:
    """CPUs that this process may use: by affinity, and by its control group's quota, rounded up."""
    import os

    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        count = os.cpu_count() or 1
    quota = _quota()
    return max(1, min(count, -(-quota[0] // quota[1]) if quota else count))


def _quota() -> tuple[int, int] | None:
    """(quota, period) of the control group, version 2 or 1; None where there is none."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next((line.rpartition(":")[2].strip() for line in file if line.startswith("0::")), "/")
        for place in (f"/sys/fs/cgroup{own.rstrip('/')}/cpu.max", "/sys/fs/cgroup/cpu.max"):
            try:
                with open(place, encoding="ascii") as file:
                    quota, period = file.read().split()
                return None if quota == "max" else (int(quota), int(period))
            except OSError:
                continue
        with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", encoding="ascii") as file:
            quota_us = int(file.read())
        with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us", encoding="ascii") as file:
            return (quota_us, int(file.read())) if quota_us > 0 else None
    except (OSError, ValueError):
        return None


def _workers(value: Any) -> None:
    if value != "auto" and not 0 <= value <= 256:
        raise ValueError(f"{value} is not between 0 and 256")


def _hook(value: str) -> None:
    if value and not (value.partition(":")[1] and value.partition(":")[2]):
        raise ValueError(f"'{value}' is not module:callable")


def _readiness(value: str) -> None:
    if value not in ("", "auto", "none") and not value.startswith("/"):
        _hook(value)


def _pid_file(value: str) -> None:
    if is_whole(value):
        # daphne's -p is a port.
        raise ValueError(
            f"'{value}' looks like a port, which is --port or -b :{value}; a file of that name is ./{value}"
        )


def _umask(value: str) -> None:
    try:
        good = not value or 0 <= number(value, base=8) <= 0o777
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"'{value}' is not an octal mask such as 022")


def options(make: Any) -> Iterator[Any]:
    """All of them; `make` is `settings.Option`."""
    yield make(
        "workers", "workers", 1, "Workers",
        "processes; auto: as many as this machine or container has CPUs; 0: serve in this process, unsupervised",
        metavar="N|auto", aliases=("-w",), check=_workers, brief="processes; auto: one for each CPU",
    )  # fmt: skip
    yield make("preload", "bool", False, "Workers", "import once, and share that memory among the workers",
               aliases=("--preload-app",), brief="import once, and share that memory")  # fmt: skip
    yield make("reload", "bool", False, "Workers", "watch the code, and reload when it changes (for development)",
               brief="watch the code, and reload when it changes")  # fmt: skip
    yield make("reload_dir", "list", [], "Workers", "folders to watch, instead of the application's; may be repeated",
               metavar="DIRS", aliases=("--reload-dirs",))  # fmt: skip
    yield make("reload_include", "list", [], "Workers",
               "files to watch beside sources, configuration and templates, such as '*.sql'; may be repeated",
               metavar="GLOBS", aliases=("--reload-includes",))  # fmt: skip
    yield make("reload_exclude", "list", [], "Workers",
               "files and folders not to watch, such as 'tests/*' or 'node_modules'; takes precedence over "
               "--reload-include; may be repeated",
               metavar="GLOBS", aliases=("--reload-excludes",))  # fmt: skip
    yield make("reload_strategy", "choice", "rolling", "Workers",
               "replace workers one by one, or all of them together", choices=STRATEGIES)  # fmt: skip
    yield make("readiness", "str", "auto", "Workers",
               "what a new worker must do before it is given requests: answer GET /path below 400, or module:callable; "
               "auto: for Django, resolve all URLs, which imports the views; none: nothing. --check does it too",
               metavar="CALL", check=_readiness)  # fmt: skip
    yield make("startup_timeout", "time", 60, "Workers",
               "a worker that is not ready by then is killed: its import hangs; 0: wait for ever")  # fmt: skip
    yield make("max_requests", "int", 0, "Workers", "replace a worker after this many requests; 0: never",
               aliases=("--limit-max-requests",), brief="replace a worker after this many requests")  # fmt: skip
    yield make("max_requests_jitter", "int", 0, "Workers",
               "and up to this many more, at random, so that workers are not all replaced together",
               aliases=("--limit-max-requests-jitter",))  # fmt: skip
    yield make("max_worker_age", "time", 0, "Workers", "replace a worker at this age; 0: never",
               aliases=("--max-worker-lifetime",))  # fmt: skip
    yield make("max_worker_memory", "size", 0, "Workers", "replace a worker that holds more memory; 0: never")
    yield make("worker_memory_kind", "choice", "pss", "Workers",
               "how that is counted: pss divides shared pages among the processes that share them, rss counts "
               "them in full",
               choices=("pss", "rss"))  # fmt: skip
    yield make("computing_apart", "bool", True, "Workers",
               "where few requests compute beside many short ones one worker takes those of all, one after the other, "
               "and the others the rest (docs/workers.md); off: each worker has some of both")  # fmt: skip
    yield make("shutdown_delay", "time", 0, "Timeouts",
               "go on serving for so long after SIGTERM or `forehand stop`, while /readyz says 503 and each reply is "
               "the last of its connection, so that a load balancer hears of it first; then the graceful timeout "
               "begins; once more, or Ctrl-C: begin at once")  # fmt: skip
    yield make("request_timeouts", "list", [], "Timeouts",
               "other request timeouts below a path, /PREFIX=TIME; a table in TOML; 0: none", metavar="PAIRS",
               check=lanes.check_times)  # fmt: skip
    yield from _process(make)
    yield from _looking_inside(make)
    for name, when in (
        ("on_start", "before the first worker, in the supervisor"),
        ("on_worker_start", "in each worker, before it imports the application"),
        ("on_worker_ready", "in each worker, when it takes requests"),
        ("on_worker_exit", "in each worker, when it ends"),
        ("on_reload", "after a reload, in the supervisor; the facts say whether it succeeded"),
        ("on_stop", "at the end, in the supervisor"),
    ):
        yield make(name, "str", "", "Hooks", when, metavar="CALLABLE", check=_hook)


def _statsd(value: str) -> None:
    host, _, port = value.rpartition(":")
    if value and not (value.startswith("unix://") or (host and is_whole(port) and int(port) < 65536)):
        raise ValueError(f"'{value}' is not HOST:PORT or unix://PATH")


def _field_name(value: str) -> None:
    if value and not value.replace("-", "").isalnum() or not value.isascii():
        raise ValueError(f"'{value}' is not the name of a header")


def _interval(value: float) -> None:
    if not 0.1 <= value <= 3600:
        raise ValueError(f"{value:g} s is not between 0.1 s and an hour")


def health_path(text: str) -> tuple[str, str]:
    """`/livez`, or `/health=readyz`, as (path, check). ValueError says what is wrong."""
    path, _, check = text.partition("=")
    check = check or path.removeprefix("/")
    wrong = next((char for char in path if char in "?#*" or not "!" <= char <= "~"), "")
    if not path.startswith("/") or path == "/" or wrong or check not in CHECKS:
        raise ValueError(f"'{text}' is neither one of {', '.join(f'/{name}' for name in CHECKS)} nor /PATH=CHECK, such "
                         "as /health=readyz")  # fmt: skip
    return path, check


def _health_paths(values: list[str]) -> None:
    paths = [health_path(text)[0] for text in values]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"'{path}' is there twice")


def _looking_inside(make: Any) -> Iterator[Any]:
    yield make("status_bind", "list", [], "Looking inside",
               "answer /metrics, /livez, /readyz, /startupz, /status.json and a page for people there, in a process of "
               "its own; HOST:PORT or unix:PATH; may be repeated",
               metavar="ADDRESS")  # fmt: skip
    yield make("health_paths", "list", [], "Looking inside",
               "answer probes at the application's own addresses, too, before it is asked and whatever its threads do: "
               "/livez, /readyz, /startupz, or another path as /PATH=CHECK (/health=readyz)",
               metavar="PATHS", check=_health_paths)  # fmt: skip
    yield make("status_token_file", "str", "", "Looking inside",
               "a file with a token: who sends it (Authorization: Bearer) gets what names paths from other machines "
               "too",
               metavar="FILE")  # fmt: skip
    yield make("metrics_app", "bool", True, "Looking inside",
               "have /metrics tell what the application counts with prometheus_client, too, in all workers together: "
               "its folder is made, and what workers that have ended leave there is added up")  # fmt: skip
    yield make("statsd_host", "str", "", "Looking inside",
               "send what was counted since to this statsd now and then: HOST:PORT or unix://PATH", metavar="ADDRESS",
               check=_statsd)  # fmt: skip
    yield make("statsd_interval", "time", 10, "Looking inside", "how often", check=_interval)
    yield make("statsd_prefix", "str", "", "Looking inside", "what stands before the names that are sent there",
               metavar="TEXT")  # fmt: skip
    yield make("dogstatsd_tags", "str", "", "Looking inside",
               "tags for a collector that understands them: name:value with commas between",
               metavar="TAGS")  # fmt: skip
    yield make("liveness_stall", "time", 60, "Looking inside",
               "/livez fails when no worker has finished anything for so long though requests wait and no request has "
               "a deadline; 0: never")  # fmt: skip
    yield make("request_id", "str", "", "Looking inside",
               "name each request by this header (X-Request-ID where none is named): a trusted proxy's word or one of "
               "our own, for the application, in the reply, in logs",
               metavar="HEADER", aliases=("--request-id-header",), bare="X-Request-ID", check=_field_name)  # fmt: skip
    yield make("server_timing", "choice", "off", "Looking inside",
               "tell with each reply where its time went until then (Server-Timing): trusted proxies, or all clients, "
               "who may learn from it what is costly",
               choices=("off", "trusted", "all"), bare="trusted", off="off")  # fmt: skip
    yield make("trace_endpoint", "str", "", "Looking inside",
               "send a span of requests to this OpenTelemetry collector, by OTLP over HTTP (needs its SDK); "
               "without a value, or with OTEL_TRACES_EXPORTER=otlp in its place, OTEL_EXPORTER_OTLP_* say where",
               metavar="URL", bare=tracing_options.FROM_VARIABLES, check=tracing_options.endpoint)  # fmt: skip
    yield make("trace_sample", "str", "", "Looking inside",
               "the share of traces that begin here which is recorded, from 0 to 1; trusted proxies decide for theirs; "
               "none: as OTEL_TRACES_SAMPLER says, or all",
               metavar="SHARE", check=tracing_options.share)  # fmt: skip
    yield make("slow_request", "time", 5, "Looking inside",
               "log a request that takes so long, with where its time went, and where its thread stood; "
               "0: none; --slow-requests has other times by path")  # fmt: skip
    yield make("slow_requests", "list", [], "Looking inside",
               "other times below a path, /PREFIX=TIME; a table in TOML; 0: none", metavar="PAIRS",
               check=lanes.check_times)  # fmt: skip


def _process(make: Any) -> Iterator[Any]:
    yield make("control", "str", "auto", "Process",
               "the unix socket for `forehand status`, `reload` and so on (mode 0600); auto: a folder of your own; "
               "none",
               metavar="PATH", aliases=("--control-socket",))  # fmt: skip
    yield make("process_name", "str", "", "Process",
               "what `ps` shows of the server's processes: forehand: NAME, worker 1; none: the application's name",
               metavar="NAME", aliases=("--name", "-n"))  # fmt: skip
    yield make("pid_file", "str", "", "Process", "write the supervisor's process id there", metavar="FILE",
               aliases=("--pid", "-p"), check=_pid_file, brief="write the process id there")  # fmt: skip
    yield make("user", "str", "", "Process", "workers run as this user, with its supplementary groups",
               aliases=("-u",), brief="workers run as this user")  # fmt: skip
    yield make("group", "str", "", "Process", "workers run as this group", aliases=("-g",))
    yield make("umask", "str", "", "Process", "the umask of the processes, octal", metavar="MASK",
               aliases=("-m",), check=_umask)  # fmt: skip
    yield make("log_file", "str", "-", "Logs", "where errors and notices go, and what the application prints to "
               "stderr; - is stderr", metavar="FILE", aliases=("--error-logfile", "--log-output"),
               brief="where errors and notices go; - is stderr")  # fmt: skip

"""What a supervisor was started with and keeps until it is started again, whatever a reload reads.

Knows: which settings those are, and by which words they are configured. Does not know: who is told.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: By the name in the plan: the option's own, where it is another. Sockets are open, logs are the workers' inheritance,
#: and the processes for status, statsd, spans and watching files were begun with what they know.
LASTING = {
    "bind": "", "backlog": "", "defer_accept": "", "control": "", "pid_file": "", "socket_access": "",
    "log_file": "", "log_config": "", "log_syslog": "", "log_syslog_to": "", "log_syslog_facility": "",
    "log_syslog_prefix": "", "status_bind": "", "status_token_file": "", "metrics_app": "", "liveness_stall": "",
    "statsd_host": "", "statsd_interval": "", "statsd_prefix": "", "dogstatsd_tags": "", "trace_endpoint": "",
    "reload": "", "reload_dir": "", "reload_include": "", "reload_exclude": "",
}  # fmt: skip


def keep(settings: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """Put what lasts back into a plan that a reload has read; a line for each setting that has changed."""
    told = []
    for name, option in LASTING.items():
        if settings[name] == old[name]:
            continue
        if name == "socket_access":
            told.append("sockets keep their owner and mode: a change of it needs a restart")
        else:
            told.append(f"{option or name} stays {_shown(old[name])}: a change of it needs a restart")
        settings[name] = old[name]
    settings["addresses"] = old["addresses"]
    settings["engine"]["liveness_stall"] = old["engine"]["liveness_stall"]
    if settings["workers"] == 0:
        told.append("workers stays above 0, as a supervisor is running: a change of it needs a restart")
    return told


def _shown(value: Any) -> str:
    """As it could have been configured."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"

"""Whether requests are traced, which, and where their spans go: `--trace-endpoint` and OpenTelemetry's variables.

Knows: names and values of OpenTelemetry's SDK configuration. Does not know: the SDK, which is in the exporter's process
alone (`supervisor/span_exporter.py`).
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: `--trace-endpoint` without a value: OTEL_EXPORTER_OTLP_* say where.
FROM_VARIABLES = "env"
#: Sampler → (share of traces that begin here; None: OTEL_TRACES_SAMPLER_ARG; whether trusted senders decide).
SAMPLERS: dict[str, tuple[float | None, bool]] = {
    "always_on": (1.0, False),
    "always_off": (0.0, False),
    "traceidratio": (None, False),
    "parentbased_always_on": (1.0, True),
    "parentbased_always_off": (0.0, True),
    "parentbased_traceidratio": (None, True),
}
#: What the SDK takes where nothing is said.
USUAL = "parentbased_always_on"


def endpoint(value: str) -> None:
    """Judge `--trace-endpoint`. ValueError says what is allowed."""
    if value and value != FROM_VARIABLES and not value.startswith(("http://", "https://")):
        raise ValueError(f"'{value}' is not http://HOST:PORT or https://HOST:PORT")


def share(value: str) -> None:
    """Judge `--trace-sample`. ValueError says what is allowed."""
    if value:
        try:
            good = 0 <= float(value) <= 1
        except ValueError:
            good = False
        if not good:
            raise ValueError(f"'{value}' is not a number from 0 to 1")


def plan(endpoint: str, sample: str, variables: dict[str, str]) -> dict[str, Any] | None:
    """What workers and the exporter need to know; None: nothing is traced. Raises Problem where it is asked for by
    name and cannot be had."""
    known = {**os.environ, **variables}
    asked = known.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "otlp"
    if not (endpoint or asked) or known.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if not _is_installed():
        if not endpoint:
            # Somebody has set the variable for every program of the machine.
            return None
        raise Problem(
            errors.USAGE,
            "--trace-endpoint needs OpenTelemetry's SDK and its OTLP exporter",
            hint="pip install 'PATH[otel]', where PATH is a clone of Forehand's repository",
        )
    ratio, by_parent = sampler(known)
    if sample:
        ratio, by_parent = float(sample), True
    return {"endpoint": "" if endpoint in ("", FROM_VARIABLES) else endpoint, "ratio": ratio, "by_parent": by_parent}


def sampler(known: dict[str, str]) -> tuple[float, bool]:
    """The share of traces that begin here, and whether trusted senders decide, by OTEL_TRACES_SAMPLER. What is not
    known counts for nothing, as the SDK has it."""
    named = known.get("OTEL_TRACES_SAMPLER", USUAL).strip().lower()
    ratio, by_parent = SAMPLERS.get(named, SAMPLERS[USUAL])
    if ratio is None:
        try:
            ratio = float(known.get("OTEL_TRACES_SAMPLER_ARG", "1"))
        except ValueError:
            ratio = 1.0
        ratio = ratio if 0 <= ratio <= 1 else 1.0
    return ratio, by_parent


def _is_installed() -> bool:
    # Looked for and not imported: the supervisor stays small.
    import importlib.machinery as machinery
    import sys

    path: list[str] | None = sys.path
    for name in ("opentelemetry", "exporter", "otlp", "proto", "http"):
        found = machinery.PathFinder.find_spec(name, path)
        if found is None:
            return False
        path = list(found.submodule_search_locations or [])
    return True

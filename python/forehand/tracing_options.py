"""Whether requests are traced, which, and where their spans go: `--trace-endpoint` and OpenTelemetry's variables.

Knows: names and values of OpenTelemetry's SDK configuration. Does not know: the SDK, which is in the exporter's process
alone (`supervisor/span_exporter.py`).
"""

from __future__ import annotations

import os

from forehand import errors
from forehand.digits import number as _number
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
#: How spans are sent: the exporter that is asked for (`pyproject.toml`) speaks nothing else.
PROTOCOL = "http/protobuf"


def endpoint(value: str) -> None:
    """Judge `--trace-endpoint`. ValueError says what is allowed."""
    if value and value != FROM_VARIABLES and not value.startswith(("http://", "https://")):
        raise ValueError(f"'{value}' is not http://HOST:PORT or https://HOST:PORT")


def share(value: str) -> None:
    """Judge `--trace-sample`. ValueError says what is allowed."""
    if value and _share(value) is None:
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
        told = _share(known.get("OTEL_TRACES_SAMPLER_ARG", "1"))
        ratio = 1.0 if told is None else told
    return ratio, by_parent


def doubts(sample: str, variables: dict[str, str]) -> list[str]:
    """What OpenTelemetry's variables ask for and is not done, and what is in its place, a sentence each. `sample`: what
    goes before the sampler that they name."""
    known = {**os.environ, **variables}
    found = []
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        # The first that is set counts, as the SDK has it.
        protocol = known.get(name, "").strip()
        if protocol:
            if protocol != PROTOCOL:
                found.append(
                    f"{name}={protocol}: spans are sent by {PROTOCOL} all the same, for which collectors listen on "
                    "port 4318"
                )
            break
    named = known.get("OTEL_TRACES_SAMPLER", "").strip()
    if sample or not named:
        return found
    if named.lower() not in SAMPLERS:
        found.append(f"OTEL_TRACES_SAMPLER={named} is not known here: {USUAL} is used, which records every trace that "
                     f"begins here; known are {', '.join(SAMPLERS)}")  # fmt: skip
    elif SAMPLERS[named.lower()][0] is None:
        share = known.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
        if share and _share(share) is None:
            found.append(f"OTEL_TRACES_SAMPLER_ARG={share} is no number from 0 to 1: every trace that begins here is "
                         "recorded")  # fmt: skip
    return found


def _share(text: str) -> float | None:
    """A number from 0 to 1; None: it is none."""
    try:
        number = float(_number(text, float))
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


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

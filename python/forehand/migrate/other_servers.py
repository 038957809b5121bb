"""What an option of gunicorn, uvicorn, granian, hypercorn, daphne or uWSGI is called here.

Knows: the tables that `forehand migrate` uses. Does not know: whole configurations; one option at a time, for somebody
who has typed the name that another server has.
"""

from __future__ import annotations

import re
import shlex

from forehand.migrate import daphne, granian, gunicorn, gunicorn_flags, hypercorn, tls, uvicorn, uwsgi
from forehand.migrate.outcome import NOT_NEEDED, Outcome
from forehand.settings import OPTIONS
from forehand.toml import literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from forehand.migrate.command_lines import Grammar
    from forehand.option import Option

GRAMMARS: dict[str, Grammar] = {
    "gunicorn": gunicorn_flags.GRAMMAR,
    "uvicorn": uvicorn.GRAMMAR,
    "granian": granian.GRAMMAR,
    "hypercorn": hypercorn.GRAMMAR,
    "daphne": daphne.GRAMMAR,
}
RULES = {"uvicorn": uvicorn.RULES, "granian": granian.RULES, "hypercorn": hypercorn.RULES, "daphne": daphne.RULES}

#: gunicorn's names of workers that are not ours; others are the path of a class.
WORKER_CLASSES = ("asgi", "eventlet", "gevent_pywsgi", "gevent_wsgi", "tornado")
#: What else gunicorn has to be told before an option means anything.
NEEDED: dict[str, dict[str, Any]] = {
    "access_log_format": {"accesslog": "-"},
    "proxy_allow_ips": {"proxy_protocol": True},
    "uwsgi_allow_ips": {"protocol": "uwsgi"},
}
#: What an option of TLS is said to be among: alone none of them means anything.
BESIDE: dict[str, Any] = {"certfile": "cert.pem", "ca_certs": "ca.pem", "cert_reqs": 2}
BESIDE_AS = {"certfile": "certificate", "ca_certs": "authorities", "cert_reqs": "verify"}


def flag(word: str, value: str | None, *, toml: bool = False) -> str:
    """A sentence for a flag that others have and we have not, or have under another name; empty: nobody has it.
    `toml`: it was said as a key, in a file or from Python."""
    found = []
    for server, grammar in GRAMMARS.items():
        if word in grammar.switches:
            name, given = grammar.switches[word]
        elif word in grammar.valued:
            # What the value was meant to be is not known; the name is what matters.
            name, given = grammar.valued[word], "1" if value is None else value
        else:
            continue
        found.append((_weight(outcome := _outcome(server, name, given)), server, outcome, name))
    if not found:
        return _uwsgi(word.removeprefix("--"), value, toml=toml) if word.startswith("--") else ""
    _, server, outcome, name = max(found, key=lambda one: one[0])
    return _sentence(f"{server}'s {word}", outcome, name, toml=toml)


def _uwsgi(name: str, value: str | None, *, toml: bool) -> str:
    """The same for an option of uWSGI, whose words are many and often short: it is asked when nobody else has them."""
    who = f"uWSGI's --{name}"
    if name == "static-map":
        return f"{who} is {'static' if toml else '--static'} here, with the same value (docs/static-files.md)"
    if name in uwsgi.TARGET:
        return f"{who} is the application, which is named without an option: forehand shop.wsgi"
    if name not in uwsgi.RULES:
        return ""
    outcome = Outcome("uWSGI")
    outcome.take(uwsgi.RULES[name], name, "true" if value is None else value)
    return _sentence(who, outcome, name, toml=toml)


def key(name: str, value: Any) -> str:
    """A sentence for a key that gunicorn's configuration file has, or for another server's flag as a key; empty: nobody
    has one of that name."""
    if name in (*gunicorn.SETTINGS, *gunicorn.TOGETHER):
        outcome = _outcome("gunicorn", name, value)
        return _sentence(f"gunicorn's '{name}'", outcome, name, toml=True)
    word = name.replace("_", "-")
    switched_off = value is False and any(f"--no-{word}" in grammar.switches for grammar in GRAMMARS.values())
    return flag(f"--no-{word}" if switched_off else f"--{word}", str(value), toml=True)


def choice(option: Option, value: Any, *, toml: bool) -> str:
    """A sentence for a value that gunicorn knows of an option which we have too, such as its worker classes; empty: it
    is none of those, or one of ours."""
    if option.name != "worker_class" or not isinstance(value, str):
        return ""
    if value not in WORKER_CLASSES and "." not in value and ":" not in value:
        return ""
    who = f"gunicorn's {option.name if toml else option.flag} {value}"
    return _sentence(who, _outcome("gunicorn", option.name, value), option.name, toml=toml)


def _outcome(server: str, name: str, value: Any) -> Outcome:
    outcome = Outcome(server)
    if server == "gunicorn":
        # Some of its settings are read together with the kind of its worker: threads are the common case.
        kind = {"worker_class": "gthread"} if name in gunicorn.TOGETHER and name != "timeout" else {}
        kind = NEEDED.get(name, kind)
        gunicorn.translate(outcome, {**kind, name: value})
        if outcome.tls:
            outcome = Outcome(server)
            gunicorn.translate(outcome, {**BESIDE, name: value})
        return outcome
    outcome.take(RULES[server][name], name, value)
    if outcome.tls:
        for setting, given in BESIDE.items():
            if (role := BESIDE_AS[setting]) not in outcome.tls:
                tls.note(role)(outcome, "", given)
        tls.translate(outcome)
    return outcome


def _weight(outcome: Outcome) -> int:
    return 1 if outcome.settings else 0


def _sentence(who: str, outcome: Outcome, name: str, *, toml: bool) -> str:
    ours = list(_ours(outcome, name, toml))
    remarks = list(outcome.about(name))
    reasons = [remark.reason if toml else _with_flags(remark.reason) for remark in remarks]
    if ours:
        return f"{who} is {' and '.join(ours)} here" + (f"; {reasons[0]}" if reasons else "")
    needless = bool(remarks) and all(remark.kind == NOT_NEEDED for remark in remarks)
    why = "; ".join(reasons) or "it needs none"
    return f"{who} is not needed here, leave it out: {why}" if needless else f"{who} has no counterpart here: {why}"


def _with_flags(reason: str) -> str:
    """A reason for a file, for somebody who has typed a flag: our options as flags."""
    return re.sub(
        r"\b[a-z0-9]+(_[a-z0-9]+)+\b",
        lambda found: OPTIONS[found[0]].flag if found[0] in OPTIONS else found[0],
        reason,
    )


def _ours(outcome: Outcome, name: str, toml: bool) -> Iterator[str]:
    for option, value in outcome.settings.items():
        if not outcome.took(option, name):
            continue
        if toml:
            yield f"{option} = {literal(value)}"
        elif OPTIONS[option].kind == "bool":
            yield f"`{OPTIONS[option].flag if value else '--no-' + OPTIONS[option].flag[2:]}`"
        else:
            text = ",".join(value) if isinstance(value, list) else str(value)
            yield f"`{OPTIONS[option].flag} {shlex.quote(text)}`"

"""No option of another server is forgotten: each in its own list has an answer, and each answer a setting that exists.

The lists under data/options/ are the names that the servers' own help gives.
"""

from __future__ import annotations

import ast
from pathlib import Path

import forehand.migrate
import pytest
from forehand.migrate import (
    daphne,
    granian,
    gunicorn,
    gunicorn_flags,
    hypercorn,
    mod_wsgi,
    uvicorn,
    uwsgi,
    uwsgi_file,
    waitress,
)
from forehand.migrate.outcome import Outcome
from forehand.settings import OPTIONS

LISTS = Path(__file__).parent / "data" / "options"


def listed(name: str) -> list[list[str]]:
    """The lines of a list, as words."""
    lines = [line.split() for line in (LISTS / name).read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 20
    return lines


def test_each_setting_of_gunicorn_has_an_answer() -> None:
    known = {*gunicorn.SETTINGS, *gunicorn.TOGETHER, *gunicorn.HOOKS}
    assert {name for name, *_ in listed("gunicorn.txt")} == known


def test_each_flag_of_gunicorn_names_its_setting() -> None:
    flags = {**gunicorn_flags.FLAGS, **{flag: name for flag, (name, _) in gunicorn_flags.SWITCHES.items()}}
    assert {flag: name for name, *given in listed("gunicorn.txt") for flag in given} == flags


@pytest.mark.parametrize(
    "server", [uvicorn, granian, waitress, hypercorn, daphne], ids=lambda server: server.__name__.rpartition(".")[2]
)
def test_each_flag_of_a_server_has_an_answer(server) -> None:
    flags = {words[0] for words in listed(f"{server.__name__.rpartition('.')[2]}.txt")}
    assert flags - {*server.GRAMMAR.valued, *server.GRAMMAR.switches} == set()
    named = {*server.GRAMMAR.valued.values(), *(name for name, _ in server.GRAMMAR.switches.values())}
    assert named == set(server.RULES)


def test_each_flag_of_mod_wsgi_express_has_an_answer() -> None:
    grammar = mod_wsgi.GRAMMAR
    named = {*grammar.valued.values(), *(name for name, _ in grammar.switches.values())}
    assert named == {*mod_wsgi.RULES, *mod_wsgi.TARGET, *mod_wsgi.STATIC}


def test_each_option_of_uwsgi_has_an_answer() -> None:
    logic = ("if-", "ifdir", "ifenv", "ifexists", "ifplugin", "for", "end-", "endif", "endfor", "set", "xmlconfig")
    elsewhere = (*uwsgi.TOGETHER, *uwsgi_file.LOADS)
    names = [words[0] for words in listed("uwsgi.txt")]
    assert [
        name for name in names if not uwsgi.rule(name) and name not in elsewhere and not name.startswith(logic)
    ] == []


def test_rules_name_settings_that_exist() -> None:
    # `same("x")`, `outcome.put("x", …)` and their like, in the text: not every rule is reached by a test.
    names = set()
    for path in Path(forehand.migrate.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in ("same", "wider", "put", "raise_limit", "_whole"):
                    names.add(node.args[0].value)
    assert len(names) > 30
    assert names - OPTIONS.keys() == set()


def test_hooks_become_hooks_that_exist_or_are_told_of() -> None:
    ours = {name for name, _ in gunicorn.HOOKS.values() if name}
    assert ours <= {"on_start", "on_worker_start", "on_worker_ready", "on_worker_exit", "on_reload", "on_stop"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("threads", "0"), ("bind", ["x"] * 3), ("log_level", "loud"), ("access_log", "%z"), ("backlog", "-1")],
)
def test_a_value_that_ours_does_not_take_is_told_of_and_not_written(name: str, value: object) -> None:
    outcome = Outcome("x")
    outcome.put(name, value, "theirs")
    if name == "bind":
        assert outcome.settings == {"bind": ["x"]}
    else:
        assert outcome.settings == {}
        assert [remark.option for remark in outcome.remarks] == ["theirs"]

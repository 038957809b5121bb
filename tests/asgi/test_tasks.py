"""A request is a real task: contextvars, cancellation, `receive()` and `send()` as tasks of their own."""

from __future__ import annotations

import re

import pytest
from serving import Serving
from test_http import ask  # type: ignore[import-not-found]

pytestmark = pytest.mark.interpreters


def test_context_variables_belong_to_their_request(views: Serving) -> None:
    assert ask(views, "/context?one")[2] == b"none one one True"
    assert ask(views, "/context?two")[2] == b"none two two True"


def test_receive_and_send_can_be_tasks(views: Serving) -> None:
    assert ask(views, "/create-task")[2] == b"http.request"


def test_a_receive_can_be_given_up(views: Serving) -> None:
    assert ask(views, "/timeout")[2] == b"no event"


def test_cancelling_one_task_leaves_the_request_alone(views: Serving) -> None:
    assert ask(views, "/group")[2] == b"only the inner one"


def test_a_group_and_a_timeout_end_inside_their_request(views: Serving) -> None:
    assert ask(views, "/task-group")[2] == b"cancelled LookupError timed out"


def test_awaitables_can_be_stepped_by_hand(views: Serving) -> None:
    # The second `receive()` of a request without a body would wait: it yields its future.
    heard = ask(views, "/by-hand", body=b"x")[2].decode()
    assert re.fullmatch(
        r"\['http.request', <Future.*>, <Future.*>, \"'thrown'\", None, None, None, \"'thrown'\"\]", heard
    ), heard


def test_each_task_has_a_name_of_its_own(views: Serving) -> None:
    names = {ask(views, "/task-name")[2].decode() for _ in range(3)}
    assert len(names) == 3
    for minor, name in (text.split() for text in names):
        # Python 3.12 and newer name a task when somebody asks; before, it has the number of its request.
        wanted = "Task" if int(minor) >= 12 else "Request"
        assert re.fullmatch(f"{wanted}-[1-9][0-9]*", name), names

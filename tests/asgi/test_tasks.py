"""A request is a real task: contextvars, cancellation, `receive()` and `send()` as tasks of their own."""

from __future__ import annotations

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

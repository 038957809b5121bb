"""Where a worker stood that a signal has ended, by what its fault handler has left."""

from __future__ import annotations

import os

import pytest
from forehand.supervisor import last_words

LIBRARY = os.path.dirname(os.__file__)
INSTALLED = "/srv/env/lib/site-packages"
HEAD = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"


def frame(file: str, line: int, name: str) -> str:
    return f'  File "{file}", line {line} in {name}\n'


SHOP = frame("/srv/shop.py", 57, "broken")
CALLED = frame("/srv/shop.py", 90, "application")
C_TYPES = frame(f"{LIBRARY}/ctypes/__init__.py", 519, "string_at")
DRIVER = frame(f"{INSTALLED}/driver/query.py", 7, "fetch")
WAITS = frame(f"{last_words.OWN}supervisor/worker_control.py", 80, "wait")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + SHOP + CALLED + "\nExtension modules: forehand._core (total: 1)\n", " at /srv/shop.py:57 in broken"),
        (HEAD + C_TYPES + SHOP + CALLED,
         f" at /srv/shop.py:57 in broken, which was in {LIBRARY}/ctypes/__init__.py:519 in string_at"),
        (HEAD + DRIVER + SHOP, f" at /srv/shop.py:57 in broken, which was in {INSTALLED}/driver/query.py:7 in fetch"),
        (HEAD + C_TYPES + DRIVER, f" at {INSTALLED}/driver/query.py:7 in fetch, which was in "
         f"{LIBRARY}/ctypes/__init__.py:519 in string_at"),
        # The last one counts: before it stacks were asked for, or a forked child has died.
        (HEAD + CALLED + HEAD + SHOP, " at /srv/shop.py:57 in broken"),
        ("Thread 0x00007f (most recent call first):\n" + SHOP, ""),
        (HEAD.replace("Current t", "T") + C_TYPES + CALLED + "\n" + HEAD.partition("\n\n")[2] + SHOP + "\n"
         + HEAD.partition("\n\n")[2].replace("Current t", "T") + DRIVER, " at /srv/shop.py:57 in broken"),
        # Of other threads nothing is said.
        (HEAD + "  <no Python frame>\n", ""),
        (HEAD + WAITS + C_TYPES + frame("<string>", 1, "<module>"), ""),
        (HEAD + '  File "/srv/shop.py", line ??? in broken\n', ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_line_of_the_application_s_own_is_told(text: str, said: str) -> None:
    assert last_words.place(text) == said


@pytest.mark.parametrize(
    ("text", "thread"),
    [(HEAD + SHOP, 0x7F), (HEAD.replace("7f", "80") + SHOP + HEAD + SHOP, 0x7F),
     (HEAD.replace("7f (", "7f [w] ("), 0x7F), (HEAD.replace("7f (", "xy ("), 0),
     ("Current thread 0x7f (most recent call first):\n", 0), ("", 0)],
)  # fmt: skip
def test_the_thread_that_it_happened_in_is_known(text: str, thread: int) -> None:
    assert last_words.thread(text) == thread

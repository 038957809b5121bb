"""Files and command lines that are damaged: an answer or a Problem, never an exception or a page that does not load.

Everything under data/ that is not a program, and the command lines of test_pages, changed here and there by a seeded
generator, so that a failure comes again.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from forehand.errors import Problem
from forehand.migrate import page
from test_pages import DATA, FILES, LINES, loads

TIMES = 150
PIECES = [
    "", '"', "'", "%", "%(", "$(", "@(", ")", "{", "}", "[", "]", ":", "=", "\n", "\\", "0", "-1", "null", "true", " ",
    "#", "é", "\x00", "if-", "for = ", "end-for =",
]  # fmt: skip
WORDS = ["", "--", "-", "-w", "--bind", "x", "$PORT", "--umask", "-1", "--x=", "=", "-Dw", "&&", ";", "'"]


def damaged(text: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice(PIECES) + text[at + dice.randint(0, 12) :]
    return text


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix != ".py"], ids=lambda path: path.name)
def test_a_damaged_file_is_answered(path: Path, tmp_path: Path) -> None:
    dice = random.Random(path.name)
    answered = 0
    for _ in range(TIMES):
        text = damaged(path.read_text(), dice)
        (tmp_path / path.name).write_text(text)
        try:
            made = page(path.name, str(tmp_path), {})
        except Problem as problem:
            assert str(problem)
            continue
        except Exception as error:
            raise AssertionError(f"{error!r} for:\n{text}") from error
        loads(made, tmp_path)
        answered += 1
    assert answered, "some damage is small"


@pytest.mark.parametrize("line", LINES)
def test_a_damaged_command_line_is_answered(line: str, tmp_path: Path) -> None:
    dice = random.Random(line)
    for _ in range(TIMES):
        words = line.split(" ")
        words[dice.randrange(len(words))] = dice.choice(WORDS)
        source = " ".join(words)
        try:
            loads(page(source, str(DATA), {}), tmp_path)
        except Problem as problem:
            assert str(problem)
        except Exception as error:
            raise AssertionError(f"{error!r} for: {source}") from error

"""What finds circles of files and repeated lines finds those that are planted, and nothing where there are none.

Knows: sources as text. Does not know: the project's own, which `test_tidy.py` looks at.
"""

from __future__ import annotations

from pathlib import Path

import circles
import pytest
from repeats import repeats

LENGTH = 8
RUST = {
    "through a tree of imports, and a path in code": (
        {
            "a.rs": "use crate::b::B;",
            "b.rs": "use crate::{c::{self, D}, e};",
            "c.rs": "fn f() { super::a::g() }",
            "e.rs": "",
        },
        ["a", "b", "c"],
    ),
    "through what the crate shows again": (
        {"lib.rs": "pub use b::B;", "a.rs": "use crate::B;", "b.rs": "use crate::a::A;"},
        ["a", "b"],
    ),
    "through a parent and its child": (
        {"a.rs": "use crate::p::P;", "p.rs": "use self::q::Q;", "p/q.rs": "use super::super::a::A;"},
        ["a", "p", "p::q"],
    ),
    "a parent and its child": ({"p.rs": "use self::q::Q;", "p/q.rs": "use super::P;"}, None),
    "a parent and two children": (
        {"p.rs": "use self::{q::Q, r::R};", "p/q.rs": "use super::r::R;", "p/r.rs": "use super::P;"},
        None,
    ),
    "two children of a parent": (
        {"p/mod.rs": "mod q; mod r;", "p/q.rs": "use super::r::R;", "p/r.rs": "use super::q::Q;"},
        ["p::q", "p::r"],
    ),
    "tests inside of the file": (
        {
            "a.rs": "use crate::b::B;",
            "b.rs": 'const D: char = \'"\';\n#[cfg(test)]\nmod tests { const C: &str = "}"; use crate::a::A; }',
        },
        None,
    ),
    "a comment, and an import for tests": (
        {"a.rs": "use crate::b::B;", "b.rs": "// crate::a\n#[cfg(test)] use crate::a::{A};\nfn f() {}"},
        None,
    ),
    "tests in a file of their own": (
        {"a.rs": "use crate::b::B;", "b.rs": "#[cfg(test)]\nmod tests;", "b/tests.rs": "use crate::a::A;"},
        None,
    ),
}
PYTHON = {
    "in a function, relative, and for type checkers": (
        {
            "a.py": "from p import b",
            "b.py": "def f():\n    from . import c",
            "c.py": "if TYPE_CHECKING:\n    import p.a",
        },
        ["p.a", "p.b", "p.c"],
    ),
    "through a package's first file": (
        {"q/__init__.py": "from p.q.r import R", "q/r.py": "from ..a import A", "a.py": "import p.q"},
        ["p.a", "p.q", "p.q.r"],
    ),
    "a package and its own file": (
        {"q/__init__.py": "from p.q.r import R", "q/r.py": "from p.q import f", "a.py": "import p.q.r"},
        None,
    ),
    "one way": ({"a.py": "import p.b, p.c", "b.py": "import p.c", "c.py": "import os"}, None),
}
CASES = {**RUST, **PYTHON}


@pytest.mark.parametrize("case", CASES)
def test_a_planted_circle_is_found_and_nothing_else(case: str) -> None:
    sources, members = CASES[case]
    graph = circles.rust(sources) if case in RUST else circles.python(sources, "p")
    found = circles.circles(graph)
    assert found == ([members] if members else [])
    for group in found:
        told = circles.shown(graph, group)
        assert all(f"{one} -> " in told for one in group), "each step is named"


@pytest.mark.parametrize(("suffix", "comment"), [(".py", "#"), (".rs", "//")])
def test_a_planted_repeat_is_found(tmp_path: Path, suffix: str, comment: str) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    lines = [f"f{number}(1)" for number in range(LENGTH)]
    one.write_text("\n".join([f"{comment} one", "g(2)", *lines]))
    other.write_text("\n".join([*lines[:3], "", f"{comment} more", *lines[3:]]))
    assert repeats([one, other], LENGTH) == [(one, 3, other, 1, LENGTH)]
    other.write_text("\n".join(lines[1:]))
    assert repeats([one, other], LENGTH) == []

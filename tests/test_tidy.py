"""The house is in order: sizes, names, layers, words at the door of each file.

Knows the files that git would keep, as text. Does not know what the code does; style beyond this is for reviewers.
"""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import circles
import pytest
from repeats import repeats

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if (ROOT / name).is_file()
]

SOURCES = [path for path in FILES if path.suffix in (".rs", ".py") and "migrations" not in path.parts]
RUST = [path for path in SOURCES if path.suffix == ".rs"]
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
PAGES = [path for path in FILES if path.suffix == ".md"]
CRATES = ("wire", "reactor", "server", "bridge")
UNSAFE = ("crates/reactor/src/sys/", "crates/bridge/src/ffi/")
FORBIDDEN = {"util", "utils", "common", "helper", "helpers", "misc", "manager", "handler", "context"}
LINES, LINES_HOPED_FOR, FUNCTION_LINES = 800, 350, 70
#: The product's own code: each room, and what its files end in.
ROOMS = {**{f"crates/{name}/src": ".rs" for name in CRATES}, "python/forehand": ".py", "lab": ".py"}
PRODUCT = [path for path in SOURCES if any(path.is_relative_to(ROOT / room) for room in (*ROOMS, "lab/load/src"))]
PRODUCT_LINES, PRODUCT_MEDIAN, SHARED_LINES = 500, 250, 8
#: What is still to be mended: rooms with circles of files, and files that are too long. Nothing may be added here, and
#: what is mended has to be taken out.
STILL_CIRCULAR: set[str] = set()
STILL_LONG: set[str] = set()
# Whose job it is to print: the command, programs that are run by hand or by make, and what cargo listens to.
PRINTS = (
    "crates/bridge/build.rs",
    "python/forehand/supervisor/client.py",
    "python/forehand/cli.py",
    "python/forehand/run.py",
    "tools/",
    "bench/",
    "fuzz/",
    "tests/torment/__main__.py",
    "tests/bystander.py",
    "tests/server/test_http2_attacks.py",
    "examples/django_shop/",
)


def shown(path: Path) -> str:
    """A path as people write it, which is also the name of its test."""
    return str(path.relative_to(ROOT))


def test_git_tells_what_belongs_to_the_project() -> None:
    assert len(SOURCES) > 50, "git ls-files told next to nothing: the other tests here would prove nothing"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_a_source_file_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    lines = len(text.splitlines())
    assert lines <= LINES
    if lines > LINES_HOPED_FOR:
        warnings.warn(f"{shown(path)} has {lines} lines; {LINES_HOPED_FOR} are hoped for", stacklevel=1)
    if not text:
        return
    if path.suffix == ".py":
        assert ast.get_docstring(ast.parse(text)), "the first lines say what the file is"
    else:
        assert text.startswith("//! "), "the first lines say what the file is"


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_no_name_says_nothing(path: Path) -> None:
    named = {part.lower() for part in (*path.relative_to(ROOT).parts[:-1], path.stem)}
    assert named & FORBIDDEN == set(), "name the file after what it knows"


@pytest.mark.parametrize("path", RUST, ids=shown)
def test_unsafe_stays_in_its_rooms_and_says_why_it_is_sound(path: Path) -> None:
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        code = line.split("//")[0]
        if not re.search(r"\bunsafe\s*(\{|fn\b|impl\b|extern\b|trait\b)", code):
            continue
        assert shown(path).startswith(UNSAFE), f"line {number + 1}: unsafe outside its two folders"
        if re.search(r"\bunsafe\s*(\{|impl\b)", code):
            above = "\n".join(lines[max(0, number - 8) : number + 1])
            assert "SAFETY:" in above, f"line {number + 1}: no // SAFETY: says why this is sound"


def test_only_what_lets_go_of_the_interpreter_says_so() -> None:
    claimed = [shown(path) for path in RUST if re.search(r"MayWait::claim", path.read_text())]
    assert claimed == ["crates/bridge/src/ffi/gil.rs"], "a wait elsewhere may hold up every thread"


def test_only_a_transport_has_a_socket_in_hand() -> None:
    # A unit test may make one, to have something to put into a transport.
    named = re.compile(r"\breactor::(?:sys::)?(?:Socket\b|\{[^}]*\bSocket\b)|\bReactor::read\b")
    rooms = (ROOT / "crates/server/src", ROOT / "crates/bridge/src")
    touch = {
        shown(path)
        for room in rooms
        for path in room.rglob("*.rs")
        if named.search(path.read_text().partition("#[cfg(test)]")[0])
    }
    # A transport is one within TLS, too.
    rooms_of_sockets = ("accept.rs", "transport.rs", "tls/encrypted.rs")
    assert touch == {f"crates/server/src/{name}" for name in rooms_of_sockets}


def test_no_test_waits_where_nobody_runs_it() -> None:
    """A module for Python cannot be linked without one, so that `cargo test` leaves it out."""
    assert [shown(path) for path in (ROOT / "crates/bridge").rglob("*.rs") if "#[test]" in path.read_text()] == []


def rust_functions(path: Path) -> Iterator[tuple[int, int]]:
    """First line and length of each function, by the brace that closes it: rustfmt keeps the indentation."""
    begun = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'( *)(pub(\([a-z]+\))? )?(const )?(async )?(unsafe )?(extern "C" )?fn \w+', line)
        if found:
            begun = (number, found[1])
        elif begun and line == begun[1] + "}":
            yield begun[0], number - begun[0] + 1
            begun = None


def python_functions(path: Path) -> Iterator[tuple[int, int]]:
    """First line and length of each function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
            yield node.lineno, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_functions_fit_on_a_screen(path: Path) -> None:
    functions = python_functions(path) if path.suffix == ".py" else rust_functions(path)
    long = [f"{shown(path)}:{line} has {length} lines" for line, length in functions if length > FUNCTION_LINES]
    assert long == []


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_only_those_print_whose_job_it_is(path: Path) -> None:
    name = shown(path)
    if name.startswith(PRINTS) or name == "tests/test_tidy.py" or "/examples/" in name:
        return
    printed = r"\b(e?print(ln)?|dbg)!\(" if path.suffix == ".rs" else r"^\s*print\("
    found = re.search(printed, path.read_text(), re.M)
    # Rust tests print what they have counted, and cargo shows it only where one fails.
    assert not found or "/tests/" in name, f"{name} prints: {found}"


def graph_of(room: str) -> circles.Graph:
    """Which file of a room needs which."""
    files = [path for path in SOURCES if path.suffix == ROOMS[room] and path.is_relative_to(ROOT / room)]
    sources = {str(path.relative_to(ROOT / room)): path.read_text() for path in files}
    package = {"python/forehand": "forehand", "lab": "forehand_lab"}
    return circles.python(sources, package[room]) if room in package else circles.rust(sources)


@pytest.mark.parametrize("room", ROOMS)
def test_files_do_not_need_one_another_in_a_circle(room: str) -> None:
    graph = graph_of(room)
    assert sum(map(len, graph.values())) > 10, "next to no import was found: this would prove nothing"
    found = [circles.shown(graph, group) for group in circles.circles(graph)]
    if room in STILL_CIRCULAR:
        assert found, f"{room} has no circle any more: take it out of STILL_CIRCULAR"
    else:
        assert found == []


def test_no_two_places_share_eight_lines_of_logic() -> None:
    found = [
        f"{shown(one)}:{line} and {shown(other)}:{there}: {count} lines"
        for one, line, other, there, count in repeats(PRODUCT, SHARED_LINES)
    ]
    assert found == [], "one function could serve both"


def test_files_of_the_product_are_short() -> None:
    lengths = {shown(path): len(path.read_text().splitlines()) for path in PRODUCT}
    long = {name for name, length in lengths.items() if length > PRODUCT_LINES}
    assert long - STILL_LONG == set(), f"more than {PRODUCT_LINES} lines"
    assert STILL_LONG - long == set(), "these are short now: take them out of STILL_LONG"
    for room in ROOMS:
        assert statistics.median(n for name, n in lengths.items() if name.startswith(room)) <= PRODUCT_MEDIAN, room


def dependencies(manifest: Path) -> set[str]:
    """Names in every table of dependencies of a Cargo.toml: of tests, builds and single targets too."""
    text = manifest.read_text()
    tables = re.findall(r"^\[(?:target\.[^\n]*\.)?(?:dev-|build-)?dependencies\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S)
    return {name for table in tables for name in re.findall(r"^([\w-]+)", table, re.M)}


def crate(name: str) -> set[str]:
    """What a crate of ours depends on."""
    return dependencies(ROOT / "crates" / name / "Cargo.toml")


def test_the_layers_hold() -> None:
    ours = set(CRATES)
    assert crate("wire") & ours == set()
    assert crate("reactor") & ours == set()
    assert crate("server") & ours == {"wire", "reactor"}
    assert crate("bridge") & ours == {"wire", "reactor", "server"}
    assert crate("status") & ours == {"server"}
    assert "pyo3" not in crate("wire") | crate("reactor") | crate("server") | crate("status"), (
        "only the bridge knows Python"
    )
    assert "libc" not in crate("wire") | crate("server"), "only reactor makes system calls"


def test_the_load_engine_shares_nothing_with_the_server() -> None:
    assert dependencies(ROOT / "lab/load/Cargo.toml") & set(CRATES) == set(), "one bug would blind both sides"
    for path in (ROOT / "lab" / "load" / "src").rglob("*.rs"):
        if path.name != "system.rs":
            assert not re.search(r"rustix::(?!fd|net::\{?SocketAddr)", path.read_text()), shown(path)


def test_the_wire_has_no_socket_clock_or_thread() -> None:
    for path in (ROOT / "crates" / "wire" / "src").rglob("*.rs"):
        found = re.search(
            r"\bstd::(net::(Tcp|Udp)|os|fs|thread|process|env|time::(Instant|SystemTime))", path.read_text()
        )
        assert not found, f"{shown(path)}: {found}"


def test_every_dependency_has_its_reason() -> None:
    reasons = re.findall(r"^\| (\w[\w, -]*?)(?: \(.*\))? \| .+ \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.M)
    named = {name.strip() for row in reasons for name in row.split(",")}
    apart = [dependencies(ROOT / folder / "Cargo.toml") for folder in ("fuzz", "lab/load", "crates/status")]
    used = set().union(*apart, *(crate(name) for name in CRATES)) - set(CRATES)
    project = (ROOT / "pyproject.toml").read_text()
    used |= set(re.findall(r'^\s*(?:\w+ = \[)?"([\w-]+)[>=]', project, re.M))
    assert {"memchr", "httparse", "maturin", "tomli", "django"} <= used, "the lists are read as they are written"
    assert used - named == set(), "ARCHITECTURE.md gives no reason for these"
    assert named - used - {"dependency"} == set(), "ARCHITECTURE.md names what is not used"


def test_every_limit_is_documented_and_tested_at_its_edge() -> None:
    limits = re.findall(r'^    (\w+): "', (ROOT / "crates/wire/src/limits.rs").read_text(), re.M)
    assert len(limits) > 20
    page = (ROOT / "docs" / "settings.md").read_text()
    tests = [path for path in FILES if "tests" in path.parts or "fuzz" in path.parts]
    text = "\n".join(path.read_text(errors="replace") for path in tests if path.suffix in (".py", ".rs", ".txt"))
    # The rate of lines is tested where it is kept.
    text += (ROOT / "crates/server/src/log.rs").read_text()
    aliases = {"connections": "limit-connections", "keep_alive_timeout": "--keep-alive", "error_log_rate": "Rate {"}
    for name in limits:
        dashed = name.replace("_", "-")
        assert f"-{dashed}`" in page, f"docs/settings.md does not name the limit {name}"
        words = (name, dashed, aliases.get(name, name))
        assert any(word in text for word in words), f"no test names the limit {name}"


def counters() -> list[str]:
    """The names of the engine's counters."""
    table = (ROOT / "crates/server/src/counters.rs").read_text().partition("\ncounters! {\n")[2].partition("\n}")[0]
    return re.findall(r"^    (\w+)$", table, re.M)


def test_every_limit_names_counters_that_are_counted() -> None:
    rows = re.findall(
        r'^    (\w+): "(?:.|\n)*?, "((?:\\.|[^"\\])*)";$', (ROOT / "crates/wire/src/limits.rs").read_text(), re.M
    )
    assert len(rows) > 20
    reasons = set(re.findall(r'^    \w+ = \d+ \w+ "([\w.-]+)"', (ROOT / "crates/wire/src/fault.rs").read_text(), re.M))
    wrongs = set(re.findall(r'^    \w+ = \w+ "([\w.-]+)"', (ROOT / "crates/wire/src/h2/fault.rs").read_text(), re.M))
    known = {*counters(), *(f'http_parse_errors_total{{reason=\\"{reason}\\"}}' for reason in reasons)}
    known |= {f'h2_faults{{reason=\\"{wrong}\\"}}' for wrong in wrongs}
    for limit, told in rows:
        assert told.startswith("none: ") or set(told.split(", ")) <= known, f"{limit}: there is no counter {told}"


def test_every_counter_is_counted_and_named_by_a_test() -> None:
    source = "\n".join(path.read_text() for path in RUST if "crates" in path.parts and "src" in path.parts)
    tests = "\n".join(path.read_text() for path in SOURCES if "tests" in path.parts)
    assert len(counters()) > 30
    for name in counters():
        assert re.search(rf"\b{name}\s*\.(add|copy)", source), f"nothing counts {name}"
        # In Python by its name, in Rust as a field.
        assert re.search(rf'"{name}"|\b{name}\.get\(\)', tests), f"no test names the counter {name}"


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can name."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_links_in_the_documentation_lead_somewhere(path: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]+))?\)", path.read_text()):
        target = path.parent / link if link else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


# `server/turn.rs` is a file of a crate; a file of the package may be named from its own folder on.
CRATE_FILE = re.compile(r"(?<![\w/])(wire|reactor|server|bridge)/([\w/]+\.rs)\b")
PACKAGE_FILE = re.compile(r"(?<![\w/])(?:python/forehand/)?((?:supervisor|asgi|greenlets|migrate)/\w+\.py)\b")


def test_files_that_comments_and_pages_name_exist() -> None:
    told: set[str] = set()
    gone: list[str] = []
    for path in (*PAGES, *PRODUCT):
        if path.name == "CHANGELOG.md":
            continue  # it tells of the past
        text = path.read_text()
        for crate_name, file in CRATE_FILE.findall(text):
            told.add(file)
            if not any((ROOT / "crates" / crate_name / folder / file).is_file() for folder in ("src", "tests", ".")):
                gone.append(f"{shown(path)}: {crate_name}/{file}")
        for file in PACKAGE_FILE.findall(text):
            told.add(file)
            if not (ROOT / "python/forehand" / file).is_file():
                gone.append(f"{shown(path)}: {file}")
    assert len(told) > 20, "next to no file is named: this would prove nothing"
    assert gone == [], "these were moved or renamed"


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    front = (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, page.name
        assert page.name == "README.md" or f"(docs/{page.name})" in front, page.name


def test_the_page_of_settings_is_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools/settings_page.py"], capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs/settings.md").read_text() == made, "run `make docs`"


def test_the_types_of_options_are_what_the_code_says() -> None:
    made = subprocess.run(
        [sys.executable, "tools/options_types.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "typed.py", "-"],
        cwd=ROOT, input=made, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert (ROOT / "python/forehand/typed.py").read_text() == formatted, "run `make docs`"


def test_the_keywords_that_editors_see_are_what_the_code_says() -> None:
    command = [sys.executable, "tools/options_types.py", "stub"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "stub.pyi", "-"]
    formatted = subprocess.run(command, cwd=ROOT, input=made, capture_output=True, text=True, check=True).stdout
    assert (ROOT / "python/forehand/__init__.pyi").read_text() == formatted, "run `make docs`"


def test_options_that_pages_name_exist() -> None:
    known = set(re.findall(r"`(--[\w-]+)`", (ROOT / "docs/settings.md").read_text()))
    told = subprocess.run([sys.executable, "-m", "forehand", "--help-all"], capture_output=True, text=True, check=True)
    known |= set(re.findall(r"--[\w-]+", told.stdout))
    known |= set(re.findall(r'"(--[\w-]+)"', (ROOT / "python/forehand/supervisor/client.py").read_text()))
    known |= set(re.findall(r'"(--[\w-]+)"', (ROOT / "python/forehand/supervisor/request_list.py").read_text()))
    known |= set(re.findall(r'"(--[\w-]+)"', (ROOT / "python/forehand/top/command.py").read_text()))
    for asked in (ROOT / "python/forehand/inside").glob("*.py"):
        known |= set(re.findall(r'"(--[\w-]+)"', asked.read_text()))
    for verb in (ROOT / "lab/own.py", *(ROOT / "lab/verbs").glob("*.py")):
        known |= set(re.findall(r'"(--[\w-]+)"', verb.read_text()))
    # In the tables of these pages the first column is the other server's.
    others = ("from-gunicorn.md", "from-uvicorn.md")
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = re.sub(r"^\| [^|]*\|", "", page.read_text(), flags=re.M) if page.name in others else page.read_text()
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]+", text):
            positive = option.replace("--no-", "--", 1)
            assert {option, positive} & known or option in FOREIGN, f"{shown(page)}: {option}"


# Options of other programs that pages mention, and of our own that measure.
FOREIGN = {
    "--command", "--header-map", "--secure-scheme-headers", "--http2", "--http2-prior-knowledge", "--enable-feature",
    "--unix-socket",
}  # fmt: skip


def test_no_file_names_a_machine() -> None:
    # Built in pieces, so that this file is not found by itself.
    forbidden = re.compile("/ho" + "me/|/ro" + r"ot/|/Us" + "ers/|/wo" + "rk/")
    for path in FILES:
        if path.suffix in (".png", ".ico") or path.name == "Cargo.lock":
            continue
        found = forbidden.search(path.read_text(errors="replace"))
        assert not found, f"{shown(path)}: {found}"


def test_changes_are_written_down() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## Unreleased\n")[2].partition("\n## ")[0]
    assert re.search(r"^- \w", unreleased, re.M), "CHANGELOG.md has nothing under Unreleased"

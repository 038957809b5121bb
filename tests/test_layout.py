"""Functions that run for each request stand side by side in the module: crates/bridge/build.rs asks the linker for it.

It is compiled with the compiler's profile, if that is of this compiler (tools/compiler_profile.py).
Knows the table of symbols of a 64-bit ELF file. Does not know how long anything takes, nor how much memory it is.
"""

from __future__ import annotations

import fnmatch
import re
import struct
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from forehand import _core

ROOT = Path(__file__).resolve().parent.parent
PROFILER = ROOT / "tools/compiler_profile.py"
LISTED = ROOT / "crates/bridge/hot_functions.txt"
SYMBOLS, FUNCTION = 2, 2
pytestmark = pytest.mark.once


def sections(image: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and header of each section (elf(5), Elf64_Shdr)."""
    start, size, count, names = struct.unpack_from("<Q10xHHH", image, 40)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + size * number) for number in range(count)]
    text = headers[names][4]
    for header in headers:
        yield image[text + header[0] : image.index(0, text + header[0])].decode(), header


def functions(image: bytes, tables: list[tuple[str, tuple[int, ...]]]) -> Iterator[tuple[str, int, int]]:
    """Name, address and size of each function that has a name."""
    for _, (_, kind, _, _, at, size, link, _, _, _) in tables:
        if kind == SYMBOLS:
            names = tables[link][1][4]
            for name, info, _, _, address, length in struct.iter_unpack("<IBBHQQ", image[at : at + size]):
                if info & 15 == FUNCTION and length:
                    yield image[names + name : image.index(0, names + name)].decode(), address, length


def test_what_runs_for_each_request_stands_side_by_side() -> None:
    """A linker that knows no such scripts (gold) leaves functions where they are, as do other systems'."""
    image = Path(_core.__file__).read_bytes()
    if image[:5] != b"\x7fELF\x02":
        pytest.skip("not a 64-bit ELF file")
    tables = list(sections(image))
    names = [name for name, _ in tables]
    if ".symtab" not in names or ".note.gnu.gold-version" in names:
        pytest.skip("stripped, or linked by gold")
    listed = [line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]
    is_hot = re.compile("|".join(map(fnmatch.translate, listed))).match
    hot = sorted({(address, length) for name, address, length in functions(image, tables) if is_hot(name)})
    assert len(hot) > len(listed) / 4, "the list has other names than the module: run tools/hot_functions.py"
    span = hot[-1][0] + hot[-1][1] - hot[0][0]
    own = sum(length for _, length in hot)
    assert span < 1.5 * own, f"{len(hot)} functions of {own >> 10} KiB lie in {span >> 10} KiB"


def test_the_compiler_has_found_what_its_profile_says_of_this_module() -> None:
    """Names of functions follow from versions: with other ones of a dependency the profile would say nothing."""
    spec = spec_from_file_location("compiler_profile", PROFILER)
    assert spec and spec.loader
    compiler_profile = module_from_spec(spec)
    spec.loader.exec_module(compiler_profile)
    if reason := compiler_profile.why_not():
        pytest.skip(f"the module is built without the compiler's profile: {reason}")
    image = Path(_core.__file__).read_bytes()
    listed = [line for line in compiler_profile.ABOUT.read_text().splitlines() if line.startswith("_ZN")]
    found = {name for name, _, _ in functions(image, list(sections(image)))}
    assert len(listed) > 50
    assert len(found.intersection(listed)) > len(listed) / 3, (
        "the profile has other names than the module: run tools/compiler_profile.py make"
    )


def test_valgrind_finds_all_code_in_one_section() -> None:
    """It knows code by the name `.text`, and a second section of code would be without names."""
    image = Path(_core.__file__).read_bytes()
    if image[:5] != b"\x7fELF\x02":
        pytest.skip("not a 64-bit ELF file")
    assert [name for name, _ in sections(image) if name.startswith(".text")] == [".text"]

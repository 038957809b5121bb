"""pytest, and the few tests that fail beside others once more, alone: `tools/suite.py OPTION... -- FILE...`.

Thousands of tests begin servers beside one another, on machines that may be busy with other work as well. What is
broken fails twice. A test that passes alone had no processor in time, or met a fault that is rare: its failure stays in
the output, whole, and its name is in the last lines, as it wants to be mended. Of more than FEW nobody can say that a
busy machine is to blame: they have failed. Options and exit statuses are pytest's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

#: How many are tried again.
FEW = 5
#: What pytest exits with when tests have failed, and nothing worse has happened.
SOME_FAILED = 1


def failed(cache: Path) -> list[str]:
    """What pytest has noted, without the group that pytest-xdist writes behind a name."""
    noted = cache / "v/cache/lastfailed"
    names = json.loads(noted.read_text()) if noted.exists() else {}
    return sorted(name.rpartition("@tests/")[0] or name for name in names)


def main(arguments: list[str]) -> int:
    """Run them; the exit status."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    command = [sys.executable, "-m", "pytest", *arguments[:at]]
    with tempfile.TemporaryDirectory() as folder:
        status = subprocess.call([*command, "-o", f"cache_dir={folder}", *arguments[at + 1 :]])
        names = failed(Path(folder))
    if status != SOME_FAILED or not 0 < len(names) <= FEW:
        return status
    print(f"\nOnce more, alone: {' '.join(names)}", flush=True)
    status = subprocess.call([*command, "-n", "0", "-p", "no:cacheprovider", *names])
    if status == 0:
        print("".join(f"\nfailed beside others, passed alone: {name}" for name in names), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

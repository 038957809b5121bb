"""The command line of those that compare the driver with others.

Knows: how long, which inputs, which driver. Does not know: what is compared.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def parsed(purpose: str | None) -> argparse.Namespace:
    """`seconds`, `seed` (None: others each time) and `driver`; ends with status 2 where that is not built."""
    parser = argparse.ArgumentParser(description=(purpose or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    parser.add_argument("--driver", type=Path, default=target / "release" / "drive")
    options = parser.parse_args()
    if not options.driver.exists():
        print(f"{options.driver} is missing: cargo build --release --manifest-path fuzz/Cargo.toml", file=sys.stderr)
        raise SystemExit(2)
    return options

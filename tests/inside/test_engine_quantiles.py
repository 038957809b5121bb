"""The lab's engine plays five mixes: as many requests are counted as it has asked, and quantiles lie where they can."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scraper import PROGRAM

BENCH = Path(__file__).resolve().parents[2] / "bench/quantiles.py"
ENGINE = Path(os.environ.get("FOREHAND_LOAD") or BENCH.parents[1] / "target/release/forehand-load")
REQUESTS = 60
#: What a native bucket adds at the most, and what a classic one does to a time that is within it.
FINE, COARSE = 1.045, 2.6


def quantile_of_views(views: dict[str, int], share: int) -> float:
    """What requests take at least."""
    times = sorted(seconds for path, count in views.items() for seconds in [float(path.split("/")[2])] * count)
    return times[math.ceil(len(times) * share / 100) - 1]


@pytest.mark.skipif(PROGRAM is None, reason="no prometheus here (Debian's package prometheus)")
@pytest.mark.skipif(not ENGINE.exists(), reason="forehand-load is not built: make load")
def test_five_mixes_are_counted_to_the_request_and_their_quantiles_lie_where_they_can() -> None:
    command = [sys.executable, str(BENCH), "--requests", str(REQUESTS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    mixes: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(mixes) == 5
    for mix in mixes:
        assert mix["asked"] == mix["counted"] == sum(mix["views"].values()) == REQUESTS, mix
        for share in (50, 90, 99):
            # Views take their time. A reply may be with its client before the server's clock is read: that is a moment.
            least, most = quantile_of_views(mix["views"], share), mix["longest"] + 0.1
            told = mix[f"p{share}"]
            assert least <= told["native"] * FINE and told["native"] <= most * FINE, (mix["mix"], share, least, told)
            assert least <= told["classic"] * COARSE and told["classic"] <= most * COARSE, (mix["mix"], share, told)

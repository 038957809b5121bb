"""What `forehand lab selftest` plants, as far as no clock decides: counts, verdicts, memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from forehand_lab import engine, sampling
from forehand_lab.problem import Problem
from forehand_lab.truth import tests as truth

try:
    engine.found()
except Problem:
    pytest.skip("forehand-load is not built: make load", allow_module_level=True)

COUNTED = (
    truth.errors_are_counted_by_kind,
    truth.no_descriptors_is_no_server_error,
    truth.no_ports_is_no_server_error,
    truth.shared_memory_is_counted_once,
    truth.a_starved_generator_is_not_ranked,
    truth.nagle_is_named,
)


@pytest.mark.parametrize("planted", COUNTED, ids=lambda planted: planted.__name__)
def test_what_is_planted_comes_back(planted: Callable[[], str]) -> None:
    assert planted()


def test_processor_time_is_known_to_less_than_a_tick() -> None:
    before = sampling.cpu_s([os.getpid()])
    end = time.process_time() + 0.0031
    while time.process_time() < end:
        pass
    used = sampling.cpu_s([os.getpid()]) - before
    assert 0.0031 <= used and used % 0.01 != 0
    assert sampling.clock_s(2**22 + 1) is None, "a process that there is not"

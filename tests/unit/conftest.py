"""For all unit tests: no terminal's width, neither of whoever runs them nor what pytest-xdist tells its workers."""

import os
import time

import pytest

from agent.node.history.clock import HistoryClock
from agent.node.offline.recorder_sources import StateDirectory

for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

_DAY_SECONDS = 24 * 3600


@pytest.fixture
def long_since_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has been up for days, whenever this one began: a test may write down what was hours ago."""
    seconds, nanoseconds = time.monotonic, time.monotonic_ns

    def later_ns() -> int:
        return nanoseconds() + 30 * _DAY_SECONDS * 10**9

    monkeypatch.setattr(time, "monotonic", lambda: seconds() + 30 * _DAY_SECONDS)
    monkeypatch.setattr(time, "monotonic_ns", later_ns)
    for bound in (HistoryClock, StateDirectory):  # to the clock, when they were imported
        defaults = bound.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "monotonic_ns", later_ns)

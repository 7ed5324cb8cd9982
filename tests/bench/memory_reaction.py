"""How long a container that is held back at memory.high waits for a larger limit: the real agent on a real kernel.

This machine's own hierarchy may lack the memory controller, so it runs in the guest of tests/guest, in emulation. The
API server and the kubelet are played there; the agent's settings are its defaults, but that it may act, and that no
plan comes by chance. The clock runs from the moment the kernel first holds a task back until the API server has taken
the resize. tests/e2e has the same with a real kubelet.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from tests.bench.reaction_times import Odd, Outcome, figures
from tests.guest.kernel import ensure
from tests.guest.machine import EXCHANGE, booted, python_command
from tests.guest.waiting import DEADLINE_SECONDS

RUNS: Final = 50


LOOK_SECONDS: Final = 5.0
NAME: Final = "outcomes.json"


def measure() -> Iterator[dict[str, float]]:
    """Run; give the figures of all runs so far each time there are more."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder, ThreadPoolExecutor(1) as pool:
        exchange = Path(folder) / "exchange"
        guest = pool.submit(_run_guest, exchange)
        last_outcomes: list[Outcome] = []
        is_over = False
        while not is_over:
            is_over = bool(wait([guest], LOOK_SECONDS).done)  # asked first: what the last run wrote is read then
            outcomes = read_outcomes(exchange / NAME)
            if len(outcomes) > len(last_outcomes):
                last_outcomes = outcomes
                yield figures("memory_reaction", last_outcomes, patience_seconds=DEADLINE_SECONDS)
        guest.result()


def read_outcomes(file: Path) -> list[Outcome]:
    """Return what the guest has written so far; it puts a whole file in place of the last."""
    if not file.exists():
        return []
    return [Odd(outcome) if isinstance(outcome, str) else outcome for outcome in json.loads(file.read_text())]


def _run_guest(exchange: Path) -> None:
    command = python_command("-m", "tests.guest.memory_reaction", str(RUNS), str(EXCHANGE / NAME))
    with booted(ensure(print), command, timeout_seconds=3600.0, is_parallel=True, exchange=exchange) as run:
        if run.exit_code != 0:
            raise RuntimeError(run.output)

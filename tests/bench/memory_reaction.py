"""How long a container that is held back at memory.high waits for a larger limit: the real agent on a real kernel.

This machine's own hierarchy may lack the memory controller, so it runs in the guest of tests/guest, in emulation. The
API server and the kubelet are played there; the agent's settings are its defaults, but that it may act, and that no
plan comes by chance. The clock runs from the moment the kernel first holds a task back until the API server has taken
the resize. tests/e2e has the same with a real kubelet.
"""

from __future__ import annotations

import json
import statistics
from typing import Final

from tests.guest.kernel import ensure
from tests.guest.machine import EXCHANGE, booted, python_command

RUNS: Final = 50


def measure() -> dict[str, float]:
    """Run; give p50, p99 and the largest of the times, seconds."""
    name = "seconds.json"
    command = python_command("-m", "tests.guest.memory_reaction", str(RUNS), str(EXCHANGE / name))
    with booted(ensure(print), command, timeout_seconds=3600.0) as run:
        if run.exit_code != 0:
            raise RuntimeError(run.output)
        seconds = sorted(json.loads((run.exchange / name).read_text()))
    return {
        "memory_reaction_min_seconds": seconds[0],
        "memory_reaction_p50_seconds": statistics.median(seconds),
        "memory_reaction_p99_seconds": seconds[-1] if len(seconds) < 100 else seconds[int(len(seconds) * 0.99)],
        "memory_reaction_max_seconds": seconds[-1],
        "memory_reaction_runs": float(len(seconds)),
    }

"""Inside the guest: how long it takes from being held back at memory.high to a larger limit; for ``tests.bench``.

``python -m tests.guest.memory_reaction RUNS FILE`` writes what came of all runs so far after each. Each run
is a pod of its own, with a random pause before it: out of step with the agent's sweeps.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.bench.reaction_times import Odd, Outcome
from tests.guest.held_node import HeldNode, agent_on

LIMIT_MIB: Final = 48
PAUSE_SECONDS: Final = (0.5, 2.0)


def main() -> None:
    """Run."""
    runs, out = int(sys.argv[1]), Path(sys.argv[2])
    node = HeldNode(limits_mib=(LIMIT_MIB,) * runs)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, agent_on(node, Path(folder)):
        for number in range(runs):
            time.sleep(random.uniform(*PAUSE_SECONDS))
            outcomes.append(_outcome(node, number))
            print(f"{number + 1} of {runs}: {outcomes[-1]}", flush=True)
            whole = out.with_suffix(".new")
            whole.write_text(json.dumps(outcomes))
            whole.replace(out)


def _outcome(node: HeldNode, number: int) -> Outcome:
    if node.name(number) in node.grown:
        return Odd.EARLY
    try:
        return node.held_seconds(number)
    except TimeoutError:
        return Odd.LATE


if __name__ == "__main__":
    main()

"""Mode protect on random nodes: ``python -m tests.bench.protect [PLANS [FIRST]]`` looks for what is lowered or evicted.

Half of the nodes are in mode protect as a whole, on the others every second pod is.
What the plan's own invariants catch counts as a fault too, or none of the planner could be seen.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from tests.planning import Situation, lowered, protected, situation_of

PLANS = 1_000_000


def situation(seed: int) -> Situation:
    """Return a node with pods in mode protect."""
    plain = situation_of(seed)
    every = protected(plain)
    if seed % 2:
        return every
    pairs = zip(plain.demands, every.demands, strict=True)
    return replace(every, demands=tuple(pair[place % 2] for place, pair in enumerate(pairs)))


def main() -> int:
    """Plan node after node; print what was found and return 1 if that was anything."""
    plans = int(sys.argv[1]) if len(sys.argv) > 1 else PLANS
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began, faults = time.process_time(), 0
    for seed in range(first, first + plans):
        for fault in lowered(situation(seed)):
            faults += 1
            print(f"seed {seed}: {fault}")
    print(f"{plans} plans from seed {first}: {faults} faults, {time.process_time() - began:.0f} s of CPU")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

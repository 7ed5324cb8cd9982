"""``make bench``: measure on this machine's real cgroups; a table on stdout and one flat object in build/bench.json.

``python -m tests.bench [PART...]``: parts are sweeps, agent, metrics, windows, recommend, simulate, plan,
watching, report, reaction; all of them by default. memory, webhook and fortnight must be named. A run of some parts
keeps the other figures of the file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.kernel.cgroups import why_not

# One thread in this process, as in the C program it is compared with; numpy's BLAS would start more. Once a process
# has two, each system call on a descriptor counts a reference to its file, which makes a sweep 6 to 8 % dearer: in the
# agent, which has four, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

RESULT = Path(__file__).parents[2] / "build" / "bench.json"

GOALS: dict[str, float] = {
    **{f"sweep_ratio_to_preads_{count}": 1.15 for count in (100, 250, 500, 1000, 2000)},
    "agent_cpu_percent_of_core_250": 0.5,
    "agent_rss_mib_250": 96.0,
    "agent_rss_anon_mib_250": 56.0,
    "metrics_render_cpu_ms_1000": 10.0,
    "recommend_cpu_ms_250": 50.0,
    "recommend_cpu_ms_1000": 200.0,
    "simulate_seconds_1000x7d": 60.0,
    "simulate_peak_mib": 1024.0,
    "plan_ms_110": 10.0,
    "plan_ms_250": 15.0,
    "report_gzip_kib_250": 64.0,
    "reaction_p50_seconds": 1.0,
    "reaction_p99_seconds": 2.0,
    "memory_reaction_p50_seconds": 1.0,
    "memory_reaction_p99_seconds": 2.0,
    "admission_p99_ms": 10.0,
    "admission_p99_ms_postgresql": 10.0,
    "webhook_rss_mib": 256.0,
    "webhook_rss_mib_postgresql": 256.0,
    "fortnight_start_peak_rss_mib": 256.0,
    "fortnight_start_peak_rss_mib_postgresql": 256.0,
    "fortnight_webhook_peak_rss_mib": 256.0,
    "fortnight_webhook_peak_rss_mib_postgresql": 256.0,
}
"""At most; the rest is told without a goal."""


def _sweeps() -> dict[str, float]:
    from tests.bench.sweeps import measure

    return measure()


def _agent() -> dict[str, float]:
    from tests.bench.agent_cost import measure

    return {**measure(250), **measure(1000), **measure(2000)}


def _metrics() -> dict[str, float]:
    from tests.bench.bench_metrics import render_cpu_ms

    return render_cpu_ms(1000)


def _windows() -> dict[str, float]:
    from tests.bench.windows import measure

    return measure()


def _recommend() -> dict[str, float]:
    from tests.bench.recommending import measure

    return measure()


def _simulate() -> dict[str, float]:
    from tests.bench.simulation import measure

    return measure()


def _plan() -> dict[str, float]:
    from tests.bench.planning import measure

    return measure()


def _watching() -> dict[str, float]:
    from tests.bench.watching import EVENTS, PODS, measure

    return measure(PODS, EVENTS)


def _report() -> dict[str, float]:
    from tests.bench.reporting import measure

    return measure()


def _reaction() -> dict[str, float]:
    from tests.bench.reaction import measure

    return measure()


def _memory() -> dict[str, float]:
    from tests.bench.memory_reaction import measure

    return measure()


def _webhook() -> dict[str, float]:
    from tests.bench.webhook import measure

    return measure()


def _fortnight() -> dict[str, float]:
    from tests.bench.fortnight import measure

    return measure()


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "sweeps": _sweeps,
    "agent": _agent,
    "metrics": _metrics,
    "windows": _windows,
    "recommend": _recommend,
    "simulate": _simulate,
    "plan": _plan,
    "watching": _watching,
    "report": _report,
    "reaction": _reaction,
    "memory": _memory,
    "webhook": _webhook,
    "fortnight": _fortnight,
}
LONG = frozenset({"memory", "webhook", "fortnight"})
"""Only when named: each takes as long as all others together."""


def main(words: list[str]) -> int:
    """Measure the parts named."""
    unknown = [word for word in words if word not in PARTS]
    if unknown:
        print(f"tests.bench: no part {unknown[0]}; allowed: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    reason = why_not()
    if reason is not None:
        print(f"tests.bench: {reason}", file=sys.stderr)
        return 2
    figures: dict[str, float] = json.loads(RESULT.read_text()) if words and RESULT.exists() else {}
    missed = 0
    for part in words or [part for part in PARTS if part not in LONG]:
        print(f"{part}: measuring", file=sys.stderr, flush=True)
        measured = PARTS[part]()
        figures |= measured
        for key, value in measured.items():
            goal = GOALS.get(key)
            verdict = "" if goal is None else f"goal at most {goal:g}: " + ("met" if value <= goal else "MISSED")
            missed += verdict.endswith("MISSED")
            print(f"{key:<44} {value:>12g}  {verdict}", flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    print(f"written to {RESULT}; goals missed: {missed}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

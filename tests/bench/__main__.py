"""``make bench``: measure on this machine's real cgroups; a table on stdout and one flat object in build/bench.json.

``python -m tests.bench [PART...]``: parts are sweeps, agent, metrics, windows, recommend, simulate, plan,
watching, report, reaction; all of them by default. memory, webhook, page, backfill and fortnight must be named. A run
of some parts keeps the other figures of the file. Figures are written as they come, and beside each part's what others
took of the machine meanwhile. Exit code 0: measured; 1: a part failed, the others were measured; 2: nothing can be.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.machine_load import LoadMeter, MachineLoad
from tests.kernel.cgroups import why_not

# One thread in this process, as in the C program it is compared with; numpy's BLAS would start more. Once a process
# has two, each system call on a descriptor counts a reference to its file, which makes a sweep 6 to 8 % dearer: in the
# agent, which has four, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

RESULT = Path(__file__).parents[2] / "build" / "bench.json"

GOALS: dict[str, float] = {
    **{f"sweep_ratio_to_preads_{count}": 1.10 for count in (100, 250, 500, 1000, 2000)},
    "agent_cpu_percent_of_core_250": 0.35,
    "agent_cpu_percent_of_core_1000": 1.0,
    "agent_ratio_to_preads_250": 3.0,
    "agent_rss_mib_250": 48.0,
    "agent_rss_mib_1000": 72.0,
    "agent_disk_mib_per_day_250": 200.0,
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
    "admission_p99_ms": 5.0,
    "admission_p99_ms_postgresql": 5.0,
    "webhook_reports_cpu_percent_of_core": 30.0,
    "webhook_reports_cpu_percent_of_core_postgresql": 30.0,
    "backfill_prometheus_anon_growth_ratio": 0.2,
    "page_first_row_ms_5000": 500.0,
    "viewed_admission_p99_ms": 10.0,
    "viewed_rss_growth_mib": 8.0,
    "webhook_rss_mib": 224.0,
    "webhook_rss_mib_postgresql": 224.0,
    "fortnight_start_ready_seconds": 10.0,
    "fortnight_start_ready_seconds_postgresql": 10.0,
    "fortnight_start_peak_rss_mib": 224.0,
    "fortnight_start_peak_rss_mib_postgresql": 224.0,
    "fortnight_webhook_peak_rss_mib": 224.0,
    "fortnight_webhook_peak_rss_mib_postgresql": 224.0,
}
"""At most; the rest is told without a goal."""


Figures = Iterator[dict[str, float]]
"""As they come: what a part yields is written at once, and a key that comes again is replaced."""


def _sweeps() -> Figures:
    from tests.bench.sweeps import measure

    return measure()


def _agent() -> Figures:
    from tests.bench.agent_cost import measure

    for count in (250, 1000, 2000):
        yield measure(count)


def _metrics() -> Figures:
    from tests.bench.bench_metrics import render_cpu_ms

    yield render_cpu_ms(1000)


def _windows() -> Figures:
    from tests.bench.windows import measure

    yield measure()


def _recommend() -> Figures:
    from tests.bench.recommending import measure

    yield measure()


def _simulate() -> Figures:
    from tests.bench.simulation import measure

    yield measure()


def _plan() -> Figures:
    from tests.bench.planning import measure

    yield measure()


def _watching() -> Figures:
    from tests.bench.watching import EVENTS, PODS, measure

    yield measure(PODS, EVENTS)


def _report() -> Figures:
    from tests.bench.reporting import measure

    yield measure()


def _reaction() -> Figures:
    from tests.bench.reaction import measure

    return measure()


def _memory() -> Figures:
    from tests.bench.memory_reaction import measure

    return measure()


def _webhook() -> Figures:
    from tests.bench.webhook import measure

    return measure()


def _page() -> Figures:
    from tests.bench.webhook import measure_viewed
    from tests.page.first_row import measure

    yield measure()
    yield from measure_viewed()


def _backfill() -> Figures:
    from tests.bench.backfill import measure

    return measure()


def _fortnight() -> Figures:
    from tests.bench.fortnight import measure

    yield measure()


def _runs() -> Figures:
    from tests.bench.runs import measure

    return measure()


PARTS: dict[str, Callable[[], Figures]] = {
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
    "runs": _runs,
    "page": _page,
    "backfill": _backfill,
    "fortnight": _fortnight,
}
LONG = frozenset({"memory", "webhook", "page", "backfill", "fortnight"})
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
    missed, failed = 0, []
    for part in words or [part for part in PARTS if part not in LONG]:
        print(f"{part}: measuring", file=sys.stderr, flush=True)
        measured: dict[str, float] = {}
        meter = LoadMeter()
        try:
            for part_figures in PARTS[part]():
                measured |= part_figures
                write(figures | measured | meter.load().figures(part))
        except Exception:  # noqa: BLE001 - one part's fault costs no figure of another's, and none of its own so far
            traceback.print_exc()
            failed.append(part)
        load = meter.load()
        figures |= {**measured, **load.figures(part)}
        missed += show(measured, part, load)
    print(f"written to {RESULT}; goals missed: {missed}; failed: {', '.join(failed) or 'none'}", file=sys.stderr)
    return 1 if failed else 0


def write(figures: dict[str, float]) -> None:
    """Put the figures of all parts in place of those before, so that no interruption leaves half a file."""
    RESULT.parent.mkdir(exist_ok=True)
    whole = RESULT.with_suffix(".new")
    whole.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    whole.replace(RESULT)


def show(measured: dict[str, float], part: str, load: MachineLoad) -> int:
    """Print a part's figures and what else the machine did; give how many goals were missed."""
    missed = 0
    for key, value in measured.items():
        goal = GOALS.get(key)
        verdict = "" if goal is None else f"goal at most {goal:g}: " + ("met" if value <= goal else "MISSED")
        missed += verdict.endswith("MISSED")
        print(f"{key:<44} {value:>12g}  {verdict}", flush=True)
    print(f"{part}: {load}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The comparison as a page: a sentence of conditions for each run, and one table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.peers.comparison import Measured, Terms

HEAD = (
    "| N | candidate | CPU % of a core | x preads | CPU % scraped each 15 s | page KiB | RSS MiB (anon) | sweeps/s "
    "| age of samples s: median (oldest) |\n|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One boot, or one stay on this machine's own cgroups."""

    terms: Terms
    where: str
    """Machine and kernel."""
    versions: str
    host_load: str
    """``machine_load`` of the host over the whole run."""
    measured: Sequence[Measured]


def page(runs: Sequence[Run]) -> str:
    """Return the table of all runs and under it the conditions of each."""
    rows = [row(measured, run.measured) for run in runs for measured in run.measured]
    return "\n".join([HEAD, *rows, "", *(conditions(run) for run in runs)]) + "\n"


def row(measured: Measured, of_run: Sequence[Measured]) -> str:
    """Return a candidate's row; what it does not have is left empty."""
    floor = of_run[0]
    ratio = measured.cpu_percent_of_core / floor.cpu_percent_of_core if floor.name == "preads" else None
    ages = None
    if measured.age_median_seconds is not None:
        ages = f"{measured.age_median_seconds:.1f} ({measured.age_oldest_seconds:.1f})"
    cells = [
        str(measured.count),
        measured.name,
        f"{measured.cpu_percent_of_core:.3g}" + (" (worthless: busy machine)" if measured.is_load_worthless else ""),
        _number(ratio, ".1f"),
        _number(measured.cpu_percent_of_core_scraped, ".3g"),
        _number(measured.page_kib, ".0f"),
        f"{measured.rss_mib:.1f} ({measured.rss_anon_mib:.1f})",
        _number(measured.sweeps_per_second, ".2f"),
        ages or "",
    ]
    return f"| {' | '.join(cells)} |"


def conditions(run: Run) -> str:
    """Return what a run's figures hold for."""
    terms = run.terms
    return (
        f"- N = {terms.count}: {run.where}; {run.versions}; {terms.warm_up_seconds:g} s of warm-up, then a window of "
        f"{terms.window_seconds:g} s and one of {terms.scraped_seconds:g} s with scrapes; host: {run.host_load}."
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)

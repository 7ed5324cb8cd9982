"""The series of quality: what the figures say, and none of what was not judged."""

from __future__ import annotations

import numpy as np
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.cluster.workload import Workload
from agent.core.history.minute.quality import QUALITY_FIELDS
from agent.core.numbers.arrays import Floats
from agent.metrics.quality_series import SERIES_PER_WORKLOAD, QualityPage
from tests.qualities import GIB, told, two_hours

MINUTE = 28_000_800


def samples(text: str) -> dict[str, float]:
    """Return value by name and labels."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))}}}": sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def judged() -> Floats:
    """Return the windows of one row that used more CPU and less memory than was recommended."""
    figures: Floats = two_hours(MINUTE, rows=1).windows(MINUTE + 129)[0]
    return figures


def test_the_node_has_all_series_where_all_was_judged() -> None:
    """600m where 500m stood, 1 GiB where 2 GiB stood, for 130 minutes."""
    text, dropped = QualityPage(judged, None, max_series=0).render(openmetrics=False)
    series = samples(text)
    assert (len(series), dropped) == (SERIES_PER_WORKLOAD, 0) == (48, 0)
    assert series["plimsoll_sizing_risk_ratio{against=recommended,resource=cpu,window=1d}"] == 1.0
    assert series["plimsoll_sizing_risk_ratio{against=applied,resource=cpu,window=1d}"] == 0.0
    assert series["plimsoll_sizing_cpu_missing_seconds{against=recommended,window=7d}"] == 130 * 6.0
    assert series["plimsoll_sizing_cpu_excess_seconds{against=applied,window=1h}"] == 60 * 24.0
    memory = series["plimsoll_sizing_memory_excess_byte_hours{against=recommended,window=1h}"]
    assert abs(memory / GIB - 1.0) < 1e-5
    error = series["plimsoll_sizing_peak_error_ratio{direction=under,resource=cpu,window=1d}"]
    assert abs(error - 1 / 6) < 1e-5


def test_what_was_not_judged_has_no_series() -> None:
    """Neither before the first minute, nor of a request that nobody stated."""
    assert QualityPage(lambda: None, dict, max_series=100).render(openmetrics=False) == ("", 0)
    text, _ = QualityPage(lambda: np.array(told()), None, max_series=0).render(openmetrics=False)
    assert {name for name in samples(text) if "memory" in name or "applied" in name} == set()
    assert QualityPage(lambda: np.zeros((3, QUALITY_FIELDS)), None, max_series=0).render(openmetrics=False)[0] == ""


def test_workloads_are_capped_whole_and_their_names_escaped() -> None:
    """The first in order stay."""
    known = {
        (Workload(namespace="shop", kind="Deployment", name=name), "app"): judged() for name in ('q"uote', "a", "z")
    }
    page = QualityPage(lambda: None, lambda: known, max_series=2 * SERIES_PER_WORKLOAD + 10)
    text, dropped = page.render(openmetrics=False)
    series = samples(text)
    assert (len(series), dropped) == (2 * SERIES_PER_WORKLOAD, SERIES_PER_WORKLOAD)
    assert {name for name in series if "workload=z" in name} == set()
    assert any('workload=q"uote' in name for name in series)
    assert all("workload_kind=Deployment" in name and "container=app" in name for name in series)


def test_openmetrics_takes_the_page() -> None:
    """With units where it knows them."""
    known = {(Workload(namespace="shop", kind="Deployment", name="web"), "app"): judged()}
    text, _ = QualityPage(judged, lambda: known, max_series=100).render(openmetrics=True)
    families = list(parse_openmetrics(f"{text}# EOF\n"))  # type: ignore[no-untyped-call]
    assert sum(len(family.samples) for family in families) == 2 * SERIES_PER_WORKLOAD
    assert {family.unit for family in families} == {"ratio", "seconds", ""}

from __future__ import annotations

from typing import Any

import pytest

from agent.core.machine.checkup import FeatureState
from agent.core.machine.cluster_checkup import ReportStanding, judge_cluster, judge_reporting
from tests.unit.core.machine.test_cluster_checkup import facts


def standing(**fields: Any) -> ReportStanding:
    """Reporting that goes well."""
    known: dict[str, Any] = {
        "url": "https://webhook",
        "interval_seconds": 300.0,
        "last_success_age_seconds": 12.4,
        "trouble": None,
        "is_access_refused": False,
        "waiting_reports": 0,
        "lost_reports": 0,
        "queue_fault": None,
    }
    return ReportStanding(**{**known, **fields})


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, "https://webhook: last report taken 12 s ago"),
        ({"lost_reports": 3}, "https://webhook: last report taken 12 s ago; 0 reports wait, 3 lost"),
        ({"last_success_age_seconds": None}, "https://webhook: no report sent yet, one comes every 300 s"),
    ],
)
def test_reporting_that_goes_well_is_one_line(fields: dict[str, Any], found: str) -> None:
    check = judge_reporting(standing(**fields))
    assert (check.name, check.verdict, check.found) == ("webhook", FeatureState.OK, found)
    assert (check.consequence, check.mend) == ("", "")


@pytest.mark.parametrize(
    ("fields", "found", "mend"),
    [
        (
            {"trouble": "no answer: timed out", "waiting_reports": 12, "lost_reports": 1},
            "no answer: timed out (last report taken 12 s ago; 12 reports wait, 1 lost)",
            "network policy",
        ),
        (
            {"trouble": "answered 403", "is_access_refused": True, "last_success_age_seconds": None},
            "answered 403 (no report taken yet; 0 reports wait, 0 lost)",
            "report.tokenFile",
        ),
        ({"queue_fault": "disk full"}, "https://webhook: disk full; 0 reports wait, 0 lost", "room on the disk"),
    ],
)
def test_trouble_is_degraded_with_its_consequence_and_mending(fields: dict[str, Any], found: str, mend: str) -> None:
    check = judge_reporting(standing(**fields))
    assert (check.verdict, check.found) == (FeatureState.DEGRADED, found)
    assert check.consequence
    assert mend in check.mend


def test_doctor_tells_of_it_where_there_is_a_webhook() -> None:
    assert [check.name for check in judge_cluster(facts(reporting=standing()))].count("webhook") == 1
    assert "webhook" not in [check.name for check in judge_cluster(facts())]

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import (
    Distribution,
    NodeClass,
    NodeSums,
    OutOfMemoryKill,
    Report,
    ResourceSums,
    RollupRow,
    Setback,
    ShareRow,
)
from agent.core.history.reports.rollup_json import kept_text, sent_text
from tests.report_texts import report_text

ROW = RollupRow(
    workload=Workload(namespace="shop", kind="Deployment", name="web"),
    container="app",
    pod="web-x",
    pod_uid="uid-1",
    pod_age_seconds=900.12345,
    covered_seconds=299.99999,
    cpu=Distribution(count=300, sum=1234.56789, max=4.123456789, buckets={3: 10, 2: 290}),
    cpu_adjusted=None,
    memory=Distribution(count=2, sum=3e9 + 1, max=2e9, buckets={40: 2}),
    throttled_seconds=0.0,
    waiting_seconds=1.23456,
    oom_kills=(
        OutOfMemoryKill(age_seconds=12.5, memory_bytes=1_048_576),
        OutOfMemoryKill(age_seconds=3.0, memory_bytes=None),
    ),
)
REPORT = Report(
    node="node-a",
    node_class=NodeClass(instance_type="m5.large", cpus=8),
    incarnation="abc",
    sequence=17,
    lost_reports=2,
    end_age_seconds=4.25,
    interval_seconds=300.0,
    rows=(ROW,),
)


def test_a_report_is_written_as_the_wire_has_it() -> None:
    assert json.loads(report_text(REPORT, agent="0.1.0")) == {
        "schema": 1,
        "agent": "0.1.0",
        "node": "node-a",
        "nodeClass": {"instanceType": "m5.large", "cpus": 8},
        "incarnation": "abc",
        "sequence": 17,
        "lostReports": 2,
        "endAgeSeconds": 4.25,
        "intervalSeconds": 300.0,
        "rows": [
            {
                "namespace": "shop",
                "kind": "Deployment",
                "workload": "web",
                "container": "app",
                "pod": "web-x",
                "podUid": "uid-1",
                "podAgeSeconds": 900.123,
                "coveredSeconds": 300.0,
                "cpu": {"count": 300, "sum": 1234.57, "max": 4.12346, "buckets": [2, 290, 3, 10]},
                "memory": {"count": 2, "sum": 3_000_000_001, "max": 2_000_000_000, "buckets": [40, 2]},
                "throttledSeconds": 0.0,
                "waitingSeconds": 1.235,
                "oomKills": [[12.5, 1_048_576], [3.0, None]],
            }
        ],
    }


def test_what_is_not_known_is_left_out() -> None:
    bare = replace(
        ROW, pod_age_seconds=None, cpu=None, memory=None, throttled_seconds=None, waiting_seconds=None, oom_kills=()
    )
    (row,) = json.loads(report_text(replace(REPORT, rows=(bare,)), agent=""))["rows"]
    assert row.keys() == {"namespace", "kind", "workload", "container", "pod", "podUid", "coveredSeconds"}


def test_age_and_losses_are_those_of_the_sending() -> None:
    text = kept_text(REPORT, agent="0.1.0")
    assert "endAgeSeconds" not in text
    assert "lostReports" not in text
    first, later = (
        json.loads(sent_text(text, end_age_seconds=age, lost_reports=lost)) for age, lost in ((0.0, 0), (3600.5, 7))
    )
    assert (first.pop("endAgeSeconds"), first.pop("lostReports")) == (0.0, 0)
    assert (later.pop("endAgeSeconds"), later.pop("lostReports")) == (3600.5, 7)
    assert first == later == json.loads(text)


@pytest.mark.parametrize("fields", [{"covered_seconds": math.nan}, {"waiting_seconds": math.inf}])
def test_a_figure_that_is_no_number_is_a_fault_of_the_caller(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        kept_text(replace(REPORT, rows=(replace(ROW, **fields),)), agent="")


def test_the_webhook_reads_what_is_written() -> None:
    from agent.webhook.reports.decoder import decode_report

    decoded = decode_report(report_text(REPORT, agent="0.1.0").encode(), most_rows=10)
    assert decoded.refused == ()
    (row,) = decoded.report.rows
    assert row.workload == ROW.workload
    assert row.oom_kills == ROW.oom_kills
    assert row.memory == ROW.memory
    assert replace(decoded.report, rows=()) == replace(REPORT, rows=())


def test_a_plan_is_written_by_agents_that_tell_and_null_says_that_there_is_none() -> None:
    from agent.webhook.reports.decoder import decode_report

    sums = ResourceSums(allocatable=8000, requested=3000, reserved=500, base=1000, planned=1800, is_infeasible=False)
    memory = replace(sums, allocatable=1 << 33, requested=1 << 34, planned=1 << 34, is_infeasible=True)
    plan_report = replace(REPORT, plan=NodeSums(cpu=sums, memory=memory), tells_plan=True)
    text = report_text(plan_report, agent="")
    assert json.loads(text)["plan"]["cpu"] == {
        "allocatableMillicores": 8000,
        "requestedMillicores": 3000,
        "reservedMillicores": 500,
        "baseMillicores": 1000,
        "plannedMillicores": 1800,
        "infeasible": False,
    }
    for report in (plan_report, replace(plan_report, plan=None), REPORT):
        decoded = decode_report(report_text(report, agent="").encode(), most_rows=10).report
        assert (decoded.plan, decoded.tells_plan) == (report.plan, report.tells_plan)
    assert json.loads(report_text(replace(plan_report, plan=None), agent=""))["plan"] is None
    assert "plan" not in json.loads(report_text(REPORT, agent=""))


def test_the_group_of_a_container_and_a_setback_are_written_where_there_are_any() -> None:
    row = replace(
        ROW,
        share=ShareRow(share="10 %", is_enforced=True, restarts=2, unready_seconds=30.00049),
        setback=Setback(age_seconds=12.3456, reason="restarts"),
    )
    (written,) = json.loads(report_text(replace(REPORT, rows=(row,)), agent=""))["rows"]
    assert written["share"] == {"share": "10 %", "enforced": True, "restarts": 2, "unreadySeconds": 30.0}
    assert written["setback"] == [12.346, "restarts"]

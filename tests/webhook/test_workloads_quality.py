"""How good sizing was, as nodes told it: merged when it is asked for, bounded, and gone when it is too old."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.minute.quality import QualityWindow
from agent.core.history.reports.rollup import Report
from agent.webhook.store.entries.forget_entry import Forgetting
from agent.webhook.store.entries.report_payload import BadPayloadError, decode_report, encode_report
from agent.webhook.workloads import quality
from agent.webhook.workloads.quality import NodeQualities
from tests.qualities import told
from tests.webhook.test_workloads import index_of
from tests.webhook.workload_reports import HOUR, NOON, WEB, report, row

DAY = 24 * HOUR


def of_node(node: str, *, container: str = "app", **figures: float) -> Report:
    """Return a report that tells of one container."""
    return report(replace(row(container=container), quality=told(**figures)), node=node)


def test_nodes_are_merged_by_their_sums() -> None:
    """A share over nodes is that of all minutes, not the mean of shares."""
    index = index_of((NOON, of_node("a", minutes=100, above=10)), (NOON, of_node("b", minutes=300, above=0)))
    sizing = index.quality(WEB, NOON + 60)
    assert sizing is not None
    cpu = sizing.windows.over(QualityWindow.DAY).cpu
    assert (sizing.nodes, cpu.recommended.judged_minutes) == (2, 400.0)
    assert cpu.recommended.risk_ratio == pytest.approx(0.025)
    assert cpu.recommended.deficit_ratio == pytest.approx(0.05, rel=1e-3)
    assert cpu.recommended.slack_ratio == pytest.approx(0.5, rel=1e-3)
    assert cpu.applied.risk_ratio is None
    assert cpu.peak.under_ratio == pytest.approx(0.05)
    assert list(index.container_quality(WEB, NOON + 60)) == ["app"]


def test_the_newest_of_a_node_counts_alone() -> None:
    """Reports may come in any order, and a node tells its windows anew each time."""
    newer = (NOON + 900, of_node("a", above=1))
    index = index_of((NOON, of_node("a", above=50)), newer, (NOON + 300, of_node("a", above=70)))
    sizing = index.quality(WEB, NOON + 900)
    assert sizing is not None
    assert (sizing.nodes, sizing.windows.day.cpu.recommended.above_minutes) == (1, 1.0)


def test_containers_are_told_apart_and_together() -> None:
    """The list has one line for a workload."""
    index = index_of((NOON, of_node("a", above=3)), (NOON, of_node("a", container="side", above=4)))
    sizing = index.quality(WEB, NOON)
    assert sizing is not None
    assert (sizing.nodes, sizing.windows.hour.cpu.recommended.above_minutes) == (1, 7.0)
    assert {
        name: sizing.windows.hour.cpu.recommended.above_minutes
        for name, sizing in index.container_quality(WEB, NOON).items()
    } == {"app": 3.0, "side": 4.0}


@pytest.mark.parametrize(("age", "windows"), [(60, 3), (2 * HOUR, 2), (2 * DAY, 1), (8 * DAY, 0)])
def test_what_a_gone_node_told_counts_while_the_window_holds_it(age: int, windows: int) -> None:
    """An hour after it its hour says nothing of the last hour."""
    index = index_of((NOON, of_node("a")))
    sizing = index.quality(WEB, NOON + age)
    known = [] if sizing is None else [sizing.windows.over(window).cpu.recommended for window in QualityWindow]
    assert sum(request.judged_minutes > 0 for request in known) == windows


def test_what_is_too_old_or_forgotten_is_gone() -> None:
    """With its workload, with its node, and by its age."""
    index = index_of((NOON, of_node("a")), (NOON, of_node("b")))
    index.forget(Forgetting(id=1, asked_by="x", node="a"))
    assert index.quality(WEB, NOON).nodes == 1  # type: ignore[union-attr]
    index.forget(Forgetting(id=2, asked_by="x", workload=WEB))
    assert index.quality(WEB, NOON) is None
    index = index_of((NOON, of_node("a")))
    index.expire(NOON + 8 * DAY)
    assert len(index._qualities) == 0
    assert index.merged(WEB) is not None
    index = index_of((NOON, of_node("a")))
    index.expire(NOON + 15 * DAY)
    assert len(index._qualities) == 0


def test_an_agent_that_does_not_tell_takes_nothing_away() -> None:
    """It tells four times an hour; an older one never does."""
    index = index_of((NOON, of_node("a")), (NOON + 300, report(row(), node="a")))
    assert index.quality(WEB, NOON + 300) is not None
    assert index_of((NOON, report(row()))).quality(WEB, NOON) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """About 400 bytes for a container of a workload on one node, and no more of them than that."""
    known = NodeQualities()
    nodes = [f"node-{number}" for number in range(2000)]
    tracemalloc.start()
    for node in nodes:
        known.take(WEB, "app", node, told(), NOON)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken / len(nodes) < 450
    monkeypatch.setattr(quality, "MOST_NODE_QUALITIES", 2000)
    known.take(WEB, "app", "one-more", told(), NOON)
    known.take(WEB, "app", "node-1", told(above=99.0), NOON)
    assert len(known) == 2000
    other = Workload(namespace="shop", kind="Deployment", name="other")
    known.take(other, "app", "one-more", told(), NOON)
    assert known.of_workload(other, NOON) is None


def test_the_log_keeps_what_was_told_and_nothing_unsound() -> None:
    """Every replica learns it from there; a payload of before this was told is read as ever."""
    sent = of_node("a")
    assert decode_report(encode_report(sent)) == sent
    for spoilt in (((-1.0,) * 28,) * 3, ((1.0,) * 28,) * 2, ((1.0,) * 27,) * 3, ((float("nan"),) * 28,) * 3):
        unsound = replace(sent, rows=(replace(sent.rows[0], quality=spoilt),))
        with pytest.raises(BadPayloadError):
            decode_report(encode_report(unsound))

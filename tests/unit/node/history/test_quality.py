"""What stood at each minute, and the minute held against it; over restarts, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.history.minute.quality import QualityWindows, to_windows
from agent.core.recommender.recommendation import Recommendation, Withheld
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner
from agent.node.history.quality import QualityKeeper
from tests.recommendations import recommendation
from tests.unit.node.history.test_learner import FIRST_MINUTE, Clocks, learner, row, unit

NS = 1_000_000_000
WEB = Workload(namespace="shop", kind="Deployment", name="web")


def advised(identity: UnitIdentity, cpu: int | Withheld, *, applied: int | None = 500) -> Recommendation:
    """Return what is recommended and applied for a unit."""
    stated = UnitResources(cpu_request_millicores=applied)
    return replace(recommendation(cpu=cpu, resources=stated), identity=identity)


class Node:
    """A learner with its keeper; minutes are told as the control thread tells them."""

    def __init__(self, history: HistoryFile, clocks: Clocks | None = None) -> None:
        self.learner: Learner = learner(history, clocks)
        self.learner.follower = self.keeper = QualityKeeper(history)

    def minute(self, minute: int, **used: float) -> None:
        self.learner.learn([(unit(name, "shop"), row(minute, cpu=cpu)) for name, cpu in used.items()])

    def quality(self, name: str = "a") -> QualityWindows | None:
        return self.keeper.of_row(self.learner.place_of(unit(name, "shop")).row)


@pytest.fixture
def node() -> Node:
    return Node(HistoryFile.open(None, max_rows=64))


def test_a_minute_is_judged_by_what_stood_when_it_began(node: Node) -> None:
    """What is recommended within the minute, having seen a part of it, judges the next one."""
    begins_ns = FIRST_MINUTE * 60 * NS
    node.keeper.stand([advised(unit("a", "shop"), 100)], begins_ns)
    node.keeper.stand([advised(unit("a", "shop"), 900)], begins_ns + 30 * NS)
    node.minute(FIRST_MINUTE, a=400.0)
    quality = node.quality()
    assert quality is not None
    assert quality.hour.cpu.recommended.above_minutes == 1.0
    assert quality.hour.cpu.recommended.missing_amount == pytest.approx(0.3 * 60)
    assert (quality.hour.cpu.applied.above_minutes, quality.hour.cpu.applied.excess_amount) == pytest.approx(
        (0.0, 0.1 * 60)
    )
    node.minute(FIRST_MINUTE + 1, a=400.0)
    later = node.quality()
    assert later is not None
    assert (later.hour.cpu.recommended.judged_minutes, later.hour.cpu.recommended.above_minutes) == (2.0, 1.0)


def test_minutes_of_which_nothing_stood_are_not_judged(node: Node) -> None:
    """Before the first evaluation, and of a container that came within the minute."""
    node.minute(FIRST_MINUTE, a=400.0)
    assert node.quality() is None
    node.keeper.stand([advised(unit("a", "shop"), 100)], (FIRST_MINUTE + 1) * 60 * NS)
    node.minute(FIRST_MINUTE + 1, b=400.0)
    assert node.quality("b") is None
    assert node.keeper.of_node() is None


def test_what_is_withheld_or_not_stated_is_not_judged(node: Node) -> None:
    """Neither is a request of 0."""
    node.keeper.stand([advised(unit("a", "shop"), Withheld.TOO_YOUNG, applied=300)], FIRST_MINUTE * 60 * NS)
    node.minute(FIRST_MINUTE, a=400.0)
    quality = node.quality()
    assert quality is not None
    assert quality.hour.cpu.recommended.risk_ratio is None
    assert quality.hour.cpu.applied.risk_ratio == 1.0
    assert quality.hour.memory.applied.risk_ratio is None


def test_pods_of_a_workload_are_told_together_and_by_its_name(node: Node) -> None:
    """A report tells of workloads; so do metrics, and the node's are the sum."""
    items = [advised(unit(name, "shop"), 300) for name in ("a", "b")]
    node.keeper.stand([*items, advised(unit("lone"), 300)], FIRST_MINUTE * 60 * NS)
    node.learner.learn(
        [(unit(name, "shop"), row(FIRST_MINUTE, cpu=400.0)) for name in ("a", "b")]
        + [(unit("lone"), row(FIRST_MINUTE, cpu=100.0))]
    )
    figures = node.keeper.figures_by_workload()
    assert list(figures) == [(WEB, "app")]
    web = to_windows(figures[WEB, "app"]).day.cpu.recommended
    assert (web.judged_minutes, web.above_minutes) == (2.0, 2.0)
    total = node.keeper.of_node()
    assert total is not None
    assert to_windows(total).day.cpu.recommended.judged_minutes == 3.0


def test_only_the_newest_standings_are_kept(node: Node) -> None:
    """They share their table of places as long as the same containers are there."""
    for minute in range(10):
        node.keeper.stand([advised(unit("a", "shop"), 100)], (FIRST_MINUTE + minute) * 60 * NS)
    standings = node.keeper._standings
    assert sorted(standings) == [FIRST_MINUTE + 7, FIRST_MINUTE + 8, FIRST_MINUTE + 9]
    assert len({id(standing.places) for standing in standings.values()}) == 1


def test_a_restart_goes_on_with_what_was_saved(tmp_path: Path) -> None:
    """In whatever row the workload stands then; a moment's minutes are lost, the week is not."""
    clocks = Clocks()
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        node = Node(history, clocks)
        for minute in range(FIRST_MINUTE, FIRST_MINUTE + 5):
            node.keeper.stand([advised(unit("a", "shop"), 100)], minute * 60 * NS)
            node.minute(minute, a=400.0)
        before = node.quality()
        node.learner.save()
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        again = Node(history, clocks)
        assert again.quality() == before
        assert again.keeper.of_node() is not None
        again.minute(FIRST_MINUTE + 5, a=400.0)  # nothing stands yet
        again.keeper.stand([advised(unit("a", "shop"), 100)], (FIRST_MINUTE + 6) * 60 * NS)
        again.minute(FIRST_MINUTE + 6, a=400.0)
        quality = again.quality()
        assert quality is not None
        assert quality.week.cpu.recommended.judged_minutes == 6.0


def test_a_state_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    """Damaged, or of another version: a line in the log, and no failure."""
    for spoilt in (b"nonsense", None):
        with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
            if spoilt is None:
                history.save_state("quality", {"figures": np.zeros((1, 2, 3))})
            else:
                (tmp_path / "history.quality").write_bytes(spoilt)
            assert QualityKeeper(history).of_node() is None


def test_a_row_that_comes_to_stand_for_another_knows_nothing() -> None:
    """History gives rows of the gone to newcomers; 64 of them here."""
    history = HistoryFile.open(None, max_rows=64)
    node = Node(history)
    names = [f"u{number}" for number in range(64)]
    node.keeper.stand([advised(unit(name), 100) for name in names], FIRST_MINUTE * 60 * NS)
    node.learner.learn([(unit(name), row(FIRST_MINUTE, cpu=400.0)) for name in names])
    node.keeper.stand([advised(unit(name), 100) for name in names[1:]], (FIRST_MINUTE + 1) * 60 * NS)
    node.learner.learn([(unit(name), row(FIRST_MINUTE + 1, cpu=400.0)) for name in names[1:]])
    place = node.learner.place_of(unit("newcomer"))
    assert place.row == node.learner.place_of(unit("newcomer")).row < 64
    assert node.keeper.of_row(place.row) is None

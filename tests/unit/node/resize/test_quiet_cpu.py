"""Containers that have become quiet, by readings in rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.node.resize.quiet_cpu import QuietCpu
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from tests.unit.core.plan.needs.test_given_boost import boost_of, pod
from tests.window_rows import NS, Rows, steady


class View:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.pieces: Sequence[Rows] = (rows,)

    def joined(self) -> Rows:
        return self._rows


class Rings:
    """Readings of a hundred seconds by slot, each of one cgroup with the slot's number."""

    def __init__(self, *millicores: float) -> None:
        self.rows = [steady(range(101), amount) for amount in millicores]

    def raw(self, slot: int, rows: int | None = None) -> View:
        return View(self.rows[slot][-(rows or 0) :])

    def inode(self, slot: int) -> int:
        return slot


def quiet(rings: Any, *units: WatchedUnit) -> frozenset[str]:
    table = UnitTable()
    for unit in units:
        table.put(unit)
    looker = QuietCpu(
        rings=rings, units=table, capacity_millicores=4000, interval_seconds=1.0, clock_ns=lambda: 100 * NS
    )
    boosted_pod = pod()
    return looker.of(boosted_pod, boost_of(boosted_pod))


def unit(slot: int, container: str, uid: str = "uid-web") -> WatchedUnit:
    identity = UnitIdentity(cgroup_path=f"/kubepods/{slot}", kind=UnitKind.CONTAINER, pod_uid=uid, container=container)
    return WatchedUnit(slot=slot, inode=slot, identity=identity, resources=UnitResources())


def test_those_that_stayed_below_their_steady_request_are_quiet() -> None:
    assert quiet(Rings(499.0), unit(0, "app")) == {"app"}
    assert quiet(Rings(501.0), unit(0, "app")) == frozenset()


def test_others_are_not_asked_nor_is_a_slot_that_has_gone_to_another_cgroup() -> None:
    rings = Rings(10.0, 10.0, 10.0)
    assert quiet(rings, unit(0, "log"), unit(1, "app", uid="uid-other")) == frozenset()
    assert quiet(rings, replace(unit(2, "app"), inode=7)) == frozenset()

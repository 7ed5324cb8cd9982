"""The table of watched cgroups."""

from __future__ import annotations

import time

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.node.sampling.unit_table import GONE_NS, GONE_UNITS, UnitTable, WatchedUnit


def watched(path: str, slot: int = 0) -> WatchedUnit:
    return WatchedUnit(
        slot=slot,
        inode=slot + 1,
        identity=UnitIdentity(cgroup_path=path, kind=UnitKind.CONTAINER),
        resources=UnitResources(),
    )


def test_last_gone_is_found_by_its_own_path_and_by_its_pods() -> None:
    table = UnitTable()
    for number, path in enumerate(("/pod1/a", "/pod1/b", "/pod10/a")):
        table.put(watched(path, number))
        table.drop(path)
    own, pod = (table.last_gone(path, now_ns=time.monotonic_ns()) for path in ("/pod1/a", "/pod1"))
    assert own is not None
    assert pod is not None
    assert own.identity.cgroup_path == "/pod1/a"
    # The one that went last; /pod10 only begins alike.
    assert pod.identity.cgroup_path == "/pod1/b"
    assert table.last_gone("/pod2", now_ns=time.monotonic_ns()) is None


def test_last_gone_remembers_a_bounded_number() -> None:
    table = UnitTable()
    for number in range(GONE_UNITS + 1):
        table.put(watched(f"/{number}"))
        table.drop(f"/{number}")
    assert table.last_gone("/0", now_ns=time.monotonic_ns()) is None
    assert table.last_gone("/1", now_ns=time.monotonic_ns()) is not None


def test_last_gone_knows_nothing_of_what_is_still_there() -> None:
    table = UnitTable()
    table.put(watched("/a"))
    assert table.last_gone("/a", now_ns=time.monotonic_ns()) is None
    assert table.drop("/b") is None


def test_last_gone_is_not_told_of_those_that_went_long_ago() -> None:
    table = UnitTable()
    table.put(watched("/pod1/a"))
    table.drop("/pod1/a")
    assert table.last_gone("/pod1", now_ns=time.monotonic_ns() + 2 * GONE_NS) is None

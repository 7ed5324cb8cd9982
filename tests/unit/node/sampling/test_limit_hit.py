"""What a container had when a limit was hit: its own, or its pod's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.node.sampling.limit_hit import limit_hit
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.memory_events import OomKill
from tests.unit.node.sampling.test_unit_table import watched as unit_at

MIB = 1 << 20
POD = "/kubepods/burstable/pod11111111-aaaa-4000-8000-000000000001"
APP, OTHER = f"{POD}/app", f"{POD}/other"


def hit(
    mount: Path, *, kill: OomKill, own_mib: int | None, pod_mib: int | None, other_mib: int | None = None
) -> int | None:
    """Lay the pod's files out, and give the limit in MiB."""
    for path, name, amount in ((POD, "memory.max", pod_mib), (OTHER, "memory.current", other_mib)):
        if amount is not None:
            directory = mount / path.lstrip("/")
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(f"{amount * MIB}\n")
    unit = replace(unit_at(APP), memory_max_bytes=None if own_mib is None else own_mib * MIB)
    units: list[WatchedUnit] = [unit, unit_at(OTHER), unit_at("/kubepods/burstable/podelse/app")]
    limit_bytes = limit_hit(kill, unit, units, mount)
    return None if limit_bytes is None else limit_bytes // MIB


def killed(path: str, *, own: bool = False, pods: bool = False) -> OomKill:
    return OomKill(path=path, kills=1, monotonic_ns=1, at_limit=own, at_pod_limit=pods)


@pytest.mark.parametrize(
    ("kill", "own_mib", "pod_mib", "other_mib", "expected"),
    [
        pytest.param(killed(APP), 64, 64, 1, None, id="the node had none left"),
        pytest.param(killed(APP, own=True), 64, 65, 40, 64, id="its own, whatever the others hold"),
        pytest.param(killed(APP, own=True), None, 65, 1, None, id="its own, read before it was set"),
        pytest.param(killed(APP, pods=True), 64, 64, None, 64, id="the pod's, of a pod of one container"),
        pytest.param(killed(APP, pods=True), 64, 64, 2, 62, id="the pod's, less the sandbox"),
        pytest.param(killed(APP, pods=True), 64, 128, 30, 64, id="the pod's: never more than its own"),
        pytest.param(killed(APP, pods=True), None, 128, 30, 98, id="the pod's own budget"),
        pytest.param(killed(APP, pods=True), 64, None, 30, 64, id="the pod's limit is gone"),
        pytest.param(killed(APP, pods=True), 64, 128, 128, 64, id="the others have grown since"),
        pytest.param(killed(POD, own=True), 64, 128, 1, 64, id="only the pod could tell: its own"),
        pytest.param(killed(POD, own=True), 64, 64, 2, 62, id="only the pod could tell: the smaller"),
        pytest.param(killed(POD), 64, 64, 2, None, id="only the pod could tell: none"),
    ],
)
def test_the_limit_that_was_hit(
    tmp_path: Path,
    kill: OomKill,
    own_mib: int | None,
    pod_mib: int | None,
    other_mib: int | None,
    expected: int | None,
) -> None:
    limit_mib = hit(tmp_path, kill=kill, own_mib=own_mib, pod_mib=pod_mib, other_mib=other_mib)
    assert limit_mib == expected

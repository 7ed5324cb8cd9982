from __future__ import annotations

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.change_text import POD_BUDGET, by_container, changes_text

MIB = 1 << 20


def change(container: str, resource: Resource, setting: Setting, before: int, after: int) -> Change:
    kind = ContainerKind.REGULAR if container else None
    return Change(container=container, kind=kind, resource=resource, setting=setting, before=before, after=after)


CHANGES = (
    change("app", Resource.CPU, Setting.REQUEST, 100, 250),
    change("", Resource.MEMORY, Setting.REQUEST, 128 * MIB, 256 * MIB),
    change("app", Resource.MEMORY, Setting.LIMIT, 64 * MIB, 128 * MIB),
)


def test_changes_are_sorted_by_container_in_the_order_met() -> None:
    assert by_container(CHANGES) == {"app": [CHANGES[0], CHANGES[2]], "": [CHANGES[1]]}
    assert by_container(()) == {}


def test_changes_of_a_pod_are_one_line() -> None:
    assert changes_text(CHANGES) == (
        f"app: cpu 100m -> 250m, memory limit 64MiB -> 128MiB; {POD_BUDGET}: memory 128MiB -> 256MiB"
    )
    assert changes_text(()) == ""

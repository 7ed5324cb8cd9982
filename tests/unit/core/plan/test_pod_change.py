from __future__ import annotations

import pytest

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.plan.node_room import counted
from agent.core.plan.pod_change import Change, Setting, actuated, changed_pod, pod_numbers, spec_text, stated
from tests.pods import container, make_pod, sidecar

MI = 1 << 20
POD = make_pod(
    container("app", {"cpu": "250m", "memory": "64Mi"}, {"cpu": "1", "memory": "128Mi"}),
    container("bare"),
    initContainers=[sidecar("proxy", {"cpu": "10m"})],
    resources={"requests": {"cpu": "2"}},
)
BARE = make_pod(container("app", {"cpu": "1"}))


def change(name: str, resource: Resource, setting: Setting, after: int = 1) -> Change:
    kind = ContainerKind.REGULAR if name else None
    return Change(container=name, kind=kind, resource=resource, setting=setting, before=0, after=after)


@pytest.mark.parametrize(
    ("name", "resource", "setting", "amount"),
    [
        ("app", Resource.CPU, Setting.REQUEST, 250),
        ("app", Resource.CPU, Setting.LIMIT, 1000),
        ("app", Resource.MEMORY, Setting.REQUEST, 64 * MI),
        ("app", Resource.MEMORY, Setting.LIMIT, 128 * MI),
        ("proxy", Resource.CPU, Setting.REQUEST, 10),
        ("proxy", Resource.MEMORY, Setting.LIMIT, None),
        ("bare", Resource.CPU, Setting.REQUEST, None),
        ("nobody", Resource.CPU, Setting.REQUEST, None),
        ("", Resource.CPU, Setting.REQUEST, 2000),
        ("", Resource.MEMORY, Setting.LIMIT, None),
    ],
)
def test_what_is_stated_is_read_and_what_is_changed_is_stated(
    name: str, resource: Resource, setting: Setting, amount: int | None
) -> None:
    asked = change(name, resource, setting, after=77)
    assert stated(pod_numbers(POD), asked) == amount
    assert stated(pod_numbers(changed_pod(POD, [asked])), asked) == (None if name == "nobody" else 77)


def test_a_budget_is_not_made_where_there_is_none() -> None:
    asked = change("", Resource.CPU, Setting.REQUEST)
    assert stated(pod_numbers(BARE), asked) is None
    assert changed_pod(BARE, [asked]) == BARE


def test_of_several_changes_of_a_number_the_last_holds() -> None:
    request, limit, budget = (
        change("app", Resource.CPU, Setting.REQUEST, 300),
        change("app", Resource.CPU, Setting.LIMIT, 900),
        change("", Resource.CPU, Setting.REQUEST, 1500),
    )
    last = change("app", Resource.CPU, Setting.REQUEST, 400)
    changed = pod_numbers(changed_pod(POD, [request, limit, budget, last]))
    assert [stated(changed, asked) for asked in (last, limit, budget)] == [400, 900, 1500]
    assert changed_pod(POD, []) == POD


def test_specs_are_equal_as_texts_exactly_when_no_amount_differs() -> None:
    assert spec_text(BARE) == "app=1000000000,-,-,-"
    assert spec_text(POD) == (
        "proxy=10000000,-,-,- "
        f"app=250000000,{64 * MI * 10**9},1000000000,{128 * MI * 10**9} "
        "bare=-,-,-,- =2000000000,-,-,-"
    )
    same = change("app", Resource.CPU, Setting.REQUEST, after=250)
    assert spec_text(changed_pod(POD, [same])) == spec_text(POD)
    for name, resource, setting in (
        ("app", Resource.CPU, Setting.REQUEST),
        ("proxy", Resource.MEMORY, Setting.LIMIT),
        ("", Resource.MEMORY, Setting.REQUEST),
    ):
        assert spec_text(changed_pod(POD, [change(name, resource, setting, after=3)])) != spec_text(POD)


def test_a_changed_pod_holds_room_as_before_until_the_kubelet_has_acted() -> None:
    held = {"cpu": "1"}
    status = {"containerStatuses": [{"name": "app", "allocatedResources": held, "resources": {"requests": held}}]}
    pod = make_pod(container("app", held), status=status)
    lowered = changed_pod(pod, [change("app", Resource.CPU, Setting.REQUEST, 40)])
    assert lowered.statuses == pod.statuses
    assert counted(lowered) == (1000, 0)
    assert counted(actuated(lowered)) == (40, 0)


def test_a_refusal_of_an_earlier_wish_takes_nothing_off_what_is_acted_on() -> None:
    held = {"cpu": "1"}
    never = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [never, ready], "containerStatuses": [{"name": "app", "allocatedResources": held}]}
    pod = make_pod(container("app", {"cpu": "64"}), status=status)
    assert counted(pod) == (1000, 0)
    acted = actuated(changed_pod(pod, [change("app", Resource.CPU, Setting.REQUEST, 2000)]))
    assert counted(acted) == (2000, 0)
    assert [condition.type for condition in acted.conditions] == ["Ready"]

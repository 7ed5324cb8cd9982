"""Windows in the plan: falls and restarts wait for their time, what is short waits for nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.calendar import ReadWindows
from agent.core.cluster.pod import PodRef
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import MIB
from agent.core.orders.windows import Disruption, Wait
from agent.core.plan.needs.demand import Demand, KeptReason, PodDemand
from agent.core.plan.plan import Plan, Share, waiting_for_windows
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.write_gate import window_wait
from tests.planning import container, needs, node, pod_demand, requirements, wanted

NIGHT, LATER = (datetime(2026, 11, 23, hour, tzinfo=UTC).timestamp() for hour in (22, 23))
SHRINK = {Disruption.SHRINK: Wait(until_unix_seconds=NIGHT, words="waits until 22:00")}
RESTART = {Disruption.RESTART: Wait(until_unix_seconds=LATER, words="waits until 23:00")}
NEVER = {Disruption.SHRINK: Wait(until_unix_seconds=None, words="waits")}


def web(cpu: Demand | None = None, memory: Demand | None = None, **fields: Any) -> PodDemand:
    """Return a pod that requests 1000m and 512 MiB unless told."""
    stated = fields.pop("stated", {"cpu": 1000, "memory": 512 * MIB})
    return pod_demand(containers=[container(**stated)], demands=[needs("app", cpu, memory)], **fields)


def share_of(plan: Plan, resource: Resource = Resource.CPU) -> Share:
    parts = (*plan.pods[0].containers, *(() if plan.pods[0].budget is None else (plan.pods[0].budget,)))
    share: Share | None = parts[-1].cpu if resource is Resource.CPU else parts[-1].memory
    assert share is not None
    return share


def test_a_fall_waits_for_its_window_and_growth_does_not() -> None:
    plan = node(web(wanted(500), wanted(600 * MIB), waits=SHRINK)).plan()
    cpu = share_of(plan)
    assert (cpu.applied, cpu.kept, cpu.waits_until_unix_seconds) == (1000, KeptReason.WINDOW, NIGHT)
    assert share_of(plan, Resource.MEMORY).applied == 600 * MIB
    assert waiting_for_windows(plan) == {PodRef(namespace="shop", name="web", uid="uid-web"): NIGHT}
    assert plan.is_sound
    assert waiting_for_windows(node(web(wanted(500), wanted(600 * MIB))).plan()) == {}


def test_without_a_time_in_sight_it_waits_and_names_none() -> None:
    plan = node(web(wanted(500), waits=NEVER)).plan()
    assert (share_of(plan).kept, share_of(plan).waits_until_unix_seconds) == (KeptReason.WINDOW, None)
    assert list(waiting_for_windows(plan).values()) == [None]


def test_who_starves_outside_its_windows_is_given_more_at_once() -> None:
    plan = node(web(wanted(1500, is_urgent=True), waits=SHRINK | RESTART)).plan()
    assert [(step.is_urgent, share_of(plan).applied) for step in plan.steps] == [(True, 1500)]


@pytest.mark.parametrize(
    ("memory", "waits", "kept", "until"),
    [
        (wanted(600 * MIB), RESTART, KeptReason.WINDOW, LATER),
        (wanted(600 * MIB), SHRINK, None, None),
        (wanted(600 * MIB, is_urgent=True), RESTART, None, None),
        (wanted(300 * MIB), SHRINK | RESTART, KeptReason.WINDOW, LATER),  # both have to be open
        (wanted(300 * MIB), SHRINK, KeptReason.WINDOW, NIGHT),
        (wanted(300 * MIB), NEVER | RESTART, KeptReason.WINDOW, None),
    ],
)
def test_a_change_that_restarts_waits_for_that_as_well(
    memory: Demand, waits: dict[Disruption, Wait], kept: KeptReason | None, until: float | None
) -> None:
    stated = {"memory": 512 * MIB, "restarts_for_memory": True}
    plan = node(web(memory=memory, stated=stated, waits=waits, order={"is_restart_allowed": True})).plan()
    share = share_of(plan, Resource.MEMORY)
    assert (share.kept, share.waits_until_unix_seconds) == (kept, until)


def test_a_limit_waits_too() -> None:
    memory = wanted(128 * MIB, limit=256 * MIB, in_use=64 * MIB)
    plan = node(web(memory=memory, stated={"memory": 128 * MIB, "memory_limit": 600 * MIB}, waits=SHRINK)).plan()
    share = share_of(plan, Resource.MEMORY)
    assert (share.limit_applied, share.limit_kept) == (600 * MIB, KeptReason.WINDOW)
    assert list(waiting_for_windows(plan).values()) == [NIGHT]


def test_a_budget_waits_too_and_its_request_restarts_nobody() -> None:
    fields: dict[str, Any] = {
        "stated": {"memory": 100 * MIB, "restarts_for_memory": True},
        "pod": {"resources": requirements(memory=512 * MIB, memory_limit=600 * MIB)},
        "order": {"is_restart_allowed": True},
        "waits": SHRINK | RESTART,
    }
    grown = node(web(memory=wanted(550 * MIB), **fields)).plan()
    assert share_of(grown, Resource.MEMORY).applied == 550 * MIB
    fallen = node(web(memory=wanted(200 * MIB), **fields)).plan()
    assert share_of(fallen, Resource.MEMORY).kept is KeptReason.WINDOW
    assert list(waiting_for_windows(fallen).values()) == [NIGHT]


@pytest.mark.parametrize(
    ("after", "hour", "is_urgent", "waits"),
    [(900, 12, False, True), (900, 23, False, False), (1100, 12, False, True), (1100, 12, True, False)],
)
def test_at_the_moment_of_the_write_it_is_asked_again(after: int, hour: int, is_urgent: bool, waits: bool) -> None:
    windows = ReadWindows()("shrink, restart: UTC 0 22 * * * for 6h")
    pod = web(wanted(500), stated={"cpu": 1000, "restarts_for_cpu": True}, order={"is_restart_allowed": True}).pod
    grown = node(web(wanted(1100), stated={"cpu": 1000})).plan().steps[0]
    change = Change(
        container="app", kind=None, resource=Resource.CPU, setting=Setting.REQUEST, before=1000, after=after
    )
    step = type(grown)(
        ref=grown.ref,
        workload=grown.workload,
        phase=grown.phase,
        changes=(change,),
        reason=grown.reason,
        is_urgent=is_urgent,
    )
    now = datetime(2026, 11, 23, hour, tzinfo=UTC).timestamp()
    wait = window_wait(step, pod, windows, now_unix_seconds=now, lasting_seconds=600.0)
    assert (wait is not None) is waits

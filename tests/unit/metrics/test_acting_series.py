"""The series of planning and acting: names, closed label sets, and where each number comes from."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.cluster.resource import Resource
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import KeptReason, ReservedReason, Urgent
from agent.core.plan.needs.given_boost import BoostEnd
from agent.core.plan.plan import Invariant, JointSpike
from agent.core.plan.pod_change import Setting
from agent.core.resize.decision import Outcome
from agent.core.window.memory_shortage import MemoryShort
from agent.metrics.acting_series import RESIZE_RESULTS, ActingSeries, Direction, Trigger, UrgentCause, kept_counts
from agent.metrics.agent_series import Metrics
from tests.plans import change, container, left_alone, mixed_plan, plan, pod, share, step, sums

GAUGES_OF_A_PLAN = 14
"""Seven sums for each resource; the age of the oldest pending resize comes on top."""
UNITLESS = {
    "plimsoll_resizes", "plimsoll_resize_blocked", "plimsoll_pods_reserved", "plimsoll_pods",
    "plimsoll_evictions_proposed", "plimsoll_plan_infeasible", "plimsoll_plans", "plimsoll_plans_unsound",
    "plimsoll_paused", "plimsoll_dry_run", "plimsoll_pinned_pods", "plimsoll_overloaded",
    "plimsoll_overload_tainted", "plimsoll_annotation_faults", "plimsoll_writes_barred", "plimsoll_urgent",
    "plimsoll_pod_limits", "plimsoll_pod_limits_held", "plimsoll_credit_containers", "plimsoll_startup_boosts",
    "plimsoll_startup_boosts_ended",
}  # fmt: skip


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def acting(registry: CollectorRegistry) -> ActingSeries:
    Metrics(version="0", commit="", sampler="native")  # switches the _created series of the library off
    return ActingSeries(registry)


def values(registry: CollectorRegistry) -> dict[str, float]:
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_closed_label_sets_stand_at_zero_from_the_start(acting: ActingSeries, registry: CollectorRegistry) -> None:
    page = values(registry)
    assert set(page.values()) == {0.0}
    for result in RESIZE_RESULTS:
        for resource in Resource:
            for direction in Direction:
                series = f'plimsoll_resizes_total{{direction="{direction}",resource="{resource}",result="{result}"}}'
                assert series in page
    for label, family, members in (
        ("reason", "plimsoll_resize_blocked", KeptReason),
        ("reason", "plimsoll_pods_reserved", ReservedReason),
        ("mode", "plimsoll_pods", Mode),
        ("trigger", "plimsoll_plans_total", Trigger),
    ):
        for member in members:
            assert f'{family}{{{label}="{member}"}}' in page


def test_sums_are_not_there_before_there_is_a_plan(acting: ActingSeries, registry: CollectorRegistry) -> None:
    before = set(values(registry))
    acting.take_plan(plan(), trigger=Trigger.INTERVAL, seconds=0.002)
    new = set(values(registry)) - before
    assert len(new) == GAUGES_OF_A_PLAN
    assert "plimsoll_joint_spike_cpu_cores" not in new  # not known
    assert all(re.search(r"_(cpu_cores|memory_bytes)$", name) for name in new)
    acting.forget_plan()
    assert set(values(registry)) == before


def test_what_pods_demand_together_is_shown_where_it_is_known(
    acting: ActingSeries, registry: CollectorRegistry
) -> None:
    cpu = sums(joint=JointSpike(amount=900, seen_unix_seconds=0.0))
    acting.take_plan(plan(cpu=cpu), trigger=Trigger.INTERVAL, seconds=0.002)
    assert values(registry)["plimsoll_joint_spike_cpu_cores"] == 0.9
    assert values(registry)["plimsoll_largest_spike_cpu_cores"] == 0.5
    acting.take_plan(plan(), trigger=Trigger.INTERVAL, seconds=0.002)
    assert "plimsoll_joint_spike_cpu_cores" not in values(registry)


def test_every_name_keeps_the_rules(acting: ActingSeries, registry: CollectorRegistry) -> None:
    acting.take_plan(mixed_plan(), trigger=Trigger.INTERVAL, seconds=0.002)
    acting.set_pending_oldest(3.0)
    names = set()
    for family in parse_text(generate_latest(registry).decode()):
        names.add(family.name)
        assert family.documentation.endswith(".")
        assert family.name in UNITLESS or re.search(r"_(seconds|bytes|cores)$", family.name), family.name
        for sample in family.samples:
            assert set(sample.labels) <= {"resource", "direction", "result", "reason", "mode", "trigger", "tier", "le"}
            if family.type == "counter":
                assert sample.name.endswith("_total")
    assert names > UNITLESS


def test_who_was_found_short_counts_by_what_showed_it(acting: ActingSeries, registry: CollectorRegistry) -> None:
    acting.count_urgent(
        [
            Urgent(cpu_millicores=500, memory_bytes=60),
            Urgent(memory_bytes=60, memory_short=MemoryShort.HELD),
            Urgent(memory_bytes=60, memory_short=MemoryShort.STALLED),
            Urgent(memory_waiting_ratio=0.5),  # bars a shrink, asks for nothing
        ]
    )
    counts = {reason: registry.get_sample_value("plimsoll_urgent_total", {"reason": reason}) for reason in UrgentCause}
    assert counts == dict.fromkeys(UrgentCause, 1.0)


def test_a_resize_counts_once_for_each_resource_and_direction(
    acting: ActingSeries, registry: CollectorRegistry
) -> None:
    memory = {"resource": Resource.MEMORY}
    whole = step(
        "web",
        change(500, 200),
        change(100, 50, "b"),  # CPU falls in another container: the same step
        change(10, 20, **memory),
        change(10, 20, setting=Setting.LIMIT, **memory),
    )
    acting.count_changes(whole.changes, Outcome.ACCEPTED)
    acting.count_changes(whole.changes, Outcome.APPLIED)
    acting.observe_resize(1.5)
    page = values(registry)
    assert {name: value for name, value in page.items() if "resizes_total" in name and value} == {
        f'plimsoll_resizes_total{{direction="{direction}",resource="{resource}",result="{result}"}}': 1.0
        for resource, direction in (("cpu", "down"), ("memory", "up"))
        for result in ("accepted", "applied")
    }
    assert page['plimsoll_resize_duration_seconds_bucket{le="1.0"}'] == 0
    assert page['plimsoll_resize_duration_seconds_bucket{le="2.0"}'] == 1
    with pytest.raises(KeyError):
        acting.count_changes(whole.changes, Outcome.PROPOSED)


def test_a_plan_sets_its_sums_in_base_units(acting: ActingSeries, registry: CollectorRegistry) -> None:
    acting.take_plan(
        plan(
            cpu=sums(
                allocatable=4000, reserved=1250, available=2750, final_total=1500, applied_total=2000, headroom=500
            ),
            memory=sums(Resource.MEMORY, available=-5, is_infeasible=True),
        ),
        trigger=Trigger.PRESSURE,
        seconds=0.003,
    )
    page = values(registry)
    assert page["plimsoll_allocatable_cpu_cores"] == 4.0
    assert page["plimsoll_reserved_cpu_cores"] == 1.25
    assert page["plimsoll_available_cpu_cores"] == 2.75
    assert page["plimsoll_planned_cpu_cores"] == 1.5
    assert page["plimsoll_requested_after_plan_cpu_cores"] == 2.0
    assert page["plimsoll_spike_headroom_cpu_cores"] == 0.5
    assert page["plimsoll_available_memory_bytes"] == -5
    assert page['plimsoll_plan_infeasible{resource="memory"}'] == 1
    assert page['plimsoll_plan_infeasible{resource="cpu"}'] == 0
    assert page['plimsoll_plans_total{trigger="pressure"}'] == 1
    assert page['plimsoll_plan_duration_seconds_bucket{le="0.002"}'] == 0
    assert page['plimsoll_plan_duration_seconds_bucket{le="0.005"}'] == 1


def test_a_plan_counts_pods_and_what_stands_in_the_way(acting: ActingSeries, registry: CollectorRegistry) -> None:
    acting.take_plan(mixed_plan(), trigger=Trigger.NEWS, seconds=0.001)
    page = values(registry)
    assert page['plimsoll_pods{mode="enforce"}'] == 4
    assert page['plimsoll_pods{mode="recommend"}'] == 1
    assert page['plimsoll_pods_reserved{reason="excluded"}'] == 2
    assert page['plimsoll_pods_reserved{reason="recommend"}'] == 1
    assert page['plimsoll_resize_blocked{reason="cooldown"}'] == 1
    acting.take_plan(plan(left_alone("x", ReservedReason.STATIC)), trigger=Trigger.NEWS, seconds=0.001)
    page = values(registry)
    assert page['plimsoll_pods{mode="enforce"}'] == 0
    assert page['plimsoll_pods_reserved{reason="excluded"}'] == 0
    assert page['plimsoll_pods_reserved{reason="static"}'] == 1
    assert page['plimsoll_resize_blocked{reason="cooldown"}'] == 0


def test_kept_counts_requests_limits_and_budgets() -> None:
    both = share(1, 1, 1, kept=KeptReason.COOL_DOWN, limit_kept=KeptReason.IN_USE)
    budget = container("", cpu=both, memory=None)
    counts = kept_counts(plan(pod("a", container(cpu=both, memory=None), budget=budget), pod("b", container(cpu=None))))
    assert counts == {KeptReason.COOL_DOWN: 2, KeptReason.IN_USE: 2}


def test_an_unsound_plan_is_counted(acting: ActingSeries, registry: CollectorRegistry) -> None:
    acting.take_plan(plan(), trigger=Trigger.NEWS, seconds=0.001)
    acting.take_plan(plan(invariants=(Invariant(name="sums", holds=False),)), trigger=Trigger.NEWS, seconds=0.001)
    assert values(registry)["plimsoll_plans_unsound_total"] == 1


def test_the_rest_reaches_its_series(acting: ActingSeries, registry: CollectorRegistry) -> None:
    acting.count_eviction(Resource.MEMORY)
    acting.set_holding(is_paused=True, pinned=3)
    acting.set_dry_run(is_dry_run=True)
    acting.set_overload(is_overloaded=True, is_tainted=False)
    acting.set_annotation_faults(2)
    acting.set_pending_oldest(90.0)
    acting.set_blocked({KeptReason.PAUSED: 7})
    acting.set_startup_boosts(2)
    acting.count_startup_boost(BoostEnd.READY)
    page = values(registry)
    assert page["plimsoll_startup_boosts"] == 2
    assert page['plimsoll_startup_boosts_ended_total{reason="ready"}'] == 1
    assert page['plimsoll_evictions_proposed_total{resource="memory"}'] == 1
    assert page["plimsoll_paused"] == 1
    assert page["plimsoll_pinned_pods"] == 3
    assert page["plimsoll_dry_run"] == 1
    assert (page["plimsoll_overloaded"], page["plimsoll_overload_tainted"]) == (1, 0)
    assert page["plimsoll_annotation_faults"] == 2
    assert page["plimsoll_resize_pending_oldest_seconds"] == 90
    assert page['plimsoll_resize_blocked{reason="paused"}'] == 7
    acting.set_pending_oldest(None)
    assert "plimsoll_resize_pending_oldest_seconds" not in values(registry)


def test_they_are_on_the_agents_page() -> None:
    metrics = Metrics(version="0", commit="", sampler="native")
    metrics.acting.set_holding(is_paused=True, pinned=0)
    assert b"\nplimsoll_paused 1.0\n" in metrics.page().body

from __future__ import annotations

import math

import pytest

from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.hpa import (
    HpaMetric,
    HpaTarget,
    UtilizationTarget,
    frozen_axes,
    frozen_resources,
    is_whole_workload_left,
    merged_axes,
    moved_target,
    utilization_targets,
)
from agent.core.cluster.resource import Resource


@pytest.mark.parametrize(
    ("metric", "frozen"),
    [
        (HpaMetric(type="Resource", resource="cpu"), {Resource.CPU}),
        (HpaMetric(type="Resource", resource="memory"), {Resource.MEMORY}),
        (HpaMetric(type="ContainerResource", resource="cpu"), {Resource.CPU}),
        (HpaMetric(type="Resource", resource="cpu", target_type="AverageValue"), set()),
        (HpaMetric(type="Resource", resource="ephemeral-storage"), set()),
        (HpaMetric(type="Resource"), set()),
        (HpaMetric(type="External", resource="cpu"), set()),
        (HpaMetric(type="Pods"), set()),
        (HpaMetric(type="Object"), set()),
    ],
)
def test_only_what_is_divided_by_a_request_freezes(metric: HpaMetric, frozen: set[Resource]) -> None:
    assert frozen_resources([metric]) == frozen


def test_the_axes_say_who_froze_them() -> None:
    cpu = HpaMetric(type="Resource", resource="cpu")
    memory = HpaMetric(type="Resource", resource="memory")
    assert frozen_axes("hpa", [cpu]) == FrozenAxes(cpu_for="hpa")
    assert frozen_axes("hpa", [cpu, memory]) == FrozenAxes(cpu_for="hpa", memory_for="hpa")
    assert frozen_axes("hpa", []) == FrozenAxes()


def test_a_containers_metric_freezes_that_container_only() -> None:
    app, proxy = (HpaMetric(type="ContainerResource", resource="cpu", container=name) for name in ("app", "proxy"))
    both = frozen_axes("hpa", [proxy, app])
    assert both == FrozenAxes(cpu_for="hpa", cpu_containers=("app", "proxy"))
    assert [both.holds(Resource.CPU, name) for name in ("app", "log", "")] == [True, False, True]
    assert not both.holds(Resource.MEMORY, "app")
    assert frozen_axes("hpa", [app, HpaMetric(type="Resource", resource="cpu")]) == FrozenAxes(cpu_for="hpa")
    assert frozen_axes("hpa", [HpaMetric(type="ContainerResource", resource="cpu")]) == FrozenAxes(cpu_for="hpa")


def test_several_autoscalers_freeze_together() -> None:
    app, log = (FrozenAxes(cpu_for=name, cpu_containers=(name,)) for name in ("app", "log"))
    memory = FrozenAxes(memory_for="memory")
    assert merged_axes([]) == FrozenAxes()
    assert merged_axes([log, app, memory]) == FrozenAxes(
        cpu_for="log", cpu_containers=("app", "log"), memory_for="memory"
    )
    assert merged_axes([app, FrozenAxes(cpu_for="all")]) == FrozenAxes(cpu_for="app")


def test_targets_are_those_that_are_shares_of_requests() -> None:
    app = HpaMetric(type="ContainerResource", resource="cpu", target_percent=60, container="app")
    metrics = [
        HpaMetric(type="Resource", resource="memory", target_percent=80),
        HpaMetric(type="Resource", resource="cpu", target_type="AverageValue"),
        HpaMetric(type="External"),
        app,
    ]
    assert utilization_targets("hpa", metrics) == (
        UtilizationTarget(holder="hpa", resource=Resource.MEMORY, percent=80),
        UtilizationTarget(holder="hpa", resource=Resource.CPU, percent=60, container="app"),
    )


@pytest.mark.parametrize(
    ("frozen", "freezes_axes", "is_left"),
    [
        (FrozenAxes(), True, False),
        (FrozenAxes(cpu_for="hpa"), True, False),
        (FrozenAxes(cpu_for="hpa", memory_for="hpa"), True, True),
        (FrozenAxes(cpu_for="hpa", cpu_containers=("app",), memory_for="hpa"), True, False),
        (FrozenAxes(cpu_for="hpa", memory_for="hpa", memory_containers=("app",)), True, False),
        (FrozenAxes(cpu_for="hpa", cpu_containers=("app",)), False, True),
        (FrozenAxes(), False, False),
        (FrozenAxes(memory_for="hpa"), False, True),
    ],
)
def test_a_workload_is_left_when_nothing_of_it_is_free(frozen: FrozenAxes, freezes_axes: bool, is_left: bool) -> None:
    assert is_whole_workload_left(frozen, freezes_axes=freezes_axes) is is_left


@pytest.mark.parametrize(
    ("target", "old", "new", "moved"),
    [
        (50, 1.0, 0.8, HpaTarget(percent=63, is_clamped=False, equal_percent=63)),  # 62.5, half up
        (50, 1.0, 0.5, HpaTarget(percent=90, is_clamped=True, equal_percent=100)),  # 100
        (45, 1.0, 0.5, HpaTarget(percent=90, is_clamped=False, equal_percent=90)),
        (1, 0.01, 100.0, HpaTarget(percent=1, is_clamped=True, equal_percent=0)),
        (50, 1e308, 1e-308, HpaTarget(percent=90, is_clamped=True, equal_percent=1_000_000_000)),  # beyond any float
        (0, 1.0, 1.0, None),
        (50, 0.0, 1.0, None),
        (50, 1.0, 0.0, None),
        (50, math.nan, 1.0, None),
    ],
)
def test_a_target_keeps_its_replicas(target: float, old: float, new: float, moved: HpaTarget | None) -> None:
    assert moved_target(target, old_request=old, new_request=new) == moved

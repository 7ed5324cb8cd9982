"""The series of QoS tiers and of whole pods: names, labels, what is left out, and both formats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.machine.drift import DRIFT_KINDS
from agent.core.machine.pod_limits import PodLimitHeld
from agent.core.window.snapshot import PodStatus, UnitStatus
from agent.metrics.agent_series import Metrics
from agent.metrics.container_series import ContainerSeries
from agent.metrics.pod_series import SERIES_PER_POD, pods_text
from tests.snapshots import MIB, cpu_window, memory_window


def cgroup(path: str, kind: UnitKind, **identity: Any) -> UnitStatus:
    return UnitStatus(
        identity=UnitIdentity(cgroup_path=path, kind=kind, **identity),
        resources=UnitResources(),
        cpu=cpu_window(100.0),
        memory=memory_window(64 * MIB, oom_kills=2),
        sample_age_seconds=3.0,
        memory_max_bytes=512 * MIB,
    )


def pod(name: str | None, *, itself: float | None = 12.0) -> PodStatus:
    whole = cgroup(f"/kubepods/pod{name}", UnitKind.POD, namespace="shop", pod=name)
    return PodStatus(
        whole=whole, itself_cpu_millicores=itself, itself_working_set_bytes=None if itself is None else MIB
    )


def values(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.page().body.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="0.1.0", commit="abc", sampler="native", per_container=True)


def test_tiers_are_told_by_their_names_under_both_drivers(metrics: Metrics) -> None:
    metrics.tiers.publish(
        [
            cgroup("/kubepods", UnitKind.TIER),
            cgroup("/kubepods.slice/kubepods-burstable.slice", UnitKind.TIER, qos=QosClass.BURSTABLE),
            cgroup("/x/kubepods/system/besteffort", UnitKind.TIER, qos=QosClass.BEST_EFFORT),
        ]
    )
    page = values(metrics)
    for tier in ("kubepods", "kubepods/burstable", "kubepods/system/besteffort"):
        # P75 is 1.2 x and the peak 2 x what is used now, by the windows of these tests.
        assert page[f'plimsoll_tier_cpu_usage_cores{{quantile="0.75",tier="{tier}"}}'] == 0.12
        assert page[f'plimsoll_tier_cpu_usage_cores{{quantile="1",tier="{tier}"}}'] == 0.2
        assert page[f'plimsoll_tier_cpu_waiting_ratio{{tier="{tier}"}}'] == 0.02
        assert page[f'plimsoll_tier_cpu_throttled_ratio{{tier="{tier}"}}'] == 0.001
        assert page[f'plimsoll_tier_memory_working_set_bytes{{quantile="1",tier="{tier}"}}'] == 128 * MIB
        assert page[f'plimsoll_tier_memory_peak_bytes{{tier="{tier}"}}'] == 192 * MIB
        assert page[f'plimsoll_tier_memory_limit_bytes{{tier="{tier}"}}'] == 512 * MIB
        assert page[f'plimsoll_tier_memory_stalled_ratio{{tier="{tier}"}}'] == 0.0
        assert page[f'plimsoll_tier_oom_kills{{tier="{tier}"}}'] == 2


def test_pods_are_told_beside_containers_and_only_then(metrics: Metrics) -> None:
    metrics.publish_pods([pod("web")])
    metrics.publish_containers([ContainerSeries(labels=("shop", "web", "app"), cpu_request_millicores=5)])
    page = values(metrics)
    labels = 'namespace="shop",pod="web"'
    assert page[f'plimsoll_pod_cpu_usage_cores{{{labels},quantile="0.75"}}'] == 0.12
    assert page[f"plimsoll_pod_memory_limit_bytes{{{labels}}}"] == 512 * MIB
    assert page[f"plimsoll_pod_itself_cpu_usage_cores{{{labels}}}"] == 0.012
    assert page[f"plimsoll_pod_itself_memory_working_set_bytes{{{labels}}}"] == MIB
    assert sum("plimsoll_pod_" in name and "pod=" in name for name in page) == SERIES_PER_POD

    without = Metrics(version="0.1.0", commit="abc", sampler="native")
    without.publish_pods([pod("web")])
    assert not any("pod=" in name for name in values(without))


def test_what_is_not_known_has_no_series_and_neither_has_a_pod_without_a_name() -> None:
    text, dropped = pods_text([pod("a", itself=None), pod(None)], max_series=1000, openmetrics=True)
    assert "itself" not in text
    assert dropped == 0
    assert pods_text([], max_series=1000) == ("", 0)
    assert {sample.labels["pod"] for family in parse_text(text) for sample in family.samples} == {"a"}
    assert "# UNIT plimsoll_pod_cpu_usage_cores cores" in text
    assert "# UNIT plimsoll_pod_oom_kills" not in text


def test_the_cap_leaves_out_whole_pods_the_last_by_name() -> None:
    pods = [pod(name) for name in ("c", "a", "b")]
    text, dropped = pods_text([*pods, pod("a")], max_series=2 * SERIES_PER_POD)
    assert {sample.labels["pod"] for family in parse_text(text) for sample in family.samples} == {"a", "b"}
    assert dropped == 2 * SERIES_PER_POD  # one beyond the cap, one of a name that was there already


def test_names_are_escaped() -> None:
    odd = pod("a")
    odd = replace(odd, whole=replace(odd.whole, identity=replace(odd.whole.identity, namespace='a"b\\c')))
    assert 'namespace="a\\"b\\\\c"' in pods_text([odd], max_series=100)[0]


def test_drift_stands_at_nothing_after_an_audit_and_is_not_there_before(metrics: Metrics) -> None:
    assert not any("cgroup_drift" in name for name in values(metrics))
    metrics.set_drift({"cpu.weight": 3})
    page = values(metrics)
    assert {kind: page[f'plimsoll_cgroup_drift{{kind="{kind}"}}'] for kind in DRIFT_KINDS} == {
        kind: 3 if kind == "cpu.weight" else 0 for kind in DRIFT_KINDS
    }
    assert page["plimsoll_cgroup_audits_total"] == 1


def test_cgroups_that_come_go_and_change_are_counted(metrics: Metrics) -> None:
    metrics.count_cgroups("container", created=2, removed=1)
    metrics.take_cgroups("pod", created=5, removed=4)
    metrics.take_cgroups("pod", created=6, removed=4)
    metrics.count_changed_cgroup(is_ours=True)
    metrics.count_changed_cgroup(is_ours=False)
    page = values(metrics)
    assert page['plimsoll_cgroups_created_total{level="pod"}'] == 6
    assert page['plimsoll_cgroups_removed_total{level="pod"}'] == 4
    assert page['plimsoll_cgroups_removed_total{level="container"}'] == 1
    assert (
        page['plimsoll_cgroups_created_total{level="pod"}'],
        page['plimsoll_cgroups_removed_total{level="pod"}'],
    ) == (6, 4)
    assert page['plimsoll_cgroups_changed_total{writer="plimsoll"}'] == 1
    assert page['plimsoll_cgroups_changed_total{writer="others"}'] == 1


def test_pod_limits_and_what_is_kept_for_higher_tiers_are_told(metrics: Metrics) -> None:
    metrics.acting.set_pod_limits(limited=3, held={PodLimitHeld.STARTING: 2})
    metrics.acting.set_qos_reserved({QosClass.BURSTABLE: 5, QosClass.BEST_EFFORT: 0})
    page = values(metrics)
    assert page["plimsoll_pod_limits"] == 3
    assert page['plimsoll_pod_limits_held{reason="starting"}'] == 2
    assert page['plimsoll_pod_limits_held{reason="off"}'] == 0
    assert page['plimsoll_qos_reserved_target_bytes{tier="burstable"}'] == 5
    assert page['plimsoll_qos_reserved_target_bytes{tier="besteffort"}'] == 0
    metrics.acting.set_qos_reserved({})
    assert not any("qos_reserved" in name for name in values(metrics))

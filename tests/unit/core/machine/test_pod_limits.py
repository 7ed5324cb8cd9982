"""The annotation plimsoll.dev/pod-limits: strictly read, checked against the pod, never looser than the kubelet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Pod
from agent.core.machine.cgroup_files import CPU_MAX, MEMORY_MAX, Amount, Unlimited
from agent.core.machine.cgroup_values import KubeletRules
from agent.core.machine.cpu_knobs import CpuMax
from agent.core.machine.pod_limits import (
    TAKEN_BACK,
    PodLimitHeld,
    PodLimitsOrder,
    amount_line,
    cluster_knows_pod_level,
    is_in_force,
    kubelet_amounts,
    memory_room_text,
    pod_limits_order,
)
from agent.core.numbers.units import GIB, INT64_MAX, MIB
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.order import Fault, Mode, Orders, OrderSource, Ranking
from agent.core.orders.pod_limits import PodLimits, PodLimitsError, parse_pod_limits
from agent.core.orders.policy_options import PolicyName
from tests.pods import container, make_pod, sidecar

RUNNING = {"phase": "Running", "qosClass": "Burstable"}
ASKED = '{"limits": {"cpu": "2", "memory": "384M"}}'


def pod(
    *containers: Mapping[str, Any],
    annotation: str | None = ASKED,
    status: Mapping[str, Any] = RUNNING,
    **spec: Any,
) -> Pod:
    metadata = {"annotations": {} if annotation is None else {POD_LIMITS: annotation}}
    return make_pod(*(containers or (container("app"),)), metadata=metadata, status=status, **spec)


def orders(mode: Mode, source: OrderSource = OrderSource.POD, **fields: Any) -> Orders:
    return Orders(
        mode=mode,
        mode_source=source,
        policy=PolicyName.CRUISE,
        policy_source=source,
        ranking=Ranking.LOW,
        ranking_source=source,
        **fields,
    )


def order(of: Pod, *, knows: bool | None = False, rules: KubeletRules | None = None) -> PodLimitsOrder:
    limits = pod_limits_order(of, cluster_knows_them=knows, rules=rules)
    assert limits is not None
    return limits


# -- the text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        (ASKED, PodLimits(cpu_limit_millicores=2000, memory_limit_bytes=384_000_000)),
        ('{"limits": {"cpu": 0.5}}', PodLimits(cpu_limit_millicores=500)),
        ('{"limits":{"memory":268435456}}', PodLimits(memory_limit_bytes=256 * MIB)),
        ('{"limits": {"cpu": "1m", "memory": "1Mi"}}', PodLimits(cpu_limit_millicores=1, memory_limit_bytes=MIB)),
        (
            '{"limits": {"cpu": "2"}, "requests": {"cpu": "500m", "memory": "64Mi"}}',
            PodLimits(cpu_limit_millicores=2000, cpu_request_millicores=500, memory_request_bytes=64 * MIB),
        ),
        ('{"limits": {"cpu": "2"}, "requests": {}}', PodLimits(cpu_limit_millicores=2000)),
        (
            '{"limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}}',
            PodLimits(
                cpu_limit_millicores=2000,
                hugepages_limit_bytes={"hugepages-2Mi": 4 * MIB},
                hugepages_request_bytes={"hugepages-2Mi": 4 * MIB},
            ),
        ),
    ],
)
def test_amounts_are_quantities_as_text_or_as_numbers(text: str, limits: PodLimits) -> None:
    assert parse_pod_limits(text) == limits


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("cpu=2", "not JSON"),
        ("[" * 4_000, "not JSON"),
        ('"2"', "the whole is no JSON object"),
        ("{}", "limits is no JSON object"),
        ('{"limits": {}}', "limits names neither cpu nor memory"),
        ('{"limits": null}', "limits is no JSON object"),
        ('{"cpu": "2"}', "the whole holds 'cpu', allowed: limits, requests"),
        ('{"requests": {"cpu": "2"}}', "limits is no JSON object"),
        ('{"limits": {"cpu": "2"}, "requests": null}', "requests is no JSON object"),
        ('{"limits": {"hugepages-2Mi": "4Mi"}}', "limits names neither cpu nor memory"),
        ('{"limits": {"cpu": "2", "pids": "5"}}', "limits holds 'pids', allowed: cpu, memory, hugepages-SIZE"),
        (
            '{"limits": {"cpu": "2"}, "requests": {"pids": "5"}}',
            "requests holds 'pids', allowed: cpu, memory, hugepages-SIZE",
        ),
        ('{"limits": {"cpu": "2"}, "requests": {"memory": "5"}}', "memory: '5' is too little"),
        ('{"limits": {"cpu": "2", "hugepages-": "4Mi"}}', "'hugepages-' names no size of pages"),
        ('{"limits": {"cpu": "2", "hugepages-0": "4Mi"}}', "'hugepages-0' names no size of pages"),
        # Half a character, which no UTF-8 has.
        (r'{"limits": {"cpu": "2", "hugepages-\ud800": true}}', r"'hugepages-\ud800' names no size of pages"),
        (r'{"limits": {"cpu": "2", "hugepages-\ud800": "a lot"}}', r"'hugepages-\ud800' names no size of pages"),
        ('{"limits": {"cpu": "2", "hugepages-2Mi": "3Mi"}}', "hugepages-2Mi: '3Mi' is no whole number of pages"),
        ('{"limits": {"cpu": "2", "hugepages-2Mi": 0}}', "hugepages-2Mi: '0' is no whole number of pages"),
        ('{"limits": {"cpu": "2", "cpu": "3"}}', "a name is given twice"),
        ('{"limits": {"cpu": "0"}}', "cpu: '0' is too little"),
        ('{"limits": {"cpu": "-1"}}', "cpu: '-1' is too little"),
        ('{"limits": {"cpu": "0.5m"}}', "cpu: '0.5m' is too little"),
        ('{"limits": {"memory": "512m"}}', "memory: '512m' is too little"),
        ('{"limits": {"memory": "a lot"}}', "memory: 'a lot' is not a quantity"),
        ('{"limits": {"memory": true}}', "memory is no amount"),
        ('{"limits": {"cpu": NaN}}', "NaN is no number"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(PodLimitsError) as caught:
        parse_pod_limits(text)

    assert str(caught.value) == why


@pytest.mark.parametrize(
    "text", ['{"%s": {}}', '{"limits": {"%s": "1"}}', '{"limits": {"cpu": "2", "hugepages-%s": "1"}}']
)
def test_a_refusal_is_short_however_long_the_name_that_is_refused(text: str) -> None:
    with pytest.raises(PodLimitsError) as caught:
        parse_pod_limits(text % ("A" * 200_000))
    assert len(str(caught.value)) < 200


def test_a_text_that_is_longer_than_any_sensible_one_is_not_read() -> None:
    pages = {f"hugepages-{size}Mi": "1Gi" for size in range(1, 400)}
    with pytest.raises(PodLimitsError, match=r"\d+ characters, of at most 4096"):
        parse_pod_limits(json.dumps({"limits": {"cpu": "2", **pages}}))


def test_digits_without_end_are_refused_and_not_computed() -> None:
    with pytest.raises(PodLimitsError, match="is not a quantity"):
        parse_pod_limits(json.dumps({"limits": {"memory": "9" * 4_000}}))


@given(st.text() | st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists).map(json.dumps))
def test_no_text_breaks_the_reader(text: str) -> None:
    limits = order(pod(annotation=text))

    assert (limits.held is None) == bool(limits.wanted)
    assert "\n" not in limits.text


# -- the pod -----------------------------------------------------------------------------------------------------------


def test_a_pod_without_the_annotation_asks_for_nothing() -> None:
    assert pod_limits_order(pod(annotation=None), cluster_knows_them=False) is None


def test_a_pod_without_limits_of_its_own_gets_those_asked_for() -> None:
    limits = order(pod(container("app", {"cpu": "500m", "memory": "128M"}), container("proxy")))

    # 2 CPUs are 200 ms of each 100 ms
    wanted: dict[str, Amount] = {
        CPU_MAX: CpuMax(quota_usec=200_000, period_usec=100_000),
        MEMORY_MAX: 384_000_000,
    }
    assert limits == PodLimitsOrder(wanted=wanted)


def test_only_what_is_named_is_wanted() -> None:
    assert set(order(pod(annotation='{"limits": {"cpu": "1"}}')).wanted) == {CPU_MAX}
    assert set(order(pod(annotation='{"limits": {"memory": "1Gi"}}')).wanted) == {MEMORY_MAX}


def test_overhead_comes_on_top_and_the_kubelets_period_is_kept() -> None:
    limits = order(pod(overhead={"cpu": "250m", "memory": "120Mi"}), rules=KubeletRules(period_usec=10_000))

    # 2250m of 10 ms
    assert limits.wanted[CPU_MAX] == CpuMax(quota_usec=22_500, period_usec=10_000)
    assert limits.wanted[MEMORY_MAX] == 384_000_000 + 120 * MIB


def test_limits_looser_than_the_containers_own_change_nothing() -> None:
    small = {"cpu": "250m", "memory": "64Mi"}
    limited = pod(container("app", small, small), container("log", small, small))

    # The kubelet writes the sums, 500m and 128Mi: less than the 2 CPUs and 384M asked for.
    assert order(limited).wanted == kubelet_amounts(limited, KubeletRules())
    assert order(limited).wanted == {
        CPU_MAX: CpuMax(quota_usec=50_000, period_usec=100_000),
        MEMORY_MAX: 128 * MIB,
    }


def test_an_amount_beyond_everything_is_cut_to_what_the_kernel_can_read() -> None:
    limits = order(pod(annotation='{"limits": {"memory": "15Ei"}}', overhead={"memory": "1Gi"}))

    assert limits.wanted[MEMORY_MAX] == INT64_MAX


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}},
            "cpu: the request 1500m is above the limit 1000m",
        ),
        (
            {"limits": {"cpu": "2"}, "requests": {"cpu": "400m"}},
            "cpu: the request 400m is below the 500m that its containers request; allowed: 500m or more",
        ),
        (
            {"limits": {"cpu": "2"}, "requests": {"memory": "64Mi"}},
            "memory: the request 64MiB is below the 128MiB that its containers request; allowed: 128MiB or more",
        ),
        (
            {"limits": {"cpu": "2", "hugepages-2Mi": "8Mi"}, "requests": {"hugepages-2Mi": "6Mi"}},
            "hugepages-2Mi: the request 6MiB is not the limit 8MiB",
        ),
        (
            {"limits": {"cpu": "2", "hugepages-2Mi": "2Mi"}},
            "hugepages-2Mi: the limit 2MiB is below the 4MiB that its containers request; allowed: 4MiB or more",
        ),
    ],
)
def test_a_budget_that_contradicts_itself_or_its_containers_is_refused_with_the_amounts(
    asked: dict[str, Any], words: str
) -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    inside = container("app", {"cpu": "500m", "memory": "128Mi", **pages}, pages)
    for knows in (True, False):
        limits = order(pod(inside, annotation=json.dumps(asked)), knows=knows)
        assert (limits.wanted, limits.held, limits.text) == ({}, PodLimitHeld.BELOW_REQUESTS, words)


def test_what_cgroups_cannot_give_is_a_warning_where_the_cluster_knows_no_pod_level_resources() -> None:
    asked = pod(annotation='{"limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1"}}')

    assert [text.partition(":")[0] for text in order(asked).warnings] == ["requests", "hugepages"]
    assert order(asked, knows=True).warnings == ()


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        (
            {"cpu": "1500m"},
            "cpu: the limit 2000m is below the 2250m that its containers request; allowed: 2250m or more",
        ),
        (
            {"memory": "256Mi"},
            "memory: the limit 366.2MiB is below the 384MiB that its containers request; allowed: 384MiB or more",
        ),
    ],
)
def test_a_limit_below_the_sum_of_requests_is_refused(requests: dict[str, str], words: str) -> None:
    beside = {"cpu": "750m", "memory": "128Mi"}
    limits = order(pod(container("app", requests), initContainers=[sidecar("proxy", beside)]))

    assert (limits.wanted, limits.held, limits.text) == ({}, PodLimitHeld.BELOW_REQUESTS, words)


def test_requests_of_init_containers_that_end_do_not_count() -> None:
    ended = {
        **RUNNING,
        "initContainerStatuses": [{"name": "unpack", "state": {"terminated": {"exitCode": 0}}}],
    }
    init = container("unpack", {"cpu": "8", "memory": "8Gi"}, {"memory": "8Gi"})

    limits = order(pod(initContainers=[init], status=ended))

    assert limits.held is None
    assert limits.warnings == ()


def test_a_memory_limit_below_the_containers_limits_is_a_warning_only() -> None:
    roomy = container("app", None, {"memory": "256Mi"})

    limits = order(pod(roomy, {**roomy, "name": "log"}))

    assert MEMORY_MAX in limits.wanted
    assert limits.warnings == (
        "memory: the pod's limit 366.2MiB is below the 512MiB of its containers' limits: it is met before theirs",
    )


@pytest.mark.parametrize(
    ("status", "held"),
    [
        ({"phase": "Pending"}, PodLimitHeld.STARTING),
        (
            {"phase": "Running", "initContainerStatuses": [{"name": "unpack", "state": {"running": {}}}]},
            PodLimitHeld.STARTING,
        ),
        ({"phase": "Running"}, PodLimitHeld.STARTING),  # no status of the init container yet
        ({"phase": "Succeeded"}, PodLimitHeld.ENDING),
        ({"phase": "Failed"}, PodLimitHeld.ENDING),
    ],
)
def test_nothing_is_written_before_the_init_containers_have_ended_or_after_the_pod_has(
    status: dict[str, Any], held: PodLimitHeld
) -> None:
    limits = order(pod(initContainers=[container("unpack")], status=status))

    assert (limits.wanted, limits.held) == ({}, held)


def test_a_pod_that_is_being_deleted_is_left_alone() -> None:
    metadata = {"annotations": {POD_LIMITS: ASKED}, "deletionTimestamp": "2026-01-01T00:00:00Z"}

    assert order(make_pod(container(), metadata=metadata, status=RUNNING)).held is PodLimitHeld.ENDING


def test_sidecars_need_not_end() -> None:
    assert order(pod(initContainers=[sidecar("proxy")])).held is None


def test_a_faulty_annotation_says_what_is_wrong_and_what_is_allowed() -> None:
    limits = order(pod(annotation='{"cpu": "2"}'), knows=None)

    assert (limits.wanted, limits.held) == ({}, PodLimitHeld.FAULTY_ANNOTATION)
    assert limits.text == (
        "the whole holds 'cpu', allowed: limits, requests; allowed: "
        '{"limits": {"cpu": "2", "memory": "384M"}}: one of the two or both, at least 1m and 1Mi; '
        'hugepages-2Mi and the like beside them; "requests" with the same names beside "limits"'
    )


def test_pod_level_resources_and_a_cluster_that_knows_them_go_first() -> None:
    own = pod(resources={"limits": {"memory": "1Gi"}})

    assert order(own).held is PodLimitHeld.POD_LEVEL_RESOURCES
    held = order(pod(), knows=True)
    assert held.held is PodLimitHeld.CLUSTER_KNOWS_THEM
    # The agent does not know of other nodes: while one of them is older the webhook sets nothing either.
    assert "once every Linux node knows them" in held.text
    assert order(pod(), knows=None).held is PodLimitHeld.VERSION_UNKNOWN
    assert order(pod(resources={})).held is None  # an empty section is as good as none


@pytest.mark.parametrize(
    ("server", "kubelet", "knows"),
    [
        ("v1.34.0", "v1.34.4", True),
        ("v1.37.1", "v1.34.0-eks-1", True),
        ("v1.33.9", "v1.34.0", False),
        ("v1.35.0", "v1.32.1", False),
        (None, "v1.33.0", False),
        (None, "v1.35.0", None),
        ("v1.35.0", None, None),
        ("nonsense", "v1.36.0", None),
    ],
)
def test_both_versions_say_whether_the_cluster_knows_pod_level_resources(
    server: str | None, kubelet: str | None, knows: bool | None
) -> None:
    assert cluster_knows_pod_level(server, kubelet) is knows


# -- values ------------------------------------------------------------------------------------------------------------


def test_what_the_kubelet_has_for_a_pod_without_limits_is_no_limit() -> None:
    assert kubelet_amounts(pod(), KubeletRules()) == {
        CPU_MAX: CpuMax(quota_usec=None, period_usec=100_000),
        MEMORY_MAX: Unlimited.MAX,
    }


def test_a_quota_that_is_not_enforced_is_no_limit() -> None:
    both = {"cpu": "1", "memory": "1Gi"}
    guaranteed = pod(container("app", both, both), status={"phase": "Running", "qosClass": "Guaranteed"})

    amounts = kubelet_amounts(guaranteed, KubeletRules(enforce_cpu_limits=False))

    assert amounts == {CPU_MAX: CpuMax(quota_usec=None, period_usec=100_000), MEMORY_MAX: GIB}


def test_memory_is_compared_in_whole_pages_and_the_rest_exactly() -> None:
    assert is_in_force(384_000_000, 384_000_000 - 384_000_000 % 4096, 4096)
    assert not is_in_force(384_000_000, 384_000_000 + 4096, 4096)
    assert not is_in_force(4096, Unlimited.MAX, 4096)
    assert not is_in_force(4096, None, 4096)
    assert is_in_force(Unlimited.MAX, Unlimited.MAX, 4096)
    assert not is_in_force(
        CpuMax(quota_usec=5000, period_usec=100_000), CpuMax(quota_usec=5000, period_usec=50_000), 4096
    )


def test_a_memory_limit_needs_its_margin_over_what_is_in_use() -> None:
    assert memory_room_text(125 * MIB, 100 * MIB, 1.25) is None
    assert memory_room_text(125 * MIB - 1, 100 * MIB, 1.25) == (
        "memory limit 125MiB is too near to the 100MiB in use (1.25 times that is the least)"
    )
    assert memory_room_text(MIB, None, 1.25) == "how much memory the pod uses is not known"


def test_amounts_are_written_as_the_kernel_reads_them() -> None:
    assert amount_line(CpuMax(quota_usec=None, period_usec=100_000)) == "max 100000"
    assert amount_line(CpuMax(quota_usec=200_000, period_usec=100_000)) == "200000 100000"
    assert amount_line(Unlimited.MAX) == "max"
    assert amount_line(4096) == "4096"


# -- what else is ordered for the pod ----------------------------------------------------------------------------------

FAULT = Fault(key="plimsoll.dev/mode", value="on", allowed="off, recommend, enforce", source=OrderSource.POD)


@pytest.mark.parametrize(
    ("ordered", "held", "text"),
    [
        (orders(Mode.OFF), PodLimitHeld.OFF, "mode off by the pod annotation"),
        (orders(Mode.OFF, OrderSource.RULE), PodLimitHeld.OFF, "its namespace is one of act.excludedNamespaces"),
        (orders(Mode.OFF, faults=(FAULT,)), PodLimitHeld.FAULTY_ANNOTATION, str(FAULT)),
    ],
)
def test_a_pod_that_may_not_be_written_gets_no_limits(ordered: Orders, held: PodLimitHeld, text: str) -> None:
    limits = pod_limits_order(pod(), cluster_knows_them=False, orders=ordered)
    assert limits == PodLimitsOrder(wanted={}, held=held, text=text)
    assert held in TAKEN_BACK


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.OFF])
def test_a_pod_gets_its_limits_in_every_mode_but_off(mode: Mode) -> None:
    limits = pod_limits_order(pod(), cluster_knows_them=False, orders=orders(mode))
    assert limits == order(pod())
    assert limits is not None
    assert limits.wanted


def test_nothing_is_written_or_taken_back_for_a_namespace_that_is_not_known() -> None:
    for mode in Mode:
        limits = pod_limits_order(pod(), cluster_knows_them=False, orders=orders(mode), is_namespace_known=False)
        assert limits is not None
        assert (limits.held, limits.wanted) == (PodLimitHeld.NAMESPACE_UNKNOWN, {})
    assert PodLimitHeld.NAMESPACE_UNKNOWN not in TAKEN_BACK
    excluded = orders(Mode.OFF, OrderSource.RULE)
    limits = pod_limits_order(pod(), cluster_knows_them=False, orders=excluded, is_namespace_known=False)
    assert limits is not None
    assert limits.held is PodLimitHeld.OFF


def test_a_pod_keeps_its_limits_whatever_a_heap_of_its_own_may_be() -> None:
    fault = Fault(key="container app", value=None, allowed="-Xmx is not understood", source=OrderSource.SPEC)
    by_spec = orders(Mode.OFF, OrderSource.SPEC, faults=(fault,))

    assert pod_limits_order(pod(), cluster_knows_them=False, orders=by_spec) == order(pod())
    ordered = pod_limits_order(pod(), cluster_knows_them=False, orders=orders(Mode.OFF, faults=(fault,)))
    assert ordered is not None
    assert ordered.held is PodLimitHeld.OFF

from __future__ import annotations

from typing import Any

import pytest

from agent.calendar import ReadWindows
from agent.core.cluster.node import Namespace
from agent.core.cluster.runtime_profile import LanguageRuntime
from agent.core.orders import annotations as names
from agent.core.orders.order import Fault, Mode, Orders, OrderSource, Ranking
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import default_ranking, listed, orders_of
from tests.pods import container, make_pod

MI = 1 << 20


def orders(
    pod: dict[str, str] | None = None,
    namespace: dict[str, str] | None = None,
    *,
    kind: str = "Deployment",
    in_namespace: str = "shop",
    replicas: int | None = None,
    mode: Mode = Mode.RECOMMEND,
    guaranteed: bool = False,
    rule: dict[str, str] | None = None,
    autoscaler: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Orders:
    metadata: dict[str, Any] = {
        "namespace": in_namespace,
        "annotations": pod or {},
        "ownerReferences": [{"kind": kind, "name": "web", "uid": "o", "controller": True}],
    }
    return orders_of(
        make_pod(container(), metadata=metadata),
        None
        if namespace is None and labels is None
        else Namespace(name=in_namespace, labels=labels or {}, annotations=namespace or {}),
        act=ActOptions(mode=mode),
        recommend_policy=PolicyName.CRUISE,
        plan=PlanOptions(guaranteed=guaranteed),
        replicas=replicas,
        rule=rule or {},
        autoscaler=autoscaler or {},
    )


def test_a_rule_of_the_cluster_comes_after_the_namespace_and_before_the_configuration() -> None:
    rule = {names.MODE: "enforce", names.POLICY: "vpa"}
    assert orders(rule=rule).mode_source is OrderSource.CLUSTER
    both = orders(None, {names.MODE: "off"}, rule=rule)
    assert (both.mode, both.mode_source) == (Mode.OFF, OrderSource.NAMESPACE)
    assert (both.policy, both.policy_source) == (PolicyName.VPA, OrderSource.CLUSTER)
    assert orders(in_namespace="kube-system", rule=rule).mode_source is OrderSource.RULE


def test_a_vpa_object_comes_after_the_namespace_and_before_the_rules() -> None:
    policies = '[{"containerName": "app", "mode": "Off"}]'
    autoscaler = {names.MODE: "enforce", names.CONTAINER_POLICIES: policies, names.EVICTION_RANKING: "no-eviction"}
    pod_orders = orders(rule={names.MODE: "off"}, autoscaler=autoscaler)
    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.ENFORCE, OrderSource.AUTOSCALER)
    assert (pod_orders.ranking, pod_orders.ranking_source) == (Ranking.NO_EVICTION, OrderSource.AUTOSCALER)
    assert pod_orders.container_policies.of("app").is_off
    assert pod_orders.container_policies_source is OrderSource.AUTOSCALER
    assert orders(None, {names.MODE: "off"}, autoscaler=autoscaler).mode_source is OrderSource.NAMESPACE
    odd = orders(autoscaler={names.MODE: "enforce", names.CONTAINER_POLICIES: "x"})
    assert (odd.mode, odd.mode_source) == (Mode.OFF, OrderSource.AUTOSCALER)
    assert str(odd.faults[0]).startswith("VPA object plimsoll.dev/container-policies: 'x' is not allowed (not JSON;")


def test_a_rule_that_is_not_understood_turns_the_pod_off_unless_it_is_overridden() -> None:
    pod_orders = orders(rule={names.MODE: "maybe"}, mode=Mode.ENFORCE)
    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.CLUSTER)
    assert [fault.source for fault in pod_orders.faults] == [OrderSource.CLUSTER]
    assert orders({names.MODE: "enforce"}, rule={names.MODE: "maybe"}).faults == ()


def test_without_annotations_the_configuration_holds() -> None:
    assert orders() == Orders(
        mode=Mode.RECOMMEND,
        mode_source=OrderSource.CONFIGURATION,
        policy=PolicyName.CRUISE,
        policy_source=OrderSource.CONFIGURATION,
        ranking=Ranking.LOW,
        ranking_source=OrderSource.RULE,
    )
    assert orders(mode=Mode.ENFORCE).mode is Mode.ENFORCE
    assert orders(guaranteed=True).is_guaranteed_allowed


def test_the_pod_comes_before_its_namespace_and_that_before_the_configuration() -> None:
    of_namespace = {names.MODE: "enforce", names.POLICY: "vpa", names.MIN_CPU: "100m", names.GUARANTEED: "true"}
    both = orders({names.MODE: "off", names.MAX_CPU: "2"}, of_namespace)
    assert (both.mode, both.mode_source) == (Mode.OFF, OrderSource.POD)
    assert (both.policy, both.policy_source) == (PolicyName.VPA, OrderSource.NAMESPACE)
    # A least of the namespace and a most of the pod are one range.
    assert (both.min_cpu_millicores, both.max_cpu_millicores) == (100, 2000)
    assert both.is_guaranteed_allowed
    assert orders(None, {names.MODE: "enforce"}).mode_source is OrderSource.NAMESPACE


def test_mode_of_a_namespace_may_be_a_label_between_its_annotations_and_the_rules_of_the_cluster() -> None:
    labels, rule = {names.MODE: "enforce", names.POLICY: "vpa"}, {names.MODE: "recommend"}
    pod_orders = orders(labels=labels, rule=rule)
    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.ENFORCE, OrderSource.NAMESPACE_LABEL)
    # Nothing but the mode.
    assert pod_orders.policy_source is OrderSource.CONFIGURATION
    assert orders(None, {names.MODE: "off"}, labels=labels).mode_source is OrderSource.NAMESPACE
    assert orders({names.MODE: "off"}, labels=labels).mode_source is OrderSource.POD
    wrong = orders(labels={names.MODE: "on"}, rule=rule, mode=Mode.ENFORCE)
    assert wrong.mode is Mode.OFF
    assert (
        str(wrong.faults[0])
        == "namespace label plimsoll.dev/mode: 'on' is not allowed (off, recommend, protect, enforce)"
    )
    # An annotation that is not understood is not passed over for a label that is.
    assert orders(None, {names.MODE: ""}, labels=labels).mode is Mode.OFF


def test_every_order_of_a_pod_is_read() -> None:
    pod_orders = orders(
        {
            names.EVICTION_RANKING: "high",
            names.MIN_MEMORY: "64Mi",
            names.MAX_MEMORY: "64Mi",
            names.ALLOW_RESTART: "true",
            names.GUARANTEED: "false",
        },
        guaranteed=True,
    )
    assert (pod_orders.ranking, pod_orders.ranking_source) == (Ranking.HIGH, OrderSource.POD)
    assert (pod_orders.min_memory_bytes, pod_orders.max_memory_bytes) == (64 * MI, 64 * MI)
    assert pod_orders.is_restart_allowed
    assert not pod_orders.is_guaranteed_allowed
    assert pod_orders.faults == ()


def test_a_malformed_value_makes_the_pod_off_and_is_told() -> None:
    pod_orders = orders({names.MODE: "enforce", names.MAX_CPU: "lots"})
    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.POD)
    assert pod_orders.faults == (
        Fault(key=names.MAX_CPU, value="lots", allowed="CPU such as 250m or 1.5, more than 0", source=OrderSource.POD),
    )


def test_a_malformed_value_of_the_namespace_makes_its_pods_off_unless_they_say_otherwise_themselves() -> None:
    of_namespace = {names.MODE: "Enforce"}
    pod_orders = orders({}, of_namespace, mode=Mode.ENFORCE)
    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.NAMESPACE)
    assert str(pod_orders.faults[0]) == (
        "namespace annotation plimsoll.dev/mode: 'Enforce' is not allowed (off, recommend, protect, enforce)"
    )
    assert orders({names.MODE: "enforce"}, of_namespace).mode is Mode.ENFORCE


def test_pod_limits_that_are_not_understood_make_the_pod_off() -> None:
    fine = orders({names.POD_LIMITS: '{"limits": {"cpu": "2"}}'}, mode=Mode.ENFORCE)
    assert (fine.mode, fine.faults) == (Mode.ENFORCE, ())
    faulty = orders({names.POD_LIMITS: "2 CPUs"}, mode=Mode.ENFORCE)
    assert faulty.mode is Mode.OFF
    (fault,) = faulty.faults
    assert (fault.key, fault.value, fault.source) == (names.POD_LIMITS, "2 CPUs", OrderSource.POD)
    assert "not JSON" in fault.allowed


def test_a_least_above_the_most_is_a_fault_and_bounds_nothing() -> None:
    pod_orders = orders({names.MIN_MEMORY: "1Gi"}, {names.MAX_MEMORY: "512Mi"}, mode=Mode.ENFORCE)
    assert pod_orders.mode is Mode.OFF
    assert (pod_orders.min_memory_bytes, pod_orders.max_memory_bytes) == (None, None)
    assert str(pod_orders.faults[0]) == (
        "pod annotation plimsoll.dev/min-memory: '1Gi' is not allowed "
        "(at most max-memory of the namespace annotation, 512Mi)"
    )


def test_an_excluded_namespace_is_off_by_rule_whatever_is_ordered() -> None:
    pod_orders = orders({names.MODE: "enforce"}, in_namespace="kube-system")
    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.RULE)


def test_a_daemon_set_is_never_evicted_whatever_is_ordered() -> None:
    pod_orders = orders({names.EVICTION_RANKING: "low"}, kind="DaemonSet", replicas=1)
    assert (pod_orders.ranking, pod_orders.ranking_source) == (Ranking.NO_EVICTION, OrderSource.RULE)


@pytest.mark.parametrize(
    ("kind", "replicas", "ranking"),
    [
        ("Deployment", 3, Ranking.LOW),
        ("Deployment", 1, Ranking.MEDIUM),
        ("Deployment", 0, Ranking.LOW),
        ("Deployment", None, Ranking.LOW),
        ("StatefulSet", 5, Ranking.MEDIUM),
        ("StatefulSet", None, Ranking.MEDIUM),
        ("DaemonSet", 1, Ranking.NO_EVICTION),
    ],
)
def test_the_default_ranking_goes_by_kind_and_replicas(kind: str, replicas: int | None, ranking: Ranking) -> None:
    assert default_ranking(kind, replicas) is ranking
    assert orders(kind=kind, replicas=replicas).ranking is ranking


def test_words_of_a_setting_are_separated_by_commas() -> None:
    assert listed(" a, b,,") == {"a", "b"}
    assert listed("") == frozenset()


# Runtimes


@pytest.mark.parametrize("value", ["java", "app=java", "app=java, proxy=go", "java,proxy=none"])
def test_a_language_runtime_may_be_named_for_all_containers_and_for_each(value: str) -> None:
    assert orders({names.RUNTIME: value}).faults == ()
    runtimes = names.runtimes_ordered({names.RUNTIME: value})
    assert runtimes.get("app", runtimes.get("")) is LanguageRuntime.JAVA


def test_language_runtimes_that_are_not_understood_order_nothing() -> None:
    assert names.runtimes_ordered({names.RUNTIME: "cobol"}) == {}
    assert names.runtimes_ordered({}) == {}


def test_a_longer_list_of_language_runtimes_than_any_pod_needs_is_not_read() -> None:
    value = ",".join(f"{number}=go" for number in range(2000))[: names.LONGEST_RUNTIMES - 2].rpartition(",")[0]
    value = value.ljust(names.LONGEST_RUNTIMES)
    pod_orders = orders({names.RUNTIME: f"{value} "}, mode=Mode.ENFORCE)

    assert orders({names.RUNTIME: value}).faults == ()
    assert pod_orders.mode is Mode.OFF
    assert [fault.allowed for fault in pod_orders.faults] == ["16385 characters, of at most 16384"]
    assert names.runtimes_ordered({names.RUNTIME: f"{value} "}) == {}


@pytest.mark.parametrize("value", ["", "cobol", "Java", "app=", "=java", "java,go", "app=java,app=go", "app:java"])
def test_a_language_runtime_that_is_not_known_turns_the_pod_off(value: str) -> None:
    pod_orders = orders({names.RUNTIME: value}, mode=Mode.ENFORCE)

    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.POD)
    assert [str(fault) for fault in pod_orders.faults] == [
        f"pod annotation plimsoll.dev/runtime: {value!r} is not allowed "
        "(java, go, node, python, none, or CONTAINER=one of these, by commas)"
    ]


def test_a_heap_that_is_not_understood_turns_the_pod_off_and_shows_no_value() -> None:
    java = container(command=["java", "-Xmx$(SECRET)", "Main"])
    pod_orders = orders_of(
        make_pod(java),
        None,
        act=ActOptions(mode=Mode.ENFORCE),
        recommend_policy=PolicyName.CRUISE,
        plan=PlanOptions(),
    )

    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.SPEC)
    assert [str(fault) for fault in pod_orders.faults] == [
        "pod spec container app: -Xmx in the command line is not understood "
        "(a size such as 512m or 4g that the spec itself states)"
    ]


def test_a_mode_that_somebody_ordered_off_keeps_its_source_beside_a_heap_that_is_not_understood() -> None:
    java = container(command=["java", "-Xmx1gb", "Main"])
    pod_orders = orders_of(
        make_pod(java, metadata={"annotations": {names.MODE: "off"}}),
        None,
        act=ActOptions(),
        recommend_policy=PolicyName.CRUISE,
        plan=PlanOptions(),
    )

    assert (pod_orders.mode, pod_orders.mode_source) == (Mode.OFF, OrderSource.POD)
    assert len(pod_orders.faults) == 1


def test_windows_are_kept_as_they_were_written_and_nonsense_makes_a_pod_off() -> None:
    text = "shrink: Europe/Berlin 0 22 * * * for 6h"

    def windows(value: str, **more: Any) -> Orders:
        pod = make_pod(container("app"), metadata={"annotations": {names.WINDOWS: value}})
        act, plan = ActOptions(mode=Mode.ENFORCE), PlanOptions()
        return orders_of(pod, None, act=act, recommend_policy=PolicyName.CRUISE, plan=plan, **more)

    pod_orders = windows(text, read_windows=ReadWindows())
    assert (pod_orders.mode, pod_orders.windows, pod_orders.windows_source) == (Mode.ENFORCE, text, OrderSource.POD)
    wrong = windows("nights", read_windows=ReadWindows())
    assert (wrong.mode, wrong.windows) == (Mode.OFF, None)
    assert "'nights' says not what it is for (shrink, evict, restart, deny and a colon" in str(wrong.faults[0])
    # Whoever has no calendar cannot know when it may be disturbed.
    assert windows(text).mode is Mode.OFF

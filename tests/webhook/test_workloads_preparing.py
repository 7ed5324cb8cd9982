"""Policies other than cruise, prepared before anybody asks: for whom, when, and how readiness waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.node import Namespace
from agent.core.cluster.workload import Workload
from agent.core.orders import annotations as names
from agent.core.orders.policy_options import PolicyName
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.preparation import LOOK_SECONDS, READY_SECONDS, OrderedPolicies, Preparing
from agent.webhook.workloads.rebuilder import Rebuilder, RebuildOptions
from agent.webhook.workloads.shapes import IndexOptions
from tests.webhook.open_store import open_store
from tests.webhook.stack import Facts
from tests.webhook.test_tailing import AT_ONCE, append, follow, replica
from tests.webhook.test_workloads import Policies
from tests.webhook.workload_reports import HOUR, NOON, WEB, report, row

BANK = Workload(namespace="bank", kind="Deployment", name="tills")
JOB = Workload(namespace="shop", kind="Job", name="run")
SYSTEM = Workload(namespace="kube-system", kind="Deployment", name="dns")
NOW = float(NOON + 2 * HOUR)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that has learnt of four workloads for an hour."""
    opened = open_store(f"sqlite:///{tmp_path / 'plimsoll.db'}")
    rows = [row(workload, cpu=[100.0] * 30) for workload in (WEB, BANK, JOB, SYSTEM)]
    append(opened, report(*rows), NOON)
    append(opened, report(*rows, sequence=2), NOON + HOUR)
    Folder(opened, AT_ONCE).fold_once(True, now_unix_seconds=NOW)
    yield opened
    opened.close()


class Scene:
    """A replica that has just loaded the store."""

    def __init__(self, store: Store, policy: PolicyName = PolicyName.CRUISE) -> None:
        self.facts = Facts(namespaces={name: Namespace(name=name) for name in ("shop", "bank", "kube-system")})
        self.index, tailer = replica(store)
        follow(tailer, NOW)
        self.seconds = 0.0
        self.orders = OrderedPolicies(("Deployment", "DaemonSet"), ("kube-system",))
        self.preparing = Preparing(
            self.facts,
            self.index,
            Rebuilder(store, self.index, Policies(), RebuildOptions()),
            self.orders,
            policy=policy,
            clock=lambda: self.seconds,
        )

    def order(self, namespace: str, policy: str) -> None:
        self.facts.namespaces[namespace] = Namespace(name=namespace, annotations={names.POLICY: policy})

    def required(self, now: float = NOW) -> set[tuple[PolicyName, str]]:
        """Look, work all out, and give what was required, by name."""
        while self.preparing.turn(now):
            pass
        return {
            (policy, workload.name)
            for policy in PolicyName
            for workload in self.index.known()
            if self.index._asked.is_required(policy, workload)
        }

    def first_pod(self, policy: PolicyName, workload: Workload = WEB) -> Estimate | NoEstimate:
        return self.index.estimate(workload, "app", policy=policy, node=None, node_class=None, now_unix_seconds=NOW)


def test_the_first_pod_of_each_workload_is_sized_by_the_policy_of_the_settings(store: Store) -> None:
    scene = Scene(store, PolicyName.VPA)
    for received in (NOON, NOON + HOUR):
        scene.index.take(report(row(JOB)), received)
    assert scene.required() == {(PolicyName.VPA, "web"), (PolicyName.VPA, "tills")}, "no job, no excluded namespace"
    assert scene.preparing.workloads == 2
    for workload in (WEB, BANK):
        answer = scene.first_pod(PolicyName.VPA, workload)
        assert isinstance(answer, Estimate)
        assert answer.policy is PolicyName.VPA


def test_under_cruise_nothing_is_prepared_and_nothing_waits(store: Store) -> None:
    scene = Scene(store)
    assert scene.required() == set()
    assert scene.preparing.readiness() == (True, "ready")
    assert scene.first_pod(PolicyName.VPA) is NoEstimate.NOT_LOADED


def test_namespaces_come_before_rules_and_rules_before_settings(store: Store) -> None:
    scene = Scene(store, PolicyName.PLIMSOLL)
    scene.facts.told = ClusterRules(
        rules=(ClusterRule(name="nobody", policy="cruise"), ClusterRule(namespace="*", policy="crane"))
    )
    scene.order("bank", "vpa")
    assert scene.required() == {(PolicyName.CRANE, "web"), (PolicyName.VPA, "tills")}
    scene.order("bank", "best")
    assert scene.required(NOW + 1) == {(PolicyName.CRANE, "web")}, "an order that is not understood makes pods off"


def test_orders_that_change_are_followed_at_once(store: Store) -> None:
    scene = Scene(store)
    assert scene.required() == set()
    scene.facts.told = ClusterRules(rules=(ClusterRule(namespace="shop", policy="vpa"),))
    assert scene.required(NOW + 1) == {(PolicyName.VPA, "web")}
    assert isinstance(scene.first_pod(PolicyName.VPA), Estimate)
    scene.order("shop", "crane")
    assert scene.required(NOW + 2) == {(PolicyName.CRANE, "web")}
    assert isinstance(scene.first_pod(PolicyName.CRANE), Estimate)
    scene.order("shop", "cruise")
    assert scene.required(NOW + 3) == set()
    assert scene.first_pod(PolicyName.CRANE) is NoEstimate.NOT_LOADED, "its answer is kept no longer"


def test_a_workload_that_came_is_prepared_at_the_next_look(store: Store) -> None:
    scene = Scene(store, PolicyName.VPA)
    scene.required()
    new = replace(WEB, name="new")
    for received in (NOON, NOON + HOUR):
        scene.index.take(report(row(new)), received)
    assert (PolicyName.VPA, "new") not in scene.required(NOW + LOOK_SECONDS - 1)
    assert (PolicyName.VPA, "new") in scene.required(NOW + LOOK_SECONDS)


def test_nothing_begins_before_history_and_cluster_are_known(store: Store) -> None:
    scene = Scene(store, PolicyName.VPA)
    scene.facts.is_complete = False
    assert (scene.required(), scene.preparing.can_begin) == (set(), False)
    assert scene.preparing.readiness() == (False, "which policies hold is not looked at yet")
    scene.facts.is_complete = True
    assert len(scene.required()) == 2
    unloaded = WorkloadIndex(IndexOptions(), Policies())
    scene.preparing._index = unloaded
    assert not scene.preparing.can_begin


def test_readiness_waits_for_the_first_round_and_says_how_far_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.webhook.workloads.rebuilder.BATCH_CONTAINER_DAYS", 1)
    scene = Scene(store, PolicyName.VPA)
    assert scene.preparing.turn(NOW), "there is more"
    scene.seconds = READY_SECONDS - 1
    words = "policies other than cruise are worked out for 1 of 2 workloads so far"
    assert scene.preparing.readiness() == (False, f"{words} ({READY_SECONDS - 1:.0f} s)")
    scene.seconds = READY_SECONDS
    assert scene.preparing.readiness() == (True, f"ready, but {words}")
    scene.seconds = 1.0
    assert not scene.preparing.turn(NOW), "that was all"
    assert scene.preparing.readiness() == (True, "ready")
    # Once ready it stays so: others sized by it meanwhile are worse off without.
    scene.order("bank", "crane")
    scene.order("shop", "crane")
    assert scene.preparing.turn(NOW + 1)
    assert scene.preparing.readiness() == (True, "ready")


def test_what_cannot_be_looked_at_holds_up_readiness_for_a_bounded_time_only(store: Store) -> None:
    scene = Scene(store, PolicyName.VPA)
    scene.preparing._pause = failing
    with pytest.raises(RuntimeError, match="a fault in here"):
        scene.preparing.turn(NOW)
    assert scene.preparing.readiness() == (False, "which policies hold is not known yet (0 s)")
    scene.seconds = READY_SECONDS
    assert scene.preparing.readiness() == (True, "ready, but which policies hold is not known yet")


def failing() -> None:
    raise RuntimeError("a fault in here")


def test_nobody_waits_for_what_cruise_stands_in_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.webhook.workloads.rebuilder.BATCH_CONTAINER_DAYS", 1)
    scene = Scene(store, PolicyName.PLIMSOLL)
    assert scene.preparing.turn(NOW), "there is more"
    progress = scene.index.preparation()
    assert (progress.required, progress.done, progress.awaited) == (2, 1, 0)
    assert scene.preparing.readiness() == (True, "ready")


def test_only_what_live_pods_order_is_prepared_and_not_what_reviews_name(store: Store) -> None:
    scene = Scene(store)
    scene.preparing.turn(NOW)
    for policy in (PolicyName.VPA, PolicyName.CRANE, PolicyName.PLIMSOLL):
        asked = scene.index.estimate(
            WEB, "app", policy=policy, node=None, node_class=None, now_unix_seconds=NOW, is_ordered=False
        )
        if policy is PolicyName.PLIMSOLL:
            assert isinstance(asked, Estimate)
            assert (asked.policy, asked.stands_in_for) == (PolicyName.CRUISE, PolicyName.PLIMSOLL)
        else:
            assert asked is NoEstimate.NOT_LOADED
    assert scene.index.preparation().waiting == 0
    scene.orders.order(WEB, "vpa")
    scene.orders.order(WEB, "nonsense")
    scene.orders.order(JOB, "vpa")
    scene.orders.order(SYSTEM, "vpa")
    while scene.preparing.turn(NOW + 1):
        pass
    asked = scene.index.estimate(
        WEB, "app", policy=PolicyName.VPA, node=None, node_class=None, now_unix_seconds=NOW, is_ordered=False
    )
    assert isinstance(asked, Estimate)
    assert list(scene.orders._ordered) == [(WEB, PolicyName.VPA)]
    scene.facts.runs = 0
    scene.preparing.turn(NOW + 1 + LOOK_SECONDS)
    assert not scene.orders._ordered

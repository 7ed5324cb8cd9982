from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agent.core.cluster.workload import workload_of
from agent.core.orders import annotations as names
from agent.core.orders.enforce_share import hashed_ticket
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import orders_of
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.reserved_reason import reserved_reason
from tests.pods import container, make_pod, mirror_metadata

NOW = 1_800_000_000.0
BURSTABLE = container("app", {"cpu": "250m", "memory": "64Mi"})
PAIR = {"cpu": "250m", "memory": "64Mi"}
GUARANTEED = container("app", PAIR, PAIR)


def iso(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def standing(
    *containers: dict[str, Any],
    kind: str | None = "Deployment",
    annotations: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    phase: str = "Running",
    age_seconds: float | None = 3600.0,
    mode: Mode = Mode.ENFORCE,
    plan: PlanOptions | None = None,
    is_pinned: bool = False,
    is_namespace_known: bool = True,
    by_cluster: ReservedReason | None = None,
    **spec: Any,
) -> ReservedReason | None:
    owners = [{"kind": kind, "name": "web", "uid": "o", "controller": True}] if kind else []
    status = {"phase": phase, **({} if age_seconds is None else {"startTime": iso(NOW - age_seconds)})}
    pod = make_pod(
        *(containers or (BURSTABLE,)),
        metadata={"annotations": annotations or {}, "ownerReferences": owners, **(metadata or {})},
        status=status,
        **spec,
    )
    plan, act = plan or PlanOptions(), ActOptions(mode=mode)
    orders = orders_of(pod, None, act=act, recommend_policy=PolicyName.CRUISE, plan=plan)
    return reserved_reason(
        pod,
        orders,
        workload_of(pod),
        now_unix_seconds=NOW,
        plan=plan,
        act=act,
        is_pinned=is_pinned,
        is_namespace_known=is_namespace_known,
        by_cluster=by_cluster,
    )


def test_an_ordinary_enforced_pod_may_be_optimised() -> None:
    assert standing() is None


def test_orders_to_leave_alone_come_first() -> None:
    excluded = {"namespace": "kube-system"}
    assert standing(metadata=excluded, annotations={names.MODE: "junk"}) is ReservedReason.EXCLUDED
    assert standing(kind="Job", annotations={names.MODE: "junk"}) is ReservedReason.FAULTY_ANNOTATION
    assert standing(kind="Job", mode=Mode.OFF) is ReservedReason.OFF


def test_an_autoscaler_comes_after_what_the_pod_is_and_before_what_passes() -> None:
    assert standing(by_cluster=ReservedReason.VPA) is ReservedReason.VPA
    assert standing(by_cluster=ReservedReason.HPA, mode=Mode.RECOMMEND) is ReservedReason.HPA
    assert standing(by_cluster=ReservedReason.HPA, is_pinned=True, phase="Pending") is ReservedReason.HPA
    assert standing(by_cluster=ReservedReason.VPA, mode=Mode.OFF) is ReservedReason.OFF
    assert standing(GUARANTEED, by_cluster=ReservedReason.VPA) is ReservedReason.GUARANTEED


def test_what_an_unknown_namespace_orders_is_not_taken_for_nothing() -> None:
    assert standing(is_namespace_known=False) is ReservedReason.NAMESPACE_UNKNOWN
    # Whatever the pod itself says: its bounds may be the namespace's.
    said = {names.MODE: "enforce"}
    assert standing(is_namespace_known=False, annotations=said, mode=Mode.OFF) is ReservedReason.NAMESPACE_UNKNOWN
    assert standing(is_namespace_known=False, metadata={"namespace": "kube-system"}) is ReservedReason.EXCLUDED


def test_recommend_and_pins_are_told_of_pods_that_could_be_sized_otherwise() -> None:
    assert standing(mode=Mode.RECOMMEND, phase="Pending") is ReservedReason.RECOMMEND
    assert standing(mode=Mode.RECOMMEND, kind="Job") is ReservedReason.JOB
    assert standing(is_pinned=True, phase="Pending") is ReservedReason.PINNED


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Deployment", None),
        ("ReplicaSet", None),
        ("StatefulSet", None),
        ("DaemonSet", None),
        ("Job", ReservedReason.JOB),
        ("CronJob", ReservedReason.JOB),
        ("Workflow", ReservedReason.UNKNOWN_OWNER),
        (None, ReservedReason.BARE),
    ],
)
def test_the_owner_decides(kind: str | None, reason: ReservedReason | None) -> None:
    assert standing(kind=kind) is reason


def test_a_kind_that_is_named_is_managed_whatever_it_is() -> None:
    assert standing(kind="Workflow", plan=PlanOptions(managed_kinds="Job, Workflow")) is None
    assert standing(plan=PlanOptions(managed_kinds="Job")) is ReservedReason.UNKNOWN_OWNER


def test_a_job_that_runs_is_left_alone_unless_it_may_grow() -> None:
    assert standing(kind="Job", plan=PlanOptions(managed_kinds="Job")) is ReservedReason.JOB
    assert standing(kind="Job", annotations={names.JOBS: "keep"}) is ReservedReason.JOB
    # However young: it would be over before it is old enough.
    assert standing(kind="Job", annotations={names.JOBS: "grow"}, age_seconds=2.0) is None
    assert standing(kind="Job", annotations={names.JOBS: "grow"}, mode=Mode.RECOMMEND) is ReservedReason.RECOMMEND
    assert standing(kind="Job", annotations={names.JOBS: "shrink"}) is ReservedReason.FAULTY_ANNOTATION
    assert standing(annotations={names.JOBS: "grow"}, age_seconds=2.0) is ReservedReason.TOO_YOUNG


def test_static_and_windows_pods_are_told_as_such() -> None:
    assert standing(metadata=mirror_metadata("n"), nodeName="n") is ReservedReason.STATIC
    annotations = mirror_metadata("n")["annotations"]
    assert standing(annotations=annotations, nodeName="n") is None  # anybody may write them
    assert standing(os={"name": "windows"}) is ReservedReason.WINDOWS


def test_the_qos_class_decides() -> None:
    allowed = {names.GUARANTEED: "true"}
    assert standing(container("app")) is ReservedReason.BEST_EFFORT
    assert standing(GUARANTEED) is ReservedReason.GUARANTEED
    assert standing(GUARANTEED, annotations=allowed) is None
    # Two whole cores: a static CPU manager would hand out CPUs of its own.
    whole = {"cpu": "2", "memory": "64Mi"}
    assert standing(container("app", whole, whole), annotations=allowed) is ReservedReason.EXCLUSIVE_CPUS
    assert standing(container("app", {"cpu": "2"})) is None  # Burstable pods get none


@pytest.mark.parametrize(
    ("limits", "is_device"),
    [
        ({"nvidia.com/gpu": "1"}, True),
        ({"nvidia.com/gpu": "0"}, False),
        ({"hugepages-2Mi": "2Mi"}, False),
        ({"batch.kubernetes.io/slots": "1"}, False),
    ],
)
def test_devices_are_extended_resources(limits: dict[str, str], is_device: bool) -> None:
    reason = standing(container("app", PAIR, limits))
    assert reason is (ReservedReason.DEVICES if is_device else None)


def test_devices_are_claims_too() -> None:
    assert standing(resourceClaims=[{"name": "gpu"}]) is ReservedReason.DEVICES


def test_what_passes_by_itself() -> None:
    going = {"deletionTimestamp": iso(NOW)}
    assert standing(metadata=going, phase="Pending") is ReservedReason.TERMINATING
    assert standing(phase="Pending", age_seconds=0.0) is ReservedReason.NOT_RUNNING
    assert standing(age_seconds=3599.0) is ReservedReason.TOO_YOUNG
    assert standing(age_seconds=-5.0) is ReservedReason.TOO_YOUNG  # the API server's clock is ahead


def test_an_age_that_nobody_knows_is_too_young_unless_age_does_not_matter() -> None:
    assert standing(age_seconds=None) is ReservedReason.TOO_YOUNG
    assert standing(age_seconds=None, plan=PlanOptions(min_age_seconds=0.0)) is None
    created = {"creationTimestamp": iso(NOW - 4000)}
    assert standing(age_seconds=None, metadata=created) is None


def test_only_the_pods_of_an_enforced_share_may_be_optimised() -> None:
    ticket = hashed_ticket("uid-web")  # no ticket was given
    below, above = f"{ticket / 100:.2f}%", f"{(ticket + 1) / 100:.2f}%"
    assert standing(annotations={names.ENFORCE_SHARE: below}) is ReservedReason.NOT_IN_SHARE
    assert standing(annotations={names.ENFORCE_SHARE: above}) is None
    assert standing(annotations={names.ENFORCE_SHARE: below}, mode=Mode.RECOMMEND) is ReservedReason.RECOMMEND
    assert standing(annotations={names.ENFORCE_SHARE: below}, mode=Mode.PROTECT) is None
    assert standing(annotations={names.ENFORCE_SHARE: above}, is_pinned=True) is ReservedReason.PINNED
    assert standing(annotations={names.ENFORCE_SHARE: "some"}) is ReservedReason.FAULTY_ANNOTATION

"""Proposals of evictions for tests, and the pods, the cluster and the admissions that they are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agent.core.admission.answer import Admission, AdmissionFacts
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.options import AdmissionSettings
from agent.core.admission.pod_admission import admit
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.cluster.facts import ClusterRules, FrozenAxes, PodPlace
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Container, Pod, PodRef
from agent.core.cluster.workload import Workload
from agent.core.eviction.arbiter import ArbiterRules
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import Proposal, Want
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.kube.objects.pod_json import pod_from_json
from agent.webhook.cluster.facts import ClusterFacts
from tests.pods import container, pod_json

NOW: Final = 1_800_000_000.0
NODE: Final = "node-a"
WEB: Final = Workload(namespace="shop", kind="Deployment", name="web")
REF: Final = PodRef(namespace="shop", name="web", uid="uid-web")
MIB: Final = 1 << 20
OLD: Final = "2020-01-01T00:00:00Z"
ENFORCED: Final = {"plimsoll.dev/mode": "enforce"}
OWNER: Final = {"kind": "ReplicaSet", "name": "web-7d9c5b8f4", "uid": "rs", "controller": True}


def pod_document(
    name: str = "web",
    *containers: Mapping[str, Any],
    annotations: Mapping[str, str] | None = None,
    uid: str | None = None,
    node: str | None = NODE,
    owner: Mapping[str, Any] | None = OWNER,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """An enforced, old, running pod of Deployment ``web``: CPU 200m, memory 256Mi, on ``node-a``."""
    return pod_json(
        *(containers or [container("app", {"cpu": "200m", "memory": "256Mi"})]),
        metadata={
            "name": name,
            "uid": f"uid-{name}" if uid is None else uid,
            "creationTimestamp": OLD,
            "labels": {"pod-template-hash": "7d9c5b8f4"},
            "annotations": dict(ENFORCED if annotations is None else annotations),
            "ownerReferences": [] if owner is None else [dict(owner)],
            **(metadata or {}),
        },
        status={"phase": "Running", "startTime": OLD, "qosClass": "Burstable", **(status or {})},
        **({} if node is None else {"nodeName": node}),
        **spec,
    )


def make_pod(*arguments: Any, **fields: Any) -> Pod:
    """The same as a value."""
    return pod_from_json(pod_document(*arguments, **fields))


def place(**fields: Any) -> PodPlace:
    """Where ``shop/web`` is."""
    known: dict[str, Any] = {
        "uid": REF.uid,
        "namespace": REF.namespace,
        "name": REF.name,
        "node": NODE,
        "workload": WEB,
        "is_running": True,
        "is_terminating": False,
    }
    return PodPlace(**{**known, **fields})


def proposal(want: Want = Want.CPU, ref: PodRef = REF, **fields: Any) -> Proposal:
    """A proposal about ``shop/web``."""
    return Proposal(ref=ref, want=want, **fields)


def rules(arbiter: ArbiterOptions | None = None, **parts: Any) -> ArbiterRules:
    """What was configured; the defaults unless told."""
    known: dict[str, Any] = {"act": ActOptions(), "plan": PlanOptions(), "bounds": BoundsOptions()}
    return ArbiterRules(arbiter=arbiter or ArbiterOptions(), **{**known, **parts})


def estimate(cpu_millicores: int | None = 400, memory_bytes: int | None = 512 * MIB, **fields: Any) -> Estimate:
    """What the history of a container says: more than the pod has, unless told."""
    known: dict[str, Any] = {
        "source": EstimateSource.WORKLOAD,
        "policy": PolicyName.CRUISE,
        "cpu_request_millicores": cpu_millicores,
        "memory_request_bytes": memory_bytes,
        "cpu_max_millicores": cpu_millicores,
        "memory_max_bytes": memory_bytes,
        "oom_memory_bytes": None,
        "cpu_base_millicores": None,
        "memory_base_bytes": None,
        "history_seconds": 86_400.0,
        "pods": 3,
        "newest_age_seconds": 60.0,
    }
    return Estimate(**{**known, **fields})


@dataclass
class Cluster(ClusterFacts):
    """What the webhook knows of the cluster, to be changed by a test: a small real stand-in for ``ClusterFacts``."""

    pods: dict[str, PodPlace] = field(default_factory=lambda: {REF.uid: place()})
    namespaces: dict[str, Namespace] = field(default_factory=lambda: {"shop": Namespace(name="shop")})
    is_complete: bool = True
    age_seconds: float | None = 1.0
    frozen_axes: FrozenAxes = field(default_factory=FrozenAxes)
    vpas: dict[Workload, VpaOrders] = field(default_factory=dict)
    running: int | None = 3
    vpa: str | None = None
    cluster_rules: ClusterRules = field(default_factory=ClusterRules)

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(name)

    def pod(self, uid: str) -> PodPlace | None:
        return self.pods.get(uid)

    def frozen(self, workload: Workload) -> FrozenAxes:
        return self.frozen_axes

    def replicas(self, workload: Workload) -> int | None:
        return self.running

    def vpa_orders(self, workload: Workload) -> VpaOrders | None:
        return self.vpas.get(workload)

    def left_alone_for(self, workload: Workload) -> str | None:
        return self.vpa

    def rules(self) -> ClusterRules:
        return self.cluster_rules


@dataclass
class Admissions:
    """What admission would make of pods, by the real rules over estimates that a test sets."""

    facts: AdmissionFacts = field(default_factory=lambda: AdmissionFacts(namespace=Namespace(name="shop")))
    estimates: dict[str, Estimate | NoEstimate] = field(default_factory=lambda: {"app": estimate()})
    settings: AdmissionSettings = field(default_factory=AdmissionSettings)

    def __call__(self, pod: Pod) -> Admission:
        facts = replace(self.facts, namespace=Namespace(name=pod.namespace))
        return admit(pod, facts=facts, estimates=self._estimate, settings=self.settings, now_unix_seconds=NOW)

    def _estimate(self, pod_container: Container, policy: PolicyName) -> Estimate | NoEstimate:
        return self.estimates.get(pod_container.name, NoEstimate.UNKNOWN_CONTAINER)

"""New pods, what is known of them and of their surroundings, for tests of admission."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.core.admission.answer import Admission, AdmissionFacts
from agent.core.admission.boost import Starts
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.options import AdmissionOptions, AdmissionSettings
from agent.core.admission.patch import patch_operations
from agent.core.admission.pod_admission import admit, no_starts
from agent.core.admission.sizes import SizingRules
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.cluster.facts import ClusterRules, FrozenAxes, LimitRangeItem, NodeAmounts, Quota
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import Workload, no_job_owner, with_top_owner
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders import annotations as names
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.recommender.policy import LimitRule
from agent.kube.objects.pod_json import pod_from_json
from tests.json_patch import apply_patch
from tests.pods import mirror_metadata, pod_json

MB = 1_000_000
NOW_UNIX_SECONDS = 1_800_000_000.0
DAY_SECONDS = 86_400.0
SHOP = AdmissionFacts(namespace=Namespace(name="shop"))
PROPORTIONAL_RULES = SizingRules(
    options=AdmissionOptions(),
    edges={},
    ordered={},
    limit_rule=LimitRule.PROPORTIONAL,
    is_guaranteed=False,
    is_daemon=False,
    grows_daemons=False,
)
"""Of a Burstable pod of a Deployment whose limits move with its requests, and of which nobody ordered anything."""
EXACT = AdmissionSettings(bounds=BoundsOptions(round_memory_bytes=1))
"""Settings without rounding, so that figures can be read off."""


def estimate(cpu: int | None = 300, memory_mb: float | None = 200, **fields: Any) -> Estimate:
    """Return what is known: predicted peaks in millicores and MB; further fields as they are."""
    memory = None if memory_mb is None else round(memory_mb * MB)
    stated: dict[str, Any] = {
        "source": EstimateSource.WORKLOAD,
        "policy": PolicyName.CRUISE,
        "cpu_request_millicores": cpu,
        "memory_request_bytes": memory,
        "cpu_max_millicores": None,
        "memory_max_bytes": None,
        "oom_memory_bytes": None,
        "cpu_base_millicores": None,
        "memory_base_bytes": None,
        "history_seconds": 3 * DAY_SECONDS,
        "pods": 2,
        "newest_age_seconds": 30.0,
    }
    return Estimate(**(stated | fields))


def new_pod(
    *containers: Mapping[str, Any],
    kind: str = "Deployment",
    mode: str | None = "enforce",
    orders: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return the JSON of a pod ``web`` in ``shop`` that a controller of this kind makes."""
    annotations = {**({} if mode is None else {names.MODE: mode}), **(orders or {})}
    metadata: dict[str, Any] = {"annotations": annotations} if annotations else {}
    if kind != "Pod":
        metadata["ownerReferences"] = [{"kind": kind, "name": "web", "uid": "owner", "controller": True}]
    document = pod_json(*containers, metadata=metadata, **spec)
    del document["status"]
    return document


def mirror(*containers: Mapping[str, Any], orders: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON of a static pod's mirror ``web`` in ``shop``, as the kubelet of ``node-1`` makes it."""
    document = new_pod(*containers, nodeName="node-1")
    metadata = mirror_metadata("node-1", **(orders or {}))
    metadata["annotations"] |= document["metadata"]["annotations"]
    document["metadata"] |= metadata
    return document


Known = Estimate | NoEstimate | Mapping[str, Estimate | NoEstimate]


def admitted(
    document: Mapping[str, Any],
    known: Known | None = None,
    *,
    facts: AdmissionFacts = SHOP,
    settings: AdmissionSettings = EXACT,
    starts: Starts = no_starts,
) -> Admission:
    """Admit the pod of a document, with one estimate for all containers or one for each."""
    if known is None:
        known = estimate()

    def estimate_of(name: str) -> Estimate | NoEstimate:
        return known.get(name, NoEstimate.UNKNOWN_CONTAINER) if isinstance(known, Mapping) else known

    return admit(
        pod_from_json(document),
        facts=facts,
        estimates=lambda container, _policy: estimate_of(container.name),
        settings=settings,
        now_unix_seconds=NOW_UNIX_SECONDS,
        starts=starts,
    )


def patched(document: Mapping[str, Any], admission: Admission) -> dict[str, Any]:
    """Apply an admission to the document, as the API server would."""
    has = isinstance(document["metadata"].get("annotations"), dict)
    operations: Any = patch_operations(admission, has_annotations=has)
    result: dict[str, Any] = apply_patch(document, operations)
    return result


def resources(document: Mapping[str, Any], name: str = "app") -> dict[str, dict[str, str]]:
    """Return what a container states; requests and limits are there, be they empty."""
    spec = document["spec"]
    everyone = [*spec.get("initContainers", ()), *spec["containers"]]
    stated = next(container for container in everyone if container["name"] == name).get("resources", {})
    return {key: dict(stated.get(key) or {}) for key in ("requests", "limits")}


def after(document: Mapping[str, Any], *arguments: Any, **more: Any) -> dict[str, dict[str, str]]:
    """Return what container ``app`` states after an admission."""
    return resources(patched(document, admitted(document, *arguments, **more)))


def pod_of(document: Mapping[str, Any]) -> Pod:
    return pod_from_json(document)


LARGE = NodeAmounts(cpu_millicores=64_000, memory_bytes=256 << 30)
"""A node that holds whatever a test asks for."""


@dataclass
class Cluster:
    """A cluster that says what it is told to; complete, with the namespace ``shop``."""

    namespaces: dict[str, Namespace] = field(default_factory=lambda: {"shop": Namespace(name="shop")})
    is_complete: bool = True
    axes: FrozenAxes = field(default_factory=FrozenAxes)
    vpas: dict[Workload, VpaOrders] = field(default_factory=dict)
    sized_by: str | None = None
    ranges: tuple[LimitRangeItem, ...] = ()
    all_quotas: tuple[Quota, ...] = ()
    running: int | None = 2
    doubt: str | None = None
    said: ClusterRules = field(default_factory=ClusterRules)
    knows: bool | None = True
    largest: NodeAmounts | None = LARGE
    nodes: dict[str, NodeAmounts] = field(default_factory=dict)
    """What some of them can allocate."""
    classes: dict[str, NodeClass] = field(default_factory=dict)

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(name)

    def node_class(self, node: str) -> NodeClass | None:
        return self.classes.get(node)

    def frozen(self, workload: Workload) -> FrozenAxes:
        return self.axes

    def vpa_orders(self, workload: Workload) -> VpaOrders | None:
        return self.vpas.get(workload)

    def left_alone_for(self, workload: Workload) -> str | None:
        return self.sized_by

    def limit_ranges(self, namespace: str) -> tuple[LimitRangeItem, ...]:
        return self.ranges

    def quotas(self, namespace: str) -> tuple[Quota, ...]:
        return self.all_quotas

    def replicas(self, workload: Workload) -> int | None:
        return self.running

    def with_top_owner(self, pod: Pod) -> Pod:
        return with_top_owner(pod, group_by=(), job_owner=no_job_owner)

    def bounds_fault(self, namespace: str) -> str | None:
        return self.doubt

    def allocatable(self, node: str | None) -> NodeAmounts | None:
        return self.nodes.get(node, self.largest) if node is not None else self.largest

    def rules(self) -> ClusterRules:
        return self.said

    def knows_pod_level_resources(self) -> bool | None:
        return self.knows

    def resizes_in_place(self) -> bool:
        return True


@dataclass
class Told:
    """A history that knows what it is told."""

    known: Known
    asked: list[tuple[Workload, str, PolicyName, str | None, NodeClass | None]] = field(default_factory=list)

    def start(self, workload: Workload, container: str, *, now_unix_seconds: float) -> LearntStart | None:
        return None

    def estimate(
        self,
        workload: Workload,
        container: str,
        *,
        policy: PolicyName,
        node: str | None,
        node_class: NodeClass | None,
        now_unix_seconds: float,
        is_ordered: bool = True,
    ) -> Estimate | NoEstimate:
        self.asked.append((workload, container, policy, node, node_class))
        if isinstance(self.known, Mapping):
            return self.known.get(container, NoEstimate.UNKNOWN_CONTAINER)
        return self.known


def review_of(document: Mapping[str, Any], **request: Any) -> dict[str, Any]:
    """Return the review that an API server sends for the creation of a pod."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop",
            "operation": "CREATE",
            "object": document,
            "dryRun": False,
            **request,
        },
    }


def response_of(answer: bytes) -> dict[str, Any]:
    """Check that an answer is a complete review, and give its response with the patch decoded."""
    review = json.loads(answer)
    assert set(review) == {"apiVersion", "kind", "response"}
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = review["response"]
    assert isinstance(response["uid"], str)
    assert isinstance(response["allowed"], bool)
    assert set(response) <= {"uid", "allowed", "patch", "patchType", "warnings", "status"}
    assert ("patch" in response) == ("patchType" in response)
    if not response["allowed"]:
        assert "patch" not in response
        assert isinstance(response["status"]["message"], str)
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        response["patch"] = json.loads(base64.b64decode(response["patch"], validate=True))
        assert response["patch"]
    assert all(len(text) <= 256 for text in response.get("warnings", ()))
    return response

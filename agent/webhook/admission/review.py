"""Answers AdmissionReviews: bytes in, bytes out, from memory alone. Webhook; the rules are in ``core.admission``.

Whatever comes, the answer is a complete review that admits the pod, changed or as it came: a webhook that fails may
hold up a cluster. The one refusal is that of ``core.admission``.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec

from agent.core.admission.answer import NOT_KNOWN, Admission, AdmissionFacts, AdmissionOutcome
from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.admission.limit_ranges import with_growth
from agent.core.admission.options import AdmissionSettings
from agent.core.admission.patch import patch_operations
from agent.core.admission.pod_admission import admit, growth_given
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.cluster.facts import ClusterRules, FrozenAxes, LimitRangeItem, NodeAmounts, Quota
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Container, Pod
from agent.core.cluster.workload import Workload, workload_of
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders.cluster_rules import rule_of
from agent.core.orders.enforce_share import LAST_TICKET, TakenBack
from agent.core.orders.policy_options import PolicyName
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pod_from_json
from agent.kube.objects.target_node import node_named
from agent.webhook.admission.glance import answer, bounded_uid, glance, uid_of
from agent.webhook.admission.logged_reasons import LoggedReasons
from agent.webhook.admission.recent_growth import RecentGrowth
from agent.webhook.admission.share_tickets import ShareTickets

log = logging.getLogger(__name__)

_DENIED_CODE: Final = 422
_MOST_WARNINGS: Final = 5
_LONGEST_WARNING: Final = 250
"""Characters; an API server cuts those beyond 256, and all together at 4096."""
_NO_NAME: Final = "unnamed"
_LONGEST_NAME: Final = 253
_MOST_ANNOTATION_BYTES: Final = 256 * 1024
"""Of names and texts together; an API server refuses an object with more."""


class ReviewFacts(Protocol):
    """What is known of the cluster; answers from memory, for any thread."""

    @property
    def is_complete(self) -> bool:
        """Return whether all of it was read once."""

    def namespace(self, name: str) -> Namespace | None:
        """Return a namespace; None = not known."""

    def node_class(self, node: str) -> NodeClass | None:
        """Return which nodes one is like; None = not known."""

    def frozen(self, workload: Workload) -> FrozenAxes:
        """Return the requests that an HPA divides by."""

    def left_alone_for(self, workload: Workload) -> str | None:
        """Return who else sets the requests; None = nobody."""

    def vpa_orders(self, workload: Workload) -> VpaOrders | None:
        """Return what a VerticalPodAutoscaler of ours orders; None = there is none."""

    def limit_ranges(self, namespace: str) -> tuple[LimitRangeItem, ...]:
        """Return those of a namespace."""

    def quotas(self, namespace: str) -> tuple[Quota, ...]:
        """Return those of a namespace."""

    def replicas(self, workload: Workload) -> int | None:
        """Count the pods of a workload that run; None = not known."""

    def bounds_fault(self, namespace: str) -> str | None:
        """Return which LimitRange or ResourceQuota of a namespace is not understood; None = all are."""

    def allocatable(self, node: str | None) -> NodeAmounts | None:
        """Return what a node can allocate, or the most that any can; None = no node states it."""

    def with_top_owner(self, pod: Pod) -> Pod:
        """Return a pod that knows whom it stands for."""

    def rules(self) -> ClusterRules:
        """Return the cluster's rules."""

    def knows_pod_level_resources(self) -> bool | None:
        """Return whether pods may have resources of their own; None = not known."""

    def resizes_in_place(self) -> bool | None:
        """Return whether pods are resized while they run, wherever they are put; None = not known."""


class ReviewHistory(Protocol):
    """What is known of workloads; answers from memory, for any thread."""

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
        """Return what a new pod's container needs."""

    def start(self, workload: Workload, container: str, *, now_unix_seconds: float) -> LearntStart | None:
        """Return what the starts of a workload's pods say of the next one; None = too little is known."""


class _Passed(Exception):  # noqa: N818
    """The request is none that is answered with a patch; the message says why."""


@dataclass(frozen=True, slots=True)
class _PodCreation:
    """A pod that is being created."""

    pod: Pod
    node: str | None
    annotations: Mapping[str, str | None] | None
    """All that it came with; None = there is no such object."""
    is_dry_run: bool
    """Nothing will be kept of it."""


class Reviewer:
    """Answers reviews. For any thread."""

    def __init__(
        self,
        facts: ReviewFacts,
        history: ReviewHistory,
        settings: AdmissionSettings,
        *,
        clock: Callable[[], float] = time.time,
        growth: RecentGrowth | None = None,
        taken_back: Callable[[Workload], TakenBack | None] = lambda _: None,
        count: Callable[[str, float], None] = lambda _result, _seconds: None,
    ) -> None:
        """Begin; ``count`` is told of each answer: an ``AdmissionOutcome``, and the seconds that it took.

        ``taken_back`` gives the share of a workload that is enforced no more.
        """
        self._facts, self._history, self._settings = facts, history, settings
        self._clock, self._count = clock, count
        self._growth: Final = growth if growth is not None else RecentGrowth(time.monotonic)
        self._taken_back, self._tickets = taken_back, ShareTickets(facts.replicas)
        self._logged: Final = LoggedReasons(clock)

    def review(self, body: bytes, peer: str = "") -> bytes:
        """Return the answer to whatever came: a complete AdmissionReview, with the request's uid if one is found."""
        started = time.perf_counter()
        uid, outcome, whose = "", AdmissionOutcome.ERROR, ""
        response: dict[str, object] = {}
        try:
            request = _request_of(body)
            whose = _whose(request)
            uid = bounded_uid(request.get("uid"))
            outcome, response = self._answer(request, peer, whose)
        except _Passed as passed:
            outcome = AdmissionOutcome.NOOP
            log.debug("review passed over", extra={"reason": str(passed)})
        except ConvertError as error:
            self._tell("a pod is not understood and admitted as it came", str(error), whose)
        except Exception as error:  # noqa: BLE001  # whatever breaks, the pod is admitted as it came
            reason = f"{type(error).__name__}: {error}"
            self._tell("an admission failed and the pod is admitted as it came", reason, whose)
        written = answer(uid or uid_of(body), response)
        self._count(outcome, time.perf_counter() - started)
        return written

    def admission(
        self, pod: Pod, node: str | None, *, peer: str | None = None, is_left_to_others: bool = True
    ) -> Admission:
        """Return what becomes of a pod.

        Args:
            node: The one node that it can go to; None = it may go to several.
            peer: The address that sent it in a review, which may be anybody's; None = it is known to be ordered.
            is_left_to_others: False = what it would become if no other autoscaler set its requests.
        """
        facts, now = self._facts, self._clock()
        if pod.created_unix_seconds is None:  # it is being created
            pod = replace(pod, created_unix_seconds=now)
        pod = facts.with_top_owner(pod)
        workload = workload_of(pod)
        node_class = None if node is None else facts.node_class(node)
        rules, quotas = facts.rules(), facts.quotas(pod.namespace)
        if quotas:
            own = workload, growth_given(pod, now_unix_seconds=now)
            quotas = with_growth(quotas, self._growth.of(pod.namespace, peer or "", own=own))
        vpa = facts.vpa_orders(workload)

        def estimate_of(container: Container, policy: PolicyName) -> Estimate | NoEstimate:
            return self._history.estimate(
                workload,
                container.name,
                policy=policy,
                node=node,
                node_class=node_class,
                now_unix_seconds=now,
                is_ordered=peer is None,
            )

        return admit(
            pod,
            facts=AdmissionFacts(
                namespace=facts.namespace(pod.namespace),
                frozen=facts.frozen(workload),
                left_alone_for=facts.left_alone_for(workload) if is_left_to_others else None,
                limit_ranges=facts.limit_ranges(pod.namespace),
                quotas=quotas,
                replicas=facts.replicas(workload) if quotas else None,
                bounds_fault=facts.bounds_fault(pod.namespace),
                pause_reason=rules.pause_reason,
                rule=rule_of(rules, workload),
                autoscaler={} if vpa is None else vpa.at_admission,
                # What nobody creates now is in a share only where everybody is: which ticket it would get is not known.
                share_ticket=LAST_TICKET if peer is None else self._tickets.next(workload, pod.name, node),
                share_taken_back=self._taken_back(workload),
                room=facts.allocatable(node) or NOT_KNOWN,
                knows_pod_level_resources=facts.knows_pod_level_resources(),
                resizes_in_place=facts.resizes_in_place(),
            ),
            estimates=estimate_of,
            starts=lambda container: self._history.start(workload, container, now_unix_seconds=now),
            settings=self._settings,
            now_unix_seconds=now,
        )

    def _answer(
        self, request: Mapping[str, object], peer: str, whose: str
    ) -> tuple[AdmissionOutcome, dict[str, object]]:
        """Return how it came out and what the response says besides uid and allowed."""
        asked = _asked(request)
        if not self._facts.is_complete:
            return AdmissionOutcome.NO_HISTORY, {}  # who is to be left alone is not known yet
        admission = self.admission(asked.pod, asked.node, peer=peer)
        if admission.denial is not None:
            status = {"code": _DENIED_CODE, "reason": "Invalid", "message": f"plimsoll: {admission.denial}"}
            return admission.outcome, {"allowed": False, "status": status}
        response: dict[str, object] = {}
        operations = patch_operations(admission, has_annotations=asked.annotations is not None)
        if operations and _bytes_of({**(asked.annotations or {}), **admission.annotations}) > _MOST_ANNOTATION_BYTES:
            reason = "with what it was sized from it would have too many annotations"
            self._tell("a pod is admitted as it came", reason, whose)
            return AdmissionOutcome.ERROR, {}
        if operations:
            patch = base64.b64encode(msgspec.json.encode(operations)).decode("ascii")
            response = {"patchType": "JSONPatch", "patch": patch}
        if admission.grown and not asked.is_dry_run:
            self._growth.add(admission.workload, admission.grown, peer)
        if admission.gave_ticket and not asked.is_dry_run:
            self._tickets.given(admission.workload)
        if admission.warnings:
            response["warnings"] = [_warning(text) for text in admission.warnings[:_MOST_WARNINGS]]
        if admission.outcome is AdmissionOutcome.ERROR:
            self._tell("a pod is admitted as it came", admission.why, whose)
        return admission.outcome, response

    def _tell(self, message: str, reason: str, whose: str) -> None:
        """Log a reason with the first pod of which it is, once in a while; the metric counts the rest."""
        if self._logged.is_due(reason):
            log.warning(message, extra={"reason": reason[:_LONGEST_WARNING], "pod": whose})


def _request_of(body: bytes) -> Mapping[str, object]:
    too_much = glance(body).too_much
    if too_much is not None:
        raise ConvertError(f"a review of {len(body)} bytes is not read: {too_much}")
    try:
        document: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ConvertError(f"a review of {len(body)} bytes is no JSON: {error}") from error
    return _mapping(_mapping(document, "review").get("request"), "request")


def _whose(request: Mapping[str, object]) -> str:
    """Return which pod a review is of, for the log; of what it says of itself nothing is believed."""
    namespace, name, document = request.get("namespace"), request.get("name"), request.get("object")
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not name and isinstance(metadata, dict):
        name = metadata.get("name") or metadata.get("generateName")
    return f"{str(namespace or '')[:_LONGEST_NAME]}/{str(name or '')[:_LONGEST_NAME]}"


def _asked(request: Mapping[str, object]) -> _PodCreation:
    """Read the pod of a request.

    Raises:
        _Passed: It is not about a pod that is being created.
        ConvertError: It is, and is not understood.
    """
    resource = _mapping(request.get("resource"), "request.resource")
    if request.get("operation") != "CREATE" or request.get("subResource"):
        raise _Passed("not the creation of an object")
    if (resource.get("group") or "", resource.get("resource")) != ("", "pods"):
        raise _Passed("not a pod")
    document = _mapping(request.get("object"), "request.object")
    metadata = _mapping(document.get("metadata"), "request.object.metadata")
    namespace = request.get("namespace") or metadata.get("namespace")
    named = {
        **metadata,
        # A generated name and the uid are given after admission.
        "name": metadata.get("name") or metadata.get("generateName") or _NO_NAME,
        "namespace": namespace,
        "uid": metadata.get("uid") or _NO_NAME,
    }
    pod = pod_from_json({**document, "metadata": named, "status": None}, "request.object")
    annotations = metadata.get("annotations")
    return _PodCreation(
        pod=pod,
        node=node_named(document.get("spec")),
        annotations=annotations if isinstance(annotations, dict) else None,
        is_dry_run=request.get("dryRun") is True,
    )


def _mapping(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConvertError(f"{place}: not an object")
    return value


def _bytes_of(annotations: Mapping[str, str | None]) -> int:
    return sum(len(name.encode()) + len((text or "").encode()) for name, text in annotations.items())


def _warning(text: str) -> str:
    """Return a line that may stand in an HTTP header."""
    line = f"plimsoll: {''.join(character if character.isprintable() else ' ' for character in text)}"
    return line if len(line) <= _LONGEST_WARNING else f"{line[: _LONGEST_WARNING - 3]}..."

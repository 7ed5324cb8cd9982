"""Moves the utilisation targets of HPAs after the requests of their pods. Webhook; the leader's thread.

An HPA is read anew before each write, and the write holds for that reading alone: target and what is kept of the
original stand in one object and change in one write, so that whatever is cut off, nothing is done twice or lost.
Calm: a target that is off by little is not written, and one a minute otherwise; but one that an HPA would act on does
not wait (``preserved_target``).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.core.admission.answer import Admission
from agent.core.autoscalers.options import HpaOptions, Preserve
from agent.core.autoscalers.preserved_target import (
    MovableTargets,
    TargetLook,
    TargetMove,
    most_percent,
    next_move,
    preserved_to_text,
    why_not,
)
from agent.core.autoscalers.written_pod import written_pod
from agent.core.cluster.facts import PodPlace
from agent.core.cluster.hpa import RESOURCE_METRIC, UTILIZATION
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.orders.annotations import HPA_PRESERVE
from agent.kube.client.api import JSON_PATCH, Api
from agent.kube.client.errors import TOO_MANY_REQUESTS, ApiError, KubeError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.cluster_json import autoscaler_from_json
from agent.kube.objects.json_reader import ConvertError, Reader
from agent.kube.objects.pod_json import pod_from_json
from agent.turns import TurnCounts, Turns
from agent.webhook.clocks import REAL_CLOCKS, Clocks
from agent.webhook.cluster.facts import ClusterFacts

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Between two looks at what is due, from memory."""
CALM_SECONDS: Final = 60.0
"""Between two writes of one HPA."""
URGENT_SECONDS: Final = 5.0
"""The same where the HPA may act before long: it looks each 15 s."""
REFUSED_SECONDS: Final = 300.0
"""Until one is looked at again that could not be taken or written."""
BACK_OFF_SECONDS: Final = 30.0
SPACING_SECONDS: Final = 0.05
STOP_SECONDS: Final = 2.0
CALL_SECONDS: Final = 5.0
MOST_LOOKS: Final = 50
"""At once: the others come at the next turn."""
TAKEN, MOVED, RELEASED, REFUSED, CHANGED = "taken", "moved", "released", "refused", "changed"
RESULTS: Final = (TAKEN, MOVED, RELEASED, CHANGED, REFUSED)
_GROUP: Final = "/apis/autoscaling/v2"
_HPAS: Final = "horizontalpodautoscalers"
_ANNOTATION_PATH: Final = f"/metadata/annotations/{HPA_PRESERVE.replace('/', '~1')}"
_CONFLICT, _NOT_FOUND, _FAILED = 409, 404, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaParts:
    """Whom it asks."""

    api: Api
    facts: ClusterFacts
    admission: Callable[[Pod], Admission]
    """What becomes of a pod that is created now: whether it is sized."""
    may_write: Callable[[], bool]
    """This replica leads, and nothing is paused."""
    is_ready: Callable[[], bool]
    """Cluster and history were read."""


@dataclass(slots=True)
class _SeenTarget:
    """What was done about one HPA."""

    looked_seconds: float = float("-inf")
    waits_seconds: float = 0.0
    """From then on, whatever is due."""
    is_calm: bool = False
    """It was written: the next write waits for its minute unless it is urgent."""


@dataclass(frozen=True, slots=True)
class _DueTarget:
    workload: Workload
    targets: MovableTargets
    is_only: bool


class HpaTargets:
    """The mover of one replica."""

    def __init__(
        self, parts: HpaParts, options: HpaOptions, *, clocks: Clocks = REAL_CLOCKS, counts: TurnCounts | None = None
    ) -> None:
        """Prepare; nothing is asked yet."""
        self.options: Final = options
        self._parts, self._clock = parts, clocks.monotonic
        self._stopping = threading.Event()
        self._turns = Turns("hpas", self._turn, failed=self._failed, counts=counts)
        self._seen: dict[str, _SeenTarget] = {}
        self._told: dict[tuple[str, Resource], str] = {}
        self._is_told = False
        self.results: Final[Counter[str]] = Counter()

    def start(self) -> None:
        """Begin, in a thread of its own; does nothing where it is off."""
        if self.options.preserve is not Preserve.OFF:
            self._turns.start()

    def stop(self) -> None:
        """End; what is being written is written."""
        self._stopping.set()
        self._turns.stop()
        self._turns.join(STOP_SECONDS)

    def _may_write(self) -> bool:
        return self._parts.may_write() and not self._stopping.is_set()

    def _turn(self) -> float:
        if not self._may_write() or not self._parts.is_ready():
            return LOOK_SECONDS
        try:
            self.look()
        except KubeError as error:
            if isinstance(error, ApiError) and not _is_passing(error):
                return self._refused(error)
            log.info("HPAs are looked at later", extra={"cause": str(error)})
            return BACK_OFF_SECONDS
        return LOOK_SECONDS

    def _refused(self, error: ApiError) -> float:
        """Say once that it may not be; return for how long it is not tried again."""
        self.results[REFUSED] += 1
        if not self._is_told:
            log.warning(
                "targets of HPAs are not moved, and requests stay frozen",
                extra={"cause": str(error), "allowed": "webhook.hpa.preserve of the chart gives the right"},
            )
        self._is_told = True
        return REFUSED_SECONDS

    def _failed(self, _: Exception) -> float:
        log.exception("looking at HPAs failed")
        return BACK_OFF_SECONDS

    def look(self) -> None:
        """Look at all HPAs, and write those that are due.

        Raises:
            KubeError: The server is away, or refuses what needs a right.
        """
        every = [_DueTarget(*target) for target in self._parts.facts.movable_targets()]
        self._seen = {hpa.targets.uid: self._seen.get(hpa.targets.uid, _SeenTarget()) for hpa in every}
        self._told = {key: why for key, why in self._told.items() if key[0] in self._seen}
        due = sorted((hpa for hpa in every if self._is_due(hpa)), key=self._turn_of)[:MOST_LOOKS]
        follows = self.options.preserve is Preserve.FOLLOW  # else no target is taken, so no pod is read
        places = self._parts.facts.a_pod_of({hpa.workload for hpa in due}) if due and follows else {}
        for hpa in due:
            if not self._may_write():
                return
            self._stopping.wait(SPACING_SECONDS)
            try:
                self._write(hpa, places.get(hpa.workload))
            except KubeError as error:
                if _is_passing(error):
                    self._seen[hpa.targets.uid].waits_seconds = CALM_SECONDS  # the others first
                raise

    def _is_due(self, hpa: _DueTarget) -> bool:
        """Return whether a target is to be written, by what the watch brought: memory alone, for each HPA each second.

        Limits are not known here, which is told by the pod that is read before the write.
        """
        seen = self._seen[hpa.targets.uid]
        waited_seconds = self._clock() - seen.looked_seconds
        if waited_seconds < seen.waits_seconds:
            return False
        moves = self._moves(hpa, hpa.targets, None).values()
        return any(move.is_urgent or not seen.is_calm or waited_seconds >= CALM_SECONDS for move in moves)

    def _turn_of(self, hpa: _DueTarget) -> tuple[bool, float]:
        """Return what HPAs take turns by: first those whose requests move, then those not looked at for longest.

        Else some thousands of which no target can be taken are due again before the last of them was looked at.
        """
        return not hpa.targets.kept, self._seen[hpa.targets.uid].looked_seconds

    def _moves(self, hpa: _DueTarget, targets: MovableTargets, pod: Pod | None) -> dict[Resource, TargetMove]:
        if targets.fault:
            self._tell(hpa, None, f"annotation {HPA_PRESERVE}: {targets.fault}")
            return {}
        requests = self._parts.facts.requested(hpa.workload)
        moves: dict[Resource, TargetMove] = {}
        for resource, percent in targets.percents.items():
            request = requests.mean(resource)
            look = TargetLook(
                resource=resource,
                percent=percent,
                kept=targets.kept.get(resource),
                request=request,
                most_percent=None if pod is None or request is None else most_percent(pod, resource, request),
                why_not="" if pod is None else self._why_not(hpa, pod, resource),
            )
            move = next_move(look, self.options.preserve)
            if move is not None:
                moves[resource] = move
            elif look.why_not and look.kept is None:
                self._tell(hpa, resource, look.why_not)
        return moves

    def _why_not(self, hpa: _DueTarget, pod: Pod, resource: Resource) -> str:
        if not hpa.is_only:
            return "another HPA may scale the same workload"
        orders = self._parts.admission(written_pod(pod)).orders
        if orders is None or not orders.mode.resizes:
            return f"its pods are not sized: mode {'not known' if orders is None else orders.mode}"
        return why_not(pod, resource)

    def _write(self, hpa: _DueTarget, place: PodPlace | None) -> None:
        """Read one HPA and write what is to be written of it as it is now.

        Raises:
            KubeError: As for ``look``.
        """
        targets, seen = hpa.targets, self._seen[hpa.targets.uid]
        seen.looked_seconds, seen.waits_seconds = self._clock(), REFUSED_SECONDS
        path = namespaced_path(targets.namespace, _HPAS, targets.name, group=_GROUP)
        try:
            document = self._parts.api.call("GET", path, timeout_seconds=CALL_SECONDS)
            autoscaler = autoscaler_from_json(document)
            pod = None if place is None else self._read(place)
        except ConvertError as error:
            self._tell(hpa, None, str(error))
            return
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return
            raise
        now = autoscaler.movable
        if now is None or now.uid != targets.uid or autoscaler.target != hpa.workload:
            return
        if pod is None and self.options.preserve is Preserve.FOLLOW:
            seen.waits_seconds = URGENT_SECONDS  # a pod that went: another one tells
            return
        moves = self._moves(hpa, now, pod)
        if moves and self._may_write():
            self._patch(hpa, path, _operations(document, now, moves), now, moves)
        elif moves or now.kept:
            seen.waits_seconds = CALM_SECONDS

    def _patch(
        self,
        hpa: _DueTarget,
        path: str,
        operations: Sequence[Mapping[str, object]],
        now: MovableTargets,
        moves: Mapping[Resource, TargetMove],
    ) -> None:
        seen = self._seen[hpa.targets.uid]
        try:
            self._parts.api.call(
                "PATCH",
                path,
                query={"fieldManager": "plimsoll-hpa"},
                body=operations,
                content_type=JSON_PATCH,
                timeout_seconds=CALL_SECONDS,
            )
        except ApiError as error:
            if error.status in (_CONFLICT, _NOT_FOUND):
                self.results[CHANGED] += 1
                seen.waits_seconds = URGENT_SECONDS
            elif _is_passing(error):  # it may be of this HPA alone: some admission of others is away
                seen.waits_seconds = CALM_SECONDS
                log.info("an HPA is written later", extra={"hpa": _name(now), "cause": str(error)})
            else:
                self._refused(error)
            return
        self._is_told = False
        seen.waits_seconds, seen.is_calm = URGENT_SECONDS, True
        self.results[_result(now, moves)] += 1
        for resource, move in moves.items():
            fields = {"hpa": _name(now), "resource": str(resource), "from_percent": now.percents[resource]}
            log.info("target of an HPA", extra={**fields, "to_percent": move.percent, "reason": move.why})

    def _read(self, place: PodPlace) -> Pod | None:
        try:
            path = namespaced_path(place.namespace, "pods", place.name)
            document = self._parts.api.call("GET", path, timeout_seconds=CALL_SECONDS)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return self._parts.facts.with_top_owner(pod_from_json(document))

    def _tell(self, hpa: _DueTarget, resource: Resource | None, why: str) -> None:
        """Log once why a target is left."""
        for axis in Resource if resource is None else (resource,):
            key = hpa.targets.uid, axis
            if self._told.get(key) != why:
                self._told[key] = why
                fields = {"hpa": _name(hpa.targets), "resource": str(axis), "reason": why}
                log.info("target of an HPA is left, and its requests stay frozen", extra=fields)


def _is_passing(error: KubeError) -> bool:
    """Return whether the same call may go well soon: nobody answered, or had no time, or failed."""
    return not isinstance(error, ApiError) or error.status == TOO_MANY_REQUESTS or error.status >= _FAILED


def _result(targets: MovableTargets, moves: Mapping[Resource, TargetMove]) -> str:
    if any(move.percent != targets.percents[resource] for resource, move in moves.items()):
        return MOVED
    return TAKEN if any(move.kept is not None for move in moves.values()) else RELEASED


def _operations(
    document: object, targets: MovableTargets, moves: Mapping[Resource, TargetMove]
) -> list[dict[str, object]]:
    """Return the JSON patch: it holds for the object that was read, and changes targets and annotation alone."""
    top = Reader(document, "")
    metadata = top.child("metadata")
    version = metadata.required_text("resourceVersion")
    operations: list[dict[str, object]] = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
    for place, metric in enumerate(top.child("spec").items("metrics")):
        resource = metric.child("resource") if metric.text("type") == RESOURCE_METRIC else None
        is_share = resource is not None and (resource.child("target").text("type") or UTILIZATION) == UTILIZATION
        name = resource.text("name") if resource is not None and is_share else None
        move = moves.get(Resource(name)) if name in list(Resource) else None
        if move is not None and move.percent != targets.percents[Resource(name or "")]:
            path = f"/spec/metrics/{place}/resource/target/averageUtilization"
            operations.append({"op": "replace", "path": path, "value": move.percent})
    by_resource = {**targets.kept, **{resource: move.kept for resource, move in moves.items()}}
    standing = [target for target in by_resource.values() if target is not None]
    if not metadata.has("annotations"):
        operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    if standing:
        operations.append({"op": "add", "path": _ANNOTATION_PATH, "value": preserved_to_text(standing)})
    else:
        operations.append({"op": "remove", "path": _ANNOTATION_PATH})
    return operations


def _name(targets: MovableTargets) -> str:
    return f"{targets.namespace}/{targets.name}"

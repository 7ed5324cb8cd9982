"""Keeps the room of CapacityBuffers with pods of low priority. Webhook, leader only; the rules are in core.

Placeholder pods are watched by their label, and changed by one thread, the buffer controller's: ``keep`` is called for
a namespace after its buffers were reconciled. What one pass leaves to the next is kept in memory; a new leader begins
without, and finds the pods that there are by their names.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.core.buffers.buffer import GROUP, PLACEHOLDER_PODS, Buffer, BufferOutcome, Condition, ManagedTemplate
from agent.core.buffers.placeholder_condition import provisioning_of
from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.buffers.placeholder_pod import placeholder_of, resources_json
from agent.core.buffers.placeholder_state import PlaceholderState, after_creation, after_refusal, after_refused_resize
from agent.core.buffers.placeholders import (
    UNSEEN_SECONDS,
    PlaceholderPlan,
    PlaceholderWish,
    buffer_uid_of,
    plan_placeholders,
)
from agent.core.cluster.effective_resources import CountingRule, pod_requests
from agent.core.cluster.pod import Pod, has_ended
from agent.core.orders.annotations import PLACEHOLDER, PREFIX
from agent.kube.client.api import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Api
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.buffer_json import pod_of_template
from agent.kube.objects.pod_json import pod_from_json
from agent.kube.watch.reflector import Reflector, WatchPace, WatchSource
from agent.webhook.buffers.seams import RoomOutcome, WritePermission
from agent.webhook.buffers.tables import ByNamespace
from agent.webhook.clocks import REAL_CLOCKS, Clocks

_GONE: Final = frozenset({404, 409})


def remove_placeholder(api: Api, *, namespace: str, name: str, uid: str, timeout_seconds: float | None = None) -> None:
    """Delete a pod; one that is gone, or whose name is another's by now, is as good."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    try:
        api.call("DELETE", namespaced_path(namespace, "pods", name), body=options, timeout_seconds=timeout_seconds)
    except ApiError as error:
        if error.status not in _GONE:
            raise


log = logging.getLogger(__name__)

READY_REPLICAS: Final = f"{PREFIX}ready-replicas"
"""Annotation of a CapacityBuffer: its placeholder pods that are scheduled, running and as large as a chunk."""
FIELD_MANAGER: Final = "plimsoll-placeholders"
UNLISTED_SECONDS: Final = 1.0
"""Until it is looked again while the pods that there are have not been read."""
LIST_SECONDS: Final = 5.0
"""What passes wait for them after the start; then numbers that go by quotas are left as they are until they come."""
PAUSED_SECONDS: Final = 5.0
"""Until it is looked again whether the cluster is still paused."""
STOP_SECONDS: Final = 0.5
_COUNTED: Final = CountingRule(use_status=True)
_NO_JUDGEMENT: Final = frozenset({401, 408, 429})
"""The server is busy or does not know who asks: it says nothing of the pod."""


class Placeholders:
    """The placeholder pods of all buffers; ``keep`` for one thread, the rest for any."""

    def __init__(
        self,
        api: Api,
        options: PlaceholderOptions,
        *,
        permission: WritePermission,
        can_resize: Callable[[], bool],
        pace: WatchPace | None = None,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        """Prepare; nothing is asked yet. ``api`` is that of an account that may create, delete and resize pods."""
        self._api, self._options = api, options
        self._permission, self._can_resize = permission, can_resize
        self._wall_clock, self._clock = clocks.wall, clocks.monotonic
        self._wake: Callable[[str], None] = lambda _: None
        self._pods: Final = ByNamespace(_seen_pod, lambda pod: pod.namespace, self._changed)
        self._listed = threading.Event()
        self._watch = Reflector(
            api,
            WatchSource(
                name="placeholders",
                path="/api/v1/pods",
                read=self._pods.read,
                is_same=self._pods.is_same,
                query={"labelSelector": PLACEHOLDER},
            ),
            clock=clocks.monotonic,
            random=clocks.random,
            on_news=self._listed.set,
            pace=replace(pace if pace is not None else WatchPace(), start_spread_seconds=0.0),
            kept=self._pods,
        )
        self._listed_until_seconds: float | None = None
        """Until when the first list is waited for; None = it was not begun."""
        self._states: dict[str, dict[str, PlaceholderState]] = {}
        """By namespace and buffer uid."""
        self._made: dict[str, tuple[float, Pod]] = {}
        """By uid: pods that were made and that the watch has not shown, and since when; quotas count them already."""

    @property
    def priority_class(self) -> str | None:
        """Return the PriorityClass of placeholder pods."""
        return self._options.priority_class

    def start(self, wake: Callable[[str], None]) -> None:
        """Begin to look at the pods that there are; ``wake`` is told of a namespace in which they changed."""
        self._wake = wake
        self._listed_until_seconds = self._clock() + LIST_SECONDS
        self._watch.start()

    def stop(self) -> None:
        """End that."""
        self._watch.stop()
        if self._listed_until_seconds is not None:
            self._watch.join(STOP_SECONDS)

    def clear(self) -> None:
        """Forget what passes left to the next: somebody else led meanwhile."""
        self._states.clear()
        self._made.clear()

    def pods(self) -> tuple[Pod, ...] | None:
        """Return the placeholder pods of the whole cluster; None = they have not been read yet. For any thread."""
        if self._listed_until_seconds is not None and not self._watch.is_listed:
            return None
        return tuple(pod for namespace in self._pods.namespaces() for pod in self._pods.find(namespace))

    def usage(self, namespace: str, /) -> Mapping[str, Mapping[str, int]] | None:
        """Return what the pods of each buffer request together, by its name, nanos; as quotas count it.

        Pods that were just made are among them. None = the pods have not been read yet.
        """
        if self._listed_until_seconds is not None:
            self._listed.wait(max(self._listed_until_seconds - self._clock(), 0.0))
        if not self._watch.is_listed:
            return None
        sums: dict[str, dict[str, int]] = {}
        for pod in self._seen_or_made(namespace):
            if buffer_uid_of(pod) is None or has_ended(pod):
                continue
            owner = next(reference for reference in pod.owners if reference.is_controller)
            used = sums.setdefault(owner.name, {})
            for name, amount in pod_requests(pod, _COUNTED).items():
                used[name] = used.get(name, 0) + amount
        return sums

    def keep(
        self,
        namespace: str,
        outcomes: Sequence[BufferOutcome],
        templates: Mapping[str, ManagedTemplate],
        version: str,
        /,
    ) -> RoomOutcome:
        """Make the pods of a namespace what its buffers ask for, a bounded number at a time."""
        if not self._watch.is_listed:
            return RoomOutcome(again_seconds=UNLISTED_SECONDS)
        pods: dict[str, list[Pod]] = {}
        for pod in self._pods.find(namespace):
            uid = buffer_uid_of(pod)
            if uid is not None:
                pods.setdefault(uid, []).append(pod)
        paused = self._permission.pause_reason()
        wishes = {
            outcome.buffer.uid: self._wish(outcome, templates, version)
            for outcome in outcomes
            if _is_ours(outcome.buffer)
        }
        if paused is not None:
            wishes = {uid: replace(wish, replicas=None, shape=None) for uid, wish in wishes.items()}
        gone = [_nothing(namespace, uid) for uid in pods if uid not in wishes and paused is None]
        again: list[float] = []
        provisioning: dict[str, Condition] = {}
        ready: dict[str, int] = {}
        states = self._states.setdefault(namespace, {})
        for uid in [uid for uid in states if uid not in wishes and uid not in pods]:
            del states[uid]
        for wish in (*gone, *wishes.values()):
            buffer = wish.buffer
            plan = self._keep_one(wish, pods.get(buffer.uid, []), states)
            if plan.again_seconds is not None:
                again.append(plan.again_seconds)
            state, now = states[buffer.uid], self._wall_clock()
            if state.refusal is not None and state.hold_until_unix_seconds is not None:
                again.append(max(state.hold_until_unix_seconds - now, UNLISTED_SECONDS))
            if buffer.uid in wishes:
                # What was refused just now belongs to what is told.
                standing = replace(plan.standing, refusal=state.refusal)
                provisioning[buffer.name] = provisioning_of(buffer, standing, now_unix_seconds=now, pause_reason=paused)
                ready[buffer.name] = plan.standing.ready
        for outcome in outcomes:
            self._annotate(outcome.buffer, ready.get(outcome.buffer.name), version)
        if paused is not None:
            again.append(PAUSED_SECONDS)
        return RoomOutcome(again_seconds=min(again, default=None), provisioning=provisioning, ready=ready)

    def _changed(self, namespace: str, name: str) -> None:
        pod = self._pods.named(namespace, name)
        for uid, (_, made) in tuple(self._made.items()):
            if (made.namespace, made.name) == (namespace, name) and (pod is None or pod.uid == uid):
                self._made.pop(uid, None)  # the watch shows it, or has shown that it went
        self._wake(namespace)

    def _seen_or_made(self, namespace: str) -> list[Pod]:
        # First those that were made: what the watch shows meanwhile is then counted all the same.
        made, now = tuple(self._made.items()), self._clock()
        pods = list(self._pods.find(namespace))
        seen = {pod.uid for pod in pods}
        for uid, (since, pod) in made:
            if uid in seen or now - since >= UNSEEN_SECONDS:
                self._made.pop(uid, None)
            elif pod.namespace == namespace:
                pods.append(pod)
        return pods

    # -- one buffer ------------------------------------------------------------------------------------------------

    def _wish(self, outcome: BufferOutcome, templates: Mapping[str, ManagedTemplate], version: str) -> PlaceholderWish:
        buffer, status = outcome.buffer, outcome.status
        if buffer.is_terminating:
            return PlaceholderWish(buffer=buffer, replicas=0, shape=None)
        template = templates.get(status.template_name) if status.template_name is not None else None
        if status.replicas is None or template is None:
            return PlaceholderWish(buffer=buffer, replicas=None, shape=None)
        content = template.content
        shape = placeholder_of(content, pod_of_template(content), buffer, self._options, version=version)
        return PlaceholderWish(buffer=buffer, replicas=status.replicas, shape=shape)

    def _keep_one(
        self, wish: PlaceholderWish, pods: Sequence[Pod], states: dict[str, PlaceholderState]
    ) -> PlaceholderPlan:
        uid = wish.buffer.uid
        plan = plan_placeholders(
            wish,
            pods,
            states.get(uid, PlaceholderState()),
            now_unix_seconds=self._wall_clock(),
            options=self._options,
            can_resize=self._can_resize(),
        )
        states[uid] = replace(plan.state, made=_without(plan.state.made, plan.creations))
        self._remove(wish.buffer, plan)
        self._resize(wish.buffer, plan, states)
        self._create(wish, plan, states)
        if plan.creations or plan.removals or plan.resizings:
            log.info(
                "placeholder pods changed",
                extra={
                    "namespace": wish.buffer.namespace,
                    "buffer": wish.buffer.name,
                    "made": len(plan.creations),
                    "removed": len(plan.removals),
                    "resized": len(plan.resizings),
                },
            )
        return plan

    def _remove(self, buffer: Buffer, plan: PlaceholderPlan) -> None:
        for name, uid in plan.removals:
            if not self._permission.is_given():
                return
            remove_placeholder(self._api, namespace=buffer.namespace, name=name, uid=uid)

    def _resize(self, buffer: Buffer, plan: PlaceholderPlan, states: dict[str, PlaceholderState]) -> None:
        for resizing in plan.resizings:
            if not self._permission.is_given():
                return
            containers = [{"name": name, "resources": resources_json(wanted)} for name, wanted in resizing.containers]
            try:
                self._api.call(
                    "PATCH",
                    namespaced_path(buffer.namespace, "pods", resizing.name, "resize"),
                    query={"fieldManager": FIELD_MANAGER},
                    body={"metadata": {"uid": resizing.uid}, "spec": {"containers": containers}},
                    content_type=STRATEGIC_MERGE_PATCH,
                )
            except ApiError as error:
                if not _is_judgement(error):
                    raise
                # Whatever speaks against it, a new pod will do; one that is gone by now is nobody's loss.
                states[buffer.uid] = after_refused_resize(states[buffer.uid], resizing.uid)

    def _create(self, wish: PlaceholderWish, plan: PlaceholderPlan, states: dict[str, PlaceholderState]) -> None:
        buffer, shape = wish.buffer, wish.shape
        for name in plan.creations if shape is not None else ():
            if shape is None or not self._permission.is_given():
                return
            metadata = shape.body["metadata"]
            body = {**shape.body, "metadata": {**(metadata if isinstance(metadata, dict) else {}), "name": name}}
            state = states[buffer.uid]
            try:
                answer = self._api.call(
                    "POST", namespaced_path(buffer.namespace, "pods"), query={"fieldManager": FIELD_MANAGER}, body=body
                )
            except Unreachable as error:
                if error.may_have_been_done:
                    states[buffer.uid] = _with_made(state, name, plan)
                raise
            except ApiError as error:
                if not _is_judgement(error):
                    raise
                why = error.message or str(error)
                log.warning(
                    "a placeholder pod was refused",
                    extra={"namespace": buffer.namespace, "buffer": buffer.name, "cause": why},
                )
                states[buffer.uid] = after_refusal(
                    state, (name,), why, now_unix_seconds=self._wall_clock(), options=self._options
                )
                return
            states[buffer.uid] = after_creation(_with_made(state, name, plan))
            pod = self._pods.entry(answer).value
            if pod is not None:
                self._made[pod.uid] = self._clock(), pod

    def _annotate(self, buffer: Buffer, ready: int | None, version: str) -> None:
        text = None if ready is None else str(ready)
        if text == buffer.annotations.get(READY_REPLICAS) or buffer.is_terminating or not self._permission.is_given():
            return
        group = f"/apis/{GROUP}/{version}"
        try:
            self._api.call(
                "PATCH",
                namespaced_path(buffer.namespace, "capacitybuffers", buffer.name, group=group),
                query={"fieldManager": FIELD_MANAGER},
                body={"metadata": {"uid": buffer.uid, "annotations": {READY_REPLICAS: text}}},
                content_type=MERGE_PATCH,
            )
        except KubeError as error:
            # It is for people's eyes; the metric and the condition say the same.
            log.warning(
                "the annotation of a buffer was not written", extra={"buffer": buffer.name, "cause": str(error)}
            )


def _is_ours(buffer: Buffer) -> bool:
    return buffer.strategy == PLACEHOLDER_PODS


def _nothing(namespace: str, uid: str) -> PlaceholderWish:
    """Wish for no pods of a buffer that is gone, or has another strategy."""
    nobody = Buffer(namespace=namespace, name="", uid=uid, generation=0, created_unix_seconds=0.0)
    return PlaceholderWish(buffer=nobody, replicas=0, shape=None)


def _seen_pod(document: object) -> Pod:
    """Read a pod without what changes at each writing and is not looked at."""
    return replace(pod_from_json(document), resource_version=None, generation=None, observed_generation=None)


def _is_judgement(error: ApiError) -> bool:
    return 400 <= error.status < 500 and error.status not in _NO_JUDGEMENT


def _without(since_by_name: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    return {name: since for name, since in since_by_name.items() if name not in names}


def _with_made(state: PlaceholderState, name: str, plan: PlaceholderPlan) -> PlaceholderState:
    return replace(state, made={**state.made, name: plan.state.made[name]})

"""What the CapacityBuffer controller writes: managed templates, statuses, Events. Webhook; the leader's thread.

A managed template belongs to its buffer and goes with it. A status is written by server-side apply, so that the
condition Provisioning stays its writer's, and with the buffer's uid, so that no successor of the same name is meant.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from agent.core.buffers.buffer import (
    BUFFER_KIND,
    GROUP,
    LIMITED_BY_QUOTAS,
    Buffer,
    BufferStatus,
    ManagedTemplate,
    OrderKind,
    TemplateOrder,
)
from agent.kube.calls.listing import read_listing
from agent.kube.client.api import JSON_PATCH, MERGE_PATCH, Api
from agent.kube.client.errors import ApiError, KubeError, TooLong
from agent.kube.client.paths import EVENTS, namespaced_path
from agent.kube.objects.buffer_json import buffer_status_to_json, managed_template_from_json
from agent.kube.objects.json_reader import ConvertError, micro_time
from agent.webhook.buffers.seen_buffer import FIELD_MANAGER, PEOPLE

log = logging.getLogger(__name__)

APPLY_PATCH: Final = "application/apply-patch+yaml"
"""JSON is YAML."""
CALL_SECONDS: Final = 10.0
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "plimsoll")
"""Label of managed templates."""
CONTROLLER: Final = "plimsoll.dev/buffers"
UNKNOWN_STRATEGY: Final = "UnknownStrategy"
TAKEN_OVER_AT_MOST: Final = 4
"""So often a status is taken over within the next figure: who writes it anew each time would do so for ever."""
TAKEN_OVER_SECONDS: Final = 600.0
_NOT_FOUND, _CONFLICT = 404, 409
_NAME_PART: Final = 200
_MANAGER_CONFLICT: Final = "FieldManagerConflict"
_MANAGER: Final = re.compile(r'conflict with "([^"]*)"')
_CLEARED: Final = ("podTemplateRef", "podTemplateGeneration", "replicas")


class OthersStatusError(Exception):
    """Another controller owns what would be written of a status; one line, names it."""


class TugError(Exception):
    """Another controller takes a status back as often as it is taken over; one line, names it."""


class BufferWriter:
    """Writes; every call may raise KubeError."""

    def __init__(
        self,
        api: Api,
        *,
        version: Callable[[], str],
        instance: str,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin; ``instance`` is this replica, told in Events."""
        self._api, self._version, self._instance, self._wall_clock = api, version, instance, wall_clock
        self._told: dict[str, int] = {}
        """By uid of a buffer, the generation that an Event told of."""
        self._taken_over: dict[str, list[float]] = {}
        """By uid of a buffer, when its status was taken over from another controller."""

    # Managed templates

    def read_template(self, buffer: Buffer, name: str) -> ManagedTemplate | None:
        """Read what stands under the name of a buffer's managed template; None = nothing does.

        One that was left by a buffer of the same name that is gone is taken over: it would be collected some time, and
        until then the new buffer could not be provided for.
        """
        path = namespaced_path(buffer.namespace, "podtemplates", name)
        try:
            document = self._api.call("GET", path, timeout_seconds=CALL_SECONDS)
            template = managed_template_from_json(document)
            if template.owner_uid in (None, buffer.uid) or not _is_owned_by_name(document, buffer.name):
                return template
            body = [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": template.resource_version},
                {"op": "replace", "path": "/metadata/ownerReferences", "value": [self._owner(buffer)]},
            ]
            answer = self._api.call("PATCH", path, body=body, content_type=JSON_PATCH, timeout_seconds=CALL_SECONDS)
            return managed_template_from_json(answer)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def list_templates(self, namespace: str) -> dict[str, ManagedTemplate]:
        """Read all managed templates of a namespace, by name; what is not understood is left out.

        Returns:
            Empty where all together are too long to be held: anybody may give the label to a template.
        """
        query = {"labelSelector": f"{MANAGED_BY[0]}={MANAGED_BY[1]}"}
        path = namespaced_path(namespace, "podtemplates")
        templates: dict[str, ManagedTemplate] = {}

        def take(document: object) -> None:
            with contextlib.suppress(ConvertError):
                template = managed_template_from_json(document)
                templates[template.name] = template

        with contextlib.suppress(TooLong):
            read_listing(self._api, path, take, query=query, timeout_seconds=CALL_SECONDS)
        return templates

    def write_template(self, order: TemplateOrder) -> ManagedTemplate | None:
        """Carry an order out; give what stands then. None = somebody was quicker, or it is gone: look again."""
        buffer = order.buffer
        collection = namespaced_path(buffer.namespace, "podtemplates")
        try:
            if order.kind is OrderKind.CREATE:
                answer = self._api.call("POST", collection, body=self._template(order), timeout_seconds=CALL_SECONDS)
            else:
                answer = self._api.call(
                    "PATCH",
                    namespaced_path(buffer.namespace, "podtemplates", order.template_name),
                    body=_replacing(order),
                    content_type=JSON_PATCH,
                    timeout_seconds=CALL_SECONDS,
                )
        except ApiError as error:
            if error.status == _CONFLICT or (order.kind is OrderKind.REPLACE and error.status == _NOT_FOUND):
                return None
            raise
        log.info(
            "managed template written",
            extra={"buffer": f"{buffer.namespace}/{buffer.name}", "template": order.template_name, "how": order.kind},
        )
        return managed_template_from_json(answer)

    def _owner(self, buffer: Buffer) -> dict[str, object]:
        return {
            "apiVersion": f"{GROUP}/{self._version()}",
            "kind": BUFFER_KIND,
            "name": buffer.name,
            "uid": buffer.uid,
            "controller": True,
        }

    def _template(self, order: TemplateOrder) -> dict[str, object]:
        buffer = order.buffer
        return {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                "name": order.template_name,
                "namespace": buffer.namespace,
                "labels": dict([MANAGED_BY]),
                "ownerReferences": [self._owner(buffer)],
            },
            "template": order.content,
        }

    # Statuses

    def write_status(self, buffer: Buffer, status: BufferStatus, *, may_take_over: bool) -> Mapping[str, object] | None:
        """Write what is ours of a status; return the buffer as it is then, None = it is gone.

        What another controller wrote is overwritten if ``may_take_over``; what people wrote is in any case.

        Raises:
            OthersStatusError: Another controller wrote it, and it may not be overwritten.
            TugError: It may, but was often enough.
            KubeError: The server refused, or did not answer.
        """
        group = f"/apis/{GROUP}/{self._version()}"
        path = namespaced_path(buffer.namespace, "capacitybuffers", buffer.name, "status", group=group)
        fields = buffer_status_to_json(status)
        body = {
            "apiVersion": f"{GROUP}/{self._version()}",
            "kind": BUFFER_KIND,
            "metadata": {"name": buffer.name, "namespace": buffer.namespace, "uid": buffer.uid},
            "status": fields,
        }
        try:
            answer = self._applied(path, body, buffer.uid if may_take_over else None)
            left = _left_over(answer, fields)
            if left:
                # What somebody else set before is not ours to leave out: an apply takes over only what it states.
                body = {"metadata": {"resourceVersion": _version(answer)}, "status": left}
                answer = self._api.call(
                    "PATCH",
                    path,
                    query={"fieldManager": FIELD_MANAGER},
                    body=body,
                    content_type=MERGE_PATCH,
                    timeout_seconds=CALL_SECONDS,
                )
        except ApiError as error:
            if error.status in (_NOT_FOUND, _CONFLICT):
                return None
            raise
        return answer if isinstance(answer, dict) else None

    def _applied(self, path: str, body: object, takes_over: str | None) -> object:
        """Apply a status; ``takes_over`` = what another controller wrote of this buffer is overwritten."""

        def apply(*, force: bool) -> object:
            query = {"fieldManager": FIELD_MANAGER, **({"force": "true"} if force else {})}
            return self._api.call(
                "PATCH", path, query=query, body=body, content_type=APPLY_PATCH, timeout_seconds=CALL_SECONDS
            )

        try:
            return apply(force=False)
        except ApiError as error:
            managers = _conflicting(error)
            others = [manager for manager in managers if not manager.startswith(PEOPLE)]
            if not managers:
                raise
            if others and takes_over is None:
                raise OthersStatusError(f"{others[0]} writes its status") from error
            if others and takes_over is not None:
                self._take_over(takes_over, others[0])
            return apply(force=True)

    def _take_over(self, uid: str, other: str) -> None:
        now = self._wall_clock()
        times = [moment for moment in self._taken_over.get(uid, []) if 0.0 <= now - moment < TAKEN_OVER_SECONDS]
        if len(times) >= TAKEN_OVER_AT_MOST:
            raise TugError(f"{other} writes its status anew each time it is taken over; it is left to it for now")
        self._taken_over[uid] = [*times, now]

    # Events

    def tell_unknown_strategy(self, buffer: Buffer, allowed: str) -> None:
        """Report a strategy that nobody here serves: once per generation, over restarts too."""
        if self._told.get(buffer.uid) == buffer.generation:
            return
        self._told[buffer.uid] = buffer.generation
        digest = hashlib.blake2b(f"{buffer.uid} {buffer.generation}".encode(), digest_size=8).hexdigest()
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                # The name is of buffer and generation: who asks for it again finds it there.
                "name": f"{buffer.name[:_NAME_PART].rstrip('-.')}.{digest}",
                "namespace": buffer.namespace,
            },
            "eventTime": micro_time(self._wall_clock()),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": "Reconcile",
            "reason": UNKNOWN_STRATEGY,
            "type": "Warning",
            "note": f"provisioningStrategy {buffer.strategy!r} is not served by Plimsoll; it serves {allowed}"[:1000],
            "regarding": {
                "apiVersion": f"{GROUP}/{self._version()}",
                "kind": BUFFER_KIND,
                "namespace": buffer.namespace,
                "name": buffer.name,
                "uid": buffer.uid,
            },
        }
        path = namespaced_path(buffer.namespace, "events", group=EVENTS)
        try:
            self._api.call("POST", path, body=body, timeout_seconds=CALL_SECONDS)
        except KubeError as error:
            if isinstance(error, ApiError) and error.status == _CONFLICT:
                return  # it was told before a restart, or by another replica
            if not isinstance(error, ApiError):
                del self._told[buffer.uid]
            log.warning("event not written", extra={"cause": str(error)})

    def forget(self, uids: frozenset[str]) -> None:
        """Remember only what was told and taken of these buffers."""
        self._told = {uid: generation for uid, generation in self._told.items() if uid in uids}
        self._taken_over = {uid: times for uid, times in self._taken_over.items() if uid in uids}


def _replacing(order: TemplateOrder) -> list[dict[str, object]]:
    """Replace the template alone: what others keep in its metadata stays."""
    body: list[dict[str, object]] = [{"op": "replace", "path": "/template", "value": order.content}]
    if order.resource_version is not None:
        # A conflict, if somebody wrote it meanwhile.
        body.insert(0, {"op": "replace", "path": "/metadata/resourceVersion", "value": order.resource_version})
    return body


def _left_over(answer: object, wanted: Mapping[str, object]) -> dict[str, object]:
    """Return the merge patch that takes away what should not be there; empty = nothing is."""
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        return {}
    left: dict[str, object] = {key: None for key in _CLEARED if key in status and key not in wanted}
    conditions, own = status.get("conditions"), wanted.get("conditions")
    if isinstance(conditions, list) and isinstance(own, list):
        is_wanted = any(_type(condition) == LIMITED_BY_QUOTAS for condition in own)
        rest = [condition for condition in conditions if is_wanted or _type(condition) != LIMITED_BY_QUOTAS]
        if len(rest) < len(conditions):
            left["conditions"] = rest
    return left


def _conflicting(error: ApiError) -> list[str]:
    causes = [cause.message for cause in error.causes if cause.reason == _MANAGER_CONFLICT]
    return [match[1] for match in map(_MANAGER.search, causes) if match is not None]


def _is_owned_by_name(document: object, name: str) -> bool:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    return any(
        isinstance(owner, dict) and owner.get("controller") is True and owner.get("name") == name
        for owner in (owners if isinstance(owners, list) else [])
    )


def _version(answer: object) -> object:
    metadata = answer.get("metadata") if isinstance(answer, dict) else None
    return metadata.get("resourceVersion") if isinstance(metadata, dict) else None


def _type(condition: object) -> object:
    return condition.get("type") if isinstance(condition, dict) else None

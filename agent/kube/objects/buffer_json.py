"""Kubernetes JSON around CapacityBuffers to shapes of the house, and a status back to JSON. Pure.

As in ``pod_json``, foreign data are checked here. What a person has written may be odd (a buffer's spec, a quota): it
says so in its ``fault``; only an object without a name raises, as nobody could be told of it.
"""

from __future__ import annotations

from typing import Final

from agent.core.buffers.buffer import (
    BUFFER_KIND,
    GROUP,
    LIMITED_BY_QUOTAS,
    PLACEHOLDER_PODS,
    PROVISIONING,
    READY_FOR_PROVISIONING,
    Buffer,
    BufferQuota,
    BufferStatus,
    Condition,
    Content,
    LivePod,
    ManagedTemplate,
    ScalableObject,
    ScalableRef,
    ScaleFacts,
    ScopeTerm,
    SizeSpec,
)
from agent.core.buffers.resolution import KNOWN_KINDS
from agent.core.cluster.pod import Pod
from agent.kube.objects.json_reader import ConvertError, Reader, whole_time
from agent.kube.objects.pod_json import pod_from_json

_CORE_GROUP_WORD: Final = "core"
"""How some write the core group, whose name is empty; no group can have this name."""
_NO_NAME: Final = "pod-of-template"


class _Reader(Reader):
    """One object whose content goes on as it is."""

    def content(self, key: str) -> Content:
        """Return an object unread; it must be there."""
        if not self.has(key):
            raise self.error(key, None, "a pod template")
        return self.child(key)._value

    def whole_content(self) -> Content:
        """Return all of it unread."""
        return self._value


def buffer_from_json(document: object) -> Buffer:
    """Read a CapacityBuffer of either version.

    Raises:
        ConvertError: It has no name, or its metadata are not the API's.
    """
    top = Reader(document, "")
    kind = top.text("kind")
    if kind not in (None, BUFFER_KIND):
        raise top.error("kind", kind, BUFFER_KIND)
    metadata = top.child("metadata")
    strategy, template_ref, scalable_ref, size, fault = None, None, None, SizeSpec(), None
    try:
        spec = top.child("spec")
        strategy = (spec.text("provisioningStrategy") or "") if spec.has("provisioningStrategy") else None
        template_ref = spec.optional("podTemplateRef", lambda key: spec.child(key).required_text("name"))
        scalable_ref = spec.optional("scalableRef", lambda key: _scalable_ref(spec.child(key)))
        size = SizeSpec(
            replicas=spec.whole("replicas"),
            percentage=spec.whole("percentage"),
            limits=spec.optional("limits", spec.amounts),
        )
    except ConvertError as error:
        fault = str(error)
    return Buffer(
        namespace=metadata.text("namespace") or "default",
        name=metadata.required_text("name"),
        uid=metadata.text("uid") or "",
        generation=metadata.whole("generation") or 0,
        created_unix_seconds=metadata.unix_seconds("creationTimestamp") or 0.0,
        is_terminating=metadata.has("deletionTimestamp"),
        annotations=metadata.texts("annotations"),
        strategy=strategy,
        template_ref=template_ref,
        scalable_ref=scalable_ref,
        size=size,
        status=_status(top),
        fault=fault,
    )


def _scalable_ref(ref: Reader) -> ScalableRef:
    group = ref.text("apiGroup") or ""
    return ScalableRef(
        api_group="" if group == _CORE_GROUP_WORD else group,
        kind=ref.required_text("kind"),
        name=ref.required_text("name"),
    )


def _status(top: Reader) -> BufferStatus:
    """Read a status; of one that is not the API's nothing is believed, and it will be written anew."""
    try:
        status = top.child("status")
        return BufferStatus(
            template_name=status.child("podTemplateRef").text("name"),
            template_generation=status.whole("podTemplateGeneration"),
            replicas=status.whole("replicas"),
            strategy=status.text("provisioningStrategy"),
            conditions=tuple(
                Condition(
                    type=condition.required_text("type"),
                    status=condition.required_text("status"),
                    reason=condition.text("reason") or "",
                    message=condition.text("message") or "",
                    observed_generation=condition.whole("observedGeneration"),
                    last_transition_unix_seconds=condition.unix_seconds("lastTransitionTime"),
                )
                for condition in status.items("conditions")
            ),
        )
    except ConvertError:
        return BufferStatus()


def buffer_quota_from_json(document: object) -> tuple[str, BufferQuota]:
    """Read a ResourceQuota by its status, which the quota controller has confirmed.

    Returns:
        Its namespace and the quota; what is not understood is its ``fault``.
    """
    top = Reader(document, "")
    metadata = top.child("metadata")
    namespace, name = metadata.text("namespace") or "default", metadata.required_text("name")
    try:
        status = top.child("status")
        quota = BufferQuota(
            name=name, hard=status.amounts("hard"), used=status.amounts("used"), scopes=_scopes(top.child("spec"))
        )
    except ConvertError as error:
        quota = BufferQuota(name=name, fault=str(error))
    return namespace, quota


def _scopes(spec: Reader) -> tuple[ScopeTerm, ...]:
    plain = [ScopeTerm(scope=scope) for scope in spec.listed_texts("scopes")]
    selecting = [
        ScopeTerm(
            scope=term.required_text("scopeName"),
            operator=term.text("operator") or "",
            values=tuple(term.listed_texts("values")),
        )
        for term in spec.child("scopeSelector").items("matchExpressions")
    ]
    return (*plain, *selecting)


def pod_template_from_json(document: object) -> tuple[str, Content]:
    """Read a PodTemplate: its name and its ``template``, which is looked at where it is used."""
    top = _Reader(document, "")
    return top.child("metadata").required_text("name"), top.content("template")


def managed_template_from_json(document: object) -> ManagedTemplate:
    """Read a PodTemplate that stands under the name of a managed one."""
    top = _Reader(document, "")
    metadata = top.child("metadata")
    owners = [
        owner.text("uid")
        for owner in metadata.items("ownerReferences")
        if owner.flag("controller") and owner.text("kind") == BUFFER_KIND and _is_of_group(owner)
    ]
    return ManagedTemplate(
        name=metadata.required_text("name"),
        generation=metadata.whole("generation") or 0,
        content=top.content("template"),
        owner_uid=owners[0] if owners else None,
        resource_version=metadata.text("resourceVersion"),
    )


def _is_of_group(owner: Reader) -> bool:
    return (owner.text("apiVersion") or f"{GROUP}/").startswith(f"{GROUP}/")


def scale_from_json(document: object) -> ScaleFacts:
    """Read a Scale of autoscaling/v1."""
    status = Reader(document, "").child("status")
    return ScaleFacts(replicas=status.whole("replicas") or 0, selector=status.text("selector") or "")


def scalable_from_json(document: object, api_group: str, kind: str) -> ScalableObject:
    """Read an object of a kind whose spec is known.

    Args:
        api_group: As ``ScalableRef`` has it; empty = the core group.

    Raises:
        ConvertError: A value is malformed.
        KeyError: The kind is none of the known ones: a mistake of the caller.
    """
    spec = _Reader(document, "").child("spec")
    return ScalableObject(
        replicas=spec.whole(KNOWN_KINDS[api_group, kind]),
        content=spec.content("template") if spec.has("template") else None,
    )


def live_pod_from_json(document: object) -> LivePod:
    """Read a pod as a shape to copy."""
    top = _Reader(document, "")
    metadata = top.child("metadata")
    return LivePod(
        name=metadata.required_text("name"),
        created_unix_seconds=metadata.unix_seconds("creationTimestamp") or 0.0,
        is_terminating=metadata.has("deletionTimestamp"),
        content=top.whole_content(),
    )


def pod_of_template(content: Content) -> Pod:
    """Read the content of a pod template as the pod that would be made of it."""
    return pod_from_json({"metadata": {"uid": _NO_NAME, "name": _NO_NAME}, "spec": content.get("spec")})


def buffer_status_to_json(status: BufferStatus) -> dict[str, object]:
    """Write a status for a server-side apply: our own conditions only, so that others' stay theirs.

    What is None is left out: applied by the manager that wrote it before, it goes away. ``Provisioning`` is ours only
    where placeholder pods are.
    """
    ours = {READY_FOR_PROVISIONING, LIMITED_BY_QUOTAS}
    if status.strategy == PLACEHOLDER_PODS:
        ours.add(PROVISIONING)
    fields: dict[str, object] = {
        "podTemplateRef": None if status.template_name is None else {"name": status.template_name},
        "podTemplateGeneration": status.template_generation,
        "replicas": status.replicas,
        "provisioningStrategy": status.strategy,
        "conditions": [_condition_to_json(condition) for condition in status.conditions if condition.type in ours],
    }
    return {key: value for key, value in fields.items() if value is not None}


def _condition_to_json(condition: Condition) -> dict[str, object]:
    since = condition.last_transition_unix_seconds
    fields: dict[str, object] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": None if since is None else whole_time(since),
    }
    return {key: value for key, value in fields.items() if value is not None}

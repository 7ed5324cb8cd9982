"""Kubernetes JSON to pods of the house. Pure: text and files are others' business.

Foreign data enters here, so a value is an ``object`` until it is checked. An error names the path to the value, the
value, and what is allowed there. What sizing does not need is passed over unread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from agent.core.model import QosClass
from agent.core.pod import (
    ClaimOverhead,
    Container,
    ContainerKind,
    ContainerState,
    ContainerStatus,
    NodeAllocatableClaim,
    OwnerReference,
    Pod,
    PodCondition,
    Reported,
    Requirements,
)
from agent.core.quantity import ALLOWED, QuantityError, parse_quantity

_T = TypeVar("_T")
_Choice = TypeVar("_Choice", bound=StrEnum)

POD_KIND = "Pod"
LIST_KINDS = ("PodList", "List")


class ConvertError(ValueError):
    """A value that is not what the Kubernetes API would give; the message is one line."""


def pods_from_json(document: object, where: str = "") -> tuple[Pod, ...]:
    """Read a Pod, a PodList or a List of pods.

    Args:
        document: The parsed JSON or YAML.
        where: What to put in front of the path in error messages.

    Raises:
        ConvertError: It is something else, or a pod in it is malformed.
    """
    top = _Reader(document, where)
    kind = top.text("kind") or ("List" if top.has("items") else None)
    if kind in LIST_KINDS:
        return tuple(item.pod() for item in top.items("items"))
    if kind != POD_KIND:
        raise top.error("kind", kind, "Pod, PodList or List")
    return (top.pod(),)


def pod_from_json(document: object, where: str = "") -> Pod:
    """Read one pod, with or without its ``kind``.

    Raises:
        ConvertError: A value is malformed.
    """
    return _Reader(document, where).pod()


class _Reader:
    """One object of the document and the path that leads to it."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            msg = f"{path or 'document'}: {_shown(value)} is not an object"
            raise ConvertError(msg)
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            msg = f"{path or 'document'}: key {_shown(odd)} is not allowed (a text)"
            raise ConvertError(msg)
        self._value: Mapping[str, object] = value
        self._path = path

    def at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def error(self, key: str, value: object, allowed: str) -> ConvertError:
        if value is None:
            return ConvertError(f"{self.at(key)}: missing ({allowed})")
        return ConvertError(f"{self.at(key)}: {_shown(value)} is not allowed ({allowed})")

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None

    def text(self, key: str) -> str | None:
        """Give a text; absent, null and empty are the same to the API."""
        value = self._value.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, value, "a text")
        return value or None

    def required_text(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.error(key, None, "a text that is not empty")
        return value

    def whole(self, key: str) -> int | None:
        value = self._value.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self.error(key, value, "a whole number")

    def flag(self, key: str) -> bool:
        value = self._value.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.error(key, value, "true or false")

    def choice(self, key: str, kind: type[_Choice]) -> _Choice | None:
        value = self.text(key)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError:
            raise self.error(key, value, ", ".join(kind)) from None

    def child(self, key: str) -> _Reader:
        """Give an object; an absent one is empty."""
        value = self._value.get(key)
        return _Reader({} if value is None else value, self.at(key))

    def items(self, key: str) -> list[_Reader]:
        """Give the objects of a list; an absent one is empty."""
        value = self._value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(key, value, "a list")
        return [_Reader(item, f"{self.at(key)}[{index}]") for index, item in enumerate(value)]

    def texts(self, key: str) -> dict[str, str]:
        child = self.child(key)
        return {name: child.text(name) or "" for name in child._value}

    def quantity(self, key: str) -> int:
        value = self._value.get(key)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(key, value, ALLOWED)
        try:
            return parse_quantity(str(value))
        except QuantityError as error:
            msg = f"{self.at(key)}: {error}"
            raise ConvertError(msg) from None

    def amounts(self, key: str) -> dict[str, int]:
        child = self.child(key)
        return {name: child.quantity(name) for name in child._value}

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        return read(key) if self.has(key) else None

    def requirements(self, key: str) -> Requirements:
        child = self.child(key)
        return Requirements(requests=child.amounts("requests"), limits=child.amounts("limits"))

    def reported(self, key: str) -> Reported:
        child = self.child(key)
        return Reported(
            requests=child.optional("requests", child.amounts), limits=child.optional("limits", child.amounts)
        )

    def container(self, kind: ContainerKind) -> Container:
        if kind is ContainerKind.INIT and self.text("restartPolicy") == "Always":
            kind = ContainerKind.SIDECAR
        return Container(name=self.required_text("name"), kind=kind, resources=self.requirements("resources"))

    def container_status(self) -> ContainerStatus:
        runtime, separator, container_id = (self.text("containerID") or "").partition("://")
        states = self.child("state")
        return ContainerStatus(
            name=self.required_text("name"),
            container_id=(container_id if separator else runtime) or None,
            runtime=runtime if separator else None,
            state=next((state for state in ContainerState if states.has(state)), None),
            restart_count=self.whole("restartCount") or 0,
            allocated=self.optional("allocatedResources", self.amounts),
            actual=self.optional("resources", self.reported),
        )

    def claim(self) -> NodeAllocatableClaim:
        return NodeAllocatableClaim(
            containers=tuple(self.listed_texts("containers")),
            mapping=tuple(
                (entry.required_text("name"), entry.quantity("quantity"))
                for entry in self.items("mapping")
                if entry.has("quantity")
            ),
            overhead=tuple(
                ClaimOverhead(
                    resource=entry.required_text("name"),
                    per_pod=entry.optional("perPod", entry.quantity),
                    per_container=entry.optional("perContainer", entry.quantity),
                )
                for entry in self.items("overhead")
            ),
        )

    def listed_texts(self, key: str) -> list[str]:
        value = self._value.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, value, "a list of texts")
        return value

    def pod(self) -> Pod:
        kind = self.text("kind")
        if kind not in (None, POD_KIND):
            raise self.error("kind", kind, POD_KIND)
        metadata, spec, status = self.child("metadata"), self.child("spec"), self.child("status")
        return Pod(
            uid=metadata.required_text("uid"),
            namespace=metadata.text("namespace") or "default",
            name=metadata.required_text("name"),
            node_name=spec.text("nodeName"),
            phase=status.text("phase"),
            is_terminating=metadata.has("deletionTimestamp"),
            labels=metadata.texts("labels"),
            annotations=metadata.texts("annotations"),
            owners=tuple(
                OwnerReference(
                    kind=owner.required_text("kind"),
                    name=owner.required_text("name"),
                    uid=owner.required_text("uid"),
                    is_controller=owner.flag("controller"),
                )
                for owner in metadata.items("ownerReferences")
            ),
            priority=spec.whole("priority"),
            priority_class=spec.text("priorityClassName"),
            containers=tuple(item.container(ContainerKind.REGULAR) for item in spec.items("containers")),
            init_containers=tuple(item.container(ContainerKind.INIT) for item in spec.items("initContainers")),
            ephemeral_containers=tuple(
                item.container(ContainerKind.EPHEMERAL) for item in spec.items("ephemeralContainers")
            ),
            resources=spec.optional("resources", spec.requirements),
            overhead=spec.amounts("overhead"),
            recorded_qos=status.choice("qosClass", QosClass),
            statuses=tuple(
                item.container_status()
                for key in ("containerStatuses", "initContainerStatuses")
                for item in status.items(key)
            ),
            ephemeral_statuses=tuple(item.container_status() for item in status.items("ephemeralContainerStatuses")),
            allocated=status.optional("allocatedResources", status.amounts),
            actual=status.optional("resources", status.reported),
            conditions=tuple(
                PodCondition(
                    type=condition.required_text("type"),
                    status=condition.text("status") or "Unknown",
                    reason=condition.text("reason"),
                )
                for condition in status.items("conditions")
            ),
            claims=tuple(item.claim() for item in status.items("nodeAllocatableResourceClaimStatuses")),
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

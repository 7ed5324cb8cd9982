"""A CapacityBuffer as the controller keeps it: the buffer, and who else writes its status. Webhook, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.buffers.buffer import ACTIVE_CAPACITY, LIMITED_BY_QUOTAS, READY_FOR_PROVISIONING, Buffer
from agent.kube.objects.buffer_json import buffer_from_json

FIELD_MANAGER: Final = "plimsoll-buffers"
"""Our name among those that own fields of a status."""
PEOPLE: Final = "kubectl"
"""Managers of this name are people; what they write into a status is put right."""
_CONTROLLED: Final = frozenset({"f:podTemplateRef", "f:podTemplateGeneration", "f:replicas", "f:provisioningStrategy"})
"""Fields that only a controller of buffers writes; an autoscaler writes the condition Provisioning alone."""
_CONDITIONS: Final = tuple(f'"type":"{condition}"' for condition in (READY_FOR_PROVISIONING, LIMITED_BY_QUOTAS))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBuffer:
    """One buffer as the watch shows it."""

    buffer: Buffer
    others: tuple[str, ...] = ()
    """Other controllers that own what only a controller writes, by their names as field managers."""

    @property
    def is_contested(self) -> bool:
        """Return whether another controller does what this one would; it does not know our own strategy."""
        return bool(self.others) and self.buffer.strategy in (None, "", ACTIVE_CAPACITY)


def seen_buffer(document: object) -> SeenBuffer:
    """Read a CapacityBuffer of either version.

    Raises:
        ConvertError: It has not even a name.
    """
    buffer = buffer_from_json(document)
    return SeenBuffer(buffer=buffer, others=tuple(sorted(set(_others(document)))))


def _others(document: object) -> Iterator[str]:
    """Return the managers, ours and people's apart, that own fields of a status that only a controller writes."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    entries = metadata.get("managedFields") if isinstance(metadata, Mapping) else None
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, Mapping) or entry.get("subresource") != "status":
            continue
        manager, owned = entry.get("manager"), entry.get("fieldsV1")
        if not isinstance(manager, str) or manager == FIELD_MANAGER or manager.startswith(PEOPLE):
            continue
        status = owned.get("f:status") if isinstance(owned, Mapping) else None
        if isinstance(status, Mapping) and _is_controllers(status):
            yield manager or "(no name)"


def _is_controllers(status: Mapping[object, object]) -> bool:
    conditions = status.get("f:conditions")
    keys = conditions if isinstance(conditions, Mapping) else {}
    return any(key in _CONTROLLED for key in status) or any(text in str(key) for key in keys for text in _CONDITIONS)

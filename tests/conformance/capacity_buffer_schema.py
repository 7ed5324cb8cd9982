"""What the API accepts as the spec of a CapacityBuffer, without an API server: for the vectors that ask just that.

No part of Plimsoll judges specs: API servers do, by the chart's CRD. ``test_capacity_buffer`` holds this to that CRD,
and ``tests/cluster/test_buffers_schema`` puts the same vectors to a real server.

Source: the CRD of kubernetes/autoscaler (apis/config/crd/autoscaling.x-k8s.io_capacitybuffers.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from agent.core.buffers.buffer import INT32_MAX

SIZE_MISSING: Final = "If X is set, replicas or limits must also be set"
ONE_REFERENCE: Final[Mapping[str, str]] = {
    "v1alpha1": "You must define both PodTemplateRef and ScalableRef",
    "v1beta1": "You must define either PodTemplateRef or ScalableRef, but not both",
}
"""By version: what is said of both references together. The older words say the opposite of what they mean."""
STORED_VERSION: Final = "v1beta1"

_QUANTITY: Final = re.compile(
    r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?\Z",
    re.ASCII,
)


def spec_faults(spec: object, version: str = STORED_VERSION) -> tuple[str, ...]:
    """Return what is wrong with a spec; null is absent, and what the schema does not know is passed over.

    Args:
        spec: Parsed JSON.
        version: Of the API.

    Returns:
        Sentences; empty = it is accepted. The rules over several fields are asked only of fields that are well formed.
    """
    if not isinstance(spec, Mapping):
        return ("spec must be an object",)
    stated = {key: value for key, value in spec.items() if value is not None}
    return tuple(_field_faults(stated)) or tuple(_rule_faults(stated, version))


def _field_faults(spec: Mapping[str, object]) -> Iterator[str]:
    if not isinstance(spec.get("provisioningStrategy", ""), str):
        yield "spec.provisioningStrategy must be a text"
    for key in ("replicas", "percentage"):
        if key in spec and not _is_count(spec[key]):
            yield f"spec.{key} must be a whole number from 0 to {INT32_MAX}"
    yield from _reference_faults(spec, "podTemplateRef", required=("name",))
    yield from _reference_faults(spec, "scalableRef", required=("kind", "name"), optional=("apiGroup",))
    limits = spec.get("limits", {})
    if not isinstance(limits, Mapping):
        yield "spec.limits must be an object"
        return
    for name, limit in limits.items():
        if limit is not None and not _is_quantity(limit):
            yield f"spec.limits.{name} must be a quantity"


def _reference_faults(
    spec: Mapping[str, object], key: str, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[str]:
    reference = spec.get(key)
    if reference is None:
        return
    if not isinstance(reference, Mapping):
        yield f"spec.{key} must be an object"
        return
    for name in required:
        value = reference.get(name)
        if not isinstance(value, str) or not value:
            yield f"spec.{key}.{name} must be a text of at least 1 character"
    for name in optional:
        if not isinstance(reference.get(name), str | None):
            yield f"spec.{key}.{name} must be a text"


def _rule_faults(spec: Mapping[str, object], version: str) -> Iterator[str]:
    if "podTemplateRef" not in spec:
        return
    if "replicas" not in spec and "limits" not in spec:
        yield SIZE_MISSING
    if "scalableRef" in spec:
        yield ONE_REFERENCE.get(version, ONE_REFERENCE[STORED_VERSION])


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX


def _is_quantity(value: object) -> bool:
    if isinstance(value, str):
        return _QUANTITY.match(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)

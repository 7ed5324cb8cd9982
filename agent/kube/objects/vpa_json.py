"""VerticalPodAutoscaler objects of autoscaling.k8s.io/v1: JSON to values, and a status to JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import (
    GROUP_VERSION,
    KIND,
    MANAGED_LABEL,
    RECOMMENDER,
    EvictionChangeRequirement,
    EvictionRequirement,
    RecommendedContainerResources,
    UpdateMode,
    VpaBoost,
    VpaBoostType,
    VpaCondition,
    VpaObject,
    VpaStatus,
)
from agent.core.cluster.workload import Workload
from agent.core.numbers.units import to_millis, to_units
from agent.core.orders.annotations import WINDOWS
from agent.core.orders.container_policies import (
    EVERY_OTHER,
    ContainerPoliciesError,
    container_policies_of,
    container_policies_text,
)
from agent.core.orders.schedule import LONGEST_TEXT
from agent.kube.objects.json_reader import ConvertError, Reader, whole_time

VPAS: Final = "verticalpodautoscalers"
GROUP_PATH: Final = f"/apis/{GROUP_VERSION}"
_SPEC_FIELDS: Final = ("targetRef", "updatePolicy", "resourcePolicy", "recommenders", "startupBoost")
_UPDATE_FIELDS: Final = ("updateMode", "minReplicas", "evictionRequirements")
_BOOST: Final = "startupBoost"
_POLICY_FIELDS: Final = (
    "containerName",
    "mode",
    "minAllowed",
    "maxAllowed",
    "controlledResources",
    "controlledValues",
    "oomBumpUpRatio",
    "oomMinBumpUp",
    _BOOST,
)
_NAMES: Final[Mapping[str, Resource]] = {CPU: Resource.CPU, MEMORY: Resource.MEMORY}


def recommenders_of(document: object) -> tuple[str, ...]:
    """Return the recommenders that an object names; empty = VPA's own."""
    return tuple(entry.required_text("name") for entry in Reader(document, "").child("spec").items("recommenders"))


def vpa_from_json(document: object) -> VpaObject:
    """Read an object, whoever recommends for it.

    What it orders and nobody understands is a fault of the object.

    Raises:
        ConvertError: It has no name, or no target.
    """
    top = Reader(document, "")
    metadata, spec = top.child("metadata"), top.child("spec")
    namespace = metadata.text("namespace") or "default"
    target = spec.child("targetRef")
    vpa = VpaObject(
        namespace=namespace,
        name=metadata.required_text("name"),
        uid=metadata.text("uid") or "",
        target=Workload(namespace=namespace, kind=target.required_text("kind"), name=target.required_text("name")),
        resource_version=metadata.text("resourceVersion"),
        generation=metadata.whole("generation") or 0,
        created_unix_seconds=metadata.unix_seconds("creationTimestamp") or 0.0,
        is_managed=MANAGED_LABEL in metadata.texts("labels"),
        windows=_windows(metadata),
        status=_status(top.child("status")),
    )
    try:
        return _with_orders(vpa, spec)
    except ConvertError as error:
        return replace(vpa, fault=str(error))


def _with_orders(vpa: VpaObject, spec: Reader) -> VpaObject:
    update = spec.child("updatePolicy")
    policies = spec.child("resourcePolicy").items("containerPolicies")
    return replace(
        vpa,
        update_mode=update.choice("updateMode", UpdateMode),
        min_replicas=update.whole("minReplicas"),
        eviction_requirements=tuple(_requirement(entry) for entry in update.items("evictionRequirements")),
        container_policies=_policies_text(policies, spec),
        boost=_boost(spec.child(_BOOST)),
        container_boosts={
            policy.text("containerName") or EVERY_OTHER: boost
            for policy in policies
            if (boost := _boost(policy.child(_BOOST))) is not None
        },
        unsupported=tuple(_unsupported(spec, policies)),
    )


def status_to_json(vpa: VpaObject, status: VpaStatus) -> dict[str, object]:
    """Return the merge patch of a status: of this version of the object, so that no other and no successor is meant.

    (A uid would not do: the API server passes over metadata here, but for the version.) Without containers what was
    recommended stays.
    """
    written: dict[str, object] = {
        "conditions": [_condition_to_json(condition) for condition in status.conditions],
        "observedGeneration": status.observed_generation,
    }
    if status.containers:
        written["recommendation"] = {
            "containerRecommendations": [_amounts_to_json(container) for container in status.containers]
        }
    return {"metadata": {"resourceVersion": vpa.resource_version}, "status": written}


def managed_to_json(workload: Workload, name: str, api_version: str) -> dict[str, object]:
    """Return an object that publishes what a workload's pods will request, and orders nothing."""
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": workload.namespace,
            "labels": {MANAGED_LABEL: "true", "app.kubernetes.io/managed-by": "plimsoll"},
        },
        "spec": {
            "targetRef": {"apiVersion": api_version, "kind": workload.kind, "name": workload.name},
            "recommenders": [{"name": RECOMMENDER}],
            "updatePolicy": {"updateMode": str(UpdateMode.IN_PLACE)},
        },
    }


def _windows(metadata: Reader) -> str | None:
    """Return the windows, not read; of those that are too long enough to tell."""
    text = metadata.texts("annotations").get(WINDOWS)
    return None if text is None else text[: LONGEST_TEXT + 1]


def _requirement(entry: Reader) -> EvictionRequirement:
    direction = entry.choice("changeRequirement", EvictionChangeRequirement)
    if direction is None:
        raise entry.error("changeRequirement", None, ", ".join(EvictionChangeRequirement))
    names = entry.listed_texts("resources")
    odd = next((name for name in names if name not in _NAMES), None)
    if odd is not None:
        raise entry.error("resources", odd, ", ".join(_NAMES))
    return EvictionRequirement(resources=tuple(_NAMES[name] for name in names), direction=direction)


def _policies_text(policies: list[Reader], spec: Reader) -> str | None:
    if not policies:
        return None
    entries = [
        {key: value for key, value in policy.contents().items() if key in _POLICY_FIELDS and key != _BOOST}
        for policy in policies
    ]
    try:
        return container_policies_text(container_policies_of(entries))
    except ContainerPoliciesError as error:
        raise ConvertError(f"{spec.at('resourcePolicy')}.containerPolicies{error}") from None


def _boost(stated: Reader) -> VpaBoost | None:
    if not stated.has("cpu"):
        return None
    cpu = stated.child("cpu")
    is_factor = cpu.choice("type", VpaBoostType) is VpaBoostType.FACTOR
    return VpaBoost(
        factor=cpu.whole("factor") if is_factor else None,
        added_millicores=None if is_factor else to_millis(cpu.quantity("quantity")),
        after_ready_seconds=cpu.whole("durationSeconds") or 0,
    )


def _unsupported(spec: Reader, policies: list[Reader]) -> Iterable[str]:
    for stated, known, path in (
        (spec, _SPEC_FIELDS, ""),
        (spec.child("updatePolicy"), _UPDATE_FIELDS, "updatePolicy."),
        (spec.child("resourcePolicy"), ("containerPolicies",), "resourcePolicy."),
        (spec.child(_BOOST), ("cpu",), f"{_BOOST}."),
    ):
        yield from (f"{path}{key}" for key in sorted(stated.contents()) if key not in known)
    odd = {key for policy in policies for key in policy.contents() if key not in _POLICY_FIELDS}
    yield from (f"resourcePolicy.containerPolicies.{key}" for key in sorted(odd))


def _status(stated: Reader) -> VpaStatus:
    """Read what was written before; what nobody understands of it is written anew."""
    try:
        return VpaStatus(
            containers=tuple(
                RecommendedContainerResources(
                    container=recommendation.required_text("containerName"),
                    target=_amounts(recommendation, "target"),
                    lower_bound=_amounts(recommendation, "lowerBound"),
                    upper_bound=_amounts(recommendation, "upperBound"),
                    uncapped_target=_amounts(recommendation, "uncappedTarget"),
                )
                for recommendation in stated.child("recommendation").items("containerRecommendations")
            ),
            conditions=tuple(
                VpaCondition(
                    type=condition.required_text("type"),
                    status=condition.text("status") or "Unknown",
                    reason=condition.text("reason") or "",
                    message=condition.text("message") or "",
                    last_transition_unix_seconds=condition.unix_seconds("lastTransitionTime"),
                )
                for condition in stated.items("conditions")
            ),
            observed_generation=stated.whole("observedGeneration"),
        )
    except ConvertError:
        return VpaStatus()


def _amounts(stated: Reader, key: str) -> dict[Resource, int]:
    nanos = stated.amounts(key)
    return {
        resource: to_millis(nanos[name]) if resource is Resource.CPU else to_units(nanos[name])
        for name, resource in _NAMES.items()
        if name in nanos
    }


def _amounts_to_json(container: RecommendedContainerResources) -> dict[str, object]:
    return {
        "containerName": container.container,
        "target": _quantities(container.target),
        "lowerBound": _quantities(container.lower_bound),
        "upperBound": _quantities(container.upper_bound),
        "uncappedTarget": _quantities(container.uncapped_target),
    }


def _quantities(amounts: Mapping[Resource, int]) -> dict[str, str]:
    return {
        name: f"{amounts[resource]}m" if resource is Resource.CPU else str(amounts[resource])
        for name, resource in _NAMES.items()
        if resource in amounts
    }


def _condition_to_json(condition: VpaCondition) -> dict[str, object]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": whole_time(condition.last_transition_unix_seconds or 0.0),
    }

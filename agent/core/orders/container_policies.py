"""What is ordered for containers one by one: whether and how each is sized. Core, pure.

The list is that of a VerticalPodAutoscaler's ``spec.resourcePolicy.containerPolicies``, fields and words alike, as
JSON: an annotation may hold it, and the webhook tells nodes what an object holds. What is not understood is a fault,
never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY
from agent.core.cluster.resource import Resource
from agent.core.numbers.quantity import QuantityError, parse_quantity
from agent.core.numbers.units import INT64_MAX, NANOS_PER_UNIT, to_millis, to_units

CONTAINER_POLICIES_ALLOWED: Final = (
    '[{"containerName": "app", "mode": "Off"}, {"containerName": "*", "minAllowed": {"cpu": "100m"}, "maxAllowed": '
    '{"memory": "2Gi"}, "controlledResources": ["cpu"], "controlledValues": "RequestsOnly", "oomBumpUpRatio": "1.2", '
    '"oomMinBumpUp": "100Mi"}]'
)
EVERY_OTHER: Final = "*"
"""The name of the policy of all containers without one of their own."""
MOST_POLICIES: Final = 200
"""As many containers as the webhook tells of one workload."""
LONGEST_POLICIES: Final = 16_384
"""Characters."""
MOST_RATIO: Final = 100.0
_OFF, _AUTO = "Off", "Auto"
_REQUESTS_ONLY, _BOTH_VALUES = "RequestsOnly", "RequestsAndLimits"
_RESOURCES: Final[Mapping[str, Resource]] = {CPU: Resource.CPU, MEMORY: Resource.MEMORY}
_FIELDS: Final = (
    "containerName",
    "mode",
    "minAllowed",
    "maxAllowed",
    "controlledResources",
    "controlledValues",
    "oomBumpUpRatio",
    "oomMinBumpUp",
)
_LONGEST_QUANTITY: Final = 64
_LEAST_BYTES: Final = 1 << 20
"""Below it nothing runs, so a most below it is a slip: ``512``, or ``512m``, which is half a byte."""


class ContainerPoliciesError(ValueError):
    """A list that is not understood; the message is a few words: where, and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPolicy:
    """How one container is sized; CPU in millicores, memory in bytes, None = as the pod's orders and settings say."""

    container: str = EVERY_OTHER
    is_off: bool = False
    """It keeps its requests and limits as they stand."""
    min_cpu_millicores: int | None = None
    max_cpu_millicores: int | None = None
    min_memory_bytes: int | None = None
    max_memory_bytes: int | None = None
    resources: tuple[Resource, ...] = tuple(Resource)
    """The ones that are sized."""
    are_limits_kept: bool = False
    """Requests alone are sized, and stay below limits that stand."""
    oom_bump_up_ratio: float | None = None
    """After an out-of-memory kill the request is at least this x what was too little."""
    oom_min_bump_up_bytes: int | None = None
    """... and so many bytes more than that."""

    def edges(self, resource: Resource) -> tuple[int | None, int | None]:
        """Return the least and the most of a resource."""
        if resource is Resource.CPU:
            return self.min_cpu_millicores, self.max_cpu_millicores
        return self.min_memory_bytes, self.max_memory_bytes

    def sizes(self, resource: Resource) -> bool:
        """Return whether a resource of the container is sized at all."""
        return not self.is_off and resource in self.resources

    def after_kill_bytes(self, killed_bytes: int) -> int:
        """Return what a container needs of which so many bytes were too little.

        Source:
            VPA's ``oomBumpUpRatio`` and ``oomMinBumpUp``: the larger of the two counts; one that is not stated does
            nothing here, as Plimsoll's policies have their own margins.
        """
        by_ratio = int(killed_bytes * (self.oom_bump_up_ratio or 1.0))
        return min(max(by_ratio, killed_bytes + (self.oom_min_bump_up_bytes or 0)), INT64_MAX)


NO_POLICY: Final = ContainerPolicy()
"""Of a container that nobody says anything of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPolicies:
    """The policies of a pod's containers; a name, and ``*``, is there once at most."""

    policies: tuple[ContainerPolicy, ...] = ()

    def of(self, container: str) -> ContainerPolicy:
        """Return the policy of a container: its own, else that of all others."""
        fallback = NO_POLICY
        for policy in self.policies:
            if policy.container == container:
                return policy
            if policy.container == EVERY_OTHER:
                fallback = policy
        return fallback


NO_POLICIES: Final = ContainerPolicies()


def parse_container_policies(text: str) -> ContainerPolicies:
    """Read the JSON list.

    Raises:
        ContainerPoliciesError: It is not understood.
    """
    if len(text) > LONGEST_POLICIES:
        raise ContainerPoliciesError(f"{len(text)} characters, of at most {LONGEST_POLICIES}")
    try:
        # Numbers stay text: a Quantity is exact, a float is not.
        document: object = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise ContainerPoliciesError("not JSON") from error
    return container_policies_of(document)


def container_policies_of(document: object) -> ContainerPolicies:
    """Read the list as a document has it, an object of the API or JSON.

    Raises:
        ContainerPoliciesError: As ``parse_container_policies``.
    """
    if not isinstance(document, list):
        raise ContainerPoliciesError("no list")
    if len(document) > MOST_POLICIES:
        raise ContainerPoliciesError(f"{len(document)} policies, of at most {MOST_POLICIES}")
    policies = tuple(_policy(item, f"[{index}]") for index, item in enumerate(document))
    names = [policy.container for policy in policies]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ContainerPoliciesError(f"container {twice[:60]!r} is there twice")
    return ContainerPolicies(policies=policies)


def container_policies_text(policies: ContainerPolicies) -> str:
    """Write the list as JSON; ``parse_container_policies`` reads the same back."""
    return json.dumps([_written(policy) for policy in policies.policies], separators=(",", ":"))


def _policy(value: object, where: str) -> ContainerPolicy:
    content = _object(value, where)
    odd = next((key for key in content if key not in _FIELDS), None)
    if odd is not None:
        raise ContainerPoliciesError(f"{where}: {str(odd)[:60]!r} is not known; allowed: {', '.join(_FIELDS)}")
    least, most = _amounts(content, "minAllowed", where), _amounts(content, "maxAllowed", where)
    if most.get(Resource.MEMORY, _LEAST_BYTES) < _LEAST_BYTES:
        raise ContainerPoliciesError(f"{where}.maxAllowed.memory: less than 1Mi")
    return ContainerPolicy(
        container=_text(content, "containerName", where) or EVERY_OTHER,
        is_off=_choice(content, "mode", (_AUTO, _OFF), where) == _OFF,
        min_cpu_millicores=least.get(Resource.CPU),
        max_cpu_millicores=most.get(Resource.CPU),
        min_memory_bytes=least.get(Resource.MEMORY),
        max_memory_bytes=most.get(Resource.MEMORY),
        resources=_resources(content, where),
        are_limits_kept=_choice(content, "controlledValues", (_BOTH_VALUES, _REQUESTS_ONLY), where) == _REQUESTS_ONLY,
        oom_bump_up_ratio=_ratio(content, where),
        oom_min_bump_up_bytes=_bytes(content, "oomMinBumpUp", where),
    )


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ContainerPoliciesError(f"{where}: {str(value)[:60]!r} is no object")
    return value


def _text(content: Mapping[str, object], key: str, where: str) -> str | None:
    value = content.get(key)
    if value is not None and not isinstance(value, str):
        raise ContainerPoliciesError(f"{where}.{key}: {str(value)[:60]!r} is no text")
    return value or None


def _choice(content: Mapping[str, object], key: str, words: tuple[str, ...], where: str) -> str | None:
    word = _text(content, key, where)
    if word is not None and word not in words:
        raise ContainerPoliciesError(f"{where}.{key}: {word[:60]!r} is not allowed ({', '.join(words)})")
    return word


def _resources(content: Mapping[str, object], where: str) -> tuple[Resource, ...]:
    value = content.get("controlledResources")
    if value is None:
        return tuple(Resource)
    if not isinstance(value, list):
        raise ContainerPoliciesError(f"{where}.controlledResources: no list")
    named = {_resource(name, f"{where}.controlledResources") for name in value}
    return tuple(resource for resource in Resource if resource in named)


def _resource(name: object, where: str) -> Resource:
    resource = _RESOURCES.get(name) if isinstance(name, str) else None
    if resource is None:
        raise ContainerPoliciesError(f"{where}: {str(name)[:60]!r} is not allowed (cpu, memory)")
    return resource


def _amounts(content: Mapping[str, object], key: str, where: str) -> dict[Resource, int]:
    """Read least or most amounts; 0 counts as none, as to VPA."""
    if content.get(key) is None:
        return {}
    stated = _object(content[key], f"{where}.{key}")
    amounts: dict[Resource, int] = {}
    for name, value in stated.items():
        resource = _resource(name, f"{where}.{key}")
        nanos = _nanos(value, f"{where}.{key}.{name}")
        amount = to_millis(nanos) if resource is Resource.CPU else to_units(nanos)
        if amount:
            amounts[resource] = amount
    return amounts


def _ratio(content: Mapping[str, object], where: str) -> float | None:
    if content.get("oomBumpUpRatio") is None:
        return None
    ratio = _nanos(content["oomBumpUpRatio"], f"{where}.oomBumpUpRatio") / NANOS_PER_UNIT
    if not 1.0 <= ratio <= MOST_RATIO:
        raise ContainerPoliciesError(f"{where}.oomBumpUpRatio: {ratio:g} is not allowed (1 to {MOST_RATIO:g})")
    return ratio


def _bytes(content: Mapping[str, object], key: str, where: str) -> int | None:
    if content.get(key) is None:
        return None
    return to_units(_nanos(content[key], f"{where}.{key}"))


def _nanos(value: object, where: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(text) > _LONGEST_QUANTITY:
        raise ContainerPoliciesError(f"{where}: {text[:60]!r} is no quantity")
    try:
        nanos = parse_quantity(text)
    except QuantityError:
        raise ContainerPoliciesError(f"{where}: {text[:60]!r} is no quantity") from None
    if not 0 <= nanos <= INT64_MAX * NANOS_PER_UNIT:
        raise ContainerPoliciesError(f"{where}: {text[:60]!r} is out of range")
    return nanos


def _written(policy: ContainerPolicy) -> dict[str, object]:
    content: dict[str, object] = {"containerName": policy.container}
    if policy.is_off:
        content["mode"] = _OFF
    for key, cpu, memory in (
        ("minAllowed", policy.min_cpu_millicores, policy.min_memory_bytes),
        ("maxAllowed", policy.max_cpu_millicores, policy.max_memory_bytes),
    ):
        amounts = {CPU: None if cpu is None else f"{cpu}m", MEMORY: None if memory is None else str(memory)}
        stated = {name: amount for name, amount in amounts.items() if amount is not None}
        if stated:
            content[key] = stated
    if policy.resources != tuple(Resource):
        content["controlledResources"] = [name for name, resource in _RESOURCES.items() if resource in policy.resources]
    if policy.are_limits_kept:
        content["controlledValues"] = _REQUESTS_ONLY
    if policy.oom_bump_up_ratio is not None:
        content["oomBumpUpRatio"] = f"{policy.oom_bump_up_ratio:.9f}".rstrip("0").rstrip(".")
    if policy.oom_min_bump_up_bytes is not None:
        content["oomMinBumpUp"] = str(policy.oom_min_bump_up_bytes)
    return content

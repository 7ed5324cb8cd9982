"""What must hold of pods whatever the day brought: by whom, how far and back to what they may be resized. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.core.orders.annotations import ORIGINAL_RESOURCES
from tests.cluster.api import Json
from tests.cluster.audit import Call
from tests.soak.matching import Amounts, Patch, amount_of, amounts_of
from tests.soak.roles import HERE, ROLES

AGENT_WRITES: Final = frozenset({"pods/resize", "events"})
"""All that an agent may write here: it has no right to evict, and taints are off."""
WEBHOOK_WRITES: Final = frozenset({"leases", "events", "configmaps", "secrets", "mutatingwebhookconfigurations"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Born:
    """A pod as it was created."""

    pod: str
    """``namespace/name``."""
    uid: str
    role: str
    written: Amounts
    """What its document stated, before anybody sized it."""
    was_sized: bool
    """The webhook sized it at its admission."""


def born(role: str, document: Json, answer: Json) -> Born:
    """Take down a pod: what was written, and what the API server made of it."""
    metadata = answer["metadata"]
    return Born(
        pod=f"{metadata['namespace']}/{metadata['name']}",
        uid=metadata["uid"],
        role=role,
        written=amounts_of(document),
        was_sized=ORIGINAL_RESOURCES in metadata.get("annotations", {}),
    )


def broken_rules(patches: Sequence[Patch], pods: Mapping[str, Born], *, restored_unix: float = math.inf) -> list[str]:
    """Return what the agent resized and should not have, or too far; one line each.

    Args:
        patches: All that it sent, refused ones too.
        pods: By uid.
        restored_unix: When a person asked for the original requests of all pods; seconds, by the API server's clock.
    """
    faults = []
    by_name = {pod.pod: pod for pod in pods.values()}
    for patch in patches:
        pod = pods.get(patch.uid) or (by_name.get(patch.pod) if not patch.uid else None)
        if pod is None:
            faults.append(f"{patch.pod}: resized, and nobody created such a pod (uid {patch.uid or 'unknown'})")
            continue
        role = ROLES[pod.role]
        if patch.node != HERE:
            faults.append(f"{patch.pod}: resized by a token that names node {patch.node}")
        if role.node != HERE:
            faults.append(f"{patch.pod}: resized, and runs on {role.node}")
        elif not role.may_be_resized and not (patch.unix_seconds >= restored_unix and _gives_back(patch, pod)):
            faults.append(f"{patch.pod}: resized, and a pod of role {pod.role} may not be")
        faults += _beyond(patch, pod)
    return faults


def _gives_back(patch: Patch, pod: Born) -> bool:
    """Return whether a patch does nothing but undo what the webhook changed at the admission."""
    return pod.was_sized and patch.amounts <= pod.written


def _beyond(patch: Patch, pod: Born) -> list[str]:
    least, most = ROLES[pod.role].cpu_bounds_millicores
    allowed = {amount for _, resource, setting, amount in pod.written if (resource, setting) == ("cpu", "request")}
    return [
        f"{patch.pod}: its CPU request was set to {amount}m, allowed are {least}m to {most}m"
        for _, resource, setting, amount in patch.amounts
        if (resource, setting) == ("cpu", "request") and not least <= amount <= most and amount not in allowed
    ]


def strange_writes(calls: Sequence[Call], allowed: frozenset[str]) -> list[str]:
    """Return writes of somebody to what is none of their business."""
    return [f"{call} by {call.user}" for call in calls if call.is_write and call.resource not in allowed]


def kept_originals(holds: Mapping[str, Any]) -> dict[str, Amounts]:
    """Return what an agent's file of holds says that pods had, by uid."""
    return {
        original["ref"]["uid"]: frozenset(
            (amounts["container"], resource, setting, amounts[f"{resource}_{setting}_{unit}"])
            for amounts in original["amounts"]
            for resource, unit in (("cpu", "millicores"), ("memory", "bytes"))
            for setting in ("request", "limit")
            if amounts[f"{resource}_{setting}_{unit}"] is not None
        )
        for original in holds.get("originals", [])
    }


def annotated_originals(pod: Json) -> Amounts | None:
    """Return what the webhook wrote down that a pod came with; None = it wrote nothing."""
    text = pod["metadata"].get("annotations", {}).get(ORIGINAL_RESOURCES)
    if text is None:
        return None
    return frozenset(
        (container, resource, setting.removesuffix("s"), amount_of(resource, amount))
        for container, stated in json.loads(text)["containers"].items()
        for setting, amounts in stated.items()
        for resource, amount in amounts.items()
    )


def lost_original(pod: Born, now: Json, originals: Mapping[str, Amounts]) -> str | None:
    """Return why what was written for a pod cannot be found any more; None = it can.

    Args:
        pod: As it was created.
        now: As it is.
        originals: See ``kept_originals``.
    """
    annotated = annotated_originals(now)
    if annotated is not None:
        return (
            None if annotated == pod.written else f"{pod.pod}: its annotation tells of other amounts than were written"
        )
    if not differing(pod.written, amounts_of(now)):
        return None
    original = originals.get(pod.uid)
    if original is None:
        return f"{pod.pod}: its requests changed, and the originals are kept nowhere"
    return None if original == pod.written else f"{pod.pod}: the originals that are kept are not what was written"


def not_restored(pod: Born, now: Json) -> str | None:
    """Return what a pod has not got back; None = it has what was written, as far as a resize can give it back."""
    other = differing(pod.written, amounts_of(now))
    return f"{pod.pod}: {', '.join(other)}" if other else None


def differing(written: Amounts, stated: Amounts) -> list[str]:
    """Return which amounts are others than were written.

    A resize neither adds a limit nor takes one away; the webhook does either at admission.
    """
    was, now = ({(name, of, kind): amount for name, of, kind, amount in some} for some in (written, stated))
    keys = {key for key in was.keys() | now.keys() if key[2] == "request" or (key in was and key in now)}
    return [
        f"{' '.join(key)} {now.get(key)} in place of {was.get(key)}"
        for key in sorted(keys)
        if was.get(key) != now.get(key)
    ]

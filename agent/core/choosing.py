"""Which units a person means by a name. Core, pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from agent.core.model import UnitIdentity

ALIKE = 0.6
"""From where on one name may be meant for another; 0 = nothing in common, 1 = equal."""
MOST_NAMED = 5
"""Names told when there is none, or more than one, of what was asked for."""


class NoSuchUnit(LookupError):  # noqa: N818 - a state of the world, named as one
    """No unit, or units of several pods, go by the name; one line that tells what does."""


def chosen_by(name: str, identities: Iterable[UnitIdentity]) -> tuple[UnitIdentity, ...]:
    """Find what a person means.

    Args:
        name: ``POD``, ``POD/CONTAINER``, ``NAMESPACE/POD`` or ``NAMESPACE/POD/CONTAINER``; a pod by its uid, too; or
            the last part of a cgroup's path, or all of it, for what has no pod.
        identities: Those there are.

    Returns:
        The containers of one pod, or one unit; never empty.

    Raises:
        NoSuchUnit: There is none, or pods of several namespaces go by the name.
    """
    known = tuple(identities)
    wanted = tuple(name.split("/"))
    found = tuple(one for one in known if name in _paths(one) or wanted in _names(one))
    owners = sorted({_owner(one) for one in found})
    if not found:
        raise NoSuchUnit(f"nothing is called {name}{_instead(name, known)}")
    if len(owners) > 1:
        raise NoSuchUnit(f"{name} is the name of {len(owners)}: {_some(owners)}; allowed: one of them")
    return found


def called(identity: UnitIdentity) -> str:
    """Give the shortest name that tells a unit from all others."""
    if identity.namespace is not None and identity.pod is not None and identity.container is not None:
        return f"{identity.namespace}/{identity.pod}/{identity.container}"
    return identity.cgroup_path


def _owner(identity: UnitIdentity) -> str:
    if identity.namespace is not None and identity.pod is not None:
        return f"{identity.namespace}/{identity.pod}"
    return identity.pod_uid if identity.pod_uid is not None else identity.cgroup_path


def _paths(identity: UnitIdentity) -> set[str]:
    return {identity.cgroup_path, identity.cgroup_path.rsplit("/", 1)[-1]} - {""}  # the root has no last part


def _names(identity: UnitIdentity) -> set[tuple[str, ...]]:
    container = identity.container if identity.container is not None else identity.container_id
    pods = [pod for pod in (identity.pod, identity.pod_uid) if pod is not None]
    names: set[tuple[str, ...]] = set()
    for pod in pods:
        for head in ((pod,), *(((identity.namespace, pod),) if identity.namespace is not None else ())):
            names.add(head)
            if container is not None:
                names.add((*head, container))
    return names


def _instead(name: str, known: Sequence[UnitIdentity]) -> str:
    if not known:
        return ": nothing is watched"
    names = sorted({called(one) for one in known})
    likeness = {other: _likeness(name, other) for other in names}
    near = sorted((other for other in names if likeness[other] >= ALIKE), key=lambda other: -likeness[other])
    return f"; allowed: {_some(near or names)}"


def _likeness(asked: str, name: str) -> float:
    """Compare two names part by part: the mean, over the parts asked for, of how like the most similar part is."""
    theirs = list(filter(None, name.split("/")))
    found = [
        max((difflib.SequenceMatcher(a=mine, b=their).ratio() for their in theirs), default=0.0)
        for mine in filter(None, asked.split("/"))
    ]
    return sum(found) / max(len(found), 1)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")

"""Which units a person means by a name. Core, pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agent.core.cluster.unit import UnitIdentity
from agent.core.cluster.workload import Workload

ALIKE = 0.6
"""From where on one name may be meant for another; 0 = nothing in common, 1 = equal."""
MOST_NAMED = 5
"""Names told when there is none, or more than one, of what was asked for."""


class NoSuchUnit(LookupError):  # noqa: N818 - a state of the world, named as one
    """No unit, or units of several pods, go by the name; one line that tells what does."""


def _no_workload(_: UnitIdentity) -> Workload | None:
    return None


def chosen_by(
    name: str,
    identities: Iterable[UnitIdentity],
    *,
    workload_of: Callable[[UnitIdentity], Workload | None] = _no_workload,
) -> tuple[UnitIdentity, ...]:
    """Find what a person means: the containers of one pod, or one unit; never empty.

    What goes by the very name wins; then, in this order, a pod of the workload of that name, what a pattern with ``*``
    fits, and a pod whose name begins so. None of them is taken where it would mean several pods.

    The name is ``POD``, ``POD/CONTAINER``, ``NAMESPACE/POD`` or ``NAMESPACE/POD/CONTAINER``; a pod by its uid, its
    workload (``web``, ``Deployment/web``) or the beginning of its name, too; or the last part of a cgroup's path, or
    all of it, for what has no pod.
    """
    known = tuple(_KnownUnit(identity, workload_of(identity)) for identity in identities)
    wanted = tuple(name.split("/"))
    for is_meant in (_is_exactly(name, wanted), _is_of_workload(wanted), _fits(name, wanted), _begins(wanted)):
        matches = tuple(unit for unit in known if is_meant(unit))
        owners = sorted({_owner(unit.identity) for unit in matches})
        if len(owners) > 1:
            raise NoSuchUnit(f"{name} may be any of {len(owners)}: {_some(owners)}; allowed: one of them")
        if matches:
            return tuple(unit.identity for unit in matches)
    raise NoSuchUnit(f"nothing is called {name}{_instead(name, known)}")


def called(identity: UnitIdentity) -> str:
    """Return the shortest name that tells a unit from all others."""
    if identity.namespace is not None and identity.pod is not None and identity.container is not None:
        return f"{identity.namespace}/{identity.pod}/{identity.container}"
    return identity.cgroup_path


@dataclass(frozen=True, slots=True)
class _KnownUnit:
    identity: UnitIdentity
    workload: Workload | None

    def pod_names(self) -> Iterator[str]:
        yield from (pod for pod in (self.identity.pod, self.identity.pod_uid) if pod is not None)

    def words(self) -> set[str]:
        workload = () if self.workload is None else (self.workload.name,)
        return {*filter(None, called(self.identity).split("/")), *workload}


_Test = Callable[[_KnownUnit], bool]


def _is_exactly(name: str, wanted: tuple[str, ...]) -> _Test:
    return lambda unit: name in _paths(unit.identity) or _goes_by(wanted, unit.identity, unit.pod_names())


def _is_of_workload(wanted: tuple[str, ...]) -> _Test:
    def test(unit: _KnownUnit) -> bool:
        workload = unit.workload
        if workload is None:
            return False
        return wanted == (workload.kind, workload.name) or _goes_by(wanted, unit.identity, (workload.name,))

    return test


def _fits(name: str, wanted: tuple[str, ...]) -> _Test:
    if "*" not in name:
        return lambda _: False
    return lambda unit: (
        any(_matches(name, path) for path in _paths(unit.identity))
        or _goes_by(wanted, unit.identity, unit.pod_names(), _matches)
    )


def _begins(wanted: tuple[str, ...]) -> _Test:
    if "" in wanted:
        return lambda _: False  # everything begins with nothing

    def test(unit: _KnownUnit) -> bool:
        pod = unit.identity.pod
        begun = (part for part in wanted if pod is not None and pod.startswith(part))
        return _goes_by(wanted, unit.identity, tuple(begun))

    return test


def _matches(pattern: str, name: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


def _is_same(wanted: str, name: str) -> bool:
    return wanted == name


def _goes_by(
    wanted: tuple[str, ...],
    identity: UnitIdentity,
    pods: Iterable[str],
    is_same: Callable[[str, str], bool] = _is_same,
) -> bool:
    """Return whether the parts of a name are those of a unit, whose pod has these names."""
    container = identity.container if identity.container is not None else identity.container_id
    for pod in pods:
        for head in ((pod,), *(((identity.namespace, pod),) if identity.namespace is not None else ())):
            for parts in (head, *(((*head, container),) if container is not None else ())):
                if len(parts) == len(wanted) and all(map(is_same, wanted, parts)):
                    return True
    return False


def _owner(identity: UnitIdentity) -> str:
    if identity.namespace is not None and identity.pod is not None:
        return f"{identity.namespace}/{identity.pod}"
    return identity.pod_uid if identity.pod_uid is not None else identity.cgroup_path


def _paths(identity: UnitIdentity) -> set[str]:
    return {identity.cgroup_path, identity.cgroup_path.rsplit("/", 1)[-1]} - {""}  # the root has no last part


def _instead(name: str, known: Sequence[_KnownUnit]) -> str:
    if not known:
        return ": nothing is watched"
    names = {called(unit.identity): unit.words() for unit in known}
    having = sorted(other for other in names if name.strip("/*") and name.strip("/*").lower() in other.lower())
    likeness = {other: _likeness(name, words) for other, words in names.items()}
    near = sorted((other for other in names if likeness[other] >= ALIKE), key=lambda other: (-likeness[other], other))
    return f"; allowed: {_some(having or near or sorted(names))}"


def _likeness(asked: str, words: set[str]) -> float:
    """Compare two names part by part: the mean, over the parts asked for, of how like the most similar part is."""
    likeness = [
        max((difflib.SequenceMatcher(a=mine, b=their).ratio() for their in words), default=0.0)
        for mine in filter(None, asked.split("/"))
    ]
    return sum(likeness) / max(len(likeness), 1)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")

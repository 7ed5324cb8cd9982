"""Which units a filter lets pass, the same for every verb that shows containers. Face, pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from agent.core.cluster.unit import UnitIdentity


class FilterError(ValueError):
    """A filter that cannot be understood; the message names it and what is allowed."""


_EXACT_FIELDS: dict[str, Callable[[UnitIdentity], Sequence[str | None]]] = {
    "ns": lambda identity: (identity.namespace,),
    "namespace": lambda identity: (identity.namespace,),
    "pod": lambda identity: (identity.pod, identity.pod_uid),
    "container": lambda identity: (identity.container, identity.container_id),
    "kind": lambda identity: (identity.kind.value,),
    "qos": lambda identity: (None if identity.qos is None else identity.qos.value,),
    "runtime": lambda identity: (identity.runtime,),
    "path": lambda identity: (identity.cgroup_path,),
}


def parse_filter(text: str) -> Callable[[UnitIdentity], bool]:
    """Return the test that a filter stands for; FilterError = an unknown key, or a key without a value.

    Words apart by spaces must all hold. ``key=value``: that field is equal, or matches a pattern with ``*``. Any other
    word: some name, id or path has it inside. Case never counts.
    """
    terms: list[Callable[[UnitIdentity], bool]] = []
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals:
            terms.append(_contains(word.lower()))
        elif key in _EXACT_FIELDS and value:
            terms.append(_matches(_EXACT_FIELDS[key], value.lower()))
        else:
            fault = "has no value" if key in _EXACT_FIELDS else "has an unknown key"
            raise FilterError(f"filter {word!r} {fault}; allowed: a part of a name, or {'=, '.join(_EXACT_FIELDS)}=")
    return lambda identity: all(term(identity) for term in terms)


def _contains(part: str) -> Callable[[UnitIdentity], bool]:
    def test(identity: UnitIdentity) -> bool:
        names = (identity.namespace, identity.pod, identity.container, identity.pod_uid, identity.cgroup_path)
        return any(part in name.lower() for name in names if name is not None)

    return test


def _matches(fields: Callable[[UnitIdentity], Sequence[str | None]], pattern: str) -> Callable[[UnitIdentity], bool]:
    def test(identity: UnitIdentity) -> bool:
        return any(fnmatchcase(name.lower(), pattern) for name in fields(identity) if name is not None)

    return test

"""What whole pods and QoS tiers look like at a moment, as values. Node; it holds no rule. Any thread may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.window.pod_itself import NOT_MEASURED, PodItself
from agent.core.window.snapshot import PodStatus, UnitStatus
from agent.node.sampling.observer import Observer
from agent.node.sampling.pod_cgroups import PodCgroups
from agent.node.sampling.unit_table import UnitTable


class PodObserver:
    """Tells of the cgroups of ``PodCgroups``; their pods' names come from the containers."""

    def __init__(self, *, observer: Observer, pods: PodCgroups, containers: UnitTable) -> None:
        self._observer, self._pods, self._containers = observer, pods, containers

    def pods(
        self, at_age_seconds: float = 0.0, is_stopping: Callable[[], bool] = lambda: False
    ) -> tuple[PodStatus, ...]:
        """Return the pods in tree order, now or as they were this many seconds ago."""
        names = self._names()
        statuses = self._observed(UnitKind.POD, at_age_seconds, is_stopping)
        itself = self.itself() if at_age_seconds <= 0 else {}
        return tuple(_pod_status(unit, names, itself.get(unit.identity.cgroup_path, NOT_MEASURED)) for unit in statuses)

    def tiers(self, at_age_seconds: float = 0.0) -> tuple[UnitStatus, ...]:
        """Return ``kubepods`` and the QoS tiers in tree order, now or as they were this many seconds ago."""
        return tuple(self._observed(UnitKind.TIER, at_age_seconds))

    def itself(self) -> dict[str, PodItself]:
        """Return what each pod uses in none of its containers, by the path of its cgroup."""
        units = [unit for unit in self._pods.units.all() if unit.identity.kind is UnitKind.POD]
        return dict(zip((unit.identity.cgroup_path for unit in units), self._pods.itself(units), strict=True))

    def _observed(
        self, kind: UnitKind, at_age_seconds: float, is_stopping: Callable[[], bool] = lambda: False
    ) -> list[UnitStatus]:
        units = [unit for unit in self._pods.units.all() if unit.identity.kind is kind]
        units.sort(key=lambda unit: unit.identity.cgroup_path.split("/"))
        return self._observer.statuses_at(units, at_age_seconds, is_stopping)

    def _names(self) -> dict[str, UnitIdentity]:
        """Return a named container of each pod, by the pod's uid."""
        identities = (unit.identity for unit in self._containers.all())
        return {each.pod_uid: each for each in identities if each.pod_uid is not None and each.pod is not None}


def _pod_status(unit: UnitStatus, names: dict[str, UnitIdentity], itself: PodItself) -> PodStatus:
    named = names.get(unit.identity.pod_uid or "")
    if named is not None:
        unit = replace(unit, identity=replace(unit.identity, namespace=named.namespace, pod=named.pod))
    return PodStatus(
        whole=unit,
        itself_cpu_millicores=itself.cpu_usage_millicores,
        itself_working_set_bytes=itself.working_set_bytes,
    )

"""What is looked after in each turn beside the pods' requests. Node.

The overload taint, limits of whole pods, protected memory, memory reserved for QoS classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.core.cluster.node import Node, NodeState
from agent.core.cluster.pod import Pod
from agent.core.orders.order import Orders
from agent.kube.client.api import Api
from agent.kube.client.own_rights import Purpose
from agent.metrics.acting_series import ActingSeries
from agent.node.cluster.rights import Rights
from agent.node.keepers.cgroup_limits import FILE_NAME as CGROUP_LIMITS_FILE
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import Keeper, KeeperTerms
from agent.node.keepers.memory_low import MemoryLowWriter, container_paths_of
from agent.node.keepers.overload_taint import OverloadKeeper, PodsPressure, machine_load_per_cpu
from agent.node.keepers.pod_limits import PodLimitsWriter, pod_paths_of
from agent.node.keepers.qos_reserve import QosReserver
from agent.node.keepers.taint_permission import TaintPermission
from agent.node.orders.holds import Holds
from agent.node.sampling.parts import SamplingParts
from agent.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperParts:
    """What the keepers share with those who resize."""

    settings: Settings
    api: Api
    node: Callable[[], Node | None]
    """The node object as last seen; None = not known."""
    orders_of: Callable[[Pod, NodeState], Orders]
    holds: Holds
    rights: Rights
    series: ActingSeries
    terms: KeeperTerms
    may_write_budget: Callable[[], str | None]
    """Why no limit of a whole pod may be written now, in any mode; None = it may."""
    is_enforcing: Callable[[], bool]
    """Some pod is in mode enforce."""
    tell_overload: Callable[[bool], None]
    """Is told, each turn, whether the node is overloaded."""


def cgroup_limits_of(settings: Settings, sampling: SamplingParts) -> CgroupLimits:
    """Return the limits that agents have written into cgroups of this node, remembered beside the rest of the state."""
    directory = settings.state.directory
    return CgroupLimits(sampling.mount, None if directory is None else directory / CGROUP_LIMITS_FILE)


def keepers_of(
    parts: KeeperParts,
    sampling: SamplingParts,
    limits: CgroupLimits,
    *,
    waiting_ratios: Callable[[], Sequence[float | None]],
    permission: Callable[[], TaintPermission],
) -> tuple[Keeper, ...]:
    """Return the keepers of this node; nothing is written yet."""
    settings, machine, mount = parts.settings, sampling.machine, sampling.mount

    def kubepods_root() -> str | None:
        return sampling.discovery.kubepods_root

    def may_taint() -> str | None:
        if not parts.rights.may(Purpose.TAINT):
            return "rights"
        # A taint of its own that is there is taken away in any mode.
        return None if parts.is_enforcing() or overload.is_tainted else "recommend"

    overload = OverloadKeeper(
        api=parts.api,
        node_name=machine.name,
        options=settings.overload,
        node=parts.node,
        load_per_cpu=lambda: machine_load_per_cpu(max(1, machine.capacity_millicores // 1000)),
        waiting_ratio=PodsPressure(mount, kubepods_root, waiting_ratios),
        terms=KeeperTerms(may_write=lambda: parts.terms.may_write() or may_taint(), tell=parts.terms.tell),
        permission=permission,
    )
    budget_terms = KeeperTerms(may_write=parts.may_write_budget, tell=parts.terms.tell)
    pod_limits = PodLimitsWriter(
        limits=limits,
        options=settings.pod_limits,
        pod_paths=lambda: pod_paths_of(unit.identity for unit in sampling.units.all()),
        margin_ratio=settings.plan.memory_limit_margin_ratio,
        terms=budget_terms,
        pinned=lambda: parts.holds.pinned(time.time()),
        orders_of=parts.orders_of,
    )
    memory_low = MemoryLowWriter(
        limits=limits,
        options=settings.pod_limits,
        writer=pod_limits,
        container_paths=lambda: container_paths_of(unit.identity for unit in sampling.units.all()),
        kubepods_root=kubepods_root,
        terms=budget_terms,
    )
    reserver = QosReserver(
        limits=limits,
        options=settings.pod_limits,
        mount=mount,
        kubepods_root=kubepods_root,
        terms=parts.terms,
    )
    return _OverloadTurn(overload, parts), _LimitsTurn(pod_limits, memory_low, reserver, parts.series)


class _OverloadTurn:
    """The overload taint as one of the keepers."""

    def __init__(self, keeper: OverloadKeeper, parts: KeeperParts) -> None:
        self._keeper, self._parts = keeper, parts

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Judge and write as far as it is due."""
        self._keeper.tick(now_seconds)
        is_overloaded = self._keeper.is_overloaded
        self._parts.tell_overload(is_overloaded)
        self._parts.series.set_overload(is_overloaded=is_overloaded, is_tainted=bool(self._keeper.is_tainted))

    def close(self) -> None:
        """Remove the taint."""
        self._keeper.remove_at_exit()


class _LimitsTurn:
    """The limits in cgroups as one of the keepers: of pods, and of the QoS tiers."""

    def __init__(
        self, pod_limits: PodLimitsWriter, memory_low: MemoryLowWriter, reserver: QosReserver, series: ActingSeries
    ) -> None:
        self._pod_limits, self._memory_low, self._reserver, self._series = pod_limits, memory_low, reserver, series

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Write as far as it is due, and tell how it stands."""
        self._pod_limits.tick(state, now_seconds)
        self._memory_low.tick(state, now_seconds)
        self._reserver.tick(state, now_seconds)
        self._series.set_pod_limits(limited=self._pod_limits.pods_limited, held=self._pod_limits.held)
        reservation = self._reserver.reservation
        self._series.set_qos_reserved({} if reservation is None else reservation.target_bytes)

    def close(self) -> None:
        """Leave all as it is."""
        self._pod_limits.close()
        self._memory_low.close()
        self._reserver.close()

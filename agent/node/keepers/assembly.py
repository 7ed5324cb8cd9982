"""What is looked after in each turn beside the pods' requests: overload taint, pod limits, reserved memory. Node."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from agent.core.cluster.node import NodeState
from agent.core.resize.decision import DecisionLog
from agent.kube.api import Api
from agent.kube.own_rights import Purpose
from agent.metrics.acting_series import ActingSeries
from agent.node.cluster.rights import Rights
from agent.node.cluster.view import ClusterView
from agent.node.keepers.cgroup_limits import FILE_NAME as CGROUP_LIMITS_FILE
from agent.node.keepers.cgroup_limits import CgroupLimits
from agent.node.keepers.keeper import Keeper
from agent.node.keepers.overload_taint import OverloadKeeper, PodsPressure, machine_load_per_cpu
from agent.node.keepers.pod_limits import PodLimitsWriter, pod_paths_of
from agent.node.keepers.qos_reserve import QosReserver
from agent.node.keepers.taint_permission import TaintPermission
from agent.node.orders.holds import Holds
from agent.node.recommender.evaluation import Teller
from agent.node.recommender.planner import Planner
from agent.node.sampling.unit_table import UnitTable
from agent.sensing.discovery import Discovery
from agent.sensing.machine import Machine
from agent.settings import Settings


def keepers_of(
    settings: Settings,
    *,
    api: Api,
    cluster: ClusterView,
    mount: Path,
    machine: Machine,
    units: UnitTable,
    discovery: Discovery,
    teller: Teller,
    planner: Planner,
    holds: Holds,
    rights: Rights,
    series: ActingSeries,
    tell: DecisionLog,
    may_write: Callable[[], str | None],
    is_enforcing: Callable[[], bool],
    permission: Callable[[], TaintPermission],
) -> tuple[Keeper, ...]:
    """Give the keepers of this node; nothing is written yet.

    Args:
        settings: All of them.
        api: Where the taint is written.
        cluster: The node and its pods.
        mount: Of cgroup v2.
        machine: This one.
        units: What is watched.
        discovery: Knows where pods' cgroups are.
        teller: Knows who waits.
        planner: Knows what is ordered of a pod.
        holds: Pins.
        rights: Whether this agent may set taints.
        series: Metrics.
        tell: The decision log.
        may_write: Why nothing may be written now; None = it may.
        is_enforcing: Some pod is in mode enforce.
        permission: Whether one more node of the cluster may be tainted.
    """

    def kubepods_root() -> str | None:
        return discovery.kubepods_root

    def may_taint() -> str | None:
        if not rights.may(Purpose.TAINT):
            return "rights"
        # A taint of its own that is there is taken away in any mode.
        return None if is_enforcing() or overload.is_tainted else "recommend"

    overload = OverloadKeeper(
        api=api,
        node_name=machine.name,
        options=settings.overload,
        node=lambda: cluster.state().node,
        load_per_cpu=lambda: machine_load_per_cpu(max(1, machine.capacity_millicores // 1000)),
        waiting_ratio=PodsPressure(mount, kubepods_root, teller.waiting_ratios),
        may_write=lambda: may_write() or may_taint(),
        tell=tell,
        permission=permission,
    )
    directory = settings.state.directory
    limits = CgroupLimits(mount, None if directory is None else directory / CGROUP_LIMITS_FILE)
    pod_limits = PodLimitsWriter(
        limits=limits,
        options=settings.pod_limits,
        pod_paths=lambda: pod_paths_of(unit.identity for unit in units.all()),
        margin_ratio=settings.plan.memory_limit_margin_ratio,
        may_write=may_write,
        tell=tell,
        pinned=lambda: holds.pinned(time.time()),
        orders_of=planner.orders_of_pod,
    )
    reserver = QosReserver(
        limits=limits,
        options=settings.pod_limits,
        mount=mount,
        kubepods_root=kubepods_root,
        may_write=may_write,
        tell=tell,
    )
    return _OverloadTurn(overload, series), _Lasting(pod_limits.tick), _Lasting(reserver.tick)


class _Lasting:
    """A keeper whose work outlives the agent: what was asked for still is."""

    def __init__(self, tick: Callable[[NodeState, float], None]) -> None:
        self.tick = tick

    def close(self) -> None:
        """Leave all as it is."""


class _OverloadTurn:
    """The overload taint as one of the keepers."""

    def __init__(self, keeper: OverloadKeeper, series: ActingSeries) -> None:
        self._keeper, self._series = keeper, series

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Judge and write as far as it is due."""
        self._keeper.tick(now_seconds)
        self._series.set_overload(is_overloaded=self._keeper.is_overloaded, is_tainted=bool(self._keeper.is_tainted))

    def close(self) -> None:
        """Take the taint away."""
        self._keeper.remove_at_exit()

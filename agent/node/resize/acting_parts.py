"""What acting is made of, as values that its parts share. Node."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod
from agent.core.history.workloads.job_run import RunFigures
from agent.core.plan.needs.given_boost import GivenBoost
from agent.core.resize.ledger import Ledger
from agent.core.window.snapshot import CpuWindow
from agent.kube.client.api import Api
from agent.metrics.acting_series import ActingSeries
from agent.metrics.loop_series import LoopTurns
from agent.node.cluster.rights import Rights
from agent.node.orders.holds import Holds
from agent.node.orders.journal import Journal
from agent.node.recommender.planner import Planner
from agent.node.recommender.pod_orders import PodOrders
from agent.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingClocks:
    """The three clocks of acting, in seconds."""

    now: Callable[[], float]
    """The ledger's: Unix seconds that never go back."""
    wall_now: Callable[[], float] = time.time
    """Of people: Unix seconds."""
    monotonic: Callable[[], float] = time.monotonic


class ActingView(Protocol):
    """The view of the API that acting needs; ``node.cluster.ClusterView`` is one."""

    def state(self) -> NodeState:
        """Return what is known."""

    def put(self, pod_json: object) -> None:
        """Take the pod that a patch was answered with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingParts:
    """What whoever plans, judges, sends and tells shares; built once, in ``resize.assembly``."""

    settings: Settings
    api: Api
    cluster: ActingView
    node_name: str
    orders: PodOrders
    planner: Planner
    ledger: Ledger
    """Knows what is under way; used under the writer's lock."""
    keep_ledger: Callable[[], bool]
    """Puts the ledger on disk; False = the disk does not take it."""
    holds: Holds
    journal: Journal
    series: ActingSeries
    turns: LoopTurns
    """Counts those of the acting loop."""
    rights: Rights
    clocks: ActingClocks
    memory_in_use: Callable[[Pod], Mapping[str, int]]
    """Returns memory.current of a pod's containers, read just now; under the empty name that of the pod."""
    quiet_cpu: Callable[[Pod, GivenBoost], frozenset[str]] = lambda pod, boost: frozenset()
    """Returns the boosted containers of a pod whose CPU has stayed below their steady request."""
    start_used: Callable[[str, str], RunFigures | None] = lambda uid, container: None
    """Returns what a container of a pod, by its uid, used while it started; None = not known, or not learnt."""
    cpu_windows: Callable[[Pod, float], Sequence[CpuWindow]] = lambda pod, ago_seconds: ()
    """Returns the CPU of a pod's containers over the seconds that the guard compares, up to so long ago."""
    set_back: Callable[[Pod, str], None] = lambda pod, reason: None
    """Is told of a pod whose shrink is taken back as it fares worse, and why; quick."""

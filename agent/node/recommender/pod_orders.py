"""What holds for each pod of this node: its annotations, its namespace's, the webhook's rules, the settings. Node.

It calls core and holds no rule. Any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod
from agent.core.cluster.pod_index import cgroup_owners
from agent.core.cluster.unit import UnitIdentity
from agent.core.cluster.workload import workload_of
from agent.core.orders.order import Orders
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import orders_of
from agent.core.orders.windows import Windows
from agent.core.plan.needs.directives import NodeDirectives
from agent.settings import Settings


class PodOrders:
    """Resolves orders from the newest state and remembers them until ``news``."""

    def __init__(
        self,
        *,
        settings: Settings,
        state: Callable[[], NodeState],
        directed: Callable[[], NodeDirectives],
        read_windows: Callable[[str], Windows],  # Reads when a pod may be disturbed, or raises WindowsError
    ) -> None:
        self.directed: Final = directed
        """Returns what the webhook told."""
        self.read_windows: Final = read_windows
        self._settings, self._state = settings, state
        self._revision = object()
        """Another one with all that orders are made of."""
        self._by_uid: tuple[object, Mapping[str, Orders]] = (None, {})

    def news(self) -> None:
        """Forget what is remembered: pods, namespaces or directives have changed. Quick."""
        self._revision = object()

    def of_unit(self, identity: UnitIdentity) -> Orders | None:
        """Return what holds for a unit's pod; None = no pod is known for it."""
        revision, orders = self._by_uid
        if revision is not self._revision:
            revision = self._revision  # before the state is read: news in between make it anew
            state = self._state()
            owners = cgroup_owners(state.pods, node_uid=None if state.node is None else state.node.uid)
            by_uid = {pod.uid: self.of_pod(pod, state) for pod in state.pods}
            orders = {uid: by_uid[pod.uid] for uid, pod in owners.items()}
            self._by_uid = (revision, orders)
        return orders.get(identity.pod_uid) if identity.pod_uid is not None else None

    def of_pod(self, pod: Pod, state: NodeState) -> Orders:
        """Return what holds for a pod as it is in a state."""
        directed, workload = self.directed(), workload_of(pod)
        return orders_of(
            pod,
            state.namespaces.get(pod.namespace),
            act=self._settings.act,
            recommend_policy=self._settings.recommend.policy,
            plan=self._settings.plan,
            replicas=directed.replicas(workload),
            rule=directed.rule(workload),
            autoscaler=directed.autoscaler(workload),
            read_windows=self.read_windows,
        )

    def policies(self) -> frozenset[PolicyName]:
        """Return the policies that pods of this node ask for."""
        state = self._state()
        return frozenset(self.of_pod(pod, state).policy for pod in state.pods)

"""The limits of whole pods in their own cgroups, for clusters without pod-level resources; off unless switched on.

Node. What an annotation comes to is ``core.pod_limits``'; here it is written, read back, written again after somebody
else wrote, and taken back when the annotation goes, the switch is turned off, or a person asks. One thread drives it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import Pod, PodRef
from agent.core.cluster.pod_index import cgroup_owners
from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.unit import UnitIdentity
from agent.core.machine.cgroup_files import Amount
from agent.core.machine.cgroup_values import KubeletRules
from agent.core.machine.pod_limits import (
    TAKEN_BACK,
    PodLimitHeld,
    PodLimitsOrder,
    amount_line,
    cluster_knows_pod_level,
    kubelet_amounts,
    memory_room_text,
    pod_limits_order,
)
from agent.core.orders.annotations import POD_LIMITS
from agent.core.orders.order import Orders
from agent.core.orders.plan_options import PodLimitsOptions
from agent.core.resize.decision import Action, Outcome
from agent.node.keepers.cgroup_keeper import CgroupKeeper
from agent.node.keepers.cgroup_limits import CgroupLimits, CgroupWriteError, LimitOwner, WrittenLimit
from agent.node.keepers.keeper import KeeperTerms
from agent.sensing.cgroup_path import PathKind, parse_cgroup_path

log = logging.getLogger(__name__)

TURN_SECONDS: Final = 10.0
"""Between two looks at the cgroups: the kubelet writes a pod's own only at its start and at resizes."""
SWITCHED_OFF: Final = "switched_off"
NO_ROOM: Final = "no_room"
NOT_ITS_OWN: Final = "not_its_own_cgroup"
_TOLD_AS_NOTICE: Final = frozenset(
    {PodLimitHeld.CLUSTER_KNOWS_THEM, PodLimitHeld.POD_LEVEL_RESOURCES, PodLimitHeld.VERSION_UNKNOWN}
)
_NOT_TOLD: Final = frozenset({PodLimitHeld.STARTING, PodLimitHeld.ENDING, PodLimitHeld.NAMESPACE_UNKNOWN})
"""They pass by themselves."""


def pod_paths_of(units: Iterable[UnitIdentity]) -> dict[str, str]:
    """Return the pods' own cgroups by the uid in their name: the parents of the containers that are watched.

    Args:
        units: Identities as the unit table has them; their paths are relative to the mount.
    """
    paths: dict[str, str] = {}
    for identity in units:
        parent = identity.cgroup_path.rpartition("/")[0]
        # Under a driver mismatch a container lies elsewhere, and its parent is no pod.
        parsed = parse_cgroup_path(parent)
        if parsed.kind is PathKind.POD and parsed.pod_uid is not None and parsed.pod_uid == identity.pod_uid:
            paths.setdefault(parsed.pod_uid, parent)
    return paths


def _is_its_own(path: str, pod: Pod, owners: Mapping[str, Pod]) -> bool:
    """Return whether a cgroup is a pod's own: the node's pods name no other for it, and its QoS class is the pod's.

    Asked before every write: what one pod orders, its namespace's exclusion and its mode among it, is never carried out
    on another's cgroup.
    """
    place = parse_cgroup_path(path)
    owner = owners.get(place.pod_uid or "")
    if owner is None or (owner.uid, owner.namespace) != (pod.uid, pod.namespace):
        return False
    return place.kind is PathKind.POD and place.qos is pod_qos_class(pod)


class PodLimitsWriter(CgroupKeeper):
    """Writes ``cpu.max`` and ``memory.max`` of pods that ask for it."""

    def __init__(
        self,
        *,
        limits: CgroupLimits,
        terms: KeeperTerms,
        options: PodLimitsOptions,  # Whether cgroups may be written at all
        pod_paths: Callable[[], Mapping[str, str]],  # The pods' own cgroups: uid in the name -> path below the mount
        margin_ratio: float,  # A memory limit is never put below this x memory in use
        pinned: Callable[[], Collection[str]] = frozenset,  # Uids of pods that are left alone
        # What holds for a pod of a state; None = nobody orders anything, as where there is no agent
        orders_of: Callable[[Pod, NodeState], Orders] | None = None,
        # The kubelet's options as far as they are known: what is put back is what it would write
        rules: KubeletRules | None = None,
    ) -> None:
        super().__init__(limits, terms, turn_seconds=TURN_SECONDS)
        self._options, self._pod_paths, self._margin_ratio = options, pod_paths, margin_ratio
        self._pinned, self._orders_of, self._rules = pinned, orders_of, rules or KubeletRules()
        self._owners: Mapping[str, Pod] = {}
        self._paths: dict[str, str] = {}
        self.left: frozenset[str] = frozenset()
        """Uids of pods whose cgroups stay as they are: pinned, or not known well enough."""
        self._told: dict[str, frozenset[tuple[str, str]]] = {}
        """What stands said of each pod, by uid."""
        self._saying: set[tuple[str, str]] = set()
        self.pods_limited = 0
        """Pods whose limits are in force as asked for."""
        self.held: Mapping[PodLimitHeld, int] = {}
        """Pods that ask for limits and get none from the agent, by reason."""

    def _look(self, state: NodeState) -> None:
        if not state.is_complete or state.node is None:
            return
        knows = cluster_knows_pod_level(state.server_version, state.node.kubelet_version)
        written = self._written_by_uid()
        owners = self._owners = cgroup_owners(state.pods, node_uid=state.node.uid)
        paths: Mapping[str, str] | None = None
        held: Counter[PodLimitHeld] = Counter()
        limited = 0
        left: set[str] = set()
        self._paths = {}
        for pod in state.pods:
            order = self._order(pod, state, knows)
            ours = self._ours(pod, written, owners)
            if order is None and not ours:
                self._told.pop(pod.uid, None)
                continue
            self._saying = set()
            if order is not None and order.held is not None:
                held[order.held] += 1
            self._say_of(pod, order)
            wanted = self._wanted(order)
            is_left = wanted is None or pod.uid in self._pinned()
            path: str | None = None
            if wanted or is_left:
                paths = self._pod_paths() if paths is None else paths
                path = paths.get(pod.cgroup_uid)
                if path is not None and _is_its_own(path, pod, owners):
                    self._paths[pod.uid] = path
            if wanted is None or is_left:
                left.add(pod.uid)
            else:
                gone = [limit for limit in ours if limit.file not in wanted]
                self._take_back(pod, gone, reason=order.held if order is not None else None)
                if wanted:
                    limited += self._put(pod, path, wanted)
            self._told[pod.uid] = frozenset(self._saying)
        present = {pod.uid for pod in state.pods}
        self._told = {uid: keys for uid, keys in self._told.items() if uid in present}
        self.held, self.pods_limited, self.left = held, limited, frozenset(left)

    def written_path(self, pod: Pod) -> str | None:
        """Return the cgroup of a pod that asks for limits which the agent writes, or leaves as it wrote them.

        Returns:
            A path relative to the mount; None = it asks for none, or has no cgroup of its own that is known.
        """
        return self._paths.get(pod.uid)

    def restore(self, state: NodeState, uids: Collection[str] | None = None) -> int:
        """Take back what was written, because a person asks; a pod that still asks for limits gets them again.

        Unless it is pinned: whoever restores a pod for good pins it, or takes the annotation away.

        Args:
            state: The node's pods: they tell what the kubelet would have.
            uids: Of the pods; None = all.

        Returns:
            Files that were put back.
        """
        written = self._written_by_uid()
        owners = cgroup_owners(state.pods, node_uid=None if state.node is None else state.node.uid)
        count = 0
        for pod in state.pods:
            if uids is None or pod.uid in uids:
                self._saying = set()
                ours = self._ours(pod, written, owners)
                count += self._take_back(pod, ours, reason="restore")
        return count

    def _order(self, pod: Pod, state: NodeState, knows: bool | None) -> PodLimitsOrder | None:
        if POD_LIMITS not in pod.annotations:
            return None  # most have none: no orders are made for them
        return pod_limits_order(
            pod,
            cluster_knows_them=knows,
            rules=self._rules,
            orders=None if self._orders_of is None else self._orders_of(pod, state),
            is_namespace_known=pod.namespace not in state.unknown_namespaces,
        )

    def _wanted(self, order: PodLimitsOrder | None) -> Mapping[str, Amount] | None:
        """Return what is to be in force; empty = nothing, and what was written goes; None = all is left as it is."""
        if not self._options.write_cgroups or order is None or order.held in TAKEN_BACK:
            return {}
        return order.wanted if order.held is None else None

    def _written_by_uid(self) -> dict[str, tuple[WrittenLimit, ...]]:
        by_uid: dict[str, tuple[WrittenLimit, ...]] = {}
        for limit in self._limits.written(LimitOwner.POD_LIMITS):
            uid = parse_cgroup_path(limit.cgroup_path).pod_uid
            if uid is not None:
                by_uid[uid] = (*by_uid.get(uid, ()), limit)
        return by_uid

    def _ours(
        self, pod: Pod, written: Mapping[str, Collection[WrittenLimit]], owners: Mapping[str, Pod]
    ) -> tuple[WrittenLimit, ...]:
        limits = written.get(pod.cgroup_uid, ())
        return tuple(limit for limit in limits if _is_its_own(limit.cgroup_path, pod, owners))

    def _put(self, pod: Pod, path: str | None, wanted: Mapping[str, Amount]) -> bool:
        """Write what is not yet as wanted; say whether all of it is in force."""
        if path is None:
            return False  # no container of it is watched yet
        is_whole = True
        for file, amount in wanted.items():
            if self._limits.is_in_force(path, file, amount):
                continue
            reading = self._limits.read(path, file)
            outcome, reason, detail = self._put_one(pod, path, file, amount, reading)
            if outcome is Outcome.DONE:
                self._done(pod, reason, detail)
            else:
                is_whole = False
                self._say(pod, outcome, reason, detail)
        return is_whole

    def _put_one(
        self, pod: Pod, path: str, file: str, amount: Amount, reading: Amount | None
    ) -> tuple[Outcome, str, str]:
        if reading is None:
            return Outcome.WITHHELD, "no_file", f"{path}/{file} cannot be read: is the controller on there?"
        if not _is_its_own(path, pod, self._owners):
            return Outcome.WITHHELD, NOT_ITS_OWN, f"{path} is not the cgroup of this pod, by its id and QoS class"
        withheld = self._may_write()
        if withheld is not None:
            return Outcome.WITHHELD, withheld, f"{file} {amount_line(amount)}"
        if isinstance(amount, int) and (not isinstance(reading, int) or amount < reading):
            no_room = memory_room_text(amount, self._limits.in_use_bytes(path), self._margin_ratio)
            if no_room is not None:
                return Outcome.WITHHELD, NO_ROOM, no_room
        try:
            self._limits.put(LimitOwner.POD_LIMITS, path, file, amount)
        except CgroupWriteError as error:
            return Outcome.ERROR, "not_written", str(error)
        return Outcome.DONE, "annotation", f"{file}: {amount_line(amount)}, was {amount_line(reading)}"

    def _take_back(self, pod: Pod, ours: Collection[WrittenLimit], reason: str | None = None) -> int:
        as_kubelet = kubelet_amounts(pod, self._rules)  # it lacks a file that a later version of the agent wrote
        limits = [(limit, as_kubelet[limit.file]) for limit in ours if limit.file in as_kubelet]
        why = reason or ("annotation gone" if self._options.write_cgroups else SWITCHED_OFF)
        count = 0
        for limit, amount in self._taken_back(limits, partial(self._say, pod)):
            count += 1
            self._done(pod, why, f"{limit.file}: {amount_line(amount)} as the kubelet has it, was {limit.line}")
        return count

    def _place(self, limit: WrittenLimit) -> str:
        return limit.file

    # -- words -----------------------------------------------------------------------------------------------------

    def _say_of(self, pod: Pod, order: PodLimitsOrder | None) -> None:
        if order is None:
            return
        for warning in order.warnings:
            self._say(pod, Outcome.DONE, "warning", warning, action=Action.NOTICE)
        if order.held is not None and order.held not in _NOT_TOLD:
            action = Action.NOTICE if order.held in _TOLD_AS_NOTICE else Action.POD_LIMITS
            self._say(pod, Outcome.WITHHELD, order.held, order.text, action=action)
        elif order.wanted and not self._options.write_cgroups:
            self._say(pod, Outcome.WITHHELD, SWITCHED_OFF, "podLimits.writeCgroups is off")

    def _say(self, pod: Pod, outcome: Outcome, reason: str, detail: str, action: Action = Action.POD_LIMITS) -> None:
        """Report what stands in the way; the same of the same pod is told once, until it has been otherwise."""
        key = (reason, "" if reason == NO_ROOM else detail)  # what is in use moves all the time
        self._saying.add(key)
        if key not in self._told.get(pod.uid, frozenset()):
            self._put_down(logging.WARNING, pod, action, outcome, reason, detail)

    def _done(self, pod: Pod, reason: str, detail: str) -> None:
        self._put_down(logging.INFO, pod, Action.POD_LIMITS, Outcome.DONE, reason, detail)

    def _put_down(self, level: int, pod: Pod, action: Action, outcome: Outcome, reason: str, detail: str) -> None:
        ref = PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        log.log(level, "pod limits", extra={"pod": str(ref), "reason": reason, "detail": detail})
        self._tell(
            unix_seconds=self._unix_seconds(),
            action=action,
            outcome=outcome,
            reason=reason,
            detail=detail,
            pod=ref,
        )

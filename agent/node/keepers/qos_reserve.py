"""Memory kept for higher QoS classes: computed whenever a percentage is set, written only when switched on.

Node. The arithmetic is ``core.qos_reserve``'s. Nothing is written on a node whose kubelet, or anybody else, limits the
classes already, and never to the cgroup of a pod: only those of the two classes are found here. One thread drives it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import QosClass
from agent.core.machine.cgroup_files import MEMORY_MAX, Unlimited
from agent.core.machine.qos_reserve import LIMITED_CLASSES, QosReservation, next_limits, qos_reservation
from agent.core.orders.plan_options import PodLimitsOptions
from agent.core.resize.decision import Action, Outcome
from agent.node.keepers.cgroup_keeper import CgroupKeeper
from agent.node.keepers.cgroup_limits import CgroupLimits, CgroupWriteError, LimitOwner
from agent.node.keepers.keeper import KeeperTerms
from agent.sensing.cgroup_path import PathKind, parse_cgroup_path

log = logging.getLogger(__name__)

TURN_SECONDS: Final = 30.0
"""Half the kubelet's own: what it resets is back within half a minute."""


class QosReserver(CgroupKeeper):
    """Keeps the limits of the cgroups ``burstable`` and ``besteffort``."""

    def __init__(
        self,
        *,
        limits: CgroupLimits,
        terms: KeeperTerms,
        options: PodLimitsOptions,
        mount: Path,
        kubepods_root: Callable[[], str | None],  # Path of ``kubepods`` relative to the mount; None = there is none
    ) -> None:
        super().__init__(limits, terms, turn_seconds=TURN_SECONDS)
        self._options, self._mount, self._kubepods_root = options, mount, kubepods_root
        self._complaint: tuple[str, str] | None = None
        self.reservation: QosReservation | None = None
        """What the classes may use at most; None = no percentage is set, or it cannot be computed."""
        self.limit_bytes: Mapping[QosClass, int] = {}
        """memory.max of each class's cgroup as it is; absent = no limit, or not known."""
        self.usage_bytes: Mapping[QosClass, int] = {}

    def _look(self, state: NodeState) -> None:
        percent = self._options.qos_reserved_memory_percent
        tiers, has_partition = self._tiers()
        self.reservation = None if percent is None else _reservation(state, percent)
        usage = {qos: self._limits.in_use_bytes(path) for qos, path in tiers.items()}
        self.usage_bytes = {qos: used for qos, used in usage.items() if used is not None}
        if percent is None or not self._options.qos_reserved_write:
            self.take_back("switched off")
        elif self.reservation is not None:
            self._keep(self.reservation, tiers, has_partition=has_partition)
        elif state.is_complete:
            self._complain(
                Outcome.WITHHELD, "not_computed", "the node's allocatable memory, or one of its pods, is not known"
            )
        self.limit_bytes = self._found_limits(tiers)

    def take_back(self, reason: str) -> int:
        """Take the limits off again: the kubelet sets none unless it was told to, and then nothing was written.

        Returns:
            Files that were put back.
        """
        count = 0
        limits = [(limit, Unlimited.MAX) for limit in self._limits.written(LimitOwner.QOS_RESERVE)]
        for limit, _ in self._taken_back(limits, self._complain):
            count += 1
            self._say(Outcome.DONE, reason, f"{self._place(limit)}: max, was {limit.line}")
        return count

    def _keep(self, reservation: QosReservation, tiers: Mapping[QosClass, str], *, has_partition: bool) -> None:
        foreign = [
            path
            for path in tiers.values()
            if isinstance(self._limits.read(path, MEMORY_MAX), int) and not self._limits.is_ours(path, MEMORY_MAX)
        ]
        if has_partition:
            self._complain(
                Outcome.WITHHELD, "system_partition", "which namespaces belong to the system partition is not known"
            )
        elif set(tiers) != set(LIMITED_CLASSES):
            self._complain(
                Outcome.WITHHELD, "no_tiers", "there are no cgroups of the QoS classes (--cgroups-per-qos is off?)"
            )
        elif foreign:
            # The kubelet's own --qos-reserved, most likely: two writers would undo each other each minute.
            self._withhold("limited_by_others", f"{foreign[0]}/{MEMORY_MAX} is set by somebody else")
        elif (withheld := self._may_write()) is not None:
            if self._pending(reservation, tiers):
                self._withhold(withheld, "limits of the QoS classes are not as they should be")
        else:
            try:
                self._write(reservation, tiers)
            except CgroupWriteError as first:
                # The kubelet's rule: a second attempt, with what is in use by now.
                log.info("a limit of a QoS class was not taken, once more", extra={"cause": str(first)})
                try:
                    self._write(reservation, tiers)
                except CgroupWriteError as error:
                    self._complain(Outcome.ERROR, "not_written", str(error))
                    return
            self._complaint = None

    def _pending(self, reservation: QosReservation, tiers: Mapping[QosClass, str]) -> dict[QosClass, int]:
        """Return the limits that are to be written now."""
        usage = {qos: self._limits.in_use_bytes(path) for qos, path in tiers.items()}
        readings = {qos: self._limits.read(path, MEMORY_MAX) for qos, path in tiers.items()}
        wanted = next_limits(
            reservation.target_bytes,
            usage_bytes={qos: used for qos, used in usage.items() if used is not None},
            standing_bytes={qos: limit for qos, limit in readings.items() if isinstance(limit, int)},
        )
        return {
            qos: limit
            for qos, limit in wanted.items()
            if readings[qos] is not None and not self._limits.is_in_force(tiers[qos], MEMORY_MAX, limit)
        }

    def _write(self, reservation: QosReservation, tiers: Mapping[QosClass, str]) -> None:
        for qos, limit in self._pending(reservation, tiers).items():
            before = self._limits.read(tiers[qos], MEMORY_MAX)
            if self._limits.put(LimitOwner.QOS_RESERVE, tiers[qos], MEMORY_MAX, limit):
                target = reservation.target_bytes[qos]
                over = "" if limit == target else f" (in use now; the target is {target})"
                self._say(Outcome.DONE, "reserved", f"{tiers[qos]}/{MEMORY_MAX}: {limit}{over}, was {before}")

    def _found_limits(self, tiers: Mapping[QosClass, str]) -> dict[QosClass, int]:
        readings = {qos: self._limits.read(path, MEMORY_MAX) for qos, path in tiers.items()}
        return {qos: limit for qos, limit in readings.items() if isinstance(limit, int)}

    def _tiers(self) -> tuple[dict[QosClass, str], bool]:
        """Find the cgroups of the two classes, and whether there is a system partition beside them."""
        root = self._kubepods_root()
        if root is None:
            return {}, False
        root = f"/{root.strip('/')}"
        tiers: dict[QosClass, str] = {}
        has_partition = False
        try:
            with os.scandir(f"{self._mount}{root}") as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return {}, False
        for name in names:
            parsed = parse_cgroup_path(f"{root}/{name}")
            has_partition = has_partition or parsed.kind is PathKind.PARTITION
            if parsed.kind is PathKind.QOS and parsed.qos is not None:
                tiers[parsed.qos] = f"{root}/{name}"
        return tiers, has_partition

    # -- words -----------------------------------------------------------------------------------------------------

    def _withhold(self, reason: str, detail: str) -> None:
        self._complain(Outcome.WITHHELD, reason, detail)

    def _complain(self, outcome: Outcome, reason: str, detail: str) -> None:
        """Record why limits are not as they should be; the same is said once."""
        if self._complaint != (reason, detail):
            self._complaint = (reason, detail)
            self._say(outcome, reason, detail)

    def _say(self, outcome: Outcome, reason: str, detail: str) -> None:
        level = logging.INFO if outcome is Outcome.DONE else logging.WARNING
        log.log(level, "memory of QoS classes", extra={"outcome": outcome, "reason": reason, "detail": detail})
        self._tell(
            unix_seconds=self._unix_seconds(),
            action=Action.QOS_RESERVE,
            outcome=outcome,
            reason=reason,
            detail=detail,
        )


def _reservation(state: NodeState, percent: int) -> QosReservation | None:
    if not state.is_complete or state.node is None or state.unreadable_pods:
        return None
    allocatable_bytes = state.node.allocatable_memory_bytes
    return qos_reservation(state.pods, percent=percent, allocatable_memory_bytes=allocatable_bytes)

"""How much memory the QoS tiers' own limits leave for growth. Core, pure.

On a node with ``--qos-reserved`` the tiers have a ``memory.max``: burstable what the node can allocate less what
Guaranteed pods request, besteffort that less the requests of Burstable ones. Two things follow. The requests of a tier
cannot be had beyond its limit, whatever else the node has free. And a request that rises lowers the limits of the tiers
below, within a minute: where they use that much already, the kernel would kill there. The percentage is the kubelet's
and is not told, so all of a rise is taken off: where it is less, growth waits a little early.

Source: facts kubelet-cgroups, section 10.1; the kubelet's cm/qos_container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import QosClass
from agent.core.numbers.amount_text import BYTES, amount_text

_BELOW: Final[Mapping[QosClass, tuple[QosClass, ...]]] = {
    QosClass.GUARANTEED: (QosClass.BURSTABLE, QosClass.BEST_EFFORT),
    QosClass.BURSTABLE: (QosClass.BEST_EFFORT,),
    QosClass.BEST_EFFORT: (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TierMemory:
    """One QoS tier's cgroup that has a limit."""

    limit_bytes: int
    """Its memory.max, as the file says."""
    working_set_bytes: int | None
    """None = not known; then nothing may lower the limit."""


NO_TIER_LIMITS: Final[Mapping[QosClass, TierMemory]] = {}


class TierRoom:
    """What is left of the tiers' limits while growth is granted, pod by pod."""

    def __init__(self, tiers: Mapping[QosClass, TierMemory], requested_bytes: Mapping[QosClass, int]) -> None:
        """Begin with what is requested now, by class."""
        self._tiers = tiers
        self._requested = dict(requested_bytes)
        self._limits = {qos: tier.limit_bytes for qos, tier in tiers.items()}
        self.withheld = 0
        """How often growth was refused."""

    def grant(self, qos: QosClass, growth_bytes: int) -> bool:
        """Subtract growth of a pod's memory requests from what is left; False = there is too little, nothing is taken.

        Growth of nothing, or less, is always granted.
        """
        if not self._tiers or growth_bytes <= 0:
            return True
        held = self._requested.get(qos, 0) + growth_bytes
        own_limit = self._limits.get(qos)
        below = [tier for tier in _BELOW[qos] if tier in self._limits]
        if (own_limit is not None and held > own_limit) or not all(self._stands(tier, growth_bytes) for tier in below):
            self.withheld += 1
            return False
        self._requested[qos] = held
        for tier in below:
            self._limits[tier] -= growth_bytes
        return True

    def note(self) -> str | None:
        """Return why growth was refused, in a sentence; None = none was."""
        if not self.withheld:
            return None
        limits = ", ".join(_tier_text(qos, tier) for qos, tier in self._tiers.items())
        return f"memory requests do not rise past the limits of the QoS tiers ({limits}): {self.withheld} wait"

    def _stands(self, tier: QosClass, growth_bytes: int) -> bool:
        used = self._tiers[tier].working_set_bytes
        return used is not None and self._limits[tier] - growth_bytes >= used


def _tier_text(qos: QosClass, tier: TierMemory) -> str:
    limit = f"{qos.value} {amount_text(tier.limit_bytes, BYTES)}"
    used = tier.working_set_bytes
    return limit if used is None else f"{limit} with {amount_text(used, BYTES)} in use"

"""Whether starvation for CPU is answered within seconds, so that a container may request less; if not, why. Core, pure.

A request that turns out too low costs little where the pod is grown in place within two seconds, and much where it
starves until somebody looks. ``plan.credit`` decides for whom that holds; a policy that knows two prices takes the
lower one for them. Admission and mode recommend never have credit: nobody would answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

CPU_FULL_PRICE: Final = "cpu_full_price_millicores"
"""A name in ``Proposals.extra`` and ``Advice.extra``: the CPU request without credit ..."""
CPU_IN_PLACE: Final = "cpu_in_place_millicores"
"""... and with it, of policies that know both; whichever the row has."""


class Credit(StrEnum):
    """Whether a container has credit, or why not. Also a metric label."""

    GRANTED = "granted"
    NOT_ENFORCED = "not_enforced"
    """Its mode is not enforce: nobody would answer, or it asks for no less (protect)."""
    PAUSED = "paused"
    RESERVED = "reserved"
    """The pod is left alone for another reason, which the plan tells."""
    HPA = "hpa"
    """A HorizontalPodAutoscaler scales on CPU: its request stays."""
    TOO_OLD = "too_old"
    """API server or kubelet knows no resize in place."""
    RESTARTS = "restarts"
    """Its resizePolicy restarts the container for CPU."""
    POD_BUDGET = "pod_level"
    """The pod's own budget carries CPU: not its container starves, but all together."""
    REFUSED = "refused"
    """A growth of its pod was refused or put off lately."""
    NO_PRESSURE = "no_pressure"
    """cpu.pressure is not read for it: starvation would not be seen."""
    SLOW = "slow"
    """Settings of ``act`` let starvation last: it is answered seldom, or only when it is severe."""
    NODE_PRESSED = "node_pressed"
    """The node is overloaded, or carries the taint that says so."""
    NO_ROOM = "no_room"
    """The node has no room to answer with."""


CREDIT_WORDS: Final = {
    Credit.NOT_ENFORCED: "its mode is not enforce, in which alone it may ask for less",
    Credit.PAUSED: "resizes are paused",
    Credit.RESERVED: "its pod is left alone",
    Credit.HPA: "an HPA owns CPU",
    Credit.TOO_OLD: "API server or kubelet knows no resize in place",
    Credit.RESTARTS: "its resizePolicy restarts it for CPU",
    Credit.POD_BUDGET: "the pod's own budget carries CPU",
    Credit.REFUSED: "a growth of its pod was refused or put off",
    Credit.NO_PRESSURE: "cpu.pressure is not read for it, so starvation would not be seen",
    Credit.SLOW: "act.urgentIntervalSeconds or act.urgentWaitingRatio let starvation last",
    Credit.NODE_PRESSED: "the node is overloaded",
    Credit.NO_ROOM: "the node keeps no room to answer with",
}
"""Of each reason for none, for people."""

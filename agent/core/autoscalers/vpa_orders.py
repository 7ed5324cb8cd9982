"""What a VerticalPodAutoscaler orders, in the words of the annotations; and which of it cannot be done. Core, pure.

Nobody is sized twice: where VPA's own admission controller is there, whatever changes pods is left to it and its
updater, and Plimsoll only writes the status that they go by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from agent.core.cluster.vpa import EvictionRequirement, UpdateMode, VpaObject
from agent.core.orders import annotations as names
from agent.core.orders.container_policies import (
    EVERY_OTHER,
    NO_POLICIES,
    ContainerPolicies,
    parse_container_policies,
)
from agent.core.orders.order import Mode, Ranking
from agent.core.orders.startup_boost import StartupBoost, StartupBoostError, parse_startup_boost

THEIR_ADMISSION: Final = "vpa-webhook-config"
"""The MutatingWebhookConfiguration of VPA's own admission controller.

Source: ``config.go`` of its admission controller."""
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaOrders:
    """What one object orders."""

    vpa: VpaObject
    at_admission: Mapping[str, str] = field(default_factory=dict)
    """For a new pod, by the annotation that would order the same."""
    on_nodes: Mapping[str, str] = field(default_factory=dict)
    """For a pod that runs."""
    min_replicas: int | None = None
    eviction_requirements: tuple[EvictionRequirement, ...] = ()
    faults: tuple[str, ...] = ()
    """What of it is not done, a sentence each."""
    left_to: str | None = None
    """Who sizes the pods by its status, so that Plimsoll does not; None = nobody else does."""

    @property
    def name(self) -> str:
        """Return ``VPA shop/web``."""
        return str(self.vpa)


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaSurroundings:
    """What an object means depends on."""

    has_their_admission: bool = False
    """VPA's own admission controller is registered."""
    are_evictions_on: bool = False
    """``arbiter.mode`` is enforce."""


def vpa_orders(vpa: VpaObject, surroundings: VpaSurroundings) -> VpaOrders:
    """Return what an object orders, and what of it is not done."""
    if vpa.is_managed:
        return VpaOrders(vpa=vpa)
    if vpa.fault is not None:
        off = {names.MODE: str(Mode.OFF)}
        return VpaOrders(vpa=vpa, at_admission=off, on_nodes=off, faults=(f"not understood: {vpa.fault}",))
    mode = vpa.update_mode or UpdateMode.RECREATE
    faults = [f"{name} is not honoured" for name in vpa.unsupported]
    if surroundings.has_their_admission and mode is not UpdateMode.OFF:
        left_to = f"VPA's own admission controller ({THEIR_ADMISSION}) and updater"
        bounds = {} if vpa.container_policies is None else {names.CONTAINER_POLICIES: vpa.container_policies}
        # The status keeps to the policies; nothing is sized by them here.
        return VpaOrders(vpa=vpa, at_admission=bounds, on_nodes=bounds, faults=tuple(faults), left_to=left_to)
    boost = _boost(vpa, faults)
    shared = {
        key: text
        for key, text in (
            (names.CONTAINER_POLICIES, vpa.container_policies),
            (names.STARTUP_BOOST, boost),
            (names.WINDOWS, vpa.windows),
        )
        if text is not None
    }
    at_admission, on_nodes = _modes(mode, surroundings, faults)
    ranking = {names.EVICTION_RANKING: str(Ranking.NO_EVICTION)} if mode is UpdateMode.IN_PLACE else _NOTHING
    return VpaOrders(
        vpa=vpa,
        at_admission={names.MODE: str(at_admission), **shared, **ranking},
        on_nodes={names.MODE: str(on_nodes), **shared, **ranking},
        min_replicas=vpa.min_replicas,
        eviction_requirements=vpa.eviction_requirements,
        faults=tuple(faults),
    )


def holder_of(objects: Iterable[VpaObject]) -> VpaObject | None:
    """Return which of several objects for one workload counts: the oldest that people made; None = there is none.

    Source: ``FindParentControllerForPod`` and ``Stronger`` of VPA's ``pkg/utils/vpa/api.go``: the older one, then the
    name.
    """
    return min(objects, key=lambda vpa: (vpa.is_managed, vpa.created_unix_seconds, vpa.name), default=None)


def container_policies_in(orders: Mapping[str, str]) -> ContainerPolicies:
    """Return how an object's orders size containers one by one."""
    text = orders.get(names.CONTAINER_POLICIES)
    return NO_POLICIES if text is None else parse_container_policies(text)


def _modes(mode: UpdateMode, surroundings: VpaSurroundings, faults: list[str]) -> tuple[Mode, Mode]:
    """Return the mode of new pods, and of those that run."""
    if mode is UpdateMode.OFF:
        return Mode.RECOMMEND, Mode.RECOMMEND
    if mode is UpdateMode.INITIAL:
        return Mode.ENFORCE, Mode.RECOMMEND
    if mode in (UpdateMode.RECREATE, UpdateMode.AUTO):
        if not surroundings.are_evictions_on:
            faults.append(
                f"updateMode {mode} is not honoured while evictions are off, as nobody is re-created to be sized: "
                f"nothing is changed; {UpdateMode.IN_PLACE_OR_RECREATE}, {UpdateMode.IN_PLACE} and "
                f"{UpdateMode.INITIAL} are"
            )
            return Mode.RECOMMEND, Mode.RECOMMEND
        faults.append(
            f"updateMode {mode}: pods are resized in place, and evicted only where a node has no room for them"
        )
    return Mode.ENFORCE, Mode.ENFORCE


def _boost(vpa: VpaObject, faults: list[str]) -> str | None:
    """Return the order of a boost: one for the pod, as an annotation has it; None = there is none."""
    boost, containers = vpa.boost, tuple[str, ...]()
    own = {name: container_boost for name, container_boost in vpa.container_boosts.items() if container_boost != boost}
    if own and (boost is not None or len(set(own.values())) > 1):
        faults.append(
            "startupBoost of resourcePolicy.containerPolicies is not honoured where it differs between containers"
        )
    elif own:
        boost = next(iter(own.values()))
        containers = () if EVERY_OTHER in own else tuple(sorted(own))
    if boost is None:
        return None
    order = StartupBoost(
        # Stated without either, it is refused as a factor of 0 is (VPA: "factor is required").
        factor=float(boost.factor or 0) if boost.added_millicores is None else None,
        added_millicores=boost.added_millicores,
        after_ready_seconds=float(boost.after_ready_seconds),
        containers=containers,
    )
    try:
        parse_startup_boost(str(order))
    except StartupBoostError as error:
        faults.append(f"startupBoost is not honoured: {error}")
        return None
    return str(order)

"""What applies to a workload by cluster and settings, and where each comes from; as ``orders_of`` reads it. Webhook.

A pod's own annotations come before all of this, and pods of one workload may differ: they are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from agent.calendar import ReadWindows
from agent.core.cluster.facts import ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.orders import annotations as names
from agent.core.orders.annotations import ValueNotAllowed
from agent.core.orders.cluster_rules import rule_of
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.orders.profile import ProfileSetting
from agent.core.orders.resolution import is_excluded, labelled
from agent.core.orders.windows import WindowsError
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.queries.workload_bodies import BoundBody, FromBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds where nobody has said anything."""

    act: ActOptions
    bounds: BoundsOptions
    policy: PolicyName
    config_map: str
    """``NAMESPACE/NAME``, for words."""
    profile: tuple[ProfileSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatedOrder:
    """An order as it is written somewhere."""

    value: str
    source: str


class Applying:
    """Says what applies; for any thread, from memory."""

    def __init__(self, facts: ClusterFacts, defaults: Defaults) -> None:
        self._facts, self._defaults, self._read_windows = facts, defaults, ReadWindows()

    def annotations(self, namespace: str) -> Mapping[str, str]:
        """Return those of a namespace that are Plimsoll's."""
        namespace_object = self._facts.namespace(namespace)
        every = namespace_object.annotations if namespace_object is not None else {}
        return {key: value for key, value in every.items() if key.startswith(names.PREFIX)}

    def mode(self, workload: Workload, rules: ClusterRules) -> FromBody:
        """Return the mode; an order that is not understood, of the policy too, makes it off."""
        if is_excluded(workload.namespace, self._defaults.act):
            return FromBody(value=Mode.OFF, source="setting act.excludedNamespaces")
        share = self.share(workload, rules)
        policy_fault = self._policy(workload, rules)[1]
        if policy_fault is None and share is not None and share.value is None:
            policy_fault = share.source
        if policy_fault is not None:
            return FromBody(value=Mode.OFF, source=policy_fault)
        windows = self.windows(workload, rules)
        if windows is not None and windows.value is None:
            return FromBody(value=Mode.OFF, source=windows.source)
        stated = self._stated(names.MODE, workload, rules)
        if stated is None:
            return FromBody(value=self._defaults.act.mode, source="setting act.mode")
        try:
            return FromBody(value=names.mode_from(stated.value), source=stated.source)
        except ValueNotAllowed as error:
            return FromBody(value=Mode.OFF, source=_fault(stated, error))

    def share(self, workload: Workload, rules: ClusterRules) -> FromBody | None:
        """Return the share of the pods that is enforced; None = nobody ordered one. One not understood makes it off."""
        stated = self._stated(names.ENFORCE_SHARE, workload, rules)
        if stated is None:
            return None
        try:
            return FromBody(value=str(names.enforce_share_from(stated.value)), source=stated.source)
        except ValueNotAllowed as error:
            return FromBody(value=None, source=_fault(stated, error))

    def windows(self, workload: Workload, rules: ClusterRules) -> FromBody | None:
        """Return when its pods may be disturbed; None = nobody said. Windows that are not understood make it off."""
        stated = self._stated(names.WINDOWS, workload, rules)
        if stated is None:
            return None
        try:
            return FromBody(value=self._read_windows(stated.value).text, source=stated.source)
        except WindowsError as error:
            return FromBody(value=None, source=_fault(stated, error))

    def policy(self, workload: Workload, rules: ClusterRules) -> FromBody:
        """Return the policy."""
        policy, fault = self._policy(workload, rules)
        return policy if fault is None else FromBody(value=policy.value, source=fault)

    def policy_name(self, workload: Workload, rules: ClusterRules) -> PolicyName:
        """Return the policy by name."""
        return PolicyName(self._policy(workload, rules)[0].value or self._defaults.policy)

    def bounds(self, workload: Workload) -> Iterable[BoundBody]:
        """Return the bounds of requests that are set, and what else an autoscaler's object orders of containers."""
        namespace = workload.namespace
        stated, bounds = self.annotations(namespace), self._defaults.bounds
        for key, amount, unit, setting in (
            (names.MIN_CPU, bounds.min_cpu_millicores, "m", "bounds.minCpuMillicores"),
            (names.MAX_CPU, bounds.max_cpu_millicores, "m", "bounds.maxCpuMillicores"),
            (names.MIN_MEMORY, bounds.min_memory_bytes, "", "bounds.minMemoryBytes"),
            (names.MAX_MEMORY, bounds.max_memory_bytes, "", "bounds.maxMemoryBytes"),
        ):
            name = key.removeprefix(names.PREFIX)
            if key in stated:
                yield BoundBody(name=name, value=stated[key], source=f"Namespace {namespace}, annotation {key}")
            elif amount is not None:
                yield BoundBody(name=name, value=f"{amount}{unit}", source=f"setting {setting}")
        yield from self._by_object(workload)

    def _by_object(self, workload: Workload) -> Iterable[BoundBody]:
        """Return what a VerticalPodAutoscaler orders beside the mode; an annotation of the namespace wins over it."""
        vpa, stated = self._facts.vpa_orders(workload), self.annotations(workload.namespace)
        if vpa is None:
            return
        for key in (names.CONTAINER_POLICIES, names.STARTUP_BOOST, names.EVICTION_RANKING):
            if key in vpa.on_nodes and key not in stated:
                yield BoundBody(name=key.removeprefix(names.PREFIX), value=vpa.on_nodes[key], source=vpa.name)
        if vpa.min_replicas is not None:
            yield BoundBody(name="min-replicas", value=str(vpa.min_replicas), source=vpa.name)
        for requirement in vpa.eviction_requirements:
            wanted = f"{requirement.direction} of {', '.join(requirement.resources)}"
            yield BoundBody(name="eviction-requirement", value=wanted, source=vpa.name)
        for fault in vpa.faults:
            yield BoundBody(name="not honoured", value=fault, source=vpa.name)

    def pause(self, rules: ClusterRules) -> FromBody:
        """Return why the cluster is paused; None = it is not."""
        return FromBody(value=rules.pause_reason, source=f"ConfigMap {self._defaults.config_map}")

    def profile(self) -> Iterable[BoundBody]:
        """Return the settings that the profile is about."""
        for setting in self._defaults.profile:
            yield BoundBody(name=setting.key, value=setting.value, source=setting.source)

    def _policy(self, workload: Workload, rules: ClusterRules) -> tuple[FromBody, str | None]:
        default = FromBody(value=self._defaults.policy, source="setting recommend.policy")
        stated = self._stated(names.POLICY, workload, rules)
        if stated is None:
            return default, None
        try:
            return FromBody(value=names.policy_from(stated.value), source=stated.source), None
        except ValueNotAllowed as error:
            return default, _fault(stated, error)

    def _stated(self, key: str, workload: Workload, rules: ClusterRules) -> _StatedOrder | None:
        namespace = workload.namespace
        for place, stated in (
            ("annotation", self.annotations(namespace)),
            ("label", labelled(self._facts.namespace(namespace))),
        ):
            if key in stated:
                return _StatedOrder(value=stated[key], source=f"Namespace {namespace}, {place} {key}")
        vpa = self._facts.vpa_orders(workload)
        if vpa is not None and key in vpa.at_admission:
            alone = " (new pods alone)" if vpa.at_admission[key] != vpa.on_nodes.get(key) else ""
            return _StatedOrder(value=vpa.at_admission[key], source=f"{vpa.name}{alone}")
        ruled = rule_of(rules, workload)
        if key not in ruled:
            return None
        number = _rule_number(rules, workload, key)
        return _StatedOrder(value=ruled[key], source=f"ConfigMap {self._defaults.config_map}, rule {number}")


def _rule_number(rules: ClusterRules, workload: Workload, key: str) -> int:
    alone = (key in rule_of(replace(rules, rules=(rule,)), workload) for rule in rules.rules)
    return next(number for number, orders in enumerate(alone, 1) if orders)


def _fault(stated: _StatedOrder, error: ValueError) -> str:
    return f"{stated.source}: {stated.value[:60]!r} is not allowed ({error}): pods are off"

"""From annotations and configuration to what holds for a pod. Core, pure.

An order stands in the pod's annotations, else in its namespace's, else, a mode, in its namespace's label, else in a
VerticalPodAutoscaler, else in the cluster's rules, else in the configuration. One that is not understood makes the pod
``off``: what somebody wished for it is not known, so nothing is done. An order that another overrides is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import DAEMON_SET_KIND, RUN_KINDS, workload_of
from agent.core.orders import annotations as names
from agent.core.orders.annotations import ValueNotAllowed
from agent.core.orders.container_policies import NO_POLICIES
from agent.core.orders.order import Fault, Mode, Orders, OrderSource, Ranking, RunningJobs
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.pod_limits import POD_LIMITS_ALLOWED, PodLimitsError, parse_pod_limits
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.windows import Windows, WindowsError

_STATEFUL_SET_KIND: Final = "StatefulSet"

_NOTHING: Final[Mapping[str, str]] = {}
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


def windows_unread(text: str) -> Windows:
    """Refuse to read windows, where no calendar is at hand: then nobody knows when the pod may be disturbed."""
    raise WindowsError(f"{len(text)} characters cannot be read here")


def orders_of(
    pod: Pod,
    namespace: Namespace | None,
    *,
    act: ActOptions,
    recommend_policy: PolicyName,
    plan: PlanOptions,
    replicas: int | None = None,
    rule: Mapping[str, str] = _NOTHING,
    autoscaler: Mapping[str, str] = _NOTHING,
    read_windows: Callable[[str], Windows] = windows_unread,
) -> Orders:
    """Return what holds for a pod.

    Args:
        namespace: Its namespace; None = it says nothing, or is not known: then ``standing`` reserves the pod.
        act: The configured mode, and the namespaces that are never touched.
        plan: Whether Guaranteed pods are sized.
        replicas: Of its workload; None = not known, as on a node without a webhook, which sees its own pods only.
        rule: What the cluster's rules order for its workload (``cluster_rules.rule_of``), by annotation.
        autoscaler: What a VerticalPodAutoscaler of ours orders for it (``autoscalers.vpa_orders``), by annotation.
        read_windows: Reads when a pod may be disturbed, or raises WindowsError; who cannot leaves such pods alone.
    """
    reading = _Reading(pod, namespace, rule, autoscaler)
    mode, mode_source = reading.take(names.MODE, names.mode_from, act.mode)
    policy, policy_source = reading.take(names.POLICY, names.policy_from, recommend_policy)
    ranking, ranking_source = _ranking(pod, reading, replicas)
    min_cpu, max_cpu = reading.range(names.MIN_CPU, names.least_cpu_from, names.MAX_CPU, names.most_cpu_from)
    min_memory, max_memory = reading.range(
        names.MIN_MEMORY, names.least_memory_from, names.MAX_MEMORY, names.most_memory_from
    )
    is_restart_allowed, _ = reading.take(names.ALLOW_RESTART, names.flag_from, default=False)
    is_guaranteed_allowed, _ = reading.take(names.GUARANTEED, names.flag_from, default=plan.guaranteed)
    jobs, _ = reading.take(names.JOBS, names.jobs_from, RunningJobs.KEEP)
    startup_boost, startup_boost_source = reading.take(names.STARTUP_BOOST, names.startup_boost_from, None)
    container_policies, container_policies_source = reading.take(
        names.CONTAINER_POLICIES, names.container_policies_from, NO_POLICIES
    )
    enforce_share, enforce_share_source = reading.take(names.ENFORCE_SHARE, names.enforce_share_from, None)
    windows, windows_source = reading.take(names.WINDOWS, lambda text: _windows_text(text, read_windows), None)
    reading.check_pod_limits(pod)
    reading.check_runtimes(pod)
    if reading.faults and (mode is not Mode.OFF or reading.faults[0].source is not OrderSource.SPEC):
        mode, mode_source = Mode.OFF, reading.faults[0].source
    if is_excluded(pod.namespace, act):
        mode, mode_source = Mode.OFF, OrderSource.RULE
    return Orders(
        mode=mode,
        mode_source=mode_source,
        policy=policy,
        policy_source=policy_source,
        ranking=ranking,
        ranking_source=ranking_source,
        min_cpu_millicores=min_cpu,
        max_cpu_millicores=max_cpu,
        min_memory_bytes=min_memory,
        max_memory_bytes=max_memory,
        is_restart_allowed=is_restart_allowed,
        is_guaranteed_allowed=is_guaranteed_allowed,
        faults=tuple(reading.faults),
        jobs=jobs,
        startup_boost=startup_boost,
        startup_boost_source=startup_boost_source,
        container_policies=container_policies,
        container_policies_source=container_policies_source,
        enforce_share=enforce_share,
        enforce_share_source=enforce_share_source,
        windows=windows,
        windows_source=windows_source,
    )


def _windows_text(text: str, read: Callable[[str], Windows]) -> str:
    try:
        return read(text).text
    except WindowsError as error:
        raise ValueNotAllowed(str(error)) from None


def labelled(namespace: Namespace | None) -> Mapping[str, str]:
    """Return what a namespace's labels order: its mode alone, so that namespaces can be selected by it."""
    labels = namespace.labels if namespace is not None else _NOTHING
    return {names.MODE: labels[names.MODE]} if names.MODE in labels else _NOTHING


def is_excluded(namespace_name: str, act: ActOptions) -> bool:
    """Return whether a namespace is one that is never touched."""
    return namespace_name in listed(act.excluded_namespaces)


def listed(text: str) -> frozenset[str]:
    """Return the words of a setting that separates them by commas."""
    return frozenset(word.strip() for word in text.split(",")) - {""}


def default_ranking(kind: str, replicas: int | None) -> Ranking:
    """Return the ranking of a workload of which nobody has said any.

    Args:
        replicas: The median over time, truncated, else what its specification says; None = neither is known. It then
            counts as one of many: nearly every workload is, and among equals a StatefulSet must not go first.

    Source:
        CruiseKube's rule; exactly one replica is a single one, none is not.
    """
    if kind == DAEMON_SET_KIND or kind in RUN_KINDS:
        return Ranking.NO_EVICTION
    return Ranking.MEDIUM if kind == _STATEFUL_SET_KIND or replicas == 1 else Ranking.LOW


def _ranking(pod: Pod, reading: _Reading, replicas: int | None) -> tuple[Ranking, OrderSource]:
    kind = workload_of(pod).kind
    ranking, source = reading.take(names.EVICTION_RANKING, names.ranking_from, None)
    if kind == DAEMON_SET_KIND or kind in RUN_KINDS or ranking is None:  # of a run its work would be lost
        return default_ranking(kind, replicas), OrderSource.RULE
    return ranking, source


class _Reading:
    """Takes orders from where they stand, and keeps the faults."""

    def __init__(
        self, pod: Pod, namespace: Namespace | None, rule: Mapping[str, str], autoscaler: Mapping[str, str]
    ) -> None:
        self._places = (
            (OrderSource.POD, pod.annotations),
            (OrderSource.NAMESPACE, namespace.annotations if namespace is not None else _NOTHING),
            (OrderSource.NAMESPACE_LABEL, labelled(namespace)),
            (OrderSource.AUTOSCALER, autoscaler),
            (OrderSource.CLUSTER, rule),
        )
        self.faults: list[Fault] = []

    def take(self, key: str, read: Callable[[str], _Value], default: _Default) -> tuple[_Value | _Default, OrderSource]:
        """Return the first order there is of this key and where it stands; the default if none, or a fault."""
        source, value = self._find(key)
        if value is None:
            return default, source
        try:
            return read(value), source
        except ValueNotAllowed as refusal:
            self.faults.append(Fault(key=key, value=value, allowed=str(refusal), source=source))
            return default, source

    def range(
        self, least_key: str, read_least: Callable[[str], int], most_key: str, read_most: Callable[[str], int]
    ) -> tuple[int | None, int | None]:
        """Return a least and a most; both None, and a fault, when the least is more than the most."""
        least, _ = self.take(least_key, read_least, None)
        most, _ = self.take(most_key, read_most, None)
        if least is None or most is None or least <= most:
            return least, most
        source, value = self._find(least_key)
        most_source, most_value = self._find(most_key)
        allowed = f"at most {most_key.removeprefix(names.PREFIX)} of the {most_source}, {most_value}"
        self.faults.append(Fault(key=least_key, value=value or "", allowed=allowed, source=source))
        return None, None

    def check_pod_limits(self, pod: Pod) -> None:
        """Record a fault where the pod's own limits are not understood; who carries them out reads them."""
        text = pod.annotations.get(names.POD_LIMITS)
        if text is None:
            return
        try:
            parse_pod_limits(text)
        except PodLimitsError as error:
            allowed = f"{error}; allowed: {POD_LIMITS_ALLOWED}"
            self.faults.append(Fault(key=names.POD_LIMITS, value=text, allowed=allowed, source=OrderSource.POD))

    def check_runtimes(self, pod: Pod) -> None:
        """Record a fault where a language runtime is not understood: the annotation, or a flag in the pod's spec."""
        text = pod.annotations.get(names.RUNTIME)
        if text is not None:
            try:
                names.runtimes_from(text)
            except ValueNotAllowed as refusal:
                self.faults.append(Fault(key=names.RUNTIME, value=text, allowed=str(refusal), source=OrderSource.POD))
        for container in pod.sized_containers():
            if container.runtime is not None and container.runtime.fault:
                where = f"container {container.name}"
                self.faults.append(
                    Fault(key=where, value=None, allowed=container.runtime.fault, source=OrderSource.SPEC)
                )

    def _find(self, key: str) -> tuple[OrderSource, str | None]:
        for source, stated in self._places:
            if key in stated:
                return source, stated[key]
        return OrderSource.CONFIGURATION, None

"""The kubelet's cgroups against what should be in them: pods, containers, tiers, ``kubepods``. Core, pure.

Nothing is repaired: a finding says what should be there, what is, and who writes there next (facts kubelet-cgroups,
section 6). What an audit cannot know is ``unknown``, never drifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

from agent.core.cluster.pod import (
    Container,
    ContainerKind,
    ContainerState,
    ContainerStatus,
    Partition,
    Pod,
    QosClass,
    has_ended,
)
from agent.core.cluster.pod_index import cgroup_owners
from agent.core.cluster.qos import computed_qos_class, pod_qos_class
from agent.core.machine.allocated_pod import allocated_pod
from agent.core.machine.audit_report import (
    CGROUP,
    PARENT,
    QOS_CLASS,
    AuditReport,
    Finding,
    FindingSubject,
    NextWriter,
    Sandbox,
    StaleOomScore,
    absent_finding,
    value_finding,
)
from agent.core.machine.audit_targets import (
    AuditRules,
    container_targets,
    either,
    levels_of,
    partition_targets,
    pod_targets,
    root_targets,
    tier_targets,
)
from agent.core.machine.cgroup_files import MEMORY_LOW, CgroupLevel, LiveCgroup, LiveTree
from agent.core.machine.comparison import State, WantedValue, compare
from agent.core.machine.memory_low import memory_low_by_path, memory_low_of
from agent.core.machine.oom_score import OOM_SCORE_ADJ, OomScore, oom_score
from agent.core.machine.pod_limits import pod_limits_order

ASKED_FOR = "as the spec asks; the pods file reports the resize as not settled"
BY_ANNOTATION = "as the pod's annotation plimsoll.dev/pod-limits asks; set by the agent"
BY_REQUESTS = "what pods with plimsoll.dev/pod-limits request; set by the agent (podLimits.memoryLow)"
INCOMPLETE = "this node has pods that the pods file does not know"


class _Presence(StrEnum):
    MUST = "must"
    MAY = "may"
    MUST_NOT = "must not"


def audit(pods: Sequence[Pod], tree: LiveTree, rules: AuditRules) -> AuditReport:
    """Compare the cgroups of a node with its pods.

    Args:
        pods: All pods of the node, as the API gives them; static pods as their mirrors.
    """
    return _Audit(pods, tree, rules).report()


def audit_findings(pods: Sequence[Pod], tree: LiveTree, rules: AuditRules) -> Iterator[tuple[Finding, ...]]:
    """Compare as ``audit`` does, in parts: the levels above the pods, then pod by pod."""
    return _Audit(pods, tree, rules).findings()


class _Audit:
    """One audit under way."""

    def __init__(self, pods: Sequence[Pod], tree: LiveTree, rules: AuditRules) -> None:
        self._pods = pods
        self._tree = tree
        self._rules = rules
        owners = self._owners = cgroup_owners(pods)
        self._strangers = tuple(cgroup for cgroup in tree.pods() if cgroup.pod_uid not in owners)
        namespace_of = {uid: pod.namespace for uid, pod in owners.items()}
        self._system_namespaces = frozenset(rules.system_namespaces) or frozenset(
            namespace_of[cgroup.pod_uid]
            for cgroup in tree.pods()
            if cgroup.partition is Partition.SYSTEM and cgroup.pod_uid in namespace_of
        )
        self._sandboxes: list[Sandbox] = []
        self._oom_scores: list[StaleOomScore] = []
        self._memory_low = self._protected()
        self._by_uid: dict[str, list[LiveCgroup]] = {}
        for cgroup in tree.cgroups:
            if cgroup.pod_uid is not None:
                self._by_uid.setdefault(cgroup.pod_uid, []).append(cgroup)

    def _protected(self) -> dict[str, int]:
        """Return the memory.low that the agent may have set, by cgroup: of pods that ask for limits, and above them."""
        root = self._tree.at(CgroupLevel.KUBEPODS, Partition.DEFAULT)
        if root is None:
            return {}
        by_uid = {cgroup.pod_uid: cgroup.path for cgroup in self._tree.pods()}
        by_id = {cgroup.container_id: cgroup.path for cgroup in self._tree.containers()}
        protected_pods = []
        for pod in self._pods:
            path, low = by_uid.get(pod.cgroup_uid), memory_low_of(pod)
            if path is None or low is None or not _annotated_limits(pod, self._rules):
                continue
            statuses = [status for status in pod.statuses if status.container_id in by_id]
            protected_pods.append((path, low, {status.name: by_id[status.container_id] for status in statuses}))
        return memory_low_by_path(protected_pods, root.path)

    def report(self) -> AuditReport:
        findings = tuple(finding for part in self.findings() for finding in part)
        return AuditReport(
            findings=findings,
            sandboxes=tuple(self._sandboxes),
            strangers=self._strangers,
            oom_scores=tuple(self._oom_scores),
        )

    def findings(self) -> Iterator[tuple[Finding, ...]]:
        yield tuple(self._levels())
        for pod in sorted(self._pods, key=self._tree_order):
            yield tuple(self._pod(pod))

    def _tree_order(self, pod: Pod) -> tuple[bool, int, str, str]:
        return (
            pod.namespace in self._system_namespaces,
            list(QosClass).index(pod_qos_class(pod)),
            pod.namespace,
            pod.name,
        )

    # Above the pods

    def _levels(self) -> Iterator[Finding]:
        root = self._tree.at(CgroupLevel.KUBEPODS, Partition.DEFAULT)
        if root is None:
            yield absent_finding(
                FindingSubject(level=CgroupLevel.KUBEPODS, partition=Partition.DEFAULT), "no kubepods in this tree"
            )
            return
        partitions = [Partition.DEFAULT]
        if any(cgroup.partition is Partition.SYSTEM for cgroup in self._tree.cgroups) or self._system_namespaces:
            partitions.append(Partition.SYSTEM)
        active = [pod for pod in self._pods if _is_counted(pod)]
        allocated = [allocated_pod(pod) for pod in active]
        for partition in partitions:
            levels, asked = (
                levels_of(counted, partition, self._system_namespaces, self._rules) for counted in (allocated, active)
            )
            if partition is Partition.DEFAULT:
                doubt = self._doubt(None)
                subject = FindingSubject(level=CgroupLevel.KUBEPODS, partition=partition, path=root.path)
                first, other = (root_targets(which, self._rules, doubt=doubt) for which in (levels, asked))
                yield from self._values(subject, root, either(first, other, ASKED_FOR))
            else:
                yield from self._partition()
            for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
                subject = FindingSubject(level=CgroupLevel.TIER, partition=partition, qos=qos)
                live = self._tree.at(CgroupLevel.TIER, partition, qos)
                if live is None:
                    yield absent_finding(subject, "the kubelet makes it at its start")
                    continue
                # The default partition leaves room for the other one's pods too.
                doubt = self._doubt(partition if partition is Partition.SYSTEM else None)
                first, other = (tier_targets(qos, which, live, self._rules, doubt=doubt) for which in (levels, asked))
                yield from self._values(replace(subject, path=live.path), live, either(first, other, ASKED_FOR))

    def _partition(self) -> Iterator[Finding]:
        live = self._tree.at(CgroupLevel.PARTITION, Partition.SYSTEM)
        subject = FindingSubject(level=CgroupLevel.PARTITION, partition=Partition.SYSTEM)
        if live is None:
            yield absent_finding(subject, "the kubelet makes it at its start")
        else:
            yield from self._values(replace(subject, path=live.path), live, partition_targets(self._rules))

    def _doubt(self, partition: Partition | None) -> str | None:
        """Return why sums over the pods may be short; BestEffort pods add nothing to them."""
        strangers = [cgroup for cgroup in self._strangers if cgroup.qos is not QosClass.BEST_EFFORT]
        return INCOMPLETE if any(partition in (None, cgroup.partition) for cgroup in strangers) else None

    # Pods

    def _pod(self, pod: Pod) -> Iterator[Finding]:
        # A mirror that is not the kubelet's may state the hash of one that is.
        pod_uid = pod.cgroup_uid if self._owners[pod.cgroup_uid] is pod else pod.uid
        subject = FindingSubject(
            level=CgroupLevel.POD,
            partition=Partition.SYSTEM if pod.namespace in self._system_namespaces else Partition.DEFAULT,
            qos=pod_qos_class(pod),
            pod_uid=pod_uid,
            namespace=pod.namespace,
            pod=pod.name,
        )
        yield _qos_finding(pod, subject)
        of_pod = self._by_uid.get(pod_uid, ())
        cgroups = [cgroup for cgroup in of_pod if cgroup.level is CgroupLevel.POD]
        cgroups.sort(key=lambda cgroup: (cgroup.qos, cgroup.partition) != (subject.qos, subject.partition))
        presence, reason = _pod_presence(pod)
        containers = [cgroup for cgroup in of_pod if cgroup.level is CgroupLevel.CONTAINER]
        if presence is _Presence.MUST_NOT:
            yield from self._leftovers(subject, cgroups, reason)
            return
        for extra in cgroups[1:]:
            yield from self._leftovers(subject, [extra], "a second cgroup of the same pod")
        if cgroups:
            live = cgroups[0]
            subject = replace(subject, path=live.path)
            yield _parent_finding(subject, live)
            targets = [pod_targets(which, live, self._rules) for which in _variants(pod)]
            values = either(targets[0], targets[-1], ASKED_FOR)
            yield from self._values(subject, live, either(values, _annotated_limits(pod, self._rules), BY_ANNOTATION))
        elif presence is _Presence.MUST:
            yield absent_finding(subject, reason)
        else:
            yield Finding(subject=subject, file=CGROUP, state=State.EQUAL, note=reason)
        if cgroups or containers:
            yield from self._containers(pod, subject, containers)

    def _leftovers(self, subject: FindingSubject, cgroups: Sequence[LiveCgroup], reason: str) -> Iterator[Finding]:
        if not cgroups:
            yield Finding(subject=subject, file=CGROUP, state=State.EQUAL, note=reason)
        for cgroup in cgroups:
            yield Finding(
                subject=replace(subject, path=cgroup.path),
                file=CGROUP,
                state=State.DRIFTED,
                found=cgroup.path,
                note=reason,
                writer=NextWriter.KUBELET_CLEANUP,
            )

    # Containers

    def _containers(self, pod: Pod, subject: FindingSubject, cgroups: Sequence[LiveCgroup]) -> Iterator[Finding]:
        by_id = {cgroup.container_id: cgroup for cgroup in cgroups}
        named: set[str] = set()
        for container in (*pod.init_containers, *pod.containers, *pod.ephemeral_containers):
            status = _status(pod, container)
            container_id = None if status is None else status.container_id
            own = replace(
                subject, level=CgroupLevel.CONTAINER, path=None, container=container.name, container_id=container_id
            )
            if status is None or container_id is None:
                yield from _unnamed(own, status)
                continue
            named.add(container_id)
            yield from self._container(pod, container, status, own, by_id.get(container_id))
        for cgroup in cgroups:
            if cgroup.container_id not in named:
                own = replace(subject, level=CgroupLevel.CONTAINER, path=cgroup.path, container_id=cgroup.container_id)
                self._sandboxes.append(Sandbox(subject=own))

    def _container(
        self, pod: Pod, container: Container, status: ContainerStatus, subject: FindingSubject, live: LiveCgroup | None
    ) -> Iterator[Finding]:
        if status.state in (ContainerState.WAITING, ContainerState.TERMINATED):
            yield from self._leftovers(subject, [] if live is None else [live], f"its state is {status.state}")
            return
        if live is None:
            if pod.is_terminating:
                yield Finding(subject=subject, file=CGROUP, state=State.EQUAL, note="the pod is being deleted")
            else:
                yield absent_finding(subject, "no cgroup with this id (restarted since the pods file was written?)")
            return
        targets = []
        for which in _variants(pod):
            own = which.container(container.name)
            targets.append(container_targets(which, own or container, self._rules))
        values = either(targets[0], targets[-1], ASKED_FOR)
        yield from self._values(replace(subject, path=live.path), live, values)
        self._compare_oom_score(pod, container, replace(subject, path=live.path), live)

    def _compare_oom_score(self, pod: Pod, container: Container, subject: FindingSubject, live: LiveCgroup) -> None:
        live_score, machine_bytes = live.reading(OOM_SCORE_ADJ).amount, self._rules.machine_memory_bytes
        if not isinstance(live_score, int) or not machine_bytes or container.kind is ContainerKind.EPHEMERAL:
            return
        after_restart = oom_score(pod, container, machine_bytes)
        if live_score != after_restart:
            score = OomScore(found=live_score, after_restart=after_restart)
            self._oom_scores.append(StaleOomScore(subject=subject, score=score))

    # Values

    def _values(self, subject: FindingSubject, live: LiveCgroup, targets: Iterable[WantedValue]) -> Iterator[Finding]:
        low_bytes = self._memory_low.get(live.path)
        if low_bytes is not None:
            low = WantedValue(file=MEMORY_LOW, target=low_bytes)
            targets = either(tuple(targets), (low,), BY_REQUESTS)
        for wanted in targets:
            outcome = compare(wanted, live.reading(wanted.file), is_systemd=self._rules.is_systemd)
            if outcome is not None:
                yield value_finding(subject, wanted, outcome)


def _unnamed(subject: FindingSubject, status: ContainerStatus | None) -> Iterator[Finding]:
    """Speak of a container without an id: not started, or the file has no status of it."""
    if status is not None and status.state is not ContainerState.RUNNING:
        note = f"its state is {status.state or 'not told'}, it has no id"
        yield Finding(subject=subject, file=CGROUP, state=State.EQUAL, note=note)
    else:
        note = "the pods file has no container id: which cgroup it has cannot be told"
        yield Finding(subject=subject, file=CGROUP, state=State.UNKNOWN, note=note)


def _qos_finding(pod: Pod, subject: FindingSubject) -> Finding:
    computed = computed_qos_class(pod)
    if pod.recorded_qos is None:
        note = "the pods file has no status.qosClass"
        return Finding(subject=subject, file=QOS_CLASS, state=State.UNKNOWN, expected=computed, note=note)
    is_equal = pod.recorded_qos is computed
    return Finding(
        subject=subject,
        file=QOS_CLASS,
        state=State.EQUAL if is_equal else State.DRIFTED,
        expected=computed,
        found=pod.recorded_qos,
        note=None if is_equal else "the class was frozen at creation; the spec says another",
    )


def _parent_finding(subject: FindingSubject, live: LiveCgroup) -> Finding:
    expected = _parent(subject.partition, subject.qos)
    if live.qos is None:
        note = "its place in the tree does not tell the class"
        return Finding(subject=subject, file=PARENT, state=State.UNKNOWN, expected=expected, note=note)
    parent = _parent(live.partition, live.qos)
    is_equal = parent == expected
    return Finding(
        subject=subject,
        file=PARENT,
        state=State.EQUAL if is_equal else State.DRIFTED,
        expected=expected,
        found=parent,
        note=None if is_equal else "a pod never moves while it lives",
    )


def _parent(partition: Partition | None, qos: QosClass | None) -> str:
    names = ["kubepods"]
    if partition is Partition.SYSTEM:
        names.append("system")
    if qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
        names.append(qos.lower())
    return "/".join(names)


def _annotated_limits(pod: Pod, rules: AuditRules) -> tuple[WantedValue, ...]:
    """Return what the agent may have set because the pod's annotation asks for it; nothing where none asks.

    On a cluster that knows pod-level resources it writes nothing new, but leaves what it wrote before an upgrade.
    """
    order = pod_limits_order(pod, cluster_knows_them=False, rules=rules.kubelet)
    return (
        () if order is None else tuple(WantedValue(file=file, target=target) for file, target in order.wanted.items())
    )


def _pod_presence(pod: Pod) -> tuple[_Presence, str]:
    if has_ended(pod):
        return _Presence.MUST_NOT, f"its phase is {pod.phase}"
    if pod.phase in ("Pending", "Unknown"):
        return _Presence.MAY, f"its phase is {pod.phase}"
    if pod.is_terminating:
        return _Presence.MAY, "it is being deleted"
    return _Presence.MUST, f"no cgroup of this pod; its phase is {pod.phase or 'not told'}"


def _is_counted(pod: Pod) -> bool:
    """Return whether the kubelet counts the pod in the tiers: admitted and not ended."""
    return not has_ended(pod) and not (pod.phase == "Pending" and pod.node_name is None)


def _variants(pod: Pod) -> tuple[Pod, ...]:
    """Return the pod as allocated and, unless the kubelet has refused it for good, as asked for.

    The cgroups are read after the pods file: a resize may have come through since.
    """
    asked = replace(pod, recorded_qos=pod_qos_class(pod))
    return (allocated_pod(pod),) if pod.is_resize_infeasible else (allocated_pod(pod), asked)


def _status(pod: Pod, container: Container) -> ContainerStatus | None:
    return next((status for status in (*pod.statuses, *pod.ephemeral_statuses) if status.name == container.name), None)

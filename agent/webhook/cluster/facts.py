"""What the API server knows of the whole cluster, in memory: what admissions, directives and evictions look at.

Watches, and one view of them. No call is made for an answer. While the server is away the last good state stays, and
its age says so.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from agent.core.admission.limit_ranges import narrowest
from agent.core.autoscalers.preserved_target import MovableTargets, PreservedTarget
from agent.core.autoscalers.vpa_orders import THEIR_ADMISSION, VpaOrders, VpaSurroundings, holder_of, vpa_orders
from agent.core.cluster.facts import (
    ClusterRules,
    FrozenAxes,
    LimitRangeItem,
    NodeAmounts,
    PodPlace,
    Quota,
    WorkloadRequests,
    WrittenContainer,
)
from agent.core.cluster.hpa import UtilizationTarget, merged_axes
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod, TopOwner
from agent.core.cluster.resource import Resource
from agent.core.cluster.versions import parse_version, resize_supported
from agent.core.cluster.vpa import VpaObject
from agent.core.cluster.workload import Workload, with_top_owner
from agent.core.history.reports.rollup import NodeClass
from agent.core.machine.pod_limits import POD_LEVEL
from agent.core.orders.cluster_rules import read_rules
from agent.kube.client.api import Api, server_version
from agent.kube.client.errors import KubeError
from agent.kube.objects.cluster_json import (
    NodeFacts,
    VerticalAutoscaler,
    autoscaler_from_json,
    config_from_json,
    limit_range_from_json,
    named_from_json,
    node_facts_from_json,
    owned_job_from_json,
    pod_place_from_json,
    quota_from_json,
    vertical_autoscaler_from_json,
)
from agent.kube.objects.pod_json import namespace_from_json
from agent.kube.watch.reflector import Reflector, WatchCounts, WatchPace, WatchSource
from agent.kube.watch.watched_objects import ReflectedObjects
from agent.webhook.cluster.index import ByTarget, CombinedIndex, DoubtedIndex, ReflectedIndex
from agent.webhook.cluster.nodes import (
    all_resize,
    all_take_pod_resources,
    largest_allocatable,
    smallest_capacity,
)
from agent.webhook.cluster.optional_watch import ASK_SECONDS, AnyWatch, OptionalWatch, WatchState
from agent.webhook.cluster.pods import PodTable

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_READ: Final = "the ConfigMap has not been read yet"
STOP_SECONDS: Final = 0.5
"""A watch that is connecting to a dead server cannot be woken: its thread is left to end with the process."""
PAGE_OBJECTS: Final = 500
_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How one of the watches fares; for readyz and metrics."""

    name: str
    """``pods``, ``nodes``, ``namespaces``, ``hpas``, ``vpas``, ``limitranges``, ``quotas``, ``rules``, ``jobs`` or
    ``vpa-admission``."""
    is_listed: bool
    """All has been read at least once, or is known not to be there."""
    objects: int
    age_seconds: float | None
    """Since the server was last heard; None = never."""
    trouble: str | None
    """Why it is not heard; None = it is."""
    counts: WatchCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalReads:
    """What is read only where it is asked for: it takes rights of its own."""

    jobs: bool = False
    """Jobs: whose run each is they say themselves."""
    vpas: bool = False
    """VerticalPodAutoscalers of the recommender ``plimsoll`` whole, and whether VPA's own admission is there."""
    preserves_hpas: bool = False
    """Not read: whether requests whose HPA's target is moved after them are free."""
    are_evictions_on: bool = False
    """Not read: ``arbiter.mode`` is enforce, which what those objects order depends on."""


NOTHING_OPTIONAL: Final = OptionalReads()


class ClusterFacts:
    """The cluster as the API has it; for any thread, each answer in microseconds."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        config_map: str = "plimsoll",
        pace: WatchPace | None = None,
        on_pod: Callable[[PodPlace, bool], None] = lambda _place, _is_new: None,
        ask_seconds: float = ASK_SECONDS,
        group_by: Sequence[str] = (),
        reads: OptionalReads = NOTHING_OPTIONAL,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            namespace: The webhook's own: where its ConfigMap is.
            config_map: Its name: pause and rules.
            on_pod: Told of each pod that is brought, and whether it was not known before; from a watching thread.
            ask_seconds: Between two questions whether the server knows VerticalPodAutoscalers.
            group_by: Labels that hold pods together (``workloads.groupBy``).
            reads: What is watched besides.
        """
        self._api, self._ask_seconds = api, ask_seconds
        self._pace = pace if pace is not None else WatchPace()
        self._server_version: str | None = None
        self._rules = ClusterRules(pause_reason=NOT_READ)
        self._good_rules: ClusterRules | None = None
        self._has_read_rules = self._has_seen_nodes = False
        """What was listed was taken up too: a watch says that it has listed a moment before."""
        self._overloaded: frozenset[str] = frozenset()
        self._kubelets_take_pod_resources = self._kubelets_resize = False
        self._largest_allocatable: NodeAmounts | None = None
        self._smallest_capacity: NodeAmounts | None = None
        self._group_by, self._reads = tuple(group_by), reads
        self._jobs = ReflectedIndex(owned_job_from_json, lambda job: (job.namespace, job.name))
        read_place = partial(pod_place_from_json, group_by=self._group_by, job_owner=self.job_owner)
        self._pods = PodTable(time.monotonic, on_pod, read_place)
        self._nodes = ReflectedIndex(node_facts_from_json, lambda node: node.name)
        self._namespaces = ReflectedIndex(namespace_from_json, lambda namespace_object: namespace_object.name)
        self._hpas = ByTarget(autoscaler_from_json)
        self._vpas = ByTarget(partial(vertical_autoscaler_from_json, takes_own=reads.vpas))
        self._their_admission = ReflectedIndex(named_from_json, lambda name: name)
        self._limit_ranges = CombinedIndex(
            limit_range_from_json,
            lambda limit_range: limit_range.namespace,
            lambda limit_ranges: narrowest(item for limit_range in limit_ranges for item in limit_range.items),
        )
        self._quotas = DoubtedIndex(quota_from_json, lambda namespace_quota: namespace_quota.namespace)
        self._config = ReflectedObjects(config_from_json, lambda config, other: config == other)
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        by_name = {"fieldSelector": f"metadata.name={config_map}"}
        self._all: Final[tuple[tuple[str, AnyWatch, WatchState], ...]] = (
            self._watch("pods", "/api/v1/pods", self._pods, query={"fieldSelector": _UNFINISHED}, is_paged=True),
            self._watch(
                "nodes",
                "/api/v1/nodes",
                self._nodes,
                is_paged=True,
                on_connect=self._ask_version,
                on_news=self._see_nodes,
            ),
            self._watch("namespaces", "/api/v1/namespaces", self._namespaces, metadata_only=True),
            self._watch("hpas", "/apis/autoscaling/v2/horizontalpodautoscalers", self._hpas),
            self._watch_vpas(),
            self._watch("limitranges", "/api/v1/limitranges", self._limit_ranges),
            self._watch("quotas", "/api/v1/resourcequotas", self._quotas),
            self._watch("rules", maps, self._config, query=by_name, on_news=self._read_rules),
            *(
                [self._watch("jobs", "/apis/batch/v1/jobs", self._jobs, is_paged=True, metadata_only=True)]
                if reads.jobs
                else []
            ),
            *([self._watch_their_admission()] if reads.vpas else []),
        )

    def start(self) -> None:
        """Begin to watch, each kind in a thread of its own."""
        for _, watch, _ in self._all:
            watch.start()

    def stop(self) -> None:
        """End the watches; takes half a second at most."""
        for _, watch, _ in self._all:
            watch.stop()
        until = time.monotonic() + STOP_SECONDS
        for name, watch, _ in self._all:
            if not watch.join(max(until - time.monotonic(), 0.0)):
                log.debug("watch left in its connection", extra={"watch": name})

    # -- answers ---------------------------------------------------------------------------------------------------

    def namespace(self, name: str) -> Namespace | None:
        """Find a namespace; None = it is not known."""
        return next(iter(self._namespaces.find(name)), None)

    def namespace_names(self) -> tuple[str, ...]:
        """Return the names of all namespaces, in order."""
        return tuple(sorted(namespace.name for namespace in self._namespaces.values()))

    def pod(self, uid: str) -> PodPlace | None:
        """Find a pod that is there and has not ended; None = it is not known."""
        return self._pods.pod(uid)

    def gone_pod(self, uid: str) -> PodPlace | None:
        """Find a pod that ended or was removed within the last hour, as it was last; None = not known.

        Its node's last reports of it come after it went.
        """
        return self._pods.gone_pod(uid)

    def job_owner(self, namespace: str, job: str) -> TopOwner | None:
        """Return whom a Job belongs to, itself if to nobody; None = it is not known, or Jobs are not read."""
        return next((known.owner for known in self._jobs.find((namespace, job))), None)

    def with_top_owner(self, pod: Pod) -> Pod:
        """Return a pod that knows whom it stands for: by its labels, else by its Job as far as that is known here."""
        return with_top_owner(pod, group_by=self._group_by, job_owner=self.job_owner)

    def pods_age_seconds(self) -> float:
        """Return for how long the server was not heard of pods; nothing is known of those younger than that."""
        return self._all[0][1].age_seconds or 0.0

    def written(self, workload: Workload) -> Mapping[str, WrittenContainer]:
        """Return a workload's containers by name, with their requests as written; empty = no pod of it is known."""
        return self._pods.written(workload)

    def pods_on(self, node: str) -> tuple[PodPlace, ...]:
        """Return the pods bound to a node that have not ended, by namespace and name."""
        return self._pods.pods_on(node)

    def pods_in_parts(self) -> Iterator[list[PodPlace]]:
        """Return all pods, some at a time."""
        return self._pods.in_parts()

    def nodes_known(self) -> tuple[NodeFacts, ...]:
        """Return all nodes that are understood."""
        return self._nodes.values()

    def a_pod_of(self, workloads: Iterable[Workload]) -> Mapping[Workload, PodPlace]:
        """Return one pod of each workload that has any that is to go on; all pods are walked for it."""
        return self._pods.one_of(workloads)

    def pods_of(
        self, workload: Workload, most: int, pause: Callable[[], None] = lambda: None
    ) -> tuple[int, tuple[PodPlace, ...]]:
        """Count a workload's pods and return the first of them; see `PodTable.pods_of`."""
        return self._pods.pods_of(workload, most, pause)

    def node_class(self, node: str) -> NodeClass | None:
        """Return the class of a node; None = the node or its capacity is not known."""
        node_facts = self._nodes.find(node)
        return node_facts[0].node_class if node_facts else None

    def capacity(self, node: str) -> NodeAmounts | None:
        """Return what a node has; while that is not known the least that any node has. None = no node states it."""
        node_facts = self._nodes.find(node)
        known = node_facts[0].capacity if node_facts else None
        return known if known is not None else self._smallest_capacity

    def largest_allocatable(self) -> NodeAmounts | None:
        """Return the most that any node can allocate, of each resource; None = no node states it."""
        return self._largest_allocatable

    def allocatable(self, node: str | None) -> NodeAmounts | None:
        """Return what a node can allocate, where it is not known or None the most that any can; None = no node says."""
        node_facts = self._nodes.find(node) if node is not None else ()
        known = node_facts[0].allocatable if node_facts else None
        return known if known is not None else self._largest_allocatable

    def has_node(self, name: str) -> bool:
        """Return whether the cluster has such a node."""
        return bool(self._nodes.find(name))

    def node_count(self) -> int:
        """Count the nodes; one that is not understood counts too."""
        return len(self._nodes)

    def tainted_nodes(self) -> frozenset[str]:
        """Return the nodes that carry Plimsoll's overload taint."""
        return self._overloaded

    def frozen(self, workload: Workload) -> FrozenAxes:
        """Return the requests of a workload that stay, as HPAs divide by them; both where one is not understood."""
        preserved_targets, frozen = self.preserved(workload), self.scaled_by(workload)
        return frozen.without(preserved_targets) if preserved_targets else frozen

    def scaled_by(self, workload: Workload) -> FrozenAxes:
        """Return the requests that HPAs of a workload divide by, be it that their targets are moved after them."""
        return merged_axes(hpa.frozen for hpa in self._hpas.find_for(workload))

    def preserved(self, workload: Workload) -> Mapping[Resource, PreservedTarget]:
        """Return the targets that are moved after the requests of a workload, so that these are sized."""
        hpas = self._hpas.find_for(workload) if self._reads.preserves_hpas else ()
        targets = hpas[0].movable if len(hpas) == 1 else None
        if targets is None:
            return {}
        requests = self.requested(workload)
        by_resource = {resource: targets.preserved(resource, requests) for resource in targets.kept}
        return {resource: target for resource, target in by_resource.items() if target is not None}

    def kept_resources(self, workload: Workload) -> frozenset[Resource]:
        """Return whose targets stand by our hand: they are shares of what pods request now, not of what was written."""
        known = [hpa.movable for hpa in self._hpas.find(workload) if hpa.movable is not None]
        return frozenset(
            resource
            for targets in known
            for resource, target in targets.kept.items()
            if targets.percents.get(resource) == target.written_percent
        )

    def movable_targets(self) -> tuple[tuple[Workload, MovableTargets, bool], ...]:
        """Return all HPAs whose targets may be moved, whom each is for, and whether it is the only one for it."""
        return tuple(
            (hpa.target, hpa.movable, len(self._hpas.find_for(hpa.target)) == 1)
            for hpa in self._hpas.values()
            if isinstance(hpa.target, Workload) and hpa.movable is not None
        )

    def requested(self, workload: Workload) -> WorkloadRequests:
        """Return what the pods of a workload request that run and are to go on running."""
        return self._pods.requested(workload)

    def hpa_targets(self, workload: Workload) -> tuple[UtilizationTarget, ...]:
        """Return the shares of requests that HPAs of a workload want in use."""
        return tuple(target for hpa in self._hpas.find(workload) for target in hpa.targets)

    def left_alone_for(self, workload: Workload) -> str | None:
        """Name the VerticalPodAutoscaler by which others change a workload's pods or may; None = there is none."""
        objects = self._vpas.find_for(workload)
        others = next((vpa.name for vpa in objects if vpa.acts and vpa.own is None), None)
        if others is not None:
            return others
        # Theirs acts on each object that there is, whichever of several counts for us.
        read = (vpa_orders(vpa.own, self._surroundings()) for vpa in objects if vpa.own is not None)
        return next((f"{orders.name}, by {orders.left_to}," for orders in read if orders.left_to is not None), None)

    def vpa_orders(self, workload: Workload) -> VpaOrders | None:
        """Return what a VerticalPodAutoscaler of ours orders for a workload; None = there is none."""
        held = holder_of(vpa.own for vpa in self._vpas.find(workload) if vpa.own is not None)
        return None if held is None or held.is_managed else vpa_orders(held, self._surroundings())

    def own_vpas(self) -> tuple[VpaOrders, ...]:
        """Return all of the recommender ``plimsoll``, by namespace and name."""
        all_orders = [vpa_orders(vpa.own, self._surroundings()) for vpa in self._vpas.values() if vpa.own is not None]
        return tuple(sorted(all_orders, key=lambda orders: (orders.vpa.namespace, orders.vpa.name)))

    def held_by(self, vpa: VpaObject) -> VpaObject | None:
        """Return the object that counts for the same workload in the place of one; None = this one counts."""
        held = holder_of(candidate.own for candidate in self._vpas.find(vpa.target) if candidate.own is not None)
        return None if held is None or held.uid == vpa.uid else held

    def has_vpa(self, workload: Workload) -> bool:
        """Return whether an object that people made is for a workload, or may be."""
        return any(vpa.own is None or not vpa.own.is_managed for vpa in self._vpas.find_for(workload))

    @property
    def serves_vpas(self) -> bool:
        """Return whether the cluster knows VerticalPodAutoscalers."""
        return self._vpa_watch.is_served

    @property
    def has_their_admission(self) -> bool:
        """Return whether VPA's own admission controller is registered."""
        return bool(len(self._their_admission))

    def _surroundings(self) -> VpaSurroundings:
        return VpaSurroundings(
            has_their_admission=self.has_their_admission, are_evictions_on=self._reads.are_evictions_on
        )

    def limit_ranges(self, namespace: str) -> tuple[LimitRangeItem, ...]:
        """Return the items of a namespace's LimitRanges that decide."""
        return self._limit_ranges.combined(namespace)

    def quotas(self, namespace: str) -> tuple[Quota, ...]:
        """Return the ResourceQuotas of a namespace."""
        return tuple(namespace_quota.quota for namespace_quota in self._quotas.find(namespace))

    def bounds_fault(self, namespace: str) -> str | None:
        """Return which LimitRange or ResourceQuota of a namespace is not understood, so that it may refuse anything."""
        faults = [limit_range.fault for limit_range in self._limit_ranges.find(namespace)]
        faults += [namespace_quota.fault for namespace_quota in self._quotas.find(namespace)]
        return next((fault for fault in faults if fault is not None), None)

    def rules(self) -> ClusterRules:
        """Return what the ConfigMap says; paused as long as it was never read."""
        return self._rules

    def replicas(self, workload: Workload) -> int | None:
        """Count the pods of a workload that run and are to go on running; None = pods are not known yet."""
        return self._pods.running(workload) if self._all[0][1].is_listed else None

    @property
    def server_version(self) -> str | None:
        """Return the API server's gitVersion; None = not known yet."""
        return self._server_version

    def knows_pod_level_resources(self) -> bool:
        """Return whether the server and every Linux node's kubelet take spec.resources of pods; in doubt they do not.

        Where a new pod will run is not known, and kubelets may be three minor versions older than the server.
        """
        version = parse_version(self._server_version)
        return version is not None and version >= POD_LEVEL and self._kubelets_take_pod_resources

    def resizes_in_place(self) -> bool:
        """Return whether the server and every Linux node's kubelet resize pods in place; in doubt they do not."""
        return resize_supported(self._server_version) and self._kubelets_resize

    # -- how it fares ----------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Return whether every kind has been read at least once, or is known not to be there."""
        is_taken_up = self._has_read_rules and self._has_seen_nodes and self._server_version is not None
        return is_taken_up and all(watch.is_listed for _, watch, _ in self._all)

    @property
    def age_seconds(self) -> float | None:
        """Return the age of the kind that was heard longest ago; None = not all were."""
        ages = [watch.age_seconds for _, watch, _ in self._all]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    def statuses(self) -> tuple[SourceStatus, ...]:
        """Return how each watch fares."""
        return tuple(
            SourceStatus(
                name=name,
                is_listed=watch.is_listed,
                objects=len(objects),
                age_seconds=watch.age_seconds,
                trouble=watch.trouble,
                counts=replace(watch.counts),
            )
            for name, watch, objects in self._all
        )

    def faults(self) -> tuple[str, ...]:
        """Return what is not understood: ``hpas shop/web: why``; the ConfigMap's fault as ``rules: why``."""
        faults = [f"{name} {fault}" for name, _, objects in self._all for fault in objects.faults()]
        return (*faults, *([f"rules: {self._rules.fault}"] if self._rules.fault is not None else []))

    def _watch(
        self,
        name: str,
        path: str,
        objects: ReflectedObjects[T],
        *,
        query: Mapping[str, str] | None = None,
        is_paged: bool = False,
        metadata_only: bool = False,
        on_news: Callable[[], None] | None = None,
        on_connect: Callable[[], None] | None = None,
    ) -> tuple[str, Reflector[T], ReflectedObjects[T]]:
        source = WatchSource(
            name=name,
            path=path,
            read=objects.read,
            is_same=objects.is_same,
            query=query or {},
            page_objects=PAGE_OBJECTS if is_paged else None,
        )
        if metadata_only:
            source = replace(source, accept_list=_METADATA_LIST, accept_watch=_METADATA)
        reflector = Reflector(
            self._api,
            source,
            clock=time.monotonic,
            random=random.random,
            on_news=on_news if on_news is not None else _nobody,
            on_connect=on_connect,
            pace=self._pace,
            kept=objects,
        )
        return name, reflector, objects

    def _watch_vpas(self) -> tuple[str, OptionalWatch[VerticalAutoscaler], ByTarget[VerticalAutoscaler]]:
        group, resource = "/apis/autoscaling.k8s.io/v1", "verticalpodautoscalers"
        watch = OptionalWatch(
            self._api,
            name="vpas",
            group_path=group,
            resource=resource,
            kept=self._vpas,
            make=lambda: self._watch("vpas", f"{group}/{resource}", self._vpas)[1],
            clock=time.monotonic,
            ask_seconds=self._ask_seconds,
        )
        self._vpa_watch = watch
        return "vpas", watch, self._vpas

    def _watch_their_admission(self) -> tuple[str, Reflector[str], ReflectedObjects[str]]:
        return self._watch(
            "vpa-admission",
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            self._their_admission,
            query={"fieldSelector": f"metadata.name={THEIR_ADMISSION}"},
            metadata_only=True,
        )

    def _see_nodes(self) -> None:
        """Sum up the nodes whenever one of them changed, so that admissions need not walk them."""
        nodes = self._nodes.values()
        self._overloaded = frozenset(node.name for node in nodes if node.is_overloaded)
        self._largest_allocatable = largest_allocatable(nodes)
        self._smallest_capacity = smallest_capacity(nodes)
        # One that is not understood is none of the values, and may run a kubelet of any version.
        is_whole = len(nodes) == len(self._nodes)
        self._kubelets_take_pod_resources = is_whole and all_take_pod_resources(nodes)
        self._kubelets_resize = is_whole and all_resize(nodes)
        self._has_seen_nodes = True

    def _read_rules(self) -> None:
        before = self._rules
        data = next(iter(self._config.values()), None)
        faults = self._config.faults()
        if data is not None or not faults:
            # One that is not there says nothing: no pause, no rules.
            self._rules = read_rules(data if data is not None else {}, last_good=self._good_rules)
            if self._rules.fault is None:
                self._good_rules = self._rules
        else:
            self._rules = replace(self._rules, fault=faults[0])
        if self._rules.fault is not None and self._rules.fault != before.fault:
            log.warning("the ConfigMap is not understood", extra={"fault": self._rules.fault})
        self._has_read_rules = True

    def _ask_version(self) -> None:
        """Ask before each list and watch of the nodes: a server is replaced by another version while they are cut."""
        try:
            self._server_version = server_version(self._api) or self._server_version
        except KubeError:
            return  # the list that follows tells of it


def _nobody() -> None:
    """Nobody listens."""

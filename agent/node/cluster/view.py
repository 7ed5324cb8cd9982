"""What the API server knows of this node: its pods, itself, the namespaces. Three watches, and one view of them.

A fourth, of the cluster's pause, stands beside them where a ConfigMap is named: no plan needs it.

The view stands in the place of a pods file too: it names containers and says where they belong. While the server is
away the last good state stays, and its age says so.
"""

from __future__ import annotations

import logging
import random as system_random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.node import Namespace, Node, NodeState
from agent.core.cluster.pod import Pod
from agent.core.cluster.pod_index import Belonging, PodIndex, belonging, join
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.kube.client.api import Api, server_version
from agent.kube.client.errors import KubeError
from agent.kube.objects.pod_json import namespace_from_json, node_from_json, pod_from_json
from agent.kube.watch.reflector import Reflector, WatchCounts, WatchPace, WatchSource
from agent.node.cluster.pause import PauseWatch

log = logging.getLogger(__name__)

NOT_TOLD: Final = "the API server has not told of it"
STOP_SECONDS: Final = 0.5
"""A watch that is connecting to a dead server cannot be woken: its thread is left to end with the process."""
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """How one of the watches fares; for ``doctor`` and metrics."""

    name: str
    """``pods``, ``node`` or ``namespaces``."""
    age_seconds: float | None
    """Since the server was last heard; None = never."""
    trouble: str | None
    """Why it is not heard; None = it is."""
    counts: WatchCounts


class ClusterView:
    """The node as the API has it; for any thread."""

    def __init__(
        self,
        api: Api,
        node_name: str,  # The Node object of this machine
        *,
        clock: Callable[[], float] = time.monotonic,  # Monotonic seconds
        # Gives 0..1; spreads starts and waits, so that many nodes do not come at once
        random: Callable[[], float] = system_random.random,
        # Called after something changed that planning reads; from a watching thread, so it must be quick
        on_news: Callable[[], None] | None = None,
        pace: WatchPace | None = None,
        pause_config_map: str | None = None,  # NAMESPACE/NAME of the ConfigMap with the cluster's pause
        group_by: Sequence[str] = (),  # Labels that hold pods together (``workloads.groupBy``)
    ) -> None:
        self.node_name: Final = node_name
        self.pace: Final = pace if pace is not None else WatchPace()
        self.on_news: Callable[[], None] = on_news if on_news is not None else _nobody
        self._api = api
        self._group_by = tuple(group_by)
        self._clock = clock
        self._lock = threading.Lock()
        self._revision = 0
        """Of the pods: rises with each change."""
        self._told_revision = 0
        self._listed: tuple[int, tuple[Pod, ...]] = (0, ())
        self._index: tuple[int, PodIndex] = (0, PodIndex())
        self._server_version: str | None = None
        self._pods = Reflector(
            api,
            WatchSource(
                name="pods",
                path="/api/v1/pods",
                query={"fieldSelector": f"spec.nodeName={node_name}"},
                read=self.read_pod,
                is_same=_is_same_pod,
            ),
            clock=clock,
            random=random,
            on_news=self._pods_changed,
            pace=self.pace,
        )
        self._node = Reflector(
            api,
            WatchSource(
                name="node",
                path="/api/v1/nodes",
                query={"fieldSelector": f"metadata.name={node_name}"},
                read=node_from_json,
                is_same=_is_same_node,
            ),
            clock=clock,
            random=random,
            on_news=self._pods_changed,  # its uid tells a mirror from a pod that says it is one
            on_connect=self._ask_version,
            pace=self.pace,
        )
        self._namespaces = Reflector(
            api,
            WatchSource(
                name="namespaces",
                path="/api/v1/namespaces",
                read=namespace_from_json,
                is_same=_is_same_namespace,
                accept_list=_METADATA_LIST,
                accept_watch=_METADATA,
            ),
            clock=clock,
            random=random,
            on_news=self._changed,
            pace=self.pace,
        )
        self.pause: Final = (
            None
            if pause_config_map is None
            else PauseWatch(api, pause_config_map, clock=clock, random=random, on_news=self._changed, pace=self.pace)
        )
        self._all: Final[tuple[tuple[str, Reflector[Pod] | Reflector[Node] | Reflector[Namespace]], ...]] = (
            ("pods", self._pods),
            ("node", self._node),
            ("namespaces", self._namespaces),
        )
        self._threads: Final = (*self._all, *(() if self.pause is None else (("pause", self.pause.reflector),)))

    def read_pod(self, document: object) -> Pod:
        """Read a pod as all of this view are read: in its group, where labels hold pods together."""
        return pod_from_json(document, group_by=self._group_by)

    def start(self) -> None:
        """Begin to watch, each kind in a thread of its own."""
        for _, watch in self._threads:
            watch.start()

    def stop(self) -> None:
        """End the watches; takes half a second at most."""
        for _, watch in self._threads:
            watch.stop()
        until = time.monotonic() + STOP_SECONDS
        for name, watch in self._threads:
            if not watch.join(max(until - time.monotonic(), 0.0)):
                log.debug("watch left in its connection", extra={"watch": name})

    # -- what is known ---------------------------------------------------------------------------------------------

    def state(self) -> NodeState:
        """Return all that is known at this moment, last known good.

        A node, namespace or pod that is not understood is not in it; ``node_fault``, ``unknown_namespaces`` and
        ``unreadable_pods`` say so.
        """
        # Before what is read, and so true of it: of what is listed meanwhile a part may be missing here.
        is_complete, age_seconds = all(watch.is_listed for _, watch in self._all), self._oldest_seconds()
        pods, unreadable_pods = self._pods.kept.values_and_faults()
        nodes, node_faults = self._node.kept.values_and_faults()
        known_namespaces, namespace_faults = self._namespaces.kept.values_and_faults()
        namespaces = {namespace.name: namespace for namespace in known_namespaces}
        return NodeState(
            node=nodes[0] if nodes else None,
            pods=pods,
            namespaces=namespaces,
            unknown_namespaces=_unknown({pod.namespace for pod in pods} - namespaces.keys(), namespace_faults),
            unreadable_pods=unreadable_pods,
            node_fault=node_faults[0] if node_faults and not nodes else None,
            server_version=self._server_version,
            is_complete=is_complete,
            age_seconds=age_seconds,
        )

    def pods(self) -> tuple[Pod, ...]:
        """Return all pods as the state has them; the same object as long as none has changed."""
        with self._lock:
            wanted = self._revision
            if self._listed[0] != wanted:
                # At least as new as the revision: a change in between raises it again.
                self._listed = (wanted, self._pods.kept.values())
            return self._listed[1]

    def put(self, pod_json: object) -> None:
        """Take the pod that a patch was answered with, ahead of the watch; an older one never replaces a newer.

        It is believed only of a pod that the watch has shown. What is not understood is left to the watch.
        """
        objects = self._pods.kept
        if objects.put_answer(objects.entry(pod_json), now_seconds=self._clock()):
            self._pods_changed()

    def statuses(self) -> tuple[WatchStatus, ...]:
        """Return how each watch fares."""
        return tuple(
            WatchStatus(name=name, age_seconds=watch.age_seconds, trouble=watch.trouble, counts=replace(watch.counts))
            for name, watch in self._all
        )

    def faults(self) -> tuple[str, ...]:
        """Return what is not understood, of any kind: ``pods shop/web: why``."""
        return tuple(f"{name} {fault}" for name, watch in self._all for fault in watch.kept.faults())

    # -- in the place of a pods file -------------------------------------------------------------------------------

    @property
    def age_seconds(self) -> float | None:
        """How long ago the server was last heard of pods; None = never."""
        return self._pods.age_seconds

    def refresh(self) -> bool:
        """Return whether pods changed since this was last asked: other names may hold now."""
        with self._lock:
            changed = self._told_revision != self._revision
            self._told_revision = self._revision
        return changed

    def name(self, identity: UnitIdentity) -> tuple[UnitIdentity, UnitResources]:
        """Return the identity with pod and container names where the server knows them."""
        return join(identity, self._current_index())

    def belonging(self, identity: UnitIdentity) -> Belonging:
        """Find the workload of a named container, and what its pod says of sizing."""
        return belonging(identity, self._current_index())

    # -- inside ----------------------------------------------------------------------------------------------------

    def _current_index(self) -> PodIndex:
        with self._lock:
            revision, index = self._index
            wanted = self._revision
        if revision == wanted:
            return index
        # Made of values at least as new as the revision read before it: a change in between raises it again.
        nodes = self._node.kept.values()
        index = PodIndex(self._pods.kept.values(), node_uid=nodes[0].uid if nodes else None)
        with self._lock:
            if self._index[0] <= wanted:
                self._index = (wanted, index)
        return index

    def _oldest_seconds(self) -> float | None:
        """Return the age of the part that was heard longest ago; None = not all were."""
        ages = [watch.age_seconds for _, watch in self._all]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    def _pods_changed(self) -> None:
        with self._lock:
            self._revision += 1
        self.on_news()

    def _changed(self) -> None:
        self.on_news()

    def _ask_version(self) -> None:
        """Ask before each list and watch of the node: a server is replaced by another version while watches are cut."""
        try:
            version = server_version(self._api)
        except KubeError:
            return  # the list that follows tells of it
        if version is not None and version != self._server_version:
            self._server_version = version
            self.on_news()


def _nobody() -> None:
    """Nobody listens."""


def _is_same_pod(pod: Pod, other: Pod) -> bool:
    """Compare all but the number of the writing, which rises with every field that nobody here reads."""
    return replace(pod, resource_version=None) == replace(other, resource_version=None)


def _is_same_node(node: Node, other: Node) -> bool:
    return replace(node, resource_version=None) == replace(other, resource_version=None)


def _is_same_namespace(namespace: Namespace, other: Namespace) -> bool:
    return namespace == other


def _unknown(names: Set[str], faults: Iterable[str]) -> Mapping[str, str]:
    """Return why nothing is known of these namespaces, by what is wrong with those that are there."""
    why = {name: f"not understood: {cause}" for name, _, cause in (fault.partition(": ") for fault in faults)}
    return {name: why.get(name, NOT_TOLD) for name in sorted(names)}

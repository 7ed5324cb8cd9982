"""The day as it is played: a real control plane, real cgroups, the real agent and webhook; only kubelets are played."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.core.resize.decision import Outcome
from agent.node.orders.holds import FILE_NAME as HOLDS
from tests.cluster import chart, fence, objects
from tests.cluster.acting_node import ActingNode
from tests.cluster.api import ApiError, Json, kubeconfig
from tests.cluster.control_plane import QUIET_CONTROLLERS, ControlPlane
from tests.cluster.demo_loads import DemoLoads
from tests.cluster.identities import create_namespace, node_bound_token
from tests.cluster.kubelet_play import KubeletPlay
from tests.cluster.webhook_process import ACCOUNT, AUDIENCE, registration
from tests.cluster.webhook_process import NAMESPACE as WEBHOOK_NAMESPACE
from tests.kernel.cgroups import CgroupTree
from tests.soak.agent_lives import AgentLives
from tests.soak.leftovers import MEMORY_DISKS
from tests.soak.memory_hog import NODE_PRESSURE, memory_hog, waited_usec
from tests.soak.memory_hog import why_not as why_no_hog
from tests.soak.roles import ELSEWHERE, HERE, NAMESPACE, ROLES, SPARED_NAMESPACE, document
from tests.soak.rules import Born, born, kept_originals, lost_original
from tests.soak.schedule import Event, Kind
from tests.soak.shifted_clock import set_clock
from tests.soak.state_disk import StateDisk
from tests.soak.webhook_lives import WebhookLives

CONTROLLERS: Final = f"{QUIET_CONTROLLERS},-garbage-collector-controller"
"""Owners of the day's pods are in name only: nobody is to collect the pods for it."""
APISERVER_ARGUMENTS: Final = ("--audit-log-maxsize=4000",)
"""Mebibytes: the whole day in one file."""
TOKEN_SECONDS: Final = 7 * 86_400
"""Nobody renews it."""
CPUS, MEMORY = "12", "32Gi"
"""Of the nodes, so that all pods fit: evictions are other tests' business."""
LOOK_SECONDS: Final = 0.5
SAMPLE_SECONDS: Final = 1.0
DECISIONS_SECONDS: Final = 10.0
SQUEEZED: Final = "store-resident"
"""The pod that is short of memory for a while."""
CONFLICT, NOT_FOUND = 409, 404
AWAY: Final = (403, 429, 500, 503, 504)
"""What an API server answers that has just been started."""


@dataclass(slots=True)
class Happened:
    """What came of the day beside logs and samples."""

    events: Counter[str] = field(default_factory=Counter)
    pods: dict[str, Born] = field(default_factory=dict)
    """By uid."""
    born_seconds: dict[str, float] = field(default_factory=dict)
    """When pods were created, by ``namespace/name``; seconds of the run."""
    lost_originals: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    """Pods that were gone before anybody here deleted them."""
    sized_at_admission: int = 0
    memory_waited_usec: tuple[int, int] | None = None
    """Of the node and of the squeezed pod's container, in the memory's hour; None = it could not be made short."""
    disk_full: list[tuple[float, float]] = field(default_factory=list)
    """UTC seconds."""
    most_late_seconds: float = 0.0
    """How long after its moment an event came at most."""


class Day:
    """Plays events; see the module's docstring. One thread."""

    def __init__(
        self,
        *,
        plane: ControlPlane,
        tree: CgroupTree,
        folder: Path,
        disk: StateDisk,
        agent: AgentLives,
        hook: WebhookLives,
        clock: Path,
        sources: tuple[Path, Path],
        rings: Path,
        say: Callable[[str], None],
        began: float,
    ) -> None:
        self.plane, self.tree, self.agent, self.hook = plane, tree, agent, hook
        self._folder, self._disk, self._clock, self._say, self._began = folder, disk, clock, say, began
        self._older, self._newer = sources
        self._rings = rings
        self._sources = self._older
        self._loads = DemoLoads(plane.admin, HERE, tree)
        self._waiting: deque[Event] = deque()
        """About pods; an API server that is away gets them later, in their order."""
        self._hog = contextlib.ExitStack()
        self._full_since: float | None = None
        self._waited = (0, 0)
        self._going = ""
        """The pod whose deletion was asked for last: a server that was killed may have done it."""
        self._due = {"look": 0.0, "sample": 0.0, "decisions": 0.0}
        self.happened = Happened()

    @property
    def second(self) -> float:
        """Return the second of the run."""
        return time.monotonic() - self._began

    def play(self, events: Sequence[Event], seconds: float) -> None:
        """Play them, each at its second, to the end of the run."""
        for event in events:
            self._keep_house(until=event.second)
            self._do(event)
        self._keep_house(until=seconds)

    def catch_up(self) -> bool:
        """Do what is done all the time once more; return whether no pod waits for the API server."""
        self._house()
        return not self._waiting

    def close(self) -> None:
        """Let go of what an end in the middle of something leaves."""
        self._hog.close()
        self._disk.free()

    def pod(self, born_pod: Born) -> Json:
        """Return a pod as it is."""
        namespace, _, name = born_pod.pod.partition("/")
        return self.plane.admin.get(objects.pod_path(namespace, name))

    def living(self) -> list[tuple[Born, Json]]:
        """Return the pods that are there, as they were created and as they are."""
        now = {pod["metadata"]["uid"]: pod for pod in self.plane.admin.items("/api/v1/pods")}
        return [(pod, now[uid]) for uid, pod in self.happened.pods.items() if uid in now]

    def kept(self) -> Mapping[str, frozenset[tuple[str, str, str, int]]]:
        """Return what the agent has kept of pods' originals."""
        try:
            return kept_originals(json.loads((self.agent.state / HOLDS).read_text()))
        except FileNotFoundError:
            return {}

    # Beside the events

    def _keep_house(self, *, until: float) -> None:
        """Do what is done all the time until a second of the run has come."""
        while True:
            self._house()
            left = until - self.second
            if left <= 0.0:
                break
            time.sleep(min(left, 0.1))
        self.happened.most_late_seconds = max(self.happened.most_late_seconds, self.second - until)

    def _house(self) -> None:
        self.agent.revive(self._sources)
        self._try_waiting()
        if self._is_due("look", LOOK_SECONDS):
            self._loads.look()
            if self._full_since is not None:
                self._disk.fill()  # what others gave back meanwhile
        if self._is_due("sample", SAMPLE_SECONDS):
            self.agent.sample()
            self.hook.sample()
        if self._is_due("decisions", DECISIONS_SECONDS):
            self.agent.read_decisions()

    def _is_due(self, what: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[what]:
            return False
        self._due[what] = now + seconds
        return True

    def _try_waiting(self) -> None:
        while self._waiting:
            event = self._waiting[0]
            try:
                self._come(event) if event.kind is Kind.POD_COMES else self._go(event)
            except OSError:
                return
            except ApiError as error:
                if error.status not in AWAY:
                    raise
                return
            self._waiting.popleft()
            self.happened.events[event.kind] += 1

    # The events

    def _do(self, event: Event) -> None:
        if event.kind in (Kind.POD_COMES, Kind.POD_GOES):
            self._waiting.append(event)
            self._try_waiting()
            return
        self._say(f"{event.kind}" + (f" to {event.offset_seconds:+.0f} s" if event.kind is Kind.CLOCK_SET else ""))
        actions: dict[Kind, Callable[[], object]] = {
            Kind.AGENT_KILLED: lambda: self.agent.end(kill=True),
            Kind.API_SERVER_KILLED: self.plane.stop_apiserver,
            Kind.API_SERVER_BACK: self.plane.start_apiserver,
            Kind.WEBHOOK_AWAY: self.hook.end,
            Kind.WEBHOOK_BACK: self.hook.start,
            Kind.CLOCK_SET: lambda: set_clock(self._clock, event.offset_seconds),
            Kind.DISK_FULL: self._fill,
            Kind.DISK_FREE: self._free,
            Kind.MEMORY_SHORT: self._squeeze,
            Kind.MEMORY_ENOUGH: self._relax,
            Kind.CERTIFICATE_ROTATED: self.hook.rotate,
            Kind.UPGRADED: self._upgrade,
        }
        actions[event.kind]()
        self.happened.events[event.kind] += 1

    def _come(self, event: Event) -> None:
        wanted = document(event.pod, event.role)
        namespace = wanted_namespace(event.role)
        try:
            answer = self.plane.admin.create(objects.pod_path(namespace), wanted)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
            answer = self.plane.admin.get(objects.pod_path(namespace, event.pod))  # its server was killed in between
        pod = born(event.role, wanted, answer)
        self.happened.pods[pod.uid] = pod
        self.happened.born_seconds[pod.pod] = self.second
        self.happened.sized_at_admission += pod.was_sized

    def _go(self, event: Event) -> None:
        path = objects.pod_path(wanted_namespace(event.role), event.pod)
        try:
            now = self.plane.admin.get(path)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            if self._going != event.pod:
                self.happened.vanished.append(f"{event.pod}: gone, and nobody was to take it away")
            return
        fault = lost_original(self.happened.pods[now["metadata"]["uid"]], now, self.kept())
        if fault is not None:
            self.happened.lost_originals.append(fault)
        self._going = event.pod
        self.plane.admin.delete(path, gracePeriodSeconds="0")

    def _fill(self) -> None:
        self._disk.fill()
        self._full_since = time.time()

    def _free(self) -> None:
        self._disk.free()
        if self._full_since is not None:
            self.happened.disk_full.append((self._full_since, time.time()))
        self._full_since = None

    def _squeeze(self) -> None:
        if why_no_hog() is not None:
            return
        container = self._squeezed()
        self._hog.enter_context(memory_hog(container, self._folder / "read-again-and-again"))
        self._waited = (waited_usec(NODE_PRESSURE), waited_usec(container / "memory.pressure"))

    def _relax(self) -> None:
        if why_no_hog() is None:
            container = self._squeezed()
            now = (waited_usec(NODE_PRESSURE), waited_usec(container / "memory.pressure"))
            node, pod = (after - before for before, after in zip(self._waited, now, strict=True))
            self.happened.memory_waited_usec = (node, pod)
        self._hog.close()

    def _squeezed(self) -> Path:
        pod = next(candidate for candidate in self.happened.pods.values() if candidate.pod == f"{NAMESPACE}/{SQUEEZED}")
        return self.tree.absolute(ActingNode.cgroup_of(self.pod(pod)))

    def _upgrade(self) -> None:
        self.agent.end(kill=False)
        self._sources = self._newer
        self.agent.configure(state__ringsDirectory=str(self._rings))
        self.agent.start(self._sources)


def wanted_namespace(role: str) -> str:
    """Return where a role's pods live."""
    return ROLES[role].namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a day is played on."""

    plane: ControlPlane
    tree: CgroupTree
    agent_words: Sequence[str]
    agent_settings: Mapping[str, str]
    rings: Path
    """In memory; the older agent knows no place of its own for its rings, and has them on the state's disk."""
    webhook_kubeconfig: Path
    reader: str
    """The token of somebody who may read what the webhook learnt."""


@contextlib.contextmanager
def stage(plane: ControlPlane, folder: Path) -> Iterator[Stage]:
    """Put nodes, namespaces, accounts and rights into a control plane, and play the kubelets inside the block."""
    fence.install(plane)
    plane.admin.apply_all(chart.parts(*chart.WEBHOOK))
    create_namespace(plane, NAMESPACE)
    create_namespace(plane, SPARED_NAMESPACE, {"plimsoll.dev/mode": "off"})
    for node in (HERE, ELSEWHERE):
        objects.create_node(plane.admin, node, cpu=CPUS, memory=MEMORY, kubelet_version=f"v{plane.version}")

    def token(account: str, node: str | None, *audiences: str) -> str:
        return node_bound_token(
            plane, WEBHOOK_NAMESPACE, account, node, audiences=tuple(audiences), seconds=TOKEN_SECONDS
        )

    reporting = folder / "report-token"
    reporting.write_text(token(ACCOUNT, HERE, AUDIENCE))
    acting = kubeconfig(plane.api_with_token(token(ACCOUNT, HERE)), folder / "agent.kubeconfig")
    judging = kubeconfig(plane.api_with_token(token("plimsoll-webhook", None)), folder / "webhook.kubeconfig")
    rings = MEMORY_DISKS / f"{folder.name}-rings"
    rings.mkdir()
    try:
        with CgroupTree() as tree, KubeletPlay(plane, HERE), KubeletPlay(plane, ELSEWHERE):
            yield Stage(
                plane=plane,
                tree=tree,
                agent_words=(
                    *("--node", HERE, "--kubeconfig", str(acting)),
                    *("--cgroup-mount", str(tree.mount), "--cgroup-root", f"/{tree.name}"),
                ),
                agent_settings={
                    "report.tokenFile": str(reporting),
                    "report.caFile": str(plane.authority),
                },
                rings=rings,
                webhook_kubeconfig=judging,
                reader=_reader(plane),
            )
    finally:
        for file in rings.iterdir():
            file.unlink()
        rings.rmdir()


def _reader(plane: ControlPlane) -> str:
    """Give an account the right to read histories, and return its token."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "soak-reader"}}
    rules = [{"nonResourceURLs": ["/v1/workloads", "/v1/workloads/*"], "verbs": ["get"]}]
    plane.admin.apply({**head, "kind": "ClusterRole", "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "soak-reader"}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}]
    plane.admin.apply({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    return node_bound_token(plane, NAMESPACE, "default", None, audiences=(AUDIENCE,), seconds=TOKEN_SECONDS)


def register(plane: ControlPlane, port: int) -> None:
    """Have the API server ask the webhook about new pods of the day."""
    plane.admin.apply(registration(port, NAMESPACE, plane.authority))


def settled_outcomes(counts: Counter[tuple[str, Outcome]]) -> dict[str, int]:
    """Return how often each outcome was logged, whatever the pod."""
    by_outcome: Counter[str] = Counter()
    for (_, outcome), count in counts.items():
        by_outcome[str(outcome)] += count
    return dict(sorted(by_outcome.items()))


def jumps_minutes(events: Sequence[Event]) -> list[int]:
    """Return by how many minutes the clock was set forwards, each time."""
    minutes: list[int] = []
    offset = 0.0
    for event in events:
        if event.kind is Kind.CLOCK_SET:
            if event.offset_seconds > offset:
                minutes.append(round((event.offset_seconds - offset) / 60.0))
            offset = event.offset_seconds
    return minutes


def as_record(kind: str, content: Any) -> str:
    """Return a line of the records."""
    return json.dumps({**content, "record": kind})

"""The thread ``runs``: tells the webhook of each run of a Job's container as soon as it has ended, and of starts.

Node. What the webhook does not take waits, within bounds, and on disk too while nobody takes it; a webhook that knows
no runs is left alone for an hour. It calls core and holds no rule.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.core.cluster.pod import Container, ContainerKind, ContainerState, Pod, Termination
from agent.core.cluster.unit import UnitIdentity
from agent.core.cluster.workload import RUN_KINDS, Workload, run_of, workload_of
from agent.core.history.workloads.job_run import (
    MAX_RUNS_A_POST,
    RUNS_PATH,
    RunFigures,
    ToldRun,
    run_figures,
    run_row,
    run_words,
    runs_text,
)
from agent.core.window.policy import WindowPolicy
from agent.core.window.steps import NS
from agent.metrics.loop_series import LoopTurns
from agent.node.reports.client import WebhookClient
from agent.node.reports.patient_posts import PatientPosts, PostEnd, PostWaits
from agent.node.reports.runs_file import RunsFile, WaitingRun
from agent.node.reports.starts import EndedStart, Starts
from agent.node.sampling.run_ends import MOST_BYTES, EndedContainer, RunEnds, newest_within
from agent.turns import Turns

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Between two looks at which pods run to an end, and at what has ended."""
EXIT_SECONDS: Final = 3.0
"""So long its exit is waited for, which the kubelet tells a second after the cgroup has gone."""
UNKNOWN_SECONDS: Final = 15.0
"""After which a container that no pod names is forgotten: a sandbox, or its pod is gone."""
POST_SECONDS: Final = 2.5
"""Between two posts at least: within what the webhook lets a node call a minute."""
AGAIN_SECONDS: Final = 5.0
"""After a post that was not taken, doubled each time ..."""
LONGEST_AGAIN_SECONDS: Final = 300.0
"""... up to this."""
OLDEST_SECONDS: Final = 6 * 3600.0
"""A run that could not be told for so long is forgotten."""
MOST_WAITING: Final = 1000
MOST_PODS: Final = 1000
"""Pods that are remembered after they went: what they ran is told a moment later."""
SHORT_NS: Final = 10 * NS
"""Of a shorter run the CPU time after the last reading counts: that of the whole pod is taken, where it ran alone."""
KILL_NS: Final = 5 * NS
"""The news of a kill may come so long after its container has gone."""
MOST_SHOWN: Final = 5
"""Last runs of a container, for ``plimsoll why`` ..."""
MOST_SHOWN_CONTAINERS: Final = 500
"""... of so many containers."""
STOP_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kill:
    pod_uid: str
    container_id: str | None
    monotonic_ns: int
    memory_bytes: int | None


class _EndedContainer(NamedTuple):
    """What is left of a container, and since when it is known here."""

    ended: EndedContainer
    found_ns: int


class RunTeller:
    """Takes the turns of the thread ``runs``; ``killed`` may be called from any."""

    def __init__(
        self,
        *,
        ends: RunEnds,
        node: str,  # As its token names it
        pods: Callable[[], Sequence[Pod]],  # All of the node as the API has them; the same object = none has changed
        policy: Callable[[], WindowPolicy],  # The windows in force
        poster: WebhookClient,
        file: RunsFile,
        counts: LoopTurns | None = None,
        starts: Starts | None = None,  # Of pods that go on running; None = nobody asks for them
    ) -> None:
        self._starts = starts
        self._ends, self._node, self._pods, self._policy = ends, node, pods, policy
        waits = PostWaits(again_seconds=AGAIN_SECONDS, longest_again_seconds=LONGEST_AGAIN_SECONDS)
        self._posts = PatientPosts(poster, RUNS_PATH, what="runs", waits=waits)
        self._file, self._clock_ns = file, ends.clock_ns
        self._lock = threading.Lock()
        self._kills: deque[_Kill] = deque(maxlen=MOST_WAITING)
        self._looked_at: Sequence[Pod] | None = None
        self._known: OrderedDict[str, Pod] = OrderedDict()
        self._found: deque[_EndedContainer] = deque()
        self._waiting: deque[WaitingRun] = deque(file.read(), maxlen=MOST_WAITING)
        self._last: OrderedDict[tuple[Workload, str], deque[WaitingRun]] = OrderedDict()
        self._due_ns = self._clock_ns()
        self.turns: Final = Turns("runs", self.turn, failed=self._failed, counts=counts)
        ends.on_end = self.turns.wake

    def _failed(self, _: Exception) -> float:
        log.exception("telling of runs failed")
        return AGAIN_SECONDS

    def stop(self) -> None:
        """End; what was not told is kept for the next start, as far as its pod is known."""
        self.turns.stop()
        if self.turns.join(STOP_SECONDS):
            self._posts.close()
            self._take()
            self._fold_all(self._clock_ns() + int(UNKNOWN_SECONDS * NS))
            self._file.keep(tuple(self._waiting))

    def killed(self, identity: UnitIdentity, *, memory_bytes: int | None, monotonic_ns: int) -> None:
        """Handle an out-of-memory kill; the sampling thread. Never waits."""
        if identity.pod_uid is not None:
            kill = _Kill(
                pod_uid=identity.pod_uid,
                container_id=identity.container_id,
                monotonic_ns=monotonic_ns,
                memory_bytes=memory_bytes,
            )
            self._kills.append(kill)

    def last_of(self, workload: Workload, container: str) -> tuple[str, ...]:
        """Return the last runs of a container that ended here, newest first, one sentence each; any thread."""
        now_ns = self._clock_ns()
        with self._lock:
            known = tuple(self._last.get((workload, container), ()))
        return tuple(run_words(run.row, max(now_ns - run.ended_ns, 0) / NS) for run in reversed(known))

    def start_used(self, uid: str, container: str) -> RunFigures | None:
        """Return what a container of a pod here used while it started; None = not known; any thread."""
        return None if self._starts is None else self._starts.used(uid, container)

    def _remember(self, run: WaitingRun) -> None:
        with self._lock:
            self._last.setdefault(run.row.key, deque(maxlen=MOST_SHOWN)).append(run)
            self._last.move_to_end(run.row.key)
            while len(self._last) > MOST_SHOWN_CONTAINERS:
                self._last.popitem(last=False)

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Do what is due; give the seconds until something may be again."""
        has_pods = self._look_at_pods()
        self._take()
        now_ns = self._clock_ns()
        if has_pods:
            self._fold_all(now_ns)
        if self._starts is not None:
            self._waiting.extend(map(_of_start, self._starts.ended(now_ns)))
        if self._waiting and now_ns >= self._due_ns:
            self._post(now_ns)
        return LOOK_SECONDS

    def _take(self) -> None:
        found_ns = self._clock_ns()
        self._found.extend(_EndedContainer(ended, found_ns) for ended in self._ends.take())

    def _fold_all(self, now_ns: int) -> None:
        left = [container for container in self._found if not self._fold(container.ended, now_ns - container.found_ns)]
        self._found = deque(newest_within(left, lambda container: container.ended.size_bytes, MOST_BYTES))

    def _look_at_pods(self) -> bool:
        """Remember the pods that run to an end, in their newest state; return whether any pod was ever known."""
        pods = self._pods()
        if pods is self._looked_at:
            return bool(pods) or bool(self._known)
        self._looked_at = pods
        present: set[str] = set()
        for pod in pods:
            if workload_of(pod).kind in RUN_KINDS:
                present.add(pod.cgroup_uid)
                self._known[pod.cgroup_uid] = pod
                self._known.move_to_end(pod.cgroup_uid)
        while len(self._known) > max(MOST_PODS, len(present)):
            self._known.popitem(last=False)
        self._ends.run_pods = frozenset(present)
        return bool(pods) or bool(self._known)

    def _fold(self, ended: EndedContainer, waited_ns: int) -> bool:
        """Turn what is left of a container into a run; False = more is to be known of it first."""
        pod = self._known.get(ended.identity.pod_uid or "")
        container = None if pod is None else _container_of(pod, ended.identity)
        if pod is None or container is None:
            return waited_ns >= UNKNOWN_SECONDS * NS
        termination = _termination_of(pod, ended.identity)
        if termination is None and waited_ns < EXIT_SECONDS * NS:
            return False
        if container.kind is ContainerKind.EPHEMERAL:
            return True
        kill = self._kill_of(ended)
        is_killed = kill is not None or (termination is not None and termination.is_oom_kill)
        known = kill.memory_bytes if kill is not None else None
        workload = workload_of(pod)
        row = run_row(
            _figures(ended, pod, self._policy()),
            workload=workload,
            container=container.name,
            run=run_of(pod),
            ended_unix_seconds=0.0,  # the receiver's clock is the only one
            # It was killed by its own limit, as a rule, which no reading may have seen it reach.
            memory_at_kill_bytes=container.resources.memory_limit_bytes if known is None else known,
            is_killed=is_killed,
            exit_code=None if termination is None else termination.exit_code,
        )
        run = WaitingRun(pod=pod.name, pod_uid=pod.uid, ended_ns=ended.ended_ns, row=row)
        self._waiting.append(run)
        self._remember(run)
        return True

    def _kill_of(self, ended: EndedContainer) -> _Kill | None:
        """Find a kill in a container; None = there was none."""
        identity = ended.identity
        return next(
            (
                kill
                for kill in list(self._kills)
                if kill.pod_uid == identity.pod_uid
                and kill.container_id in (None, identity.container_id)
                and ended.started_ns <= kill.monotonic_ns <= ended.ended_ns + KILL_NS
            ),
            None,
        )

    def _post(self, now_ns: int) -> None:
        oldest_ns = now_ns - int(OLDEST_SECONDS * NS)
        while self._waiting and self._waiting[0].ended_ns < oldest_ns:
            self._waiting.popleft()
        sent = list(self._waiting)[:MAX_RUNS_A_POST]
        if not sent:
            return
        runs = [
            ToldRun(
                pod=run.pod,
                pod_uid=run.pod_uid,
                ended_age_seconds=max(now_ns - run.ended_ns, 0) / NS,
                row=run.row,
                is_start=run.is_start,
            )
            for run in sent
        ]
        self._file.keep(tuple(self._waiting))  # an agent that is ended before the answer comes tells them again
        end, wait_seconds = self._posts.post(runs_text(self._node, runs))
        if end in (PostEnd.TAKEN, PostEnd.SPOILT):
            for _ in sent:
                self._waiting.popleft()
        elif end is PostEnd.UNKNOWN:
            self._waiting.clear()
        self._file.keep(tuple(self._waiting))
        self._due_ns = now_ns + int((POST_SECONDS if end is PostEnd.TAKEN else wait_seconds) * NS)


def _of_start(start: EndedStart) -> WaitingRun:
    """Return a start as it is told: the run of a pod by itself."""
    row = run_row(
        start.figures,
        workload=workload_of(start.pod),
        container=start.container,
        run=start.pod.name,
        ended_unix_seconds=0.0,
        memory_at_kill_bytes=None,
        is_killed=False,
        exit_code=None,
    )
    pod = start.pod
    return WaitingRun(pod=pod.name, pod_uid=pod.uid, ended_ns=start.ended_ns, row=row, is_start=True)


def _container_of(pod: Pod, identity: UnitIdentity) -> Container | None:
    """Find whose cgroup it was; None = no status names it (yet), or it was the pod's sandbox."""
    if identity.container is not None:
        return pod.container(identity.container)
    statuses = (*pod.statuses, *pod.ephemeral_statuses)
    names = (status.name for status in statuses if status.container_id == identity.container_id)
    name = next(names, None) if identity.container_id is not None else None
    return None if name is None else pod.container(name)


def _termination_of(pod: Pod, identity: UnitIdentity) -> Termination | None:
    """Return how a container ended; None = it is not told (yet)."""
    for status in pod.statuses:
        if status.container_id == identity.container_id and status.state is ContainerState.TERMINATED:
            return status.termination
    return None


def _figures(ended: EndedContainer, pod: Pod, policy: WindowPolicy) -> RunFigures:
    """Return what was measured. Of a pod of one container that never started anew its own cgroup knows the rest."""
    is_alone = (
        len(pod.containers) == 1
        and not pod.init_containers
        and not pod.ephemeral_containers
        and all(status.restart_count == 0 for status in pod.statuses)
    )
    peaks = [ended.memory_peak_bytes, ended.pod_memory_peak_bytes if is_alone else None]
    is_short = ended.ended_ns - ended.started_ns < SHORT_NS
    return run_figures(
        (ended.raw,),
        (ended.memory,),
        ended.minutes,
        policy,
        started_ns=ended.started_ns,
        ended_ns=ended.ended_ns,
        is_from_beginning=ended.is_from_beginning,
        memory_peak_bytes=max((peak for peak in peaks if peak is not None), default=None),
        usage_usec=ended.pod_usage_usec if is_alone and is_short and ended.is_from_beginning else None,
    )

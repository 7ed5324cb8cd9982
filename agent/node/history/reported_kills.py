"""Out-of-memory kills on which no agent looked: learnt from the statuses of pods, each once.

Node. The kernel's counters tell of kills at once and more of them, but only while an agent reads them: over a restart
or an upgrade of it, and before the first, only the kubelet's ``lastState`` remembers. It also tells whose kills those
are that an agent learnt and did not live to report. The control thread drives it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from agent.core.cluster.pod import Pod, PodRef
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.amount_text import BYTES, amount_text
from agent.core.recommender.vpa.oom_observation import Heed, ToldKill, has_amounts_of_kill, heed, told_kills
from agent.core.resize.decision import Action, DecisionLog, Outcome
from agent.node.history.clock import MINUTE_SECONDS
from agent.node.history.learner import Learner

log = logging.getLogger(__name__)

REASON: Final = "killed_unseen"
RECENT_SECONDS: Final = 600.0
"""A kill so young may be of a container that still cannot run: it is helped at once. What was killed before that and
runs now is helped by its recommendation."""


class ToldKills:
    """Learns what statuses tell of kills; see the module's docstring."""

    def __init__(
        self,
        *,
        learner: Learner,
        pods: Callable[[], Sequence[Pod]],  # The node's pods as the API has them
        tell: DecisionLog,  # Is told of each kill that was learnt
        # Is told of a young one, with the memory it needed; None = not known
        help_now: Callable[[UnitIdentity, int | None], object],
        # Is told of each, with its age in seconds, for the workload's other nodes
        report: Callable[[UnitIdentity, int | None, float], object],
        # Until when the agents before reported, on the history's clock; None = not known
        reported_until_unix_seconds: float | None,
    ) -> None:
        self._learner, self._pods, self._tell = learner, pods, tell
        self._help_now, self._report = help_now, report
        newest = learner.history.newest_unix_minute
        self._known_until = None if newest is None else (newest + 1.0) * MINUTE_SECONDS
        self._looked_since = learner.clock.now()
        self._reported_until = reported_until_unix_seconds
        self._done: dict[tuple[str, str], float] = {}
        """Pod uid and container -> the newest kill that was looked at, by the status."""
        self._seen: dict[tuple[str, str], float] = {}
        """The uid in the cgroup's name and container -> the newest kill that the kernel told of."""

    def seen(self, identity: UnitIdentity, unix_seconds: float) -> None:
        """Handle a kill that the kernel told of; the sampling thread. Never waits."""
        if identity.pod_uid is not None and identity.container is not None:
            self._seen[identity.pod_uid, identity.container] = unix_seconds

    def look(self) -> None:
        """Learn the kills that statuses tell of and nobody else has."""
        pods = self._pods()
        now = self._learner.clock.now()
        # The kubelet's times are the wall clock's, which the history's may be whole minutes off.
        ahead = now - self._learner.clock.wall_now()
        for pod in pods:
            for kill in told_kills(pod):
                key = pod.uid, kill.container
                if self._done.get(key) != kill.unix_seconds and self._heed(pod, kill, kill.unix_seconds + ahead, now):
                    self._done[key] = kill.unix_seconds
        present = {pod.uid for pod in pods}
        self._done = {key: at for key, at in self._done.items() if key[0] in present}
        cgroups = {pod.cgroup_uid for pod in pods}
        for key in [key for key in list(self._seen) if key[0] not in cgroups]:
            self._seen.pop(key, None)

    def _heed(self, pod: Pod, kill: ToldKill, unix_seconds: float, now: float) -> bool:
        """Do what is to be done about a kill; False = it is looked at again."""
        identity = UnitIdentity(
            cgroup_path=f"status:{pod.uid}/{kill.container}",  # its own may be gone
            kind=UnitKind.CONTAINER,
            pod_uid=pod.cgroup_uid,
            namespace=pod.namespace,
            pod=pod.name,
            container=kill.container,
        )
        row = self._learner.place_of(identity).row
        if row == self._learner.history.rows:
            return False  # no row can be given to it now
        known = [of for at, of in self._learner.history.kills() if at == row]
        seen = [of.unix_seconds for of in known]
        told_by_kernel = self._seen.get((pod.cgroup_uid, kill.container))
        verdict = heed(
            unix_seconds,
            known_until_unix_seconds=self._known_until,
            looked_since_unix_seconds=self._looked_since,
            now_unix_seconds=now,
            seen_unix_seconds=seen if told_by_kernel is None else [*seen, told_by_kernel],
            reported_until_unix_seconds=self._reported_until,
        )
        if verdict is Heed.REPORT:
            nearest = min(known, key=lambda of: abs(unix_seconds - of.unix_seconds))
            self._report(identity, nearest.usage_bytes or nearest.limit_bytes, now - nearest.unix_seconds)
        if verdict is Heed.LEARN:
            self._learn(pod, kill, identity, unix_seconds, now)
        return verdict is not Heed.WAIT

    def _learn(self, pod: Pod, kill: ToldKill, identity: UnitIdentity, unix_seconds: float, now: float) -> None:
        has_amounts = has_amounts_of_kill(
            pod,
            unix_seconds,
            known_until_unix_seconds=self._known_until,
            looked_since_unix_seconds=self._looked_since,
        )
        limit_bytes, request_bytes = (kill.limit_bytes, kill.request_bytes) if has_amounts else (None, None)
        self._learner.killed(
            identity,
            OutOfMemory(
                unix_seconds=unix_seconds,
                usage_bytes=limit_bytes,
                limit_bytes=limit_bytes,
                request_bytes=request_bytes,
                is_told_by_status=True,
            ),
        )
        self._learner.learn_kills()
        age_seconds = now - unix_seconds
        self._report(identity, limit_bytes, age_seconds)
        if age_seconds <= RECENT_SECONDS:
            self._help_now(identity, limit_bytes)
        moment = datetime.fromtimestamp(kill.unix_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        used = "how much it used is not known"
        if limit_bytes is not None:
            used = f"its limit, {amount_text(limit_bytes, BYTES)}, is taken for what it used"
        elif not has_amounts:
            used += ": the pod was changed since it was made, and no history tells when"
        detail = (
            f"container {kill.container} was killed for want of memory at {moment} while no agent looked, says the "
            f"pod's status; {used}"
        )
        log.info("a kill was learnt from a status", extra={"pod": f"{pod.namespace}/{pod.name}", "detail": detail})
        self._tell(
            unix_seconds=self._learner.clock.wall_now(),
            action=Action.NOTICE,
            outcome=Outcome.DONE,
            reason=REASON,
            detail=detail,
            pod=PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
        )

"""Have every agent of a cluster put back what it resized, while pods, agents and nodes come and go. Face.

Who cannot be asked is asked again a few times: an agent that is being replaced is gone by then, and its successor is
there. What is left after that is told by name; whether to go on without it is for the caller.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from agent.cli.text.spans import harmless
from agent.core.cluster.pod import ENDED_PHASES
from agent.kube.client.api import Api
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.pod_exec import execute
from agent.kube.objects.json_reader import Reader

AGENTS: Final = "plimsoll.dev/part=agent"
CONTAINER: Final = "agent"
COMMAND: Final = ("plimsoll", "restore", "--all")
AT_ONCE: Final = 20
"""Agents that restore at the same time: each patches its pods one after the other."""
PAUSES_SECONDS: Final = (1.0, 3.0, 9.0)
"""Between two looks; in all as long as an agent takes to come in another's place where its image is there."""
BEGINNING_SECONDS: Final = (9.0,) * 6
"""... and these, where an agent answers that it does not know its pods yet: it may be slow to begin."""
_NOT_FOUND: Final = 404
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500
"""From here on the server could not ask the kubelet, or the kubelet the container."""
_SOME_FAILED: Final = 1
"""Of ``plimsoll restore``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPod:
    """An agent's pod that is bound to a node."""

    name: str
    uid: str
    node: str
    has_ended: bool
    """All its containers have, for good; it stays until somebody removes it."""
    is_ending: bool
    """It is being removed; on a node that does not answer that takes until the node does."""
    is_unready: bool
    """It is said not to be ready, as of every pod of a node that is NotReady."""


class _How(Enum):
    """What came of asking an agent."""

    DONE = auto()
    FAILED = auto()
    """It answers, and again would answer the same; or it must not be asked."""
    AGAIN = auto()
    """It may be another answer in a moment, as of an agent that has just begun."""
    UNREACHED = auto()


@dataclass(frozen=True, slots=True)
class _Came:
    agent: AgentPod
    how: _How
    why: str = ""


class ClusterRestore:
    """One restore of a whole cluster."""

    def __init__(self, api: Api, credentials: Credentials, namespace: str, deadline: float) -> None:
        self._api, self._credentials, self._namespace, self._deadline = api, credentials, namespace, deadline
        self._came: dict[str, _Came] = {}
        """By uid, the newest."""
        self.unreached: tuple[AgentPod, ...] = ()
        """Those that could not be asked and are still there, when all is done."""
        self.has_failed = False
        """Some agent could not restore some pod, or what it did is not known, when all is done."""

    def run(self) -> None:
        """Ask all agents, those that come meanwhile too, and print what came of it."""
        agents, is_first, looks = self._there(), True, 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for pause_seconds in (*PAUSES_SECONDS, *BEGINNING_SECONDS, None):
                asked = [agent for agent in agents if self._is_open(agent)]
                for came in pool.map(lambda pod, is_old=is_first: self._restored(pod, is_old=is_old), asked):
                    self._came[came.agent.uid] = came
                agents, is_first = self._there(), False
                is_through = not self._is_awaited(agents) and not any(map(self._is_open, agents))
                looks += 1
                is_enough = looks > len(PAUSES_SECONDS) and not self._is_beginning(agents)
                if is_through or is_enough or pause_seconds is None:
                    break
                if time.monotonic() + pause_seconds > self._deadline:
                    break
                time.sleep(pause_seconds)
                agents = self._there()
        self._tell(agents)

    def _there(self) -> Sequence[AgentPod]:
        return [agent for agent in agents_of(self._api, self._namespace) if not agent.has_ended]

    def _is_open(self, agent: AgentPod) -> bool:
        came = self._came.get(agent.uid)
        if came is None or came.how in (_How.AGAIN, _How.UNREACHED):
            return True
        return came.how is _How.FAILED and agent.is_ending  # as it would not restore while it was ending

    def _is_beginning(self, agents: Sequence[AgentPod]) -> bool:
        """Return whether an agent that is there was asked, and does not know its pods yet."""
        return any(agent.uid in self._came and self._came[agent.uid].how is _How.AGAIN for agent in agents)

    def _is_awaited(self, agents: Sequence[AgentPod]) -> bool:
        """Return whether an agent ended before it was through, and none has come in its place yet."""
        nodes = {agent.node for agent in agents}
        return any(came.how is not _How.DONE and came.agent.node not in nodes for came in self._came.values())

    def _restored(self, agent: AgentPod, *, is_old: bool) -> _Came:
        """Make one agent restore; ``is_old`` = it was there from the beginning, and not begun just now."""
        try:
            done = execute(
                self._credentials,
                namespace=self._namespace,
                pod=agent.name,
                container=CONTAINER,
                command=COMMAND,
                timeout_seconds=max(self._deadline - time.monotonic(), 1.0),
            )
        except KubeError as error:
            if _is_out_of_reach(error):
                return _Came(agent, _How.UNREACHED, str(error))
            return _Came(agent, _How.FAILED, str(error))
        for line in done.output.splitlines():
            print(f"{agent.node}: {harmless(line)}", flush=True)
        if done.code == 0:
            return _Came(agent, _How.DONE)
        if done.code is None:
            return _Came(agent, _How.UNREACHED, done.fault or "")
        why = f"plimsoll restore ended with {done.code}"
        # A number above tells of an agent that does not know its pods yet, or ended under the command's feet.
        return _Came(agent, _How.FAILED if done.code == _SOME_FAILED and is_old else _How.AGAIN, why)

    def _tell(self, agents: Sequence[AgentPod]) -> None:
        there = {agent.uid for agent in agents}
        ended = [came.agent for uid, came in self._came.items() if came.how is not _How.DONE and uid not in there]
        for gone in ended:
            print(f"{gone.node}: {gone.name} has ended: nothing is left to ask it")
        if ended:
            print(f"{len(ended)} agents ended meanwhile")
        unreached = []
        for agent in agents:
            came = self._came.get(agent.uid, _Came(agent, _How.AGAIN, "it came while others were asked"))
            if came.how is _How.DONE:
                continue
            if came.how is _How.UNREACHED:
                unreached.append(agent)
                look = ", and its pod is not ready: look at the node" if agent.is_unready else ""
                why = f"the agent cannot be reached{look}: {came.why}"
            else:
                self.has_failed, why = True, came.why
            print(f"{agent.node}: not restored: {harmless(why)}", file=sys.stderr, flush=True)
        self.unreached = tuple(unreached)


def _is_out_of_reach(error: KubeError) -> bool:
    """Return whether nobody was there to answer, and not that the answer is no."""
    if isinstance(error, ApiError):
        return error.status >= _SERVER_ERROR or error.status in (_NOT_FOUND, _TOO_MANY_REQUESTS)
    return isinstance(error, Unreachable)


def agents_of(api: Api, namespace: str) -> Sequence[AgentPod]:
    """Return the agents' pods that have a node, or raise KubeError or ConvertError."""
    answer = api.call("GET", f"/api/v1/namespaces/{namespace}/pods", query={"labelSelector": AGENTS})
    agents = []
    for pod in Reader(answer, "pods").items("items"):
        node = pod.child("spec").text("nodeName")
        if node:
            metadata, status = pod.child("metadata"), pod.child("status")
            agents.append(
                AgentPod(
                    name=metadata.required_text("name"),
                    uid=metadata.required_text("uid"),
                    node=node,
                    has_ended=status.text("phase") in ENDED_PHASES,
                    is_ending=metadata.has("deletionTimestamp"),
                    is_unready=any(
                        (condition.text("type"), condition.text("status")) == ("Ready", "False")
                        for condition in status.items("conditions")
                    ),
                )
            )
    return agents

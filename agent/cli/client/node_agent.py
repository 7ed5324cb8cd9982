"""Which agent answers for a node or a pod, and a verb of plimsoll run beside it. Face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.cli.client.retire import AGENTS, AgentPod, agents_of
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import namespaced_path
from agent.kube.objects.json_reader import Reader

MOST_NAMED: Final = 10
_NOT_FOUND: Final = 404


class NoAgentError(Exception):
    """No agent can be asked; one line."""


class UnknownTargetError(Exception):
    """What was named is not there; one line."""


@dataclass(frozen=True, slots=True)
class PodName:
    """A pod, or one of its containers."""

    namespace: str
    pod: str
    container: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.pod, self.container) if part is not None)


@dataclass(frozen=True, slots=True)
class Target:
    """What a verb is about."""

    agent: AgentPod
    """Of the node."""
    pod: PodName | None
    """None = the whole node."""


class AgentFinder:
    """Finds the agents of one cluster."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api: Final = api
        self._namespace: Final = namespace

    def of_node(self, node: str) -> Target:
        """Return a node's agent.

        Raises:
            NoAgentError: There is none.
            KubeError: The API server does not tell.
        """
        name = node.removeprefix("node/").removeprefix("nodes/")
        return Target(self._agent(name, self._agents()), None)

    def of_pod(self, name: str, namespace: str, *, is_namespace_given: bool) -> Target:
        """Return the agent of a pod's node.

        Args:
            name: POD[/CONTAINER] or NAMESPACE/POD[/CONTAINER].
            namespace: Of a pod that is named without one.
            is_namespace_given: The name begins with no namespace.

        Raises:
            NoAgentError, KubeError: As ``of_node``.
            UnknownTargetError: There is no such pod, or it has no node.
        """
        readings = _readings(name, namespace, is_namespace_given=is_namespace_given)
        for reading in readings:
            node = self._node_of(reading)
            if node is None:
                continue
            if not node:
                raise UnknownTargetError(
                    f"pod {reading.namespace}/{reading.pod} is on no node yet: nothing measures it"
                )
            return Target(self._agent(node, self._agents()), reading)
        tried = " nor ".join(f"{reading.namespace}/{reading.pod}" for reading in readings)
        raise UnknownTargetError(f"{name}: there is no pod {tried}; allowed: POD in --namespace, or NAMESPACE/POD")

    def of_either(self, name: str, namespace: str, *, is_namespace_given: bool) -> Target:
        """Return the agent of what is a node with an agent, else a pod; ``node/`` or ``pod/`` in front says which.

        Raises:
            As ``of_pod``.
        """
        kind, slash, rest = name.partition("/")
        if slash and kind in ("node", "nodes"):
            return self.of_node(rest)
        if slash and kind in ("pod", "pods"):
            return self.of_pod(rest, namespace, is_namespace_given=is_namespace_given)
        agents = self._agents()
        if any(agent.node == name for agent in agents):
            return Target(self._agent(name, agents), None)
        try:
            return self.of_pod(name, namespace, is_namespace_given=is_namespace_given)
        except UnknownTargetError:
            if not slash and self._is_node(name):
                raise NoAgentError(self._none_on(name, agents)) from None
            raise

    def _agents(self) -> Sequence[AgentPod]:
        return [agent for agent in agents_of(self._api, self._namespace) if not agent.has_ended]

    def _agent(self, node: str, agents: Sequence[AgentPod]) -> AgentPod:
        there = [agent for agent in agents if agent.node == node]
        if not there:
            raise NoAgentError(self._none_on(node, agents))
        # While one takes another's place both are there: the one that is ready answers.
        return min(there, key=lambda agent: (agent.is_ending, agent.is_unready))

    def _none_on(self, node: str, agents: Sequence[AgentPod]) -> str:
        nodes = sorted({agent.node for agent in agents})
        if not nodes:
            return (
                f"no agent is in namespace {self._namespace} (no pod with {AGENTS}); allowed: --plimsoll-namespace NAME"
            )
        more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
        return f"no agent is on node {node}; allowed: {', '.join(nodes[:MOST_NAMED])}{more}"

    def _is_node(self, name: str) -> bool:
        try:
            self._api.call("GET", f"/api/v1/nodes/{name}")
        except KubeError:  # most people may not ask
            return False
        return True

    def _node_of(self, name: PodName) -> str | None:
        """Return a pod's node, empty while it has none; None = there is no such pod."""
        try:
            answer = self._api.call("GET", namespaced_path(name.namespace, "pods", name.pod))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return Reader(answer, "pod").child("spec").text("nodeName") or ""


def _readings(name: str, namespace: str, *, is_namespace_given: bool) -> list[PodName]:
    """Return what a name may mean, the likeliest first."""
    parts = name.split("/")
    if not all(parts) or len(parts) > (2 if is_namespace_given else 3):
        allowed = "POD or POD/CONTAINER" if is_namespace_given else "POD, NAMESPACE/POD or either with /CONTAINER"
        raise UnknownTargetError(f"{name}: is not allowed; allowed: {allowed}")
    if len(parts) == 1:
        return [PodName(namespace, parts[0])]
    if len(parts) == 2:
        inside = PodName(namespace, parts[0], parts[1])
        return [inside] if is_namespace_given else [inside, PodName(parts[0], parts[1])]
    return [PodName(*parts)]

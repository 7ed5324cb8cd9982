"""``plimsoll retire``: end all agents of a cluster in order, while they still may write. The chart's hook runs it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.orders import span
from agent.cli.options.settings_options import fail

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from agent.cli.client.retire import AgentPod
    from agent.kube.client.api import Api
    from agent.kube.client.credentials import Credentials

DAEMON_SETS: Final = ("plimsoll-agent", "plimsoll-agent-enforce")
LOOK_SECONDS: Final = 1.0
END_SECONDS: Final = 60.0
"""Of the time for all, left for the agents' end: a node that does not answer must not use it up."""
END_RATIO: Final = 0.25
"""The same where the time is short."""
MOST_NAMED: Final = 20
_NOT_FOUND: Final = 404


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument(
        "--namespace", default="plimsoll", metavar="NAME", help="namespace of the agents (default: plimsoll)"
    )
    parser.add_argument("--restore", action="store_true", help="have every agent run plimsoll restore --all first")
    parser.add_argument(
        "--skip-unreachable",
        action="store_true",
        help="go on without agents that cannot be reached or do not end in time, as on a node that is NotReady: they "
        "are listed; pods that they resized stay resized until replaced, and the node keeps its overload taint",
    )
    parser.add_argument(
        "--timeout", type=span, default=600.0, metavar="TIME", help="time for the whole command: 10m, 1h (default: 10m)"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig file, to reach the API server (default: the pod's own account)",
    )
    parser.epilog = (
        "Agents need their rights to remove their taints when they end, so run this before the rights are removed. "
        "Pods and agents that are gone meanwhile have nothing left to restore: they are reported and counted, and the "
        "successor of an agent is asked instead. If a restore fails, no agent is ended and the exit code is 1."
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore if asked to, remove the DaemonSets, wait for the agents' end."""
    from agent.kube.client.api import HttpApi
    from agent.kube.client.credentials import in_cluster
    from agent.kube.client.errors import CredentialsError, KubeError
    from agent.kube.client.kubeconfig import from_kubeconfig
    from agent.kube.objects.json_reader import ConvertError

    try:
        credentials = from_kubeconfig(arguments.kubeconfig) if arguments.kubeconfig is not None else in_cluster()
        if credentials is None:
            fail("retire: no pod's service account here; allowed: --kubeconfig FILE")
        api = HttpApi(credentials)
    except CredentialsError as error:
        fail(f"retire: {error}")
    deadline = time.monotonic() + arguments.timeout
    skipped: Sequence[AgentPod] = ()
    try:
        if arguments.restore:
            until = deadline - min(END_SECONDS, END_RATIO * arguments.timeout)
            left = _left_by_restore(api, credentials, arguments, until)
            if left is None:
                print("plimsoll retire: no agent was ended: not every pod could be restored", file=sys.stderr)
                return 1
            skipped = left
        return _ended(api, arguments.namespace, deadline, skipped, is_skipping=arguments.skip_unreachable)
    except (KubeError, ConvertError) as error:
        print(f"plimsoll retire: {error}", file=sys.stderr)
        return 1


def _left_by_restore(
    api: Api, credentials: Credentials, arguments: argparse.Namespace, deadline: float
) -> Sequence[AgentPod] | None:
    """Make every agent restore; return those that it goes on without, None = it must not go on."""
    from agent.cli.client.retire import ClusterRestore

    restoring = ClusterRestore(api, credentials, arguments.namespace, deadline)
    restoring.run()
    unreached = restoring.unreached
    if unreached:
        which = f"{len(unreached)} agents cannot be reached: {_nodes(unreached)}"
        if arguments.skip_unreachable:
            what = "it goes on without them, and what they resized stays resized"
        else:
            what = "see --skip-unreachable"
        print(f"plimsoll retire: {which}: {what}", file=sys.stderr)
    return None if restoring.has_failed or (unreached and not arguments.skip_unreachable) else unreached


def _ended(api: Api, namespace: str, deadline: float, skipped: Collection[AgentPod], *, is_skipping: bool) -> int:
    from agent.cli.client.retire import agents_of
    from agent.kube.client.errors import ApiError

    for name in DAEMON_SETS:
        try:
            api.call("DELETE", f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
    not_awaited = {agent.uid for agent in skipped}
    while agents := [agent for agent in agents_of(api, namespace) if agent.uid not in not_awaited]:
        if time.monotonic() > deadline:
            which = f"{len(agents)} agents have not ended in time: {_nodes(agents)}"
            what = "it goes on without them" if is_skipping else "see --skip-unreachable"
            print(f"plimsoll retire: {which}: {what}", file=sys.stderr)
            return 0 if is_skipping else 1
        time.sleep(LOOK_SECONDS)
    print("all other agents have ended" if skipped else "all agents have ended")
    return 0


def _nodes(agents: Collection[AgentPod]) -> str:
    """Name nodes; those that are many are counted."""
    named = ", ".join(sorted(agent.node for agent in agents)[:MOST_NAMED])
    return f"{named} and {len(agents) - MOST_NAMED} more" if len(agents) > MOST_NAMED else named

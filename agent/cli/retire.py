"""``plimsoll retire``: end all agents of a cluster in order, while they still may write. The chart's hook runs it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.holding import span
from agent.cli.options import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.kube.api import Api
    from agent.kube.credentials import Credentials

DAEMON_SETS: Final = ("plimsoll-agent", "plimsoll-agent-enforce")
AGENTS: Final = "plimsoll.dev/part=agent"
CONTAINER: Final = "agent"
AT_ONCE: Final = 20
"""Agents that restore at the same time: each patches its pods one after the other."""
LOOK_SECONDS: Final = 1.0
_NOT_FOUND: Final = 404


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--namespace", default="plimsoll", metavar="NAME", help="of the agents (default: plimsoll)")
    parser.add_argument("--restore", action="store_true", help="have every agent run plimsoll restore --all first")
    parser.add_argument(
        "--timeout", type=span, default=600.0, metavar="TIME", help="for all of it: 10m, 1h (default: 10m)"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="how to reach the API server (default: the pod's own account)"
    )
    parser.epilog = (
        "Agents take their taints away as they end, which takes their rights: so this comes before rights are removed. "
        "Where a restore fails nothing is ended, and the exit code is 1."
    )


def run(arguments: argparse.Namespace) -> int:
    """Restore if asked to, remove the DaemonSets, wait for the agents' end."""
    from agent.kube.api import HttpApi
    from agent.kube.credentials import from_kubeconfig, in_cluster
    from agent.kube.errors import CredentialsError, KubeError

    try:
        credentials = from_kubeconfig(arguments.kubeconfig) if arguments.kubeconfig is not None else in_cluster()
        if credentials is None:
            fail("retire: no pod's service account here; allowed: --kubeconfig FILE")
        api = HttpApi(credentials)
    except CredentialsError as error:
        fail(f"retire: {error}")
    deadline = time.monotonic() + arguments.timeout
    try:
        if arguments.restore and not _restored(api, credentials, arguments.namespace, deadline):
            print("plimsoll retire: nothing was ended: not everything could be restored", file=sys.stderr)
            return 1
        return _ended(api, arguments.namespace, deadline)
    except KubeError as error:
        print(f"plimsoll retire: {error}", file=sys.stderr)
        return 1


def _restored(api: Api, credentials: Credentials, namespace: str, deadline: float) -> bool:
    """Have every agent restore; say whether all did."""
    from concurrent.futures import ThreadPoolExecutor

    agents = _agents(api, namespace)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(lambda one: _restore(credentials, namespace, one[0], one[1], deadline), agents)
        return all(list(done))


def _restore(credentials: Credentials, namespace: str, pod: str, node: str, deadline: float) -> bool:
    from agent.cli.spans import harmless
    from agent.kube.errors import KubeError
    from agent.kube.execute import execute

    try:
        done = execute(
            credentials,
            namespace=namespace,
            pod=pod,
            container=CONTAINER,
            command=("plimsoll", "restore", "--all"),
            timeout_seconds=max(deadline - time.monotonic(), 1.0),
        )
    except KubeError as error:
        print(f"{node}: not restored: {error}", file=sys.stderr, flush=True)
        return False
    for line in done.output.splitlines():
        print(f"{node}: {harmless(line)}", flush=True)
    if done.code != 0:
        how = done.fault if done.code is None else f"plimsoll restore ended with {done.code}"
        print(f"{node}: not restored: {harmless(how or '')}", file=sys.stderr, flush=True)
    return done.code == 0


def _ended(api: Api, namespace: str, deadline: float) -> int:
    from agent.kube.errors import ApiError

    for name in DAEMON_SETS:
        try:
            api.call("DELETE", f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
    while agents := _agents(api, namespace):
        if time.monotonic() > deadline:
            nodes = ", ".join(node for _, node in agents[:5])
            print(f"plimsoll retire: {len(agents)} agents have not ended in time: {nodes}", file=sys.stderr)
            return 1
        time.sleep(LOOK_SECONDS)
    print("all agents have ended")
    return 0


def _agents(api: Api, namespace: str) -> Sequence[tuple[str, str]]:
    """Give the agents' pods that have a node, and their nodes."""
    from agent.kube.reading import Reader

    answer = api.call("GET", f"/api/v1/namespaces/{namespace}/pods", query={"labelSelector": AGENTS})
    found = []
    for pod in Reader(answer, "pods").items("items"):
        node = pod.child("spec").text("nodeName")
        if node:
            found.append((pod.child("metadata").required_text("name"), node))
    return found

"""``python -m tests.cluster.demo``: a real control plane, pods on real cgroups of this machine, and an acting agent.

``--webhook`` adds the central webhook: it hears of the agent, sizes what is created, and has the page. Ends with Ctrl-C
or SIGTERM and leaves nothing behind; the janitor of ``plimsoll run --demo`` sees to it even after ``kill -9``. Where no
cgroups can be made there is the control plane alone.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from tests.cluster import chart, fence, objects
from tests.cluster.api import kubeconfig
from tests.cluster.binaries import KUBERNETES, VERSIONS, BinaryError, ensure
from tests.cluster.certificates import CertificateError
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.demo_agent import SETTINGS, TOKEN_SECONDS, DemoAgent
from tests.cluster.demo_loads import DemoLoads
from tests.cluster.demo_workloads import NAMESPACE, create_all
from tests.cluster.identities import node_bound_token
from tests.cluster.kubelet_play import KubeletPlay
from tests.cluster.processes import ClusterError
from tests.cluster.webhook_process import AUDIENCE, WebhookProcess, registration, webhook
from tests.kernel.cgroups import CgroupTree, why_not

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
LOOK_SECONDS: Final = 0.5
SHARED_SETTINGS: Final = ("act.mode", "recommend.policy", "plan.minAgeSeconds")
"""Of the agent that the webhook goes by too."""
PLIMSOLL: Final = Path(sys.executable).with_name("plimsoll")


def main() -> int:
    """Run until Ctrl-C or SIGTERM; 1 when something does not start."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.demo", description=__doc__)
    parser.add_argument("--version", default=KUBERNETES, choices=VERSIONS, help="of Kubernetes (default %(default)s)")
    parser.add_argument(
        "--nodes",
        type=_count,
        default=1,
        metavar="N",
        help="how many nodes; all but the first in name only (default 1)",
    )
    parser.add_argument("--webhook", action="store_true", help="run the webhook too, for new pods and the page")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ensure(PROGRAMS, arguments.version, lambda line: _say(line) if " found: " not in line else None)
        nodes = [f"node-{number + 1}" for number in range(arguments.nodes)]
        run(arguments.version, nodes, has_webhook=arguments.webhook)
    except KeyboardInterrupt:
        _say("stopped, and everything removed")
    except (BinaryError, CertificateError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 100):
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: a whole number from 1 to 100")
    return int(text)


def _say(line: str) -> None:
    print(f"cluster: {line}", flush=True)


def run(version: str, nodes: list[str], *, has_webhook: bool) -> None:
    """Start everything, say how to use it, and keep it going until the signal."""
    reason = why_not()
    with contextlib.ExitStack() as stack:
        tree = CgroupTree() if reason is None else None
        directory = stack.enter_context(swept_directory(tree))
        _say(f"Kubernetes {version} starts, in {directory}")
        plane = stack.enter_context(control_plane(version, directory=directory, with_scheduler=True))
        fence.install(plane)
        cpu, memory = machine_amounts()
        for name in nodes:
            objects.create_node(plane.admin, name, cpu=cpu, memory=memory, kubelet_version=f"v{version}")
            stack.enter_context(KubeletPlay(plane, name))
            kubeconfig(fence.agent_api(plane, name), directory / f"agent-{name}.kubeconfig")
        create_all(plane.admin, nodes[0])
        if tree is None:
            environment = write_environment(plane, directory, None)
            print(plain_guide(plane, nodes, environment, str(reason)), flush=True)
            signal.pause()
            return
        stack.enter_context(tree)
        loads = DemoLoads(plane.admin, nodes[0], tree)
        loads.look()
        hook = stack.enter_context(demo_webhook(plane, directory)) if has_webhook else None
        settings = {} if hook is None else reporting(plane, nodes[0], directory, hook)
        agent = stack.enter_context(DemoAgent(plane, nodes[0], tree, directory, settings))
        print(guide(plane, nodes, write_environment(plane, directory, agent), agent), flush=True)
        if hook is not None:
            print(webhook_guide(plane, hook), flush=True)
        while True:
            loads.look()
            agent.revive()
            time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def demo_webhook(plane: ControlPlane, directory: Path) -> Iterator[WebhookProcess]:
    """Run the webhook with the chart's rights and have the API server ask it of the demo's namespace."""
    plane.admin.apply_all(chart.parts(*chart.WEBHOOK))
    token = node_bound_token(plane, chart.NAMESPACE, "plimsoll-webhook", None, seconds=TOKEN_SECONDS)
    own = kubeconfig(plane.api_with_token(token), directory / "webhook.kubeconfig")
    arguments = [f"--set={key}={SETTINGS[key]}" for key in SHARED_SETTINGS]
    with webhook(plane, directory, kubeconfig=own, arguments=arguments) as hook:
        plane.admin.apply(registration(hook.port, NAMESPACE, plane.authority))
        yield hook


def reporting(plane: ControlPlane, node: str, directory: Path, hook: WebhookProcess) -> dict[str, object]:
    """Return the settings with which an agent reports each minute."""
    token = directory / "report-token"
    account = (fence.NAMESPACE, fence.ACCOUNT, node)
    token.write_text(node_bound_token(plane, *account, audiences=(AUDIENCE,), seconds=TOKEN_SECONDS))
    return {
        "report.url": f"https://127.0.0.1:{hook.port}",
        "report.tokenFile": token,
        "report.caFile": plane.authority,
        "report.intervalSeconds": 60,
    }


@contextlib.contextmanager
def swept_directory(tree: CgroupTree | None) -> Iterator[Path]:
    """Give a fresh directory; whatever ends this process, it is removed together with a tree's cgroups."""
    scratch = Path(tempfile.mkdtemp(prefix="plimsoll-cluster-"))
    nothing = scratch / "no-cgroups"
    janitor = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.demo.tree", str(nothing if tree is None else tree.base), str(scratch)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert janitor.stdin is not None
    try:
        yield scratch
    finally:
        janitor.stdin.close()
        janitor.wait()


def machine_amounts() -> tuple[str, str]:
    """Return CPU and memory that a node of this machine's size can allocate."""
    return str(psutil.cpu_count()), f"{psutil.virtual_memory().total >> 20}Mi"


def write_environment(plane: ControlPlane, directory: Path, agent: DemoAgent | None) -> Path:
    """Write a file for ``.`` of a shell, after which kubectl and plimsoll speak to this cluster and this agent."""
    programs = directory / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(plane.kubectl)
    (programs / "plimsoll").symlink_to(PLIMSOLL)
    lines = [f'PATH={shlex.quote(str(programs))}:"$PATH"', f"KUBECONFIG={shlex.quote(str(plane.kubeconfig))}"]
    if agent is not None:
        lines.append(f"PLIMSOLL_SERVING_SOCKET={shlex.quote(str(agent.socket))}")
        lines.append(f"PLIMSOLL_STATE_DIRECTORY={shlex.quote(str(agent.state))}")
    file = directory / "env"
    file.write_text("".join(f"export {line}\n" for line in lines))
    return file


def guide(plane: ControlPlane, nodes: list[str], environment: Path, agent: DemoAgent) -> str:
    """Return what to try where an agent acts."""
    return f"""
Kubernetes {plane.version}, node {nodes[0]}{_others(nodes)}: loads in real cgroups, and an agent that resizes.
In a second terminal:

  . {environment}
  kubectl get pods --output=wide    # images are names only; the loads are real
  plimsoll top                      # who uses what, who waits
  plimsoll events                   # api grows within seconds, web shrinks after a minute
  plimsoll plan                     # who gets what; who is left alone, and why
  plimsoll why api                  # everything behind one answer
  kubectl create deployment mine --image=mine --replicas=2    # becomes part of it
  plimsoll pause --for 5m; plimsoll resume
  plimsoll restore --all            # back to what they came with, and pinned until plimsoll unpin --all

Metrics: {agent.metrics_url()}   logs, audit log: {environment.parent}
Ctrl-C ends it and removes everything.
"""


def webhook_guide(plane: ControlPlane, hook: WebhookProcess) -> str:
    """Return what to try where there is a webhook."""
    to_it = f"--webhook https://127.0.0.1:{hook.port} --kubeconfig $KUBECONFIG --ca-file {plane.authority}"
    return f"""
The webhook hears of the agent each minute. It knows a workload after some minutes, and has hours to show a quarter of
an hour after the first has ended:

  to_it="{to_it}"
  plimsoll workloads $to_it         # what is learnt; one whole: plimsoll workloads {NAMESPACE}/Deployment/api $to_it
  plimsoll ui --no-browser $to_it   # the page
"""


def plain_guide(plane: ControlPlane, nodes: list[str], environment: Path, reason: str) -> str:
    """Return what to try where pods can run in name only."""
    return f"""
cluster: pods run in name only, and there is no agent: {reason}

Kubernetes {plane.version}, nodes {", ".join(nodes)}; resizes are answered. In a second terminal:

  . {environment}
  kubectl get pods --output=wide
  kubectl create deployment mine --image=mine --replicas=2
  KUBECONFIG={environment.parent}/agent-{nodes[0]}.kubeconfig kubectl auth can-i --list    # what an agent may do

Ctrl-C ends it and removes everything.
"""


def _others(nodes: list[str]) -> str:
    return f" ({', '.join(nodes[1:])} in name only)" if len(nodes) > 1 else ""


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.cluster.demo``: leave a control plane running, with nodes in name whose kubelets answer resizes."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster import fence, objects
from tests.cluster.api import kubeconfig
from tests.cluster.binaries import KUBERNETES, VERSIONS, BinaryError, ensure
from tests.cluster.certificates import CertificateError
from tests.cluster.control_plane import control_plane
from tests.cluster.kubelet_play import KubeletPlay
from tests.cluster.processes import ClusterError

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


def main() -> int:
    """Run until Ctrl-C or SIGTERM; 1 when something does not start."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.demo", description=__doc__)
    parser.add_argument("--version", default=KUBERNETES, choices=VERSIONS, help="of Kubernetes (default %(default)s)")
    parser.add_argument("--nodes", type=int, default=2, help="how many nodes (default %(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ensure(PROGRAMS, arguments.version, lambda line: print(f"cluster: {line}", flush=True))
        with tempfile.TemporaryDirectory(prefix="plimsoll-cluster-") as directory:
            run(arguments.version, arguments.nodes, Path(directory))
    except KeyboardInterrupt:
        print("cluster: stopped", flush=True)
    except (BinaryError, CertificateError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def run(version: str, nodes: int, directory: Path) -> None:
    """Start everything, say how to use it, and wait for the signal."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_plane(version, directory=directory, with_scheduler=True))
        fence.install(plane)
        names = [f"node-{index}" for index in range(1, nodes + 1)]
        for name in names:
            objects.create_node(plane.admin, name, kubelet_version=f"v{version}")
            stack.enter_context(KubeletPlay(plane, name))
            kubeconfig(fence.agent_api(plane, name), directory / f"agent-{name}.kubeconfig")
        print(
            f"""
Kubernetes {version} at {plane.url} with the nodes {", ".join(names)}; pods run in name only, and resizes are answered.
The agent's rights and fence (charts/plimsoll/rbac) are in force.

  export KUBECONFIG={plane.kubeconfig}
  alias kubectl={plane.kubectl}
  kubectl create deployment web --image=web --replicas=3
  kubectl get pods --output=wide

As the agent of a node, for an hour: KUBECONFIG={directory}/agent-{names[0] if names else "NODE"}.kubeconfig
Who called what: {plane.audit_log}
Ctrl-C stops it and removes everything.
""",
            flush=True,
        )
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())

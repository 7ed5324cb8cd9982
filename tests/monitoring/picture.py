"""``python -m tests.monitoring.picture``: draws the dashboard of a node from a real run, as the dashboard's JSON says.

A control plane, an acting agent on real cgroups of this machine with the loads of ``make cluster``, and a Prometheus
run for some minutes (root). Grafana is not needed: panels, queries, legends, units and places are read from the JSON,
and drawn with matplotlib from what Prometheus answers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from pathlib import Path

from tests.cluster import fence, objects
from tests.cluster.binaries import KUBERNETES
from tests.cluster.control_plane import control_plane
from tests.cluster.demo import machine_amounts
from tests.cluster.demo_agent import DemoAgent
from tests.cluster.demo_loads import DemoLoads
from tests.cluster.demo_workloads import create_all
from tests.cluster.kubelet_play import KubeletPlay
from tests.kernel.cgroups import CgroupTree
from tests.monitoring.drawing import NODE, SCRAPE_SECONDS, draw
from tests.monitoring.prometheus import Target, prometheus
from tests.monitoring.rule_files import CHART


def main() -> None:
    """Run for some minutes, then draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--out", type=Path, default=CHART / "node-dashboard.png")
    arguments = parser.parse_args()
    os.environ["PLIMSOLL_METRICS_PER_CONTAINER"] = "true"  # for the agent, which is a child
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plimsoll-picture-")))
        plane = stack.enter_context(
            control_plane(KUBERNETES, directory=folder / "plane", with_scheduler=True, audit=False)
        )
        fence.install(plane)
        cpu, memory = machine_amounts()
        objects.create_node(plane.admin, NODE, cpu=cpu, memory=memory, kubelet_version=f"v{KUBERNETES}")
        stack.enter_context(KubeletPlay(plane, NODE))
        create_all(plane.admin, NODE)
        tree = stack.enter_context(CgroupTree())
        loads = DemoLoads(plane.admin, NODE, tree)
        loads.look()
        agent = stack.enter_context(DemoAgent(plane, NODE, tree, folder, {}))
        address = agent.metrics_url().split("/")[2]
        target = Target(job="agents", address=address, labels={"node": NODE, "cluster": "demo"})
        asked = stack.enter_context(prometheus(folder, [target], scrape_seconds=SCRAPE_SECONDS))
        until = time.monotonic() + 60 * arguments.minutes
        while time.monotonic() < until:
            loads.look()
            time.sleep(0.5)
        draw(asked, CHART / "files" / "dashboards" / "node.json", arguments.out)


if __name__ == "__main__":
    main()

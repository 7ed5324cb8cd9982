"""A real Prometheus and an agent on real cgroups of this machine, without an API server: what it measures is there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.kernel.agents import AgentProcess, wait_for
from tests.kernel.cgroups import CgroupTree
from tests.kernel.cgroups import why_not as why_no_cgroups
from tests.monitoring.prometheus import Target, prometheus, why_not
from tests.monitoring.rule_files import CHART, panel_queries, substituted

WHY_NOT: Final = why_not() or why_no_cgroups()
pytestmark = [pytest.mark.kernel, pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")]
MEASURED: Final = {
    "Mode and policy",
    "Version",
    "Containers",
    "Sweep time",
    "Lateness",
    "CPU of the agent",
    "Memory of the agent",
    "Loops",
    "Descriptors",
    "Kernel signals",
    "CPU use, ten most",
}
"""Panels of the node's dashboard that need neither an API server nor a webhook, on any kernel with cgroup v2."""
VALUES: Final = {"__rate_interval": "10s", "__interval": "10s", "cluster": ".*", "node": "here"}


def test_what_an_agent_measures_here_is_on_the_node_s_dashboard(tmp_path: Path) -> None:
    container = f"kubepods/burstable/pod12345678-9abc-4def-8123-456789abcdef/{7:064x}"
    settings = (
        *("metrics.perContainer=true", "evaluateIntervalSeconds=1", "windows.cpuWindowSeconds=10"),
        *("windows.rateWindowSeconds=2", "sampling.intervalSeconds=0.5"),
    )
    with CgroupTree() as tree:
        tree.spawn(container, "busy")
        words = [word for setting in settings for word in ("--set", setting)]
        with AgentProcess(tmp_path, *words, cgroup_root=f"/{tree.name}") as agent:
            target = Target(job="agents", address=agent.metrics_url.split("/")[2], labels={"node": "here"})
            with prometheus(tmp_path, [target]) as asked:
                queries = [
                    query for query in panel_queries(CHART / "files/dashboards/node.json") if query.panel in MEASURED
                ]
                assert {query.panel for query in queries} == MEASURED
                for query in queries:
                    wait_for(partial(asked.series, substituted(query.expr, VALUES)), str(query), seconds=300)
                used = f'plimsoll_container_cpu_usage_cores{{container="{7:064x}",quantile="1"}} > 0.05'
                wait_for(partial(asked.series, used), "the container is seen to be busy", seconds=300)

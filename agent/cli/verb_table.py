"""The verbs: the module of each, and the line that tells what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: where it lives and its line in the help."""

    module: str
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "run": Verb("agent.cli.verbs.node.run", "watch this machine and show a live table; serve metrics"),
    "agent": Verb(
        "agent.cli.verbs.node.agent", "the DaemonSet's process: watch, serve metrics and the socket, show no table"
    ),
    "top": Verb("agent.cli.verbs.node.top", "live table of pods and containers: usage, pressure, throttling, memory"),
    "recommend": Verb(
        "agent.cli.verbs.node.recommend",
        "what every container should request, and why; or why there is no recommendation",
    ),
    "plan": Verb(
        "agent.cli.verbs.node.plan", "the plan of this node: what fits, who gets what, evictions, steps, invariants"
    ),
    "events": Verb("agent.cli.verbs.node.events", "what was decided and done on this node, newest first"),
    "pause": Verb("agent.cli.verbs.node.pause", "stop every write on this node, at once; measuring goes on"),
    "resume": Verb("agent.cli.verbs.node.resume", "end the pause"),
    "pin": Verb("agent.cli.verbs.node.pin", "leave one pod alone; without a name, list what is pinned and paused"),
    "unpin": Verb("agent.cli.verbs.node.unpin", "let a pinned pod be sized again"),
    "restore": Verb("agent.cli.verbs.node.restore", "give pods back the requests they had before they were resized"),
    "doctor": Verb("agent.cli.verbs.node.doctor", "check this machine: what works, what does not, how to repair it"),
    "why": Verb(
        "agent.cli.verbs.node.why", "everything behind one recommendation: data, steps, bounds, what would change it"
    ),
    "audit": Verb("agent.cli.verbs.node.audit", "compare the kubelet's cgroup values with what they should be"),
    "simulate": Verb(
        "agent.cli.verbs.offline.simulate", "replay traces through policies: slack, shortfall, resizes, reaction"
    ),
    "record": Verb("agent.cli.verbs.offline.record", "write what a node measures into a compact file"),
    "replay": Verb(
        "agent.cli.verbs.offline.replay", "show what is in a recording, or repeat a decision at any moment of it"
    ),
    "webhook": Verb(
        "agent.cli.verbs.cluster.webhook", "the central process: collects reports, sizes new pods, judges evictions"
    ),
    "workloads": Verb(
        "agent.cli.verbs.cluster.workloads",
        "what all nodes learnt about the workloads of the cluster; or one of them by hour",
    ),
    "ui": Verb(
        "agent.cli.verbs.cluster.ui", "the cluster's page in a browser: what is wasted, who is short, what was done"
    ),
    "gitops": Verb(
        "agent.cli.verbs.cluster.gitops", "write requests and limits into a checkout of manifests; or check for drift"
    ),
    "backfill": Verb(
        "agent.cli.verbs.cluster.backfill",
        "history on the first day: usage out of Prometheus, or of VPA checkpoints, into the webhook",
    ),
    "buffers": Verb(
        "agent.cli.verbs.cluster.buffers", "the cluster's CapacityBuffers: chunks wanted and provided, and what decided"
    ),
    "cost": Verb(
        "agent.cli.verbs.cluster.cost",
        "what namespaces, workloads, nodes or labels cost a month, and which nodes could go",
    ),
    "report": Verb(
        "agent.cli.verbs.cluster.report",
        "the week in one file to mail: what changed, what it freed, who is short, what failed, worst sizing",
    ),
    "mcp": Verb(
        "agent.cli.verbs.cluster.mcp", "what the webhook knows, read-only, as tools for a model's client (stdio)"
    ),
    "policy": Verb(
        "agent.cli.verbs.cluster.policy",
        "what applies to a workload - mode, policy, bounds, HPA, VPA - and where each comes from",
    ),
    "admission": Verb(
        "agent.cli.verbs.cluster.admission",
        "what the webhook would change in a new pod, and why; from files, without a cluster",
    ),
    "migrate": Verb(
        "agent.cli.verbs.cluster.migrate",
        "what would change of each VerticalPodAutoscaler under Plimsoll; from a cluster or a file",
    ),
    "retire": Verb(
        "agent.cli.verbs.cluster.retire",
        "end all agents of a cluster in order; restore original requests first if asked to",
    ),
    "settings": Verb("agent.cli.verbs.cluster.settings", "every setting with its default, unit and reason"),
}

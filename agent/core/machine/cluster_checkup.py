"""What an agent's standing in its cluster means: API server, rights, token, versions, orders. Core, pure.

The agent tells the facts at its socket, ``plimsoll doctor`` prints the verdicts beside those of the machine. Nothing
here is broken in the sense of ``checkup``: without a cluster the agent still measures and recommends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent.core.machine.checkup import Check, degraded, ok


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStanding:
    """How reporting goes."""

    url: str
    interval_seconds: float
    last_success_age_seconds: float | None
    """Since the webhook last took a report; None = it has taken none since the agent's start."""
    trouble: str | None
    """Why the newest report was not taken, in one sentence; None = it was, or none was sent yet."""
    is_access_refused: bool
    """The trouble lies with the token or the certificates."""
    waiting_reports: int
    lost_reports: int
    queue_fault: str | None
    """Why reports cannot be kept on disk; None = they can."""


def judge_reporting(standing: ReportStanding) -> Check:
    """Judge it."""
    name = "webhook"
    backlog = f"; {standing.waiting_reports} reports wait, {standing.lost_reports} lost"
    if standing.trouble is not None:
        heard = standing.last_success_age_seconds
        since = "no report taken yet" if heard is None else f"last report taken {heard:.0f} s ago"
        return degraded(
            name,
            found=f"{standing.trouble} ({since}{backlog})",
            consequence="what this node learns serves no other, and new directives do not come: the old ones hold",
            mend="report.tokenFile needs a projected token of the agent's account with the webhook's audience, "
            "report.caFile the webhook's authority"
            if standing.is_access_refused
            else "kubectl get pods,service of plimsoll-webhook; the network policy must let the agent out to it; "
            "a certificate that is not trusted: report.caFile",
        )
    if standing.queue_fault is not None:
        return degraded(
            name,
            found=f"{standing.url}: {standing.queue_fault}{backlog}",
            consequence="reports that are not taken at once are lost with the agent's end",
            mend="room on the disk of the state directory, and the right to write there",
        )
    if standing.last_success_age_seconds is None:
        finding = f"{standing.url}: no report sent yet, one comes every {standing.interval_seconds:g} s"
    else:
        finding = f"{standing.url}: last report taken {standing.last_success_age_seconds:.0f} s ago"
    return ok(name, finding + (backlog if standing.lost_reports else ""))


_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRight:
    """One thing that the agent may not do."""

    right: str
    """As RBAC spells it: ``patch pods/resize``."""
    consequence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """What a running agent knows of its cluster, and of its own standing there."""

    node: str
    """The name that it watches by."""
    server: str
    """Where the API server is asked."""
    server_version: str | None
    """None = not known yet, as for the kubelet's."""
    kubelet_version: str | None
    age_seconds: float | None
    """Since the API server last confirmed anything; None = it never answered."""
    stale_seconds: float
    """Beyond this age nothing is written."""
    is_complete: bool
    """Pods, node and namespaces have all been read."""
    has_node: bool
    pods: int
    unreadable_pods: tuple[str, ...]
    """``namespace/name: why``."""
    missing_rights: tuple[MissingRight, ...]
    node_claim: str | None
    """The node that the agent's token names; None = none."""
    is_claim_required: bool
    """Without the claim nothing is written (``kubernetes.requireNodeClaim``)."""
    can_resize: bool
    """API server and kubelet are new enough to resize at all."""
    gate_reasons: tuple[str, ...]
    """What is too old for some steps, one sentence each."""
    orders: tuple[str, ...]
    """What people hold: paused, pinned; one sentence each."""
    is_paused: bool
    is_webhook_expected: bool = False
    """The settings name a webhook."""
    directives_age_seconds: float | None = None
    """Since the webhook last said what holds; None = it has told nothing yet, or there is none."""
    directives_stale_seconds: float = 0.0
    """Older than this, they are old."""
    cluster_pause: str | None = None
    """Why the whole cluster is paused; None = it is not."""
    reporting: ReportStanding | None = None
    """How reporting to the webhook goes; None = there is none to report to."""


def judge_cluster(facts: ClusterStatus) -> tuple[Check, ...]:
    """Judge every part, in the order in which a person would mend them."""
    return (
        _server(facts),
        *_node(facts),
        *_rights(facts),
        _claim(facts),
        _versions(facts),
        *(() if facts.reporting is None else (judge_reporting(facts.reporting),)),
        *_directives(facts),
        *_orders(facts),
    )


def _server(facts: ClusterStatus) -> Check:
    name, where = "API server", f"{facts.server} {facts.server_version or '(version not known)'}"
    if facts.age_seconds is None or not facts.is_complete:
        return degraded(
            name,
            found=f"{where}: {'not all has been read yet' if facts.age_seconds is not None else 'no answer yet'}",
            consequence="pods are not known, or not all: nothing is planned or resized",
            mend="see the agent's log; the network policy must let it out to the API server",
        )
    heard = f"{where}, heard {facts.age_seconds:.0f} s ago"
    if facts.age_seconds > facts.stale_seconds:
        return degraded(
            name,
            found=heard,
            consequence=f"older than {facts.stale_seconds:g} s: nothing is written until it answers again",
            mend="nothing to do where it comes back; else see the agent's log",
        )
    return ok(name, f"{heard}; {facts.pods} pods of node {facts.node}")


def _node(facts: ClusterStatus) -> Iterator[Check]:
    if facts.is_complete and not facts.has_node:
        yield degraded(
            "node object",
            found=f"there is no node {facts.node}",
            consequence="what it can hold is not known: nothing is planned or resized",
            mend="plimsoll agent --node NAME, as kubectl get nodes has it",
        )
    if facts.unreadable_pods:
        more = len(facts.unreadable_pods) - _MOST_NAMED
        named = "; ".join(facts.unreadable_pods[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        yield degraded(
            "pods",
            found=f"not understood: {named}",
            consequence="they hold room that nobody can count: nothing is planned or resized",
            mend="a newer plimsoll, or report it with the pod's YAML",
        )


def _rights(facts: ClusterStatus) -> Iterator[Check]:
    if not facts.missing_rights:
        yield ok("rights", "all that are needed")
    for missing in facts.missing_rights:
        yield degraded(
            "rights",
            found=f"not allowed: {missing.right}",
            consequence=missing.consequence,
            mend="give the agent's account the chart's ClusterRole",
        )


def _claim(facts: ClusterStatus) -> Check:
    name = "node claim"
    if facts.node_claim == facts.node:
        return ok(name, f"the token names this node, {facts.node}")
    if facts.node_claim is not None:
        finding = f"the token names {facts.node_claim}, not {facts.node}"
        mend = "run the agent in a pod on the node that it watches"
    else:
        finding = "the token names no node"
        mend = "a pod's own token does from Kubernetes 1.32 on; or kubernetes.requireNodeClaim=false"
    if not facts.is_claim_required:
        return ok(name, f"{finding}; not required")
    return degraded(
        name,
        found=finding,
        consequence="nothing is written: recommend only",
        mend=mend,
    )


def _versions(facts: ClusterStatus) -> Check:
    kubelet = facts.kubelet_version or "not known"
    finding = "; ".join((f"API server {facts.server_version or 'not known'}, kubelet {kubelet}", *facts.gate_reasons))
    if facts.can_resize:
        return ok("versions", finding)
    return degraded(
        "versions",
        found=finding,
        consequence="nothing is resized in place: recommend only",
        mend="Kubernetes 1.33 or newer, API server and kubelet",
    )


def _directives(facts: ClusterStatus) -> Iterator[Check]:
    if not facts.is_webhook_expected:
        return
    name, age_seconds = "directives", facts.directives_age_seconds
    mend = "kubectl get pods of plimsoll-webhook, and the agent's log: plimsoll_report_posts_total says what failed"
    if age_seconds is None:
        yield degraded(
            name,
            found="the webhook has told nothing yet",
            consequence="whom HPAs and VPAs size is not known: nothing is resized",
            mend=mend,
        )
    elif age_seconds > facts.directives_stale_seconds:
        yield degraded(
            name,
            found=f"the webhook was last heard {age_seconds / 3600:.0f} h ago",
            consequence="what it said of HPAs, VPAs and pauses holds on; nothing is enforced on its word alone",
            mend=mend,
        )
    else:
        yield ok(name, f"the webhook told what holds {age_seconds:.0f} s ago")


def _orders(facts: ClusterStatus) -> Iterator[Check]:
    if not facts.orders:
        return
    finding = "; ".join(facts.orders)
    if not facts.is_paused:
        yield ok("orders", finding)
        return
    yield degraded(
        "orders",
        found=finding,
        consequence="nothing is written on this node",
        mend="plimsoll resume"
        if facts.cluster_pause is None
        else "take the pause out of the ConfigMap; plimsoll resume ends a pause of this node alone",
    )

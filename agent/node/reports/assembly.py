"""Puts together what reports to the webhook. Node; loaded only where ``report.url`` is set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from agent.core.cluster.pod import PodRef
from agent.core.cluster.workload import Workload, workload_of
from agent.core.history.reports.rollup import INSTANCE_TYPE_LABEL, NodeClass, NodeSums
from agent.core.history.reports.rollup_schedule import NS
from agent.core.numbers.arrays import Floats
from agent.core.orders.resolution import listed
from agent.core.resize.decision import DecisionLog
from agent.core.resize.event_rate import EventReason
from agent.core.window.policy import WindowPolicy
from agent.metrics.agent_series import Metrics
from agent.metrics.report_series import ProposingSeries, ReportSeries, TaintAnswerSeries
from agent.node.cluster.view import ClusterView
from agent.node.files.steady_clock import BootClock
from agent.node.orders.journal import Journal
from agent.node.recommender.pod_orders import PodOrders
from agent.node.reports.client import WebhookClient
from agent.node.reports.decision_teller import DecisionTeller, TellerOptions
from agent.node.reports.directives_file import Directions
from agent.node.reports.newcomers import Newcomers
from agent.node.reports.proposer import ProposalAudience, Proposer
from agent.node.reports.report_queue import DIRECTORY_NAME, ReportQueue
from agent.node.reports.report_sender import ReportSender
from agent.node.reports.reporter import ReportClocks, ReportedNode, Reporter
from agent.node.reports.roller import Roller
from agent.node.reports.run_teller import RunTeller
from agent.node.reports.runs_file import FILE_NAME as RUNS_FILE_NAME
from agent.node.reports.runs_file import RunsFile
from agent.node.reports.share_fares import share_group
from agent.node.reports.starts import Starts
from agent.node.reports.taint_asker import TaintAsker
from agent.node.reports.told_decisions_file import FILE_NAME as TOLD_DECISIONS_FILE_NAME
from agent.node.reports.told_decisions_file import ToldDecisionsFile
from agent.node.sampling.parts import SamplingParts
from agent.settings import Settings
from agent.version import installed_version


def proposer_of(
    settings: Settings,
    url: str,
    *,
    node: str,
    may_propose: Callable[[], str | None],
    tell: DecisionLog,
    event: Callable[[PodRef, EventReason, str], None],
    metrics: Metrics,
    reporter: Reporter,
) -> Proposer:
    """Return the proposer of this node, which hears of the reporter's reports from now on; nothing runs yet."""
    registry = CollectorRegistry()
    series = ProposingSeries(registry)
    metrics.register(registry)
    proposer = Proposer(
        options=settings.propose,
        node=node,
        # A connection of its own: an eviction may take seconds, and a report must not wait for it.
        poster=_client(settings, url),
        may_propose=may_propose,
        audience=ProposalAudience(tell=tell, event=event, count=series.count),
        reports=reporter,
    )
    reporter.when_taken(proposer.reported)
    return proposer


def taint_asker_of(settings: Settings, url: str, *, node: str, metrics: Metrics) -> TaintAsker:
    """Return who asks whether this node may be tainted; nothing is asked yet."""
    registry = CollectorRegistry()
    series = TaintAnswerSeries(registry)
    metrics.register(registry)
    return TaintAsker(node=node, poster=_client(settings, url), count=series.count)


def _client(settings: Settings, url: str) -> WebhookClient:
    options = settings.report
    return WebhookClient(
        url, token_file=options.token_file, ca_file=options.ca_file, timeout_seconds=options.timeout_seconds
    )


def reporter_of(
    settings: Settings,
    url: str,
    *,
    sampling: SamplingParts,
    policy: Callable[[], WindowPolicy],
    cluster: ClusterView,
    unix_now: Callable[[], float],  # UTC seconds of a clock that believes no jump; for the pods' age
    quality: Callable[[], Mapping[tuple[Workload, str], Floats]],
    orders: PodOrders,
    directions: Directions,
    sums: Callable[[], NodeSums | None],
    metrics: Metrics,
) -> Reporter:
    """Return the reporter of this node; nothing runs yet."""
    options, directory, boot = settings.report, settings.state.directory, BootClock.of_machine()

    def node_class() -> NodeClass:
        node = cluster.state().node
        return NodeClass(
            instance_type=(node.labels.get(INSTANCE_TYPE_LABEL) or None) if node is not None else None,
            cpus=sampling.machine.cpus,
        )

    kinds = frozenset(listed(settings.plan.managed_kinds))

    def workloads_here() -> set[Workload]:
        workloads = {workload_of(pod) for pod in cluster.state().pods}
        return {workload for workload in workloads if workload.kind in kinds}

    node = ReportedNode(
        name=cluster.node_name,
        node_class=node_class,
        is_ready=lambda: cluster.state().is_complete,
        etag=lambda: directions.etag,
        newcomers=Newcomers(workloads_here, directions.workloads),
        sums=sums,
    )
    sampling.ends.lives.report()
    registry = CollectorRegistry()
    series = ReportSeries(registry)
    metrics.register(registry)
    queue = ReportQueue(
        None if directory is None else directory / DIRECTORY_NAME,
        max_bytes=options.queue_bytes,
        boot=boot,
        wall_now=time.time,
    )

    return Reporter(
        options=options,
        node=node,
        roller=Roller(
            rings=sampling.rings,
            units=sampling.units,
            policy=policy,
            pods=lambda: cluster.state().pods,
            unix_seconds=lambda monotonic_ns: unix_now() - (time.monotonic_ns() - monotonic_ns) / NS,
            quality=quality,
            share_group=lambda pod: share_group(pod, orders.of_pod(pod, cluster.state())),
            short_lives=sampling.ends.lives.take_for_report,
        ),
        queue=queue,
        sender=ReportSender(
            queue=queue,
            client=_client(settings, url),
            series=series,
            etag=node.etag,
            on_answer=directions.take,
        ),
        clocks=ReportClocks(boot=boot),
        counts=metrics.loops.begin("report"),
    )


def run_teller_of(
    settings: Settings,
    url: str,
    *,
    sampling: SamplingParts,
    policy: Callable[[], WindowPolicy],
    cluster: ClusterView,
    metrics: Metrics,
) -> RunTeller:
    """Return who tells of runs of Jobs; nothing runs yet."""
    directory = settings.state.directory
    starts = Starts(rings=sampling.rings, units=sampling.units, pods=cluster.pods, policy=policy)
    return RunTeller(
        ends=sampling.ends,
        node=cluster.node_name,
        pods=cluster.pods,
        policy=policy,
        poster=_client(settings, url),
        file=RunsFile(None if directory is None else directory / RUNS_FILE_NAME, sampling.rings.boot_id),
        counts=metrics.loops.begin("runs"),
        starts=starts,
    )


def decision_teller_of(
    settings: Settings, url: str, *, node: str, journal: Journal, metrics: Metrics
) -> DecisionTeller:
    """Return who tells what this node decided; nothing is told yet."""
    directory = settings.state.directory
    return DecisionTeller(
        TellerOptions(node=node, agent=installed_version()),
        journal=journal,
        poster=_client(settings, url),
        file=ToldDecisionsFile(None if directory is None else directory / TOLD_DECISIONS_FILE_NAME),
        counts=metrics.loops.begin("decisions"),
    )

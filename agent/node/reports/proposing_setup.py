"""Puts together what proposes evictions to the webhook and asks it for the taint. Node; loaded with ``report.url``."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from agent.core.cluster.pod import PodRef
from agent.core.resize.decision import DecisionLog
from agent.core.resize.event_rate import EventReason
from agent.metrics.agent_series import Metrics
from agent.metrics.proposing_series import ProposingSeries, TaintAnswerSeries
from agent.node.reports.client import WebhookClient
from agent.node.reports.proposer import Proposer
from agent.node.reports.reporter import Reporter
from agent.node.reports.taint_asker import TaintAsker
from agent.settings import Settings


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
    """Give the proposer of this node, which hears of the reporter's reports from now on; nothing runs yet.

    Args:
        settings: All of them.
        url: Of ``report.url``.
        node: This one in the cluster.
        may_propose: Why nothing may be asked for now; None = it may.
        tell: The decision log.
        event: Tells a pod's owner; any thread.
        metrics: The page that the series stand on.
        reporter: What is proposed is reported before.
    """
    registry = CollectorRegistry()
    series = ProposingSeries(registry)
    metrics.register(registry)
    proposer = Proposer(
        options=settings.propose,
        node=node,
        # A connection of its own: an eviction may take seconds, and a report must not wait for it.
        poster=_client(settings, url),
        may_propose=may_propose,
        tell=tell,
        event=event,
        count=series.count,
        reported_until_seconds=reporter.reported_until_seconds,
        hasten=reporter.hasten,
    )
    reporter.when_taken(proposer.reported)
    return proposer


def taint_asker_of(settings: Settings, url: str, *, node: str, metrics: Metrics) -> TaintAsker:
    """Give who asks whether this node may be tainted; nothing is asked yet."""
    registry = CollectorRegistry()
    series = TaintAnswerSeries(registry)
    metrics.register(registry)
    return TaintAsker(node=node, poster=_client(settings, url), count=series.count)


def _client(settings: Settings, url: str) -> WebhookClient:
    options = settings.report
    return WebhookClient(
        url, token_file=options.token_file, ca_file=options.ca_file, timeout_seconds=options.timeout_seconds
    )

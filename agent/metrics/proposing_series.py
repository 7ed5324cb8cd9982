"""The series of what the webhook was asked for: evictions, the taint. Metrics; only where there is a webhook."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from agent.core.eviction.proposal import Verdict


class ProposingSeries:
    """Counts the webhook's answers; any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        answers = Counter(
            "plimsoll_eviction_answers_total",
            "Proposals of evictions that the webhook answered, by verdict; a pod that is put off is proposed again.",
            ("verdict",),
            registry=registry,
        )
        self._answers = {verdict: answers.labels(verdict.value) for verdict in Verdict}

    def count(self, verdict: Verdict) -> None:
        """Count an answer."""
        self._answers[verdict].inc()


class TaintAnswerSeries:
    """Counts the webhook's answers about the taint; any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        answers = Counter(
            "plimsoll_taint_answers_total",
            "Answers to whether this node may have the overload taint; away = there was none that says so.",
            ("result",),
            registry=registry,
        )
        self._answers = {result: answers.labels(result) for result in ("granted", "refused", "away")}

    def count(self, result: str) -> None:
        """Count an answer."""
        self._answers[result].inc()

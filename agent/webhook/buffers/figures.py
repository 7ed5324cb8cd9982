"""What the CapacityBuffer controller tells of itself on /metrics; ``metrics.buffer_series`` names it. Webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent.core.buffers.buffer import BufferOutcome
from agent.webhook.buffers.controller import BufferController

Values = Iterable[tuple[tuple[str, ...], float]]


class ControllerFigures:
    """The figures of one controller, from memory; for any thread."""

    def __init__(self, controller: BufferController) -> None:
        self._controller = controller

    def wanted(self) -> Values:
        """Return chunks before quotas."""
        return self._each(lambda one: None if one.explanation.sizing is None else one.explanation.sizing.replicas)

    def allowed(self) -> Values:
        """Return chunks in the status."""
        return self._each(lambda one: one.status.replicas)

    def ready(self) -> Values:
        """Return placeholder pods that run."""
        return [
            ((outcome.buffer.namespace, outcome.buffer.name), view.ready[outcome.buffer.name])
            for view in self._controller.views()
            for outcome in view.outcomes
            if outcome.buffer.name in view.ready
        ]

    def not_ready(self) -> Values:
        """Return 1 for each buffer that could not be resolved or sized."""
        return self._each(lambda one: 0 if one.explanation.fault is None else 1)

    def known(self) -> int:
        """Count the buffers."""
        return self._controller.watches.buffers.count()

    def waiting(self) -> int:
        """Count the namespaces in the queue."""
        return self._controller.waiting()

    def failing(self) -> int:
        """Count the namespaces of which the last look failed."""
        return self._controller.faults()

    def contested(self) -> bool:
        """Return whether another controller writes statuses."""
        return self._controller.standing().contested_by is not None

    def looks(self) -> dict[str, int]:
        """Count looks by result."""
        return dict(self._controller.results)

    def writes(self) -> dict[str, int]:
        """Count what was written."""
        counts = self._controller.counts
        return {"status": counts.statuses, "template": counts.templates}

    def calls(self) -> dict[tuple[str, str], int]:
        """Count calls by verb and resource."""
        return self._controller.api.calls()

    def errors(self) -> dict[tuple[str, str], int]:
        """Count calls that failed."""
        return self._controller.api.errors()

    def _each(self, value: Callable[[BufferOutcome], int | None]) -> Values:
        found: list[tuple[tuple[str, ...], float]] = []
        for view in self._controller.views():
            for outcome in view.outcomes:
                figure = value(outcome)
                if figure is not None:
                    found.append(((outcome.buffer.namespace, outcome.buffer.name), figure))
        return found

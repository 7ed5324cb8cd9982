"""The families of CapacityBuffers, read when the page is asked for: names, units and texts. Metrics."""

from __future__ import annotations

from typing import Final, Protocol

from agent.metrics.families import FamilyReading, Values, counter_reading, gauge_reading

LOOK_RESULTS: Final = ("done", "requeued", "failed", "error")


class BufferFigures(Protocol):
    """What is told of buffers; by namespace and name where it is of one."""

    def wanted(self) -> Values:
        """Chunks before quotas."""

    def allowed(self) -> Values:
        """Chunks in the status."""

    def ready(self) -> Values:
        """Placeholder pods that run."""

    def not_ready(self) -> Values:
        """1 for each buffer that could not be resolved or sized."""

    def known(self) -> int:
        """How many buffers there are."""

    def waiting(self) -> int:
        """Namespaces that are to be looked at some time."""

    def failing(self) -> int:
        """Namespaces of which the last look failed."""

    def contested(self) -> bool:
        """Another controller writes statuses."""

    def looks(self) -> dict[str, int]:
        """By result."""

    def writes(self) -> dict[str, int]:
        """By what was written."""

    def calls(self) -> dict[tuple[str, str], int]:
        """By verb and resource."""

    def errors(self) -> dict[tuple[str, str], int]:
        """By verb and resource."""


def of_buffers(figures: BufferFigures) -> tuple[FamilyReading, ...]:
    """Return the families."""
    of_one, of_call = ("namespace", "buffer"), ("verb", "resource")
    return (
        gauge_reading("plimsoll_buffers", "CapacityBuffers that are known.", lambda: [((), figures.known())]),
        gauge_reading(
            "plimsoll_buffer_wanted_chunks",
            "Chunks that a CapacityBuffer asks for by replicas, percentage and limits.",
            figures.wanted,
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_allowed_chunks",
            "Chunks of a CapacityBuffer's status: what quotas and its schedule leave of those wanted.",
            figures.allowed,
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_ready_chunks",
            "Chunks of which the room is kept by a placeholder pod that runs.",
            figures.ready,
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_not_ready",
            "1 = a CapacityBuffer could not be resolved or sized; its condition says why.",
            figures.not_ready,
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_namespaces_waiting",
            "Namespaces with CapacityBuffers that are to be looked at, most of them by the clock.",
            lambda: [((), figures.waiting())],
        ),
        gauge_reading(
            "plimsoll_buffer_namespaces_failing",
            "Namespaces of which the last look failed.",
            lambda: [((), figures.failing())],
        ),
        gauge_reading(
            "plimsoll_buffers_contested",
            "1 = another controller writes the status of CapacityBuffers, and this one steps back.",
            lambda: [((), figures.contested())],
        ),
        counter_reading(
            "plimsoll_buffer_reconciles",
            "Looks at namespaces with CapacityBuffers, by how they came out.",
            lambda: [((result,), figures.looks().get(result, 0)) for result in LOOK_RESULTS],
            "result",
        ),
        counter_reading(
            "plimsoll_buffer_writes",
            "Statuses and managed templates written.",
            lambda: [((what,), count) for what, count in figures.writes().items()],
            "what",
        ),
        counter_reading(
            "plimsoll_buffer_api_calls", "Calls for CapacityBuffers.", lambda: figures.calls().items(), *of_call
        ),
        counter_reading(
            "plimsoll_buffer_api_errors",
            "Of these, those that were refused or not answered.",
            lambda: figures.errors().items(),
            *of_call,
        ),
    )

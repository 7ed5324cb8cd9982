"""Reports for the store's tests: payloads that say whose they are."""

from __future__ import annotations

from agent.webhook.store.shapes import NewReport

HOUR_SECONDS = 3600.0


def new_report(
    sequence: int,
    *,
    node: str = "node-a",
    incarnation: str = "first",
    lost_reports: int = 0,
    received_unix_seconds: float = 1_000_000.0,
    payload_bytes: int = 0,
) -> NewReport:
    """Return a report of at least so many bytes."""
    payload = f"{node}/{incarnation}/{sequence} ".encode()
    return NewReport(
        node=node,
        incarnation=incarnation,
        sequence=sequence,
        lost_reports=lost_reports,
        received_unix_seconds=received_unix_seconds,
        rows=1,
        payload=payload.ljust(payload_bytes, b"\xff"),
    )


def whose(payload: bytes) -> tuple[str, str, int]:
    """Read node, incarnation and sequence of a payload."""
    node, incarnation, sequence = payload.partition(b" ")[0].decode().split("/")
    return node, incarnation, int(sequence)

"""What the ledger kept, as of a moment: no time in it lies ahead. Core, pure."""

from __future__ import annotations

from dataclasses import replace

from agent.core.resize.record import LedgerState, PodRecord


def as_of(kept: LedgerState, now_seconds: float) -> LedgerState:
    """Give what was kept with every moment that lies ahead put to now: the clock has been put back since.

    So a cool-down or a bar begins anew, rather than lasting for as long as the clock went wrong.
    """
    return replace(
        kept,
        pods=tuple(_record(one, now_seconds) for one in kept.pods),
        bars=tuple(replace(one, since_seconds=min(one.since_seconds, now_seconds)) for one in kept.bars),
        oom_actions=tuple(replace(one, at_seconds=min(one.at_seconds, now_seconds)) for one in kept.oom_actions),
    )


def _record(record: PodRecord, now: float) -> PodRecord:
    flight = record.flight
    if flight is not None:
        flight = replace(
            flight, sent_seconds=min(flight.sent_seconds, now), since_seconds=min(flight.since_seconds, now)
        )
    return replace(
        record,
        changed_seconds=None if record.changed_seconds is None else min(record.changed_seconds, now),
        flight=flight,
        refused=tuple(replace(one, since_seconds=min(one.since_seconds, now)) for one in record.refused),
        shrunk=tuple(
            replace(one, sent_seconds=min(one.sent_seconds, now), at_seconds=min(one.at_seconds, now))
            for one in record.shrunk
        ),
    )

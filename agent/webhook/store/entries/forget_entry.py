"""What is forgotten at somebody's order, as an entry of the log: it undoes what stands before it, and nothing after it.

Webhook; pure. Every replica meets the entry in its place and forgets; a fold leaves out the reports before it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import SampledRow
from agent.webhook.store.entries.report_payload import BadPayloadError

_Row = TypeVar("_Row", bound=SampledRow)

MOST_BYTES: Final = 64 << 20
"""Unpacked."""
_MARK: Final = b"forget\0"
"""No report's payload begins so; a program that does not know it passes such an entry over as unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgetting:
    """An order to forget a workload, or what one node reported."""

    id: int
    """Its place in the log."""
    asked_by: str
    workload: Workload | None = None
    """All of its history; None = ``node`` is meant."""
    node: str | None = None
    since_unix_hour: int = 0
    """Of a node: hours before stay."""
    keys: tuple[str, ...] = ()
    """Of a node: the histories in which it had a part since then. Their hours went whole, as a sketch does not tell who
    said what."""

    def covers(self, node: str, workload: Workload, unix_hour: int) -> bool:
        """Return whether a row before it in the log is forgotten."""
        if self.workload is not None:
            return workload == self.workload
        return node == self.node and unix_hour >= self.since_unix_hour


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Forgetting)


def encode_forgetting(forgetting: Forgetting) -> bytes:
    """Return the payload of its entry."""
    return _MARK + zlib.compress(_encoder.encode(forgetting))


def is_forgetting(payload: bytes) -> bool:
    """Return whether an entry of the log is one of these, and no report."""
    return payload.startswith(_MARK)


def decode_forgetting(payload: bytes) -> Forgetting:
    """Read what ``encode_forgetting`` gave."""
    try:
        return _decoder.decode(zlib.decompressobj().decompress(payload.removeprefix(_MARK), MOST_BYTES))
    except (zlib.error, msgspec.DecodeError) as error:
        raise BadPayloadError(f"payload of {len(payload)} bytes: {error}") from error


def rows_left(
    rows: Sequence[_Row], node: str, report_id: int, unix_hour: int, forgettings: Iterable[Forgetting]
) -> Sequence[_Row]:
    """Return the rows of a node's report of the log that no later entry has forgotten."""
    later = [forgetting for forgetting in forgettings if forgetting.id > report_id]
    if not later:
        return rows
    return [row for row in rows if not any(forgetting.covers(node, row.workload, unix_hour) for forgetting in later)]

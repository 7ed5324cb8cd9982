"""A report's accepted rows as the log keeps them: msgpack, compressed. Webhook.

Every replica reads the same bytes, so that all learn the same; in a rollout those of the release before read them too,
so their form stays. It is that of the types of ``rollup``. The types here are the same with bounds on what is in them,
and are read in half the time. The receiver lets nothing in that is beyond the bounds: were it here, it would be here
for every replica and every start.
"""

from __future__ import annotations

import sys
import zlib
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from agent.core.cluster.workload import Workload
from agent.core.history.minute.quality import QUALITY_FIELDS, WINDOWS
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, NodeClass, NodeSums, Report

MAX_BYTES: Final = 32 << 20
"""Unpacked; the server lets far less in."""
_FAST: Final = 1
_Amount = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
_Whole = Annotated[int, Meta(ge=0)]


class BadPayloadError(ValueError):
    """These bytes are no report of this program's; the message says why."""


class _Stored(msgspec.Struct, kw_only=True, gc=False):
    """Any of them. They refer to nothing that refers back, so the collector of cycles need not look at them."""


class _Distribution(_Stored, kw_only=True):
    count: Annotated[int, Meta(ge=1)]
    sum: _Amount
    max: _Amount


class StoredCpu(_Distribution, kw_only=True):
    """``Distribution`` of CPU."""

    buckets: dict[Annotated[int, Meta(ge=0, lt=CPU_BUCKETS.count)], _Whole]


class StoredMemory(_Distribution, kw_only=True):
    """``Distribution`` of memory."""

    buckets: dict[Annotated[int, Meta(ge=0, lt=MEMORY_BUCKETS.count)], _Whole]


class StoredKill(_Stored, kw_only=True):
    """``OutOfMemoryKill``."""

    age_seconds: _Amount
    memory_bytes: _Whole | None


class StoredShare(_Stored, kw_only=True):
    """``ShareRow``."""

    share: str
    is_enforced: bool
    restarts: _Whole
    unready_seconds: _Amount


class StoredSetback(_Stored, kw_only=True):
    """``Setback``."""

    age_seconds: _Amount
    reason: str


class StoredRow(_Stored, kw_only=True):
    """``RollupRow``."""

    workload: Workload
    container: str
    pod: str
    pod_uid: str
    pod_age_seconds: float | None
    covered_seconds: _Amount
    cpu: StoredCpu | None
    cpu_adjusted: StoredCpu | None
    memory: StoredMemory | None
    throttled_seconds: _Amount | None = None
    waiting_seconds: _Amount | None = None
    oom_kills: tuple[StoredKill, ...] = ()
    quality: (
        Annotated[
            tuple[Annotated[tuple[_Amount, ...], Meta(min_length=QUALITY_FIELDS)], ...],
            Meta(min_length=len(WINDOWS), max_length=len(WINDOWS)),
        ]
        | None
    ) = None
    share: StoredShare | None = None
    setback: StoredSetback | None = None
    cpu_request_millicores: int | None = None
    memory_request_bytes: int | None = None


class StoredReport(_Stored, kw_only=True):
    """``Report``."""

    node: str
    node_class: NodeClass
    incarnation: str
    sequence: int
    lost_reports: int
    end_age_seconds: _Amount
    interval_seconds: Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
    rows: tuple[StoredRow, ...]
    plan: NodeSums | None = None
    tells_plan: bool = False


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(StoredReport)


def encode_report(report: Report) -> bytes:
    """Return the ``payload`` for ``Store.append``: the report with the rows that were accepted, and no others."""
    return zlib.compress(_encoder.encode(report), _FAST)


def decode_stored(payload: bytes) -> StoredReport:
    """Read what `encode_report` gave, for who only adds it up.

    Raises:
        BadPayloadError: It is no report, or an amount in it is negative, endless or in no bucket.
    """
    try:
        unpacker = zlib.decompressobj()
        return _decoder.decode(unpacker.decompress(payload, MAX_BYTES))
    except (zlib.error, msgspec.DecodeError) as error:
        raise BadPayloadError(f"payload of {len(payload)} bytes: {error}") from error


def decode_report(payload: bytes) -> Report:
    """Read what `encode_report` gave.

    Raises:
        BadPayloadError: It is no report, or an amount in it is negative, endless or in no bucket.
    """
    return msgspec.convert(decode_stored(payload), Report, from_attributes=True)

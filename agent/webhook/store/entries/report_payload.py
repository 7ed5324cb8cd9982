"""A report's accepted rows as the log keeps them: msgpack, compressed. Webhook.

Every replica reads the same bytes, so that all learn the same.
"""

from __future__ import annotations

import zlib
from math import inf
from typing import Final

import msgspec

from agent.core.history.minute.quality import QUALITY_FIELDS, WINDOWS
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution, Report

MAX_BYTES: Final = 32 << 20
"""Unpacked; the server lets far less in."""
_FAST: Final = 1
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Report)


class BadPayloadError(ValueError):
    """These bytes are no report of this program's; the message says why."""


def encode_report(report: Report) -> bytes:
    """Return the ``payload`` for ``Store.append``: the report with the rows that were accepted, and no others."""
    return zlib.compress(_encoder.encode(report), _FAST)


def decode_report(payload: bytes) -> Report:
    """Read what `encode_report` gave."""
    try:
        unpacker = zlib.decompressobj()
        report = _decoder.decode(unpacker.decompress(payload, MAX_BYTES))
    except (zlib.error, msgspec.DecodeError) as error:
        raise BadPayloadError(f"payload of {len(payload)} bytes: {error}") from error
    if not _is_sound(report):
        # The receiver lets nothing like it in. Were it here, it would be here for every replica and every start.
        raise BadPayloadError(f"payload of {len(payload)} bytes: an amount is negative, endless or in no bucket")
    return report


def _is_sound(report: Report) -> bool:
    if not (0.0 <= report.end_age_seconds < inf and 0.0 < report.interval_seconds < inf):
        return False
    for row in report.rows:
        seconds = (row.covered_seconds, row.throttled_seconds or 0.0, row.waiting_seconds or 0.0)
        if not all(0.0 <= second < inf for second in seconds):
            return False
        if not all(0.0 <= kill.age_seconds < inf and (kill.memory_bytes or 0) >= 0 for kill in row.oom_kills):
            return False
        if row.share is not None and not (row.share.restarts >= 0 and 0.0 <= row.share.unready_seconds < inf):
            return False
        if row.setback is not None and not 0.0 <= row.setback.age_seconds < inf:
            return False
        if row.quality is not None and not _is_sound_quality(row.quality):
            return False
        if not (
            _is_sound_signal(row.cpu, CPU_BUCKETS.count)
            and _is_sound_signal(row.cpu_adjusted, CPU_BUCKETS.count)
            and _is_sound_signal(row.memory, MEMORY_BUCKETS.count)
        ):
            return False
    return True


def _is_sound_quality(windows: tuple[tuple[float, ...], ...]) -> bool:
    return len(windows) == len(WINDOWS) and all(
        len(figures) >= QUALITY_FIELDS and all(0.0 <= figure < inf for figure in figures) for figures in windows
    )


def _is_sound_signal(signal: Distribution | None, buckets: int) -> bool:
    if signal is None:
        return True
    counts = signal.buckets
    return (
        signal.count > 0
        and 0.0 <= signal.sum < inf
        and 0.0 <= signal.max < inf
        and (not counts or (min(counts) >= 0 and max(counts) < buckets and min(counts.values()) >= 0))
    )

"""Imported hours as an entry of the log: which histories have new ones, for every replica to read. Webhook; pure.

The hours themselves stand among the sketches from the same transaction on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from agent.webhook.store.entries.report_payload import BadPayloadError
from agent.webhook.store.shapes import StoredSketch

MOST_BYTES: Final = 64 << 20
"""Unpacked."""
_MARK: Final = b"import\0"
"""No report's payload begins so; a program that does not know it passes such an entry over as unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryImport:
    """Hours that were imported at somebody's order."""

    asked_by: str
    keys: tuple[str, ...]
    unix_hours: tuple[int, ...]
    """In which any of them has a new one."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(HistoryImport)


def import_of(sketches: Iterable[StoredSketch], asked_by: str) -> HistoryImport:
    """Return the entry for these hours."""
    written = list(sketches)
    return HistoryImport(
        asked_by=asked_by,
        keys=tuple(sorted({sketch.key for sketch in written})),
        unix_hours=tuple(sorted({sketch.unix_hour for sketch in written})),
    )


def encode_import(entry: HistoryImport) -> bytes:
    """Return the payload of the entry."""
    return _MARK + zlib.compress(_encoder.encode(entry))


def is_import(payload: bytes) -> bool:
    """Return whether an entry of the log is one of these, and no report."""
    return payload.startswith(_MARK)


def decode_import(payload: bytes) -> HistoryImport:
    """Read what ``encode_import`` gave."""
    try:
        return _decoder.decode(zlib.decompressobj().decompress(payload.removeprefix(_MARK), MOST_BYTES))
    except (zlib.error, msgspec.DecodeError) as error:
        raise BadPayloadError(f"payload of {len(payload)} bytes: {error}") from error

"""In which hours of a day a node had a part in which histories, as bytes: so that what it said can be forgotten.

Webhook; pure. A sketch counts many nodes together and does not tell of which. About 1 kB per node and day: 60
containers, 24 hours.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

DAY_HOURS: Final = 24
MOST_BYTES: Final = 64 << 20
"""Unpacked."""
_FAST: Final = 1
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(dict[str, int])

KeyHours = dict[str, int]
"""By the key of a history: a bit for each hour of the day."""


def encode(hours: Mapping[str, int]) -> bytes:
    """Return the bytes; equal hours have equal ones."""
    return zlib.compress(_encoder.encode(dict(sorted(hours.items()))), _FAST)


def decode(payload: bytes | None) -> KeyHours:
    """Read what ``encode`` gave; what is not there or cannot be read is nothing."""
    if payload is None:
        return {}
    try:
        return _decoder.decode(zlib.decompressobj().decompress(payload, MOST_BYTES))
    except (zlib.error, msgspec.DecodeError):
        return {}


def with_hour(payload: bytes | None, keys: Iterable[str], unix_hour: int) -> bytes | None:
    """Return the bytes with one hour of these keys more; None = they hold it already."""
    hours, bit, is_new = decode(payload), 1 << unix_hour % DAY_HOURS, payload is None
    for key in keys:
        known = hours.get(key, 0)
        is_new |= not known & bit
        hours[key] = known | bit
    return encode(hours) if is_new else None


def unix_hours(unix_day: int, bits: int) -> list[int]:
    """Return the hours that the bits of a day stand for."""
    return [unix_day * DAY_HOURS + hour for hour in range(DAY_HOURS) if bits >> hour & 1]

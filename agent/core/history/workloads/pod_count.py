"""How many pods there were, and how far apart they are: bounded, and the same in whatever order they come.

Core, pure. Of all pods the eight with the smallest hash are kept with their sums, a sample that no load can bend; a pod
that is among the smallest of all is among the smallest of any part, so its sums are whole whatever was merged first.
Up to eight pods are counted exactly. Beyond, each pod sets one of 256 bits, and the number is estimated from the bits
that are still free (within 5 % up to a hundred pods, 11 % at a thousand; never more than about 1,400).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, Self

PODS_KEPT: Final = 8
_BITS: Final = 256
_PLACES: Final = tuple(slice(4 * place, 4 * place + 4) for place in range(PODS_KEPT))
"""Of the hashes among packed bytes."""
_KEPT_BYTES: Final = 4 * PODS_KEPT


@lru_cache(maxsize=1024)
def pod_number(pod_uid: str) -> int:
    """Return a pod's hash, 32 bits: two pods in a hundred with the same one are as likely as one in a million."""
    return int.from_bytes(blake2b(pod_uid.encode(errors="surrogatepass"), digest_size=4).digest(), "big")


class PodSums(NamedTuple):
    """The samples of one pod."""

    cpu_count: int = 0
    cpu_microcores: int = 0
    """Sum of the samples."""
    memory_count: int = 0
    memory_bytes: int = 0
    """Sum of the samples."""

    def plus(self, other: PodSums) -> PodSums:
        """Add up."""
        return PodSums(
            self.cpu_count + other.cpu_count,
            self.cpu_microcores + other.cpu_microcores,
            self.memory_count + other.memory_count,
            self.memory_bytes + other.memory_bytes,
        )


@dataclass(slots=True)
class Pods:
    """The pods of one stretch of time."""

    sums: dict[int, PodSums] = field(default_factory=dict)
    """By hash; the smallest hashes, `PODS_KEPT` at most."""
    bits: int = 0
    """Which of 256 bits the pods set, those that are kept included."""
    has_more: bool = False
    """There were more pods than are kept."""

    @classmethod
    def of(cls, sums: dict[int, PodSums], more_bits: bytes) -> Self:
        """Return pods by those that are kept, and the bits of all where there were more (empty = there were not)."""
        if more_bits:
            return cls(sums, int.from_bytes(more_bits, "big"), has_more=True)
        bits = 0
        for number in sums:
            bits |= 1 << number % _BITS
        return cls(sums, bits)

    def add(self, number: int, sums: PodSums) -> None:
        """Count samples of a pod, by its hash."""
        self.bits |= 1 << number % _BITS
        known = self.sums.get(number)
        self.sums[number] = sums if known is None else known.plus(sums)
        if len(self.sums) > PODS_KEPT:
            del self.sums[max(self.sums)]
            self.has_more = True

    def merge(self, other: Pods) -> None:
        """Count all that the other counted."""
        for number, sums in other.sums.items():
            known = self.sums.get(number)
            self.sums[number] = sums if known is None else known.plus(sums)
        self.bits |= other.bits
        self.has_more |= other.has_more or len(self.sums) > PODS_KEPT
        for number in sorted(self.sums)[PODS_KEPT:]:
            del self.sums[number]

    @property
    def count(self) -> int:
        """How many; beyond eight an estimate."""
        if not self.has_more:
            return len(self.sums)
        free = max(_BITS - self.bits.bit_count(), 1)
        return max(round(-_BITS * math.log(free / _BITS)), PODS_KEPT + 1)

    def cpu_spread_millicores(self) -> tuple[float, float] | None:
        """Return the least and the largest mean of a pod, among those kept; None = no pod has a sample."""
        return _spread([sums.cpu_microcores / sums.cpu_count / 1e3 for sums in self.sums.values() if sums.cpu_count])

    def memory_spread_bytes(self) -> tuple[float, float] | None:
        """Return the same of memory."""
        return _spread([sums.memory_bytes / sums.memory_count for sums in self.sums.values() if sums.memory_count])


def _spread(means: list[float]) -> tuple[float, float] | None:
    return (min(means), max(means)) if means else None


def pack_numbers(pods: Pods) -> bytes:
    """Return who there was as bytes, without the sums: four bytes per hash, and 32 more where there are more pods."""
    numbers = b"".join(number.to_bytes(4, "big") for number in sorted(pods.sums))
    return numbers + pods.bits.to_bytes(_BITS // 8, "big") if pods.has_more else numbers


def packed_count(packed: bytes) -> int:
    """Count the pods in what `pack_numbers` gave, as `Pods.count` does."""
    # Admissions ask for this: of more pods than are kept it is the bits alone that count.
    return len(packed) // 4 if len(packed) <= 4 * PODS_KEPT else Pods.of({}, packed[4 * PODS_KEPT :]).count


def with_number(packed: bytes, number: int) -> bytes:
    """Return what `pack_numbers` gave with one pod more, by its hash."""
    known = number.to_bytes(4, "big")
    place = packed.find(known, 0, _KEPT_BYTES)
    if place >= 0 and (place % 4 == 0 or known in map(packed.__getitem__, _PLACES[: len(packed) // 4])):
        return packed  # the rule: a container's rows are of few pods
    if len(packed) > _KEPT_BYTES and known > packed[_KEPT_BYTES - 4 : _KEPT_BYTES]:
        # One of many, and none of the smallest: its bit is all that is kept of it. The last byte holds the first bits.
        byte, bit = len(packed) - 1 - number % _BITS // 8, 1 << number % 8
        if packed[byte] & bit:
            return packed
        return packed[:byte] + bytes((packed[byte] | bit,)) + packed[byte + 1 :]
    pods = unpack_numbers(packed)
    pods.add(number, PodSums())
    return pack_numbers(pods)


def unpack_numbers(packed: bytes) -> Pods:
    """Read what `pack_numbers` gave; the sums are 0."""
    newest, more_bits = packed[: 4 * PODS_KEPT], packed[4 * PODS_KEPT :]
    numbers = (int.from_bytes(newest[place : place + 4], "big") for place in range(0, len(newest), 4))
    return Pods.of({number: PodSums() for number in numbers}, more_bits)

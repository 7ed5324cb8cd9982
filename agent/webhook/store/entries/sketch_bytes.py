"""An hour's sketch as bytes for the store: a head of fixed size, then msgpack. Webhook.

A container with one pod takes 150 to 250 bytes, one with many replicas 300 to 500. Equal sketches have equal bytes. The
head holds all that the index in memory needs, so that whole days are read without looking at the rest (`read_heads`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.hour_sketch import HourKills, HourSketch, RequestTime, Samples, Seconds
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.pod_count import Pods, PodSums

SKETCH_VERSION: Final = 1
HEAD: Final = np.dtype(
    [
        ("version", "u1"),
        ("flags", "u1"),
        ("cpu_top", "<u2"),
        ("cpu_second", "<u2"),
        ("cpu_node", "<u4"),
        ("memory_top", "<u2"),
        ("memory_second", "<u2"),
        ("memory_node", "<u4"),
        ("first_seconds", "<i4"),
        ("last_seconds", "<i4"),
    ]
)
"""First and last are counted from the start of the hour; the leaders are those of ``workload_leaders``."""
HEAD_BYTES: Final = HEAD.itemsize + 1
"""Of a sketch to be read by its head: there is more than that of each."""
_BEGINNING: Final = np.dtype([("head", HEAD), ("more", "u1")])
HAS_KILLS: Final = 1
"""A bit of ``flags``."""
_HEAD: Final = struct.Struct("<BBHHIHHIii")
_LARGEST_SECONDS: Final = (1 << 31) - 1
_LARGEST: Final = (1 << 63) - 1
"""What the format holds; sums of nine million TB for one second, or of a TB on a thousand pods for three hours."""

Heads = NDArray[np.void]
_Samples = tuple[int, int, int, dict[int, int]]
_Pod = tuple[int, int, int, int, int]


class BadSketchError(ValueError):
    """These bytes are no sketch that this program reads; the message says why."""


class _Body(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What follows the head. Counts and sums, the buckets of a histogram by their number in rising order."""

    rows: int
    times: tuple[int, int, int, int, int, int]
    """Covered, throttled, waiting: microseconds and rows of each."""
    cpu: _Samples
    demand: _Samples
    """Of the buckets only where counts differ from those of ``cpu``: most adjusted samples are those measured."""
    memory: _Samples
    kills: list[int] | None
    """Count, bytes, seconds within the hour; the node of the bytes last, absent where it is not known."""
    pods: list[_Pod]
    pod_bits: bytes
    """Empty = the pods listed are all there were."""
    requests: list[int] = []
    """Of CPU, then of memory: microseconds known, amount-seconds, microseconds short; empty = told nowhere."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Body)
_buckets_decoder: Final = msgspec.msgpack.Decoder(dict[int, int])


def encode(sketch: HourSketch, unix_hour: int) -> bytes:
    """Return the bytes of a sketch that has rows."""
    start = unix_hour * HOUR_SECONDS
    kills, pods = sketch.kills, sketch.pods
    cpu, memory = sketch.demand_leaders, sketch.memory_leaders
    head = _HEAD.pack(
        SKETCH_VERSION,
        HAS_KILLS if kills.count else 0,
        *(cpu.top, cpu.second, cpu.node),
        *(memory.top, memory.second, memory.node),
        _clamped(sketch.first_unix_seconds - start),
        _clamped(sketch.last_unix_seconds - start),
    )
    times = (sketch.covered, sketch.throttled, sketch.waiting)
    body = _Body(
        rows=sketch.rows,
        times=(times[0].micros, times[0].rows, times[1].micros, times[1].rows, times[2].micros, times[2].rows),
        cpu=_samples(sketch.cpu),
        demand=(
            sketch.demand.count,
            min(sketch.demand.total, _LARGEST),
            min(sketch.demand.largest, _LARGEST),
            _difference(sketch.demand.buckets, sketch.cpu.buckets),
        ),
        memory=_samples(sketch.memory),
        kills=_kills(kills, start),
        pods=[
            (
                number,
                sums.cpu_count,
                min(sums.cpu_microcores, _LARGEST),
                sums.memory_count,
                min(sums.memory_bytes, _LARGEST),
            )
            for number, sums in sorted(pods.sums.items())
        ],
        pod_bits=pods.bits.to_bytes(32, "big") if pods.has_more else b"",
        requests=_requests(sketch.cpu_request, sketch.memory_request),
    )
    return head + _encoder.encode(body)


def decode(payload: bytes, unix_hour: int, *, with_pods: bool = True) -> HourSketch:
    """Read what `encode` gave; without the pods, which are half of the work, for who does not ask about them.

    Raises:
        BadSketchError: It is of another version, or no sketch.
    """
    if not is_readable(payload):
        raise BadSketchError(_why(payload))
    _, _, *leaders, first_seconds, last_seconds = _HEAD.unpack_from(payload)
    try:
        body = _decoder.decode(memoryview(payload)[_HEAD.size :])
    except msgspec.DecodeError as error:  # a ValidationError is one, too
        raise BadSketchError(f"sketch of {len(payload)} bytes: {error}") from error
    if len(body.requests) not in (0, 6):
        raise BadSketchError(f"sketch with {len(body.requests)} figures of requests: none or 6 are allowed")
    start = unix_hour * HOUR_SECONDS
    cpu = Samples(*body.cpu)
    count, total, largest, difference = body.demand
    times = body.times
    return HourSketch(
        rows=body.rows,
        first_unix_seconds=start + first_seconds,
        last_unix_seconds=start + last_seconds,
        covered=Seconds(times[0], times[1]),
        throttled=Seconds(times[2], times[3]),
        waiting=Seconds(times[4], times[5]),
        cpu=cpu,
        demand=Samples(count, total, largest, _sum(cpu.buckets, difference)),
        memory=Samples(*body.memory),
        kills=_to_kills(body.kills, start),
        pods=_pods(body) if with_pods else Pods(),
        demand_leaders=Leaders(leaders[0], leaders[2], leaders[1]),
        memory_leaders=Leaders(leaders[3], leaders[5], leaders[4]),
        cpu_request=RequestTime(*body.requests[:3]),
        memory_request=RequestTime(*body.requests[3:]),
    )


def _requests(cpu: RequestTime, memory: RequestTime) -> list[int]:
    if not cpu.micros and not memory.micros:
        return []
    return [
        min(figure, _LARGEST)
        for time in (cpu, memory)
        for figure in (time.micros, time.amount_seconds, time.short_micros)
    ]


def _kills(kills: HourKills, start_unix_seconds: int) -> list[int] | None:
    if not kills.count:
        return None
    node = [kills.node] if kills.node else []
    return [kills.count, kills.largest_bytes, kills.newest_unix_seconds - start_unix_seconds, *node]


def _to_kills(written: list[int] | None, start_unix_seconds: int) -> HourKills:
    if written is None:
        return HourKills()
    if len(written) not in (3, 4):
        raise BadSketchError(f"sketch with {len(written)} figures of kills: 3 or 4 are allowed")
    count, largest_bytes, seconds, *node = written
    return HourKills(count, largest_bytes, start_unix_seconds + seconds, node[0] if node else 0)


def leaders_of(payload: bytes) -> tuple[Leaders, Leaders]:
    """Read the leaders of CPU and of memory of a readable sketch, and nothing else."""
    _, _, top, second, node, memory_top, memory_second, memory_node, *_ = _HEAD.unpack_from(payload)
    return Leaders(top, node, second), Leaders(memory_top, memory_node, memory_second)


def is_readable(payload: bytes) -> bool:
    """Return whether these bytes begin as a sketch of this version does."""
    return len(payload) > _HEAD.size and payload[0] == SKETCH_VERSION


def _why(payload: bytes) -> str:
    if len(payload) <= _HEAD.size:
        return f"sketch of {len(payload)} bytes: more than {_HEAD.size} are expected"
    return f"sketch of version {payload[0]}: {SKETCH_VERSION} is allowed"


def read_heads(joined: bytes) -> Heads:
    """Read the heads of many sketches, all of one length and one after the other: a structured array of `HEAD`."""
    heads: Heads = np.frombuffer(joined, dtype=_BEGINNING)["head"]
    return heads


def are_readable(heads: Heads) -> NDArray[np.bool_]:
    """Return which of these begin as a sketch of this version does."""
    readable: NDArray[np.bool_] = heads["version"] == SKETCH_VERSION
    return readable


def encode_buckets(buckets: Mapping[int, int]) -> bytes:
    """Return a histogram's counts alone as bytes; equal histograms may differ in them."""
    return _encoder.encode(buckets)


def decode_buckets(written: bytes) -> dict[int, int]:
    """Read what `encode_buckets` gave."""
    return _buckets_decoder.decode(written)


def _clamped(seconds: int) -> int:
    return max(min(seconds, _LARGEST_SECONDS), -_LARGEST_SECONDS)


def _samples(samples: Samples) -> _Samples:
    return samples.count, min(samples.total, _LARGEST), min(samples.largest, _LARGEST), _sorted(samples.buckets)


def _sorted(buckets: Mapping[int, int]) -> dict[int, int]:
    return {bucket: buckets[bucket] for bucket in sorted(buckets)}


def _difference(buckets: dict[int, int], others: dict[int, int]) -> dict[int, int]:
    if buckets == others:
        return {}
    unlike = sorted({bucket for bucket, _ in buckets.items() ^ others.items()})
    differences = ((bucket, buckets.get(bucket, 0) - others.get(bucket, 0)) for bucket in unlike)
    return {bucket: difference for bucket, difference in differences if difference}


def _sum(buckets: dict[int, int], difference: dict[int, int]) -> dict[int, int]:
    both = dict(buckets)
    for bucket, count in difference.items():
        both[bucket] = both.get(bucket, 0) + count
        if not both[bucket]:
            del both[bucket]
    return both


def _pods(body: _Body) -> Pods:
    return Pods.of({number: PodSums(*sums) for number, *sums in body.pods}, body.pod_bits)

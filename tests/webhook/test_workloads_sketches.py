"""Sketches as bytes."""

import pytest
from hypothesis import given, settings

from agent.core.history.reports.rollup import RollupRow
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval
from agent.core.history.workloads.node_peaks import node_number
from agent.webhook.store.entries.sketch_bytes import (
    HAS_KILLS,
    HEAD_BYTES,
    BadSketchError,
    are_readable,
    decode,
    decode_buckets,
    encode,
    encode_buckets,
    is_readable,
    read_heads,
)
from tests.unit.core.history.workloads.test_hour_sketch import HOUR, seen, sketch_of
from tests.webhook.workload_reports import MIB, NOON, row

NOW = ReportInterval(start_unix_seconds=NOON + 60, end_unix_seconds=NOON + 360, unix_hour=HOUR)


@settings(max_examples=60)
@given(seen)
def test_bytes_give_the_sketch_back(rows: list[tuple[RollupRow, ReportInterval, int]]) -> None:
    sketch = sketch_of(rows)
    if sketch.rows:
        payload = encode(sketch, HOUR)
        assert decode(payload, HOUR) == sketch
        assert encode(decode(payload, HOUR), HOUR) == payload
    assert decode_buckets(encode_buckets(sketch.cpu.buckets)) == sketch.cpu.buckets


def test_equal_sketches_have_equal_bytes_in_whatever_order_they_were_made() -> None:
    rows = [(row(cpu=[float(10 * pod), 500.0], pod=f"pod-{pod}"), NOW, pod + 1) for pod in range(12)]
    assert encode(sketch_of(rows), HOUR) == encode(sketch_of(rows[::-1]), HOUR)


def test_heads_are_read_many_at_once() -> None:
    quiet, killed = HourSketch(), HourSketch()
    quiet.add(row(cpu=100.0, memory=None), NOW, node_number("node-a"))
    killed.add(row(cpu=None, memory=64.0 * MIB, kills=[(1.0, None)]), NOW, node_number("node-b"))
    payloads = [encode(sketch, HOUR) for sketch in (quiet, killed)]
    heads = read_heads(b"".join(payload[:HEAD_BYTES] for payload in payloads))
    assert are_readable(heads).all()
    assert heads["cpu_top"].tolist() == [quiet.demand_leaders.top, 0]
    assert heads["cpu_node"].tolist() == [node_number("node-a"), 0]
    assert heads["memory_top"].tolist() == [0, killed.memory_leaders.top]
    assert (heads["flags"] & HAS_KILLS).tolist() == [0, HAS_KILLS]
    assert (heads["first_seconds"].tolist(), heads["last_seconds"].tolist()) == ([60, 60], [360, 360])


def test_what_is_no_sketch_is_refused_in_one_line() -> None:
    payload = encode(sketch_of([(row(), NOW, 1)]), HOUR)
    with pytest.raises(BadSketchError, match="sketch of version 9: 1 is allowed"):
        decode(b"\x09" + payload[1:], HOUR)
    with pytest.raises(BadSketchError, match="sketch of 26 bytes: more than 26 are expected"):
        decode(payload[:26], HOUR)
    assert not is_readable(b"")
    for cut in range(27, len(payload)):
        with pytest.raises(BadSketchError, match="sketch of"):
            decode(payload[:cut], HOUR)
    with pytest.raises(BadSketchError, match="sketch of"):
        decode(payload + b"\x00", HOUR)


def test_sums_beyond_the_format_stay_at_its_end() -> None:
    sketch = sketch_of([(row(), NOW, 1)])
    sketch.memory.total = 1 << 70
    assert decode(encode(sketch, HOUR), HOUR).memory.total == (1 << 63) - 1


def test_sketches_are_small() -> None:
    alone = sketch_of([(row(cpu=[50.0 + index for index in range(300)], memory=[64.0 * MIB] * 30), NOW, 1)])
    assert len(encode(alone, HOUR)) <= 250
    many = sketch_of(
        [(row(cpu=[5.0 * pod + index for index in range(300)], pod=f"pod-{pod}"), NOW, pod + 1) for pod in range(50)]
    )
    assert len(encode(many, HOUR)) <= 500

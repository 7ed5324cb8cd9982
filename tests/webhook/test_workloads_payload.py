"""Reports as the log keeps them."""

import zlib
from dataclasses import replace
from math import inf, nan

import msgspec
import pytest

from agent.core.history.reports.rollup import CPU_BUCKETS, Distribution, OutOfMemoryKill, Report
from agent.webhook.store.entries.report_payload import BadPayloadError, decode_report, encode_report
from tests.webhook.workload_reports import DNS, report, row


def test_a_payload_gives_its_report_back() -> None:
    node_report = report(row(adjusted=[1.0, 2.0], kills=[(1.5, None)], waiting=2.5), row(DNS, cpu=None), age=7.25)
    assert decode_report(encode_report(node_report)) == node_report


def test_the_bytes_are_those_that_the_release_before_reads() -> None:
    # It reads the types of rollup by their names; a leader of it folds what a newer replica took, and drops what it
    # cannot read.
    node_report = report(row(adjusted=[1.0, 2.0], kills=[(1.5, None)], waiting=2.5), row(DNS, cpu=None), age=7.25)
    text = zlib.decompress(encode_report(node_report))
    assert msgspec.msgpack.Decoder(Report).decode(text) == node_report
    assert decode_report(zlib.compress(msgspec.msgpack.encode(node_report))) == node_report
    newer = msgspec.msgpack.decode(text) | {"added": 1}
    assert decode_report(zlib.compress(msgspec.msgpack.encode(newer))) == node_report


@pytest.mark.parametrize("payload", [b"", b"x", zlib.compress(b""), zlib.compress(b"\x81\xa1a\x01")])
def test_what_is_no_report_is_refused(payload: bytes) -> None:
    with pytest.raises(BadPayloadError, match=f"payload of {len(payload)} bytes: "):
        decode_report(payload)


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(BadPayloadError):
        decode_report(zlib.compress(b"\x00" * (40 << 20)))


GOOD = Distribution(count=1, sum=1.0, max=1.0, buckets={0: 1})
UNSOUND = {
    "age": replace(report(row()), end_age_seconds=-1.0),
    "interval": replace(report(row()), interval_seconds=inf),
    "covered": report(replace(row(), covered_seconds=nan)),
    "waiting": report(replace(row(), waiting_seconds=-1.0)),
    "kill": report(replace(row(), oom_kills=(OutOfMemoryKill(age_seconds=inf, memory_bytes=None),))),
    "killed bytes": report(replace(row(), oom_kills=(OutOfMemoryKill(age_seconds=1.0, memory_bytes=-1),))),
    "count": report(replace(row(), cpu=replace(GOOD, count=0))),
    "sum": report(replace(row(), cpu_adjusted=replace(GOOD, sum=nan))),
    "max": report(replace(row(), memory=replace(GOOD, max=inf))),
    "bucket": report(replace(row(), cpu=replace(GOOD, buckets={CPU_BUCKETS.count: 1}))),
    "bucket below": report(replace(row(), cpu=replace(GOOD, buckets={-1: 1}))),
    "counts": report(replace(row(), memory=replace(GOOD, buckets={0: -1}))),
}


@pytest.mark.parametrize("unsound", UNSOUND.values(), ids=UNSOUND)
def test_amounts_that_cannot_be_are_refused(unsound: Report) -> None:
    with pytest.raises(BadPayloadError, match=r"payload of .* bytes: Expected"):
        decode_report(encode_report(unsound))


def test_a_row_that_knows_nothing_is_sound() -> None:
    node_report = report(row(cpu=None, memory=None), replace(row(), cpu=replace(GOOD, buckets={})))
    assert decode_report(encode_report(node_report)) == node_report

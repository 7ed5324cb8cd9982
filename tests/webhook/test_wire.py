"""Reports from bytes: what is taken, and what is refused with which words."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, OutOfMemoryKill, Report
from agent.webhook.reports.decoder import DecodedReport, NotAReport, ReportTooLarge, decode_report, unpacked
from tests.qualities import told
from tests.report_texts import report_text
from tests.webhook.report_bodies import distribution, report_body, row_body
from tests.webhook.workload_reports import report, row


def decoded(body: Any, **arguments: Any) -> DecodedReport:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_report(text, **{"most_rows": 100, **arguments})


def test_every_field_arrives() -> None:
    outcome = decoded(report_body(row_body(3), lostReports=2))
    assert outcome.refused == ()
    assert outcome.numbers == (0,)
    given = outcome.report
    assert (given.node, given.incarnation[:8], given.sequence, given.lost_reports) == ("node-a", "5a0c6c1e", 17, 2)
    assert (given.end_age_seconds, given.interval_seconds) == (4.2, 300.0)
    assert (given.node_class.instance_type, given.node_class.cpus) == ("m5.large", 8)
    (rollup,) = given.rows
    assert rollup.workload == Workload(namespace="shop", kind="Deployment", name="web")
    assert (rollup.container, rollup.pod, rollup.pod_uid) == ("app", "web-3", "uid-3")
    assert (rollup.pod_age_seconds, rollup.covered_seconds) == (900.0, 300.0)
    assert rollup.cpu is not None
    assert (rollup.cpu.count, rollup.cpu.sum, rollup.cpu.max, rollup.cpu.buckets) == (300, 7500.0, 50.0, {0: 1, 1: 299})
    assert rollup.cpu_adjusted is not None
    assert rollup.memory is not None
    assert (rollup.throttled_seconds, rollup.waiting_seconds) == (0.0, 1.2)
    assert rollup.oom_kills == (
        OutOfMemoryKill(age_seconds=12.5, memory_bytes=1048576),
        OutOfMemoryKill(age_seconds=13.0, memory_bytes=None),
    )


def test_what_is_not_known_is_absent() -> None:
    bare = row_body()
    for name in ("podAgeSeconds", "cpu", "cpuAdjusted", "memory", "throttledSeconds", "waitingSeconds", "oomKills"):
        del bare[name]
    (rollup,) = decoded(report_body(bare)).report.rows
    assert (rollup.pod_age_seconds, rollup.cpu, rollup.memory, rollup.throttled_seconds) == (None, None, None, None)
    assert rollup.oom_kills == ()


def test_what_an_agent_writes_is_what_is_read() -> None:
    sent = report(
        row(cpu=[3.0, 40.0, 41.5], adjusted=[4.0, 50.0, 80.0], memory=[3e7, 4e7], kills=((2.0, 5), (3.0, None)))
    )
    assert decoded(report_text(sent, agent="0.1.0").encode()).report == sent


def test_how_good_sizing_was_arrives_and_may_be_longer() -> None:
    """An agent newer than the webhook may tell more of it; an older one tells nothing."""
    sent = report(replace(row(), quality=told()))
    assert decoded(report_text(sent, agent="0.1.0").encode()).report == sent
    longer = [[*figures, 7.0] for figures in told()]
    (rollup,) = decoded(report_body(row_body(quality=longer))).report.rows
    assert rollup.quality == told()
    assert decoded(report_body(row_body())).report.rows[0].quality is None


@pytest.mark.parametrize(
    ("spoilt", "reason"),
    [
        (told()[:2], "quality"),
        ([[1.0] * 27] * 3, "quality"),
        ([[-1.0] * 28] * 3, "quality"),
        (told(minutes=10.0, above=11.0), "1h: cpu: 11 of 10 minutes above"),
        (told(minutes=1e9, above=1.0), "1h: cpu: 1 of 1e+09 minutes above"),
        (told(missing=1001.0), "1h: cpu: 1001 missing of 1000 used"),
        (told(minutes=1.0, above=1.0), "1h: cpu: 50 missing of 1000 used"),  # 8 CPUs have 480 seconds a minute
    ],
)
def test_quality_that_no_node_can_have_refuses_its_row(spoilt: Any, reason: str) -> None:
    """And no other."""
    outcome = decoded(report_body(row_body(0, quality=spoilt), row_body(1)))
    assert outcome.numbers == (1,)
    assert reason in outcome.refused[0].reason


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(min_value=0.0, max_value=1999.0), min_size=1, max_size=40),
    st.lists(st.floats(min_value=0.0, max_value=9e12), min_size=1, max_size=40),
)
def test_no_sound_row_is_refused(cpu: list[float], memory: list[float]) -> None:
    sent: Report = report(row(cpu=cpu, adjusted=cpu, memory=memory))
    outcome = decoded(report_text(sent, agent="").encode())
    assert outcome.refused == ()
    assert outcome.report.rows[0].cpu is not None
    assert outcome.report.rows[0].cpu.buckets == sent.rows[0].cpu.buckets  # type: ignore[union-attr]


LAST = CPU_BUCKETS.count
REFUSED: list[tuple[Any, str]] = [
    (5, "expected object, got int"),
    ({}, "namespace is missing"),
    (row_body(namespace="Shop"), "namespace: not such a name"),
    (row_body(namespace="shop\n"), "namespace: not such a name"),
    (row_body(workload="a/b"), "workload: not such a name"),
    (row_body(kind="No-Kind"), "kind: not such a name"),
    (row_body(pod=""), "pod: not such a name"),
    (row_body(podUid="../etc"), "podUid: not such a name"),
    (row_body(container="a" * 64), "container: not such a name"),
    (row_body(podAgeSeconds=-1), "podAgeSeconds: expected float >= 0.0"),
    (row_body(podAgeSeconds=float("nan")), "podAgeSeconds: expected float >= 0.0"),
    (row_body(waitingSeconds=float("nan")), "waitingSeconds: expected float >= 0.0"),
    (row_body(coveredSeconds=0), "coveredSeconds: expected float > 0.0"),
    (row_body(coveredSeconds=600), "coveredSeconds: 600 of an interval of 300 s"),
    (row_body(oomKills=[[-0.5, 5]]), "oomKills[0][0]: expected float >= 0.0"),
    (row_body(oomKills=[[15 * 86400, 5]]), "oomKills[0][0]: expected float <= "),
    (row_body(oomKills=[[1, 0]]), "oomKills[0][1]: expected int >= 1"),
    (row_body(cpu={**distribution(), "sum": -1}), "cpu.sum: expected float >= 0.0"),
    (row_body(cpu={**distribution(), "max": float("nan")}), "cpu.max: expected float >= 0.0"),
    (row_body(cpu={**distribution(), "max": float("inf")}), "cpu.max: expected float <= "),
    (row_body(cpu={**distribution(), "sum": 1e9}), "cpu.sum: 1e+09; allowed: at most count x max"),
    (row_body(cpu={**distribution(), "count": 301}), "cpu.count: 301, but the buckets hold 300"),
    (row_body(cpu={**distribution(), "buckets": [0, 1, 1]}), "cpu.buckets: 3 numbers"),
    (row_body(cpu={**distribution(), "buckets": [0, 1, 0, 299]}), "cpu.buckets: one is given twice"),
    (row_body(cpu={**distribution(), "buckets": [-1, 1, 0, 299]}), "cpu.buckets[0]: expected int >= 0"),
    (row_body(cpu={**distribution(), "buckets": [LAST, 300]}), f"cpu.buckets: bucket {LAST}; allowed: 0 to {LAST - 1}"),
    (row_body(cpu={**distribution(), "buckets": [0, 300, 1, 0]}), "cpu.count: 300, but"),
    (row_body(cpu=distribution(50.0, buckets=(0, 1, 150, 299))), "cpu.max: 50, but bucket 150 begins at"),
    (row_body(cpu=distribution(8801.0)), "cpu.max: 8801; allowed: at most 8800"),
    (row_body(cpuAdjusted=distribution(17601.0)), "cpuAdjusted.max: 17601; allowed: at most 17600"),
    (row_body(memory=distribution(2e13)), "memory.max: expected float <= "),
    (row_body(cpu=distribution(count=7000, buckets=(0, 7000))), "cpu.count: 7000; allowed: at most 6100 in this time"),
    (row_body(cpu=None), "cpuAdjusted: without cpu"),
]


@pytest.mark.parametrize(("bad", "reason"), REFUSED)
def test_a_bad_row_is_refused_alone(bad: Any, reason: str) -> None:
    outcome = decoded(report_body(row_body(0), bad, row_body(2)))
    assert [refusal.row for refusal in outcome.refused] == [1]
    assert outcome.refused[0].reason.startswith(reason)
    assert "\n" not in outcome.refused[0].reason
    assert outcome.numbers == (0, 2)
    assert [rollup.pod for rollup in outcome.report.rows] == ["web-0", "web-2"]


def test_rows_beyond_the_bound_are_refused_each() -> None:
    outcome = decoded(report_body(*(row_body(number) for number in range(5))), most_rows=3)
    assert outcome.numbers == (0, 1, 2)
    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [
        (3, "5 rows in the report; allowed: at most 3"),
        (4, "5 rows in the report; allowed: at most 3"),
    ]


@pytest.mark.parametrize("row", [b"1", b"[]", b"{}", b'""'])
def test_a_small_body_of_millions_of_rows_is_refused_whole_and_takes_little(row: bytes) -> None:
    head = json.dumps(report_body()).encode().removesuffix(b"]}")
    text = head + row + (b"," + row) * ((4 << 20) // (len(row) + 1)) + b"]}"
    tracemalloc.start()
    try:
        with pytest.raises(ReportTooLarge, match=r"\Amore than 200 rows; allowed: at most 100\Z"):
            decoded(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(text)


def test_what_is_no_json_is_not_looked_at_closely_when_it_is_long() -> None:
    head = json.dumps(report_body(row_body(coveredSeconds=float("nan")))).encode().removesuffix(b"]}")
    assert len(decoded(head + b"]}").refused) == 1
    with pytest.raises(NotAReport, match="too many to look closer"):
        decoded(head + b",{}" * (1 << 19) + b"]}")


def test_rows_in_a_text_of_any_layout_are_told_apart() -> None:
    odd: list[Any] = [5, row_body(1), "a ],", [{"]": [1, "\\"]}], {}]
    text = json.dumps(report_body(row_body(0), *odd, row_body(2)), indent=3)
    assert decoded(text.encode()).numbers == (0, 2, 6)
    long_number = text.replace(" 5,", " 1" + "0" * 5000 + "\t,")
    assert long_number != text
    assert decoded(long_number.encode()).numbers == (0, 2, 6)


def test_half_a_character_refuses_what_holds_it() -> None:
    outcome = decoded(report_body(row_body(0, workload="\ud800"), row_body(1)))
    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(0, "workload: half a character")]
    with pytest.raises(NotAReport, match=r"nodeClass\.instanceType: half a character"):
        decoded(report_body(nodeClass={"instanceType": "\ud800", "cpus": 8}))


def test_the_cluster_knows_a_nodes_cpus_better_than_its_report() -> None:
    body = report_body(row_body(cpu=distribution(2201.0)), nodeClass={"cpus": 1000})
    assert decoded(body).refused == ()
    (refused,) = decoded(body, cpus_of={"node-a": 2}.get).refused
    assert refused.reason == "cpu.max: 2201; allowed: at most 2200"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is no JSON"),
        (b"\xff\xfe", "the body is no JSON"),
        (b"[" * 100_000, "expected object, got array"),
        (b'{"rows":' + b"[" * 100_000, ""),
        (b"[]", "expected object, got array"),
        (report_body(schema=2), "schema 2: this webhook knows 1 at most"),
        ({**report_body(schema=2), "rows": {}}, "schema 2: this webhook knows 1 at most"),
        (report_body(schema="1"), "schema: expected int, got str"),
        (report_body(node="a b"), "node: not such a name"),
        (report_body(node="a\n"), "node: not such a name"),
        (report_body(endAgeSeconds=-1), "endAgeSeconds: expected float >= 0.0"),
        (report_body(endAgeSeconds=15 * 86400), "endAgeSeconds: expected float <= 1209600.0"),
        (report_body(endAgeSeconds=float("nan")), "endAgeSeconds: expected float >= 0.0"),
        (report_body(intervalSeconds=0), "intervalSeconds: expected float > 0.0"),
        (report_body(sequence=0), "sequence: expected int >= 1"),
        (report_body(sequence=2**64), "sequence: expected int <= "),
        (report_body(lostReports=-1), "lostReports: expected int >= 0"),
        (report_body(nodeClass={"cpus": 0}), "nodeClass.cpus: expected int >= 1"),
        (report_body(incarnation="\x00"), "incarnation: not such a name"),
        ({**report_body(), "rows": 5}, "rows: expected array, got int"),
    ],
)
def test_what_is_no_report_is_refused_whole(body: Any, reason: str) -> None:
    with pytest.raises(NotAReport, match=r"\A[^\n]+\Z") as refused:
        decoded(body)
    assert str(refused.value).startswith(reason)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="replace")))
def test_bytes_of_any_kind_are_a_refusal_or_a_report(text: bytes) -> None:
    with pytest.raises(NotAReport):
        decoded(text)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(row_body())), ANYTHING)
def test_any_value_in_a_row_is_refused_or_taken(name: str, value: Any) -> None:
    outcome = decoded(report_body(row_body(0, **{name: value}), row_body(1)))
    assert 1 in outcome.numbers
    assert len(outcome.numbers) + len(outcome.refused) == 2


# Compression


def test_gzip_comes_off() -> None:
    assert unpacked(gzip.compress(b"x" * 1000), "gzip", most_bytes=1000) == b"x" * 1000
    assert unpacked(b"x", None, most_bytes=1) == b"x"
    assert unpacked(b"x", "identity", most_bytes=1) == b"x"


def test_a_bomb_is_refused_without_being_unpacked() -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ReportTooLarge, match="more than 1000000 bytes when unpacked"):
            unpacked(bomb, "gzip", most_bytes=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000
    with pytest.raises(ReportTooLarge, match="2 bytes; allowed: at most 1"):
        unpacked(b"xx", None, most_bytes=1)


@pytest.mark.parametrize(
    "body",
    [b"", b"no gzip", gzip.compress(b"x" * 1000)[:-9], gzip.compress(b"x") + b"y", zlib.compress(b"x")],
    # Gzip writes the time down: as a name it would differ between the processes that run the tests.
    ids=["nothing", "no gzip", "cut off", "with something behind it", "zlib"],
)
def test_what_is_no_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(NotAReport, match=r"\Athe body is no gzip: [^\n]+\Z"):
        unpacked(body, "gzip", most_bytes=10_000)


def test_a_million_kills_are_refused_without_a_look_at_each() -> None:
    text = json.dumps(report_body(row_body(0, oomKills=[0]))).encode()
    text = text.replace(b'"oomKills": [0]', b'"oomKills": [' + b",".join([b"[0,1]"] * 10**6) + b"]")
    with pytest.raises(ReportTooLarge, match="longer than 65536 characters"):
        decode_report(text, most_rows=2000)
    few = text.replace(b",[0,1]" * 700_000, b"")
    assert [refusal.row for refusal in decode_report(few, most_rows=2000).refused] == [0]

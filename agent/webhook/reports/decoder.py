"""A node's report, from its bytes: whole or not at all as to its head, row by row as to the rest.

Webhook. A row that is bad is refused with its place and its reason, and the others are taken.
"""

from __future__ import annotations

import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec

from agent.core.cluster.workload import Workload
from agent.core.history.minute.quality import QUALITY_FIELDS, REQUEST_FIELDS, RESOURCE_FIELDS, WINDOWS
from agent.core.history.reports.rollup import (
    CPU_BUCKETS,
    MEMORY_BUCKETS,
    SCHEMA_VERSION,
    Distribution,
    NodeClass,
    NodeSums,
    OutOfMemoryKill,
    Report,
    ResourceSums,
    RollupRow,
    Setback,
    ShareRow,
)
from agent.core.numbers.bucket_scheme import ExponentialScheme
from agent.core.orders.enforce_share import EnforceShareError, parse_enforce_share
from agent.webhook.reports.bodies import (
    MAX_BYTES,
    LooseReportBody,
    NodeSumsBody,
    RawReportBody,
    ReportBody,
    RowBody,
    SchemaBody,
    ShareRowBody,
    fault_text,
)

PIECE_ROWS: Final = 16
"""Rows between two pauses of who works on a report: some tenths of a millisecond."""
_WHOLE: Final = msgspec.json.Decoder(ReportBody)
_HEAD: Final = msgspec.json.Decoder(RawReportBody)
_ROWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ROW: Final = msgspec.json.Decoder(RowBody)
_SCHEMA: Final = msgspec.json.Decoder(SchemaBody)
_RATE_SLACK: Final = 1.1
"""Rates overshoot by the jitter of two timestamps; 5 % is what the node itself believes."""
_COVER_SLACK_SECONDS: Final = 10.0
_BUCKET_SLACK: Final = 1.001
"""A maximum is written with fewer digits than the bucket was found with."""
_HIGHEST_HZ: Final = 20.0
"""The agent samples at 10 Hz at most."""
_DIGIT_SLACK: Final = 1.0001
"""Figures are written with six digits."""
_MOST_PODS: Final = 10_000
"""Of one workload on one node, those that came and went within a window among them."""
_CPU_SECONDS_PER_MILLICORE_MINUTE: Final = 60 / 1000
_BYTE_HOURS_PER_BYTE_MINUTE: Final = 1 / 60
_LISTED_TIMES: Final = 2
"""So many times the rows that are taken are answered one by one; a report of more is refused as a whole. What
packs well would otherwise be a small body of millions of rows, with a refusal for each."""
_LOOSE_BYTES: Final = 1 << 20
"""Python's own reader makes of a text twenty to thirty times as much memory."""
_BETWEEN: Final = re.compile(r"[ \t\r\n,]*")
_MOST_VALUES: Final = 1_000_000
"""In a report with something unsound: more than any node has to tell, and 60 MB of memory for a moment."""
_LONGEST_ROW: Final = 1 << 16
"""Characters of a row that are looked at where there are more values: sound ones have some thousand."""


class NotAReport(ValueError):  # noqa: N818  a state of the world
    """Bytes that are no report at all; one line."""


class NewerSchema(NotAReport):
    """A report of an agent that is newer than this webhook: it is kept there until the webhook has been renewed."""


class ReportTooLarge(NotAReport):
    """More than is taken, packed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """A row that is not taken."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedReport:
    """A report as far as it is sound."""

    report: Report
    """With the sound rows."""
    numbers: tuple[int, ...]
    """Of those rows, as they were sent."""
    refused: tuple[RefusedRow, ...]


def unpacked(body: bytes, encoding: str | None, *, most_bytes: int) -> bytes:
    """Return a body without its compression: ``gzip``; None or ``identity`` = there is none.

    Raises:
        NotAReport: No gzip, or cut off.
        ReportTooLarge: It would become larger than ``most_bytes``; nothing beyond the bound is unpacked.
    """
    if encoding in (None, "", "identity"):
        if len(body) > most_bytes:
            raise ReportTooLarge(f"{len(body)} bytes; allowed: at most {most_bytes}")
        return body
    unpacker = zlib.decompressobj(31)
    try:
        text = unpacker.decompress(body, most_bytes + 1)
    except zlib.error as error:
        raise NotAReport(f"the body is no gzip: {error}") from error
    if len(text) > most_bytes:
        raise ReportTooLarge(f"more than {most_bytes} bytes when unpacked; allowed: at most that")
    if not unpacker.eof or unpacker.unused_data:
        raise NotAReport("the body is no gzip: cut off, or more follows")
    return text


def decode_report(
    text: bytes,
    *,
    most_rows: int,
    cpus_of: Callable[[str], int | None] = lambda _: None,
    memory_of: Callable[[str], int | None] = lambda _: None,
    pause: Callable[[], None] = lambda: None,
) -> DecodedReport:
    """Read a report.

    Args:
        text: JSON, not compressed.
        most_rows: Rows taken at most; those beyond are refused.
        cpus_of: The CPUs of a node as the cluster knows them; None = it does not, and the report's own figure counts.
        memory_of: Bytes of memory of a node, likewise; None = only the scale of memory bounds a row.
        pause: Is called after each ``PIECE_ROWS`` rows.

    Raises:
        NotAReport: The head is not sound; nothing is taken.
        TooLarge: There are far more rows than are taken.
    """
    head = _read(text)
    most_listed = _LISTED_TIMES * most_rows
    raws = _rows(head, most_listed + 1)
    if len(raws) > most_listed:
        raise ReportTooLarge(f"more than {most_listed} rows; allowed: at most {most_rows}")
    if not is_text(head.node_class.instance_type or ""):
        raise NotAReport("nodeClass.instanceType: half a character")
    bounds = _Bounds(
        most_millicores=(cpus_of(head.node) or head.node_class.cpus) * 1000 * _RATE_SLACK,
        memory_bytes=min(memory_of(head.node) or MAX_BYTES, MAX_BYTES),
    )
    numbers: list[int] = []
    rows: list[RollupRow] = []
    workload = Workload(namespace="", kind="", name="")
    refused: list[RefusedRow] = []
    for number, raw in enumerate(raws):
        if number % PIECE_ROWS == PIECE_ROWS - 1:
            pause()
        if number >= most_rows:
            reason = f"{len(raws)} rows in the report; allowed: at most {most_rows}"
            refused.extend(RefusedRow(row=row_number, reason=reason) for row_number in range(number, len(raws)))
            break
        try:
            body = raw if isinstance(raw, RowBody) else _row(raw)
            if (body.workload, body.kind, body.namespace) != (workload.name, workload.kind, workload.namespace):
                workload = Workload(namespace=body.namespace, kind=body.kind, name=body.workload)
            row = _to_row(body, workload, interval_seconds=head.interval_seconds, bounds=bounds)
            if isinstance(row, RollupRow):
                rows.append(row)
                numbers.append(number)
                continue
            fault = row
        except msgspec.ValidationError as error:
            fault = fault_text(error)
        except (msgspec.DecodeError, RecursionError) as error:
            fault = str(error)[:300] or "nested too deeply"
        refused.append(RefusedRow(row=number, reason=fault))
    return DecodedReport(
        report=Report(
            node=head.node,
            node_class=NodeClass(instance_type=head.node_class.instance_type, cpus=head.node_class.cpus),
            incarnation=head.incarnation,
            sequence=head.sequence,
            lost_reports=head.lost_reports,
            end_age_seconds=head.end_age_seconds,
            interval_seconds=head.interval_seconds,
            rows=tuple(rows),
            plan=_to_sums(head.plan) if isinstance(head.plan, NodeSumsBody) else None,
            tells_plan=head.plan is not msgspec.UNSET,
        ),
        numbers=tuple(numbers),
        refused=tuple(refused),
    )


def _read(text: bytes) -> ReportBody | RawReportBody | LooseReportBody:
    try:
        return _WHOLE.decode(text)  # the usual case: C all the way
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return _HEAD.decode(text)
    except msgspec.ValidationError as error:
        raise _head_fault(text, error) from error
    except (msgspec.DecodeError, RecursionError):
        return _loose(text)


def _head_fault(text: bytes, error: msgspec.ValidationError) -> NotAReport:
    try:
        schema = _SCHEMA.decode(text).schema
    except msgspec.DecodeError:
        schema = SCHEMA_VERSION
    if schema > SCHEMA_VERSION:
        return NewerSchema(f"schema {schema}: this webhook knows {SCHEMA_VERSION} at most")
    return NotAReport(fault_text(error))


def _loose(text: bytes) -> LooseReportBody:
    """Read what is JSON but for numbers that are none: ``NaN`` and ``Infinity``, which some writers let through.

    The bounds of the types then refuse the rows that hold them: NaN is within none.
    """
    if len(text) > _LOOSE_BYTES:
        raise NotAReport(f"the body is no JSON, and {len(text)} bytes are too many to look closer")
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAReport(f"the body is no JSON: {str(error)[:200]}") from error
    try:
        return msgspec.convert(document, LooseReportBody)
    except msgspec.ValidationError as error:
        raise NotAReport(fault_text(error)) from error


def _rows(head: ReportBody | RawReportBody | LooseReportBody, most: int) -> Sequence[object]:
    """Return the rows, those of a text that is not decoded yet as pieces of it; perhaps no more than so many."""
    if not isinstance(head, RawReportBody):
        return head.rows
    try:
        if bytes(head.rows).count(b",") > _MOST_VALUES:
            return _first_rows(bytes(head.rows).decode(), most)
        return _ROWS.decode(head.rows)
    except NotAReport:
        raise
    except msgspec.ValidationError as error:
        raise NotAReport(f"rows: {fault_text(error)}") from error
    except (ValueError, IndexError, RecursionError) as error:
        raise NotAReport(f"the body is no JSON: {str(error)[:200]}") from error


def _first_rows(text: str, most: int) -> list[object]:
    """Return the first rows of very many values, where that many rows come soon: a list of all would take much memory.

    Raises:
        TooLarge: They do not: the values are those of a few huge rows, which none of them may have.
    """
    text = text.lstrip()
    if not text.startswith("["):
        raise NotAReport("rows: expected array")
    place = _place_after(text, 1)
    rows: list[object] = []
    while text[place] != "]" and len(rows) < most:
        if place > _LOOSE_BYTES:
            raise ReportTooLarge(f"more than {_MOST_VALUES} values, not all of them sound; allowed: at most that")
        try:
            _, end = _SCANNER.raw_decode(text[place : place + _LONGEST_ROW])
        except ValueError as error:
            raise ReportTooLarge(f"a row is no JSON, or longer than {_LONGEST_ROW} characters") from error
        rows.append(msgspec.Raw(text[place : place + end].encode()))
        place = _place_after(text, place + end)
    return rows


def _nothing(_: str) -> None:
    """Stand in for a number: here only its end counts, and Python's own refuses long ones."""


_SCANNER: Final = json.JSONDecoder(parse_int=_nothing, parse_float=_nothing, parse_constant=_nothing, strict=False)


def _place_after(text: str, place: int) -> int:
    match = _BETWEEN.match(text, place)
    return place if match is None else match.end()


def _row(raw: object) -> RowBody:
    if isinstance(raw, msgspec.Raw):
        return _ROW.decode(raw)
    return msgspec.convert(raw, RowBody)


def is_text(text: str) -> bool:
    """Return whether it can be written as UTF-8: Python's reader lets halves of characters through."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _starts(scheme: ExponentialScheme) -> tuple[float, ...]:
    return tuple(float(start) for start in (0.0, *scheme.ends[:-1]))


_CPU_STARTS: Final = _starts(CPU_BUCKETS)
_MEMORY_STARTS: Final = _starts(MEMORY_BUCKETS)
"""Where each bucket begins: at the end of the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """What no container of a node can use."""

    most_millicores: float
    """Of CPU, with the slack of rates."""
    memory_bytes: float


def _to_row(body: RowBody, workload: Workload, *, interval_seconds: float, bounds: _Bounds) -> RollupRow | str:
    """Return a row if it is sound, else what is wrong with it.

    What a node can never have is cut: waiting may double a demand, and a limit may be any.
    """
    if not is_text(body.workload):
        return "workload: half a character"
    if body.covered_seconds > interval_seconds * 1.05 + _COVER_SLACK_SECONDS:
        return f"coveredSeconds: {body.covered_seconds:g} of an interval of {interval_seconds:g} s"
    most_samples = body.covered_seconds * _HIGHEST_HZ + 100
    most_millicores = bounds.most_millicores
    cpu = None if body.cpu is None else sound_distribution(body.cpu, CPU_BUCKETS, most_millicores, most_samples)
    if isinstance(cpu, str):
        return f"cpu.{cpu}"
    adjusted = (
        None
        if body.cpu_adjusted is None
        else sound_distribution(body.cpu_adjusted, CPU_BUCKETS, 2 * most_millicores, most_samples)
    )
    if isinstance(adjusted, str):
        return f"cpuAdjusted.{adjusted}"
    memory = (
        None
        if body.memory is None
        else sound_distribution(body.memory, MEMORY_BUCKETS, bounds.memory_bytes, most_samples)
    )
    if isinstance(memory, str):
        return f"memory.{memory}"
    if fault := _fault_beside_samples(body, bounds):
        return fault
    if adjusted is not None and adjusted.max > most_millicores:
        adjusted = replace(
            adjusted,
            max=most_millicores,
            sum=min(adjusted.sum, adjusted.count * most_millicores),
            buckets=_up_to(adjusted.buckets, _highest_bucket(most_millicores)),
        )
    most = int(bounds.memory_bytes)
    return RollupRow(
        workload=workload,
        container=body.container,
        pod=body.pod,
        pod_uid=body.pod_uid,
        pod_age_seconds=body.pod_age_seconds,
        covered_seconds=body.covered_seconds,
        cpu=cpu,
        cpu_adjusted=adjusted,
        memory=memory,
        throttled_seconds=body.throttled_seconds,
        waiting_seconds=body.waiting_seconds,
        oom_kills=tuple(
            [
                OutOfMemoryKill(age_seconds=age, memory_bytes=None if size is None else min(size, most))
                for age, size in body.oom_kills
            ]
        ),
        quality=None if body.quality is None else tuple(tuple(span[:QUALITY_FIELDS]) for span in body.quality),
        share=None if body.share is None else _to_share(body.share, most_seconds=body.covered_seconds),
        setback=None if body.setback is None else Setback(age_seconds=body.setback[0], reason=body.setback[1]),
        cpu_request_millicores=_within(body.cpu_request_millicores, int(most_millicores)),
        memory_request_bytes=_within(body.memory_request_bytes, most),
    )


def _fault_beside_samples(row: RowBody, bounds: _Bounds) -> str | None:
    if row.cpu is None and row.cpu_adjusted is not None:
        return "cpuAdjusted: without cpu"
    if row.quality is not None and (fault := _quality_fault(row.quality, bounds)):
        return f"quality.{fault}"
    if row.share is not None and (fault := _share_fault(row.share)):
        return f"share.{fault}"
    if row.setback is not None and not is_text(row.setback[1]):
        return "setback: half a character"
    return None


def _share_fault(share: ShareRowBody) -> str | None:
    try:
        parse_enforce_share(share.share)
    except EnforceShareError as error:
        return f"share: {share.share!r} is not allowed ({error})"
    return None


def _quality_fault(windows: Sequence[Sequence[float]], bounds: _Bounds) -> str | None:
    """Return what of told quality no node can have; what it has in excess is what was requested, which is not known."""
    for span, figures in zip(WINDOWS, windows, strict=True):
        most_minutes = span.seconds / 60 * _MOST_PODS
        for resource, most in (
            ("cpu", bounds.most_millicores * _CPU_SECONDS_PER_MILLICORE_MINUTE),
            ("memory", bounds.memory_bytes * _BYTE_HOURS_PER_BYTE_MINUTE),
        ):
            first = 0 if resource == "cpu" else RESOURCE_FIELDS
            for start in (first, first + REQUEST_FIELDS):
                minutes, above, used, missing, _ = figures[start : start + REQUEST_FIELDS]
                if not above <= minutes * _DIGIT_SLACK <= most_minutes * _DIGIT_SLACK:
                    return (
                        f"{span}: {resource}: {above:g} of {minutes:g} minutes above; allowed: up to {most_minutes:g}"
                    )
                if not missing <= used * _DIGIT_SLACK <= most * minutes * _DIGIT_SLACK**2:
                    return (
                        f"{span}: {resource}: {missing:g} missing of {used:g} used; allowed: up to {most * minutes:g}"
                    )
    return None


class SamplesBody(Protocol):
    """Samples of one signal, as somebody sent them."""

    @property
    def count(self) -> int:
        """How many."""

    @property
    def sum(self) -> float:
        """Of them all."""

    @property
    def max(self) -> float:
        """The largest."""

    @property
    def buckets(self) -> list[int]:
        """Return bucket, count, bucket, count, ..."""


def sound_distribution(
    body: SamplesBody, scheme: ExponentialScheme, most: float, most_samples: float
) -> Distribution | str:
    """Return samples as they were sent if they are sound; else what is wrong with them, its place first."""
    starts = _CPU_STARTS if scheme is CPU_BUCKETS else _MEMORY_STARTS
    pairs = iter(body.buckets)
    buckets = dict(zip(pairs, pairs, strict=False))
    counts = buckets.values()
    if 2 * len(buckets) != len(body.buckets):
        if len(body.buckets) % 2:
            return f"buckets: {len(body.buckets)} numbers; allowed: pairs of bucket and count"
        return "buckets: one is given twice"
    last = max(buckets)
    if last >= len(starts):
        return f"buckets: bucket {last}; allowed: 0 to {len(starts) - 1}"
    count, largest = body.count, body.max
    if min(counts) < 1 or sum(counts) != count:
        return f"count: {count}, but the buckets hold {sum(counts)}"
    if count > most_samples:
        return f"count: {count}; allowed: at most {most_samples:.0f} in this time"
    if not largest <= most:
        return f"max: {largest:g}; allowed: at most {most:g}"
    if not body.sum <= count * largest * _BUCKET_SLACK + 1.0:
        return f"sum: {body.sum:g}; allowed: at most count x max"
    if not starts[last] <= largest * _BUCKET_SLACK + 1.0:
        return f"max: {largest:g}, but bucket {last} begins at {starts[last]:g}"
    return Distribution(count=count, sum=body.sum, max=largest, buckets=buckets)


def _to_sums(body: NodeSumsBody) -> NodeSums:
    cpu, memory = body.cpu, body.memory
    return NodeSums(
        cpu=ResourceSums(
            allocatable=cpu.allocatable_millicores,
            requested=cpu.requested_millicores,
            reserved=cpu.reserved_millicores,
            base=cpu.base_millicores,
            planned=cpu.planned_millicores,
            is_infeasible=cpu.infeasible,
        ),
        memory=ResourceSums(
            allocatable=memory.allocatable_bytes,
            requested=memory.requested_bytes,
            reserved=memory.reserved_bytes,
            base=memory.base_bytes,
            planned=memory.planned_bytes,
            is_infeasible=memory.infeasible,
        ),
    )


def _within(amount: int | None, most: int) -> int | None:
    return None if amount is None else min(amount, most)


def _to_share(body: ShareRowBody, *, most_seconds: float) -> ShareRow:
    return ShareRow(
        share=str(parse_enforce_share(body.share)),
        is_enforced=body.enforced,
        restarts=body.restarts,
        unready_seconds=min(body.unready_seconds, most_seconds),
    )


def _highest_bucket(most_millicores: float) -> int:
    return bisect_right(_CPU_STARTS, most_millicores) - 1


def _up_to(buckets: Mapping[int, int], highest: int) -> dict[int, int]:
    lower_buckets = {bucket: count for bucket, count in buckets.items() if bucket < highest}
    above = sum(count for bucket, count in buckets.items() if bucket >= highest)
    return {**lower_buckets, highest: above} if above else lower_buckets

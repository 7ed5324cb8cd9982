"""Takes history that was read elsewhere, such as hours of Prometheus, so that the first day is not without any.

Webhook; any thread that may wait. It needs a right of its own, RBAC's verb ``create`` on the path: who may read may not
write, and no node may. The database has the hours when the answer says so; every replica's memory, this one's too, when
it meets the entry in the log, within seconds. Twice the same hours are the same as once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution
from agent.core.history.workloads.hour_peaks import hour_of
from agent.core.history.workloads.imported import ImportedHour, ImportedKill, imported_sketch
from agent.core.numbers.bucket_scheme import ExponentialScheme
from agent.metrics.call_result import CallKind, CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.http.access import Access, Denied, Sender
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.queries.import_bodies import (
    HOUR_SECONDS,
    HistoryAnswer,
    ImportedHourBody,
    ImportedSamplesBody,
    RawHistoryBody,
)
from agent.webhook.reports.bodies import MAX_BYTES, RefusedRowBody, fault_text
from agent.webhook.reports.decoder import NotAReport, ReportTooLarge, is_text, sound_distribution, unpacked
from agent.webhook.reports.posts import Posts
from agent.webhook.store.entries.sketch_bytes import encode
from agent.webhook.store.shapes import StoreAway, StoredSketch
from agent.webhook.store.store import Store

log = logging.getLogger(__name__)

PATH: Final = "/v1/history"
VERB: Final = "create"
STORE_RETRY_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 5.0
"""For this replica's memory to know them too, before the answer says that it does not yet."""
DAY_HOURS: Final = 24
_COVER_SLACK_RATIO: Final = 1.05
_BODY: Final = msgspec.json.Decoder(RawHistoryBody)
_ROW: Final = msgspec.json.Decoder(ImportedHourBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportParts:
    """Who takes part."""

    access: Access
    store: Store
    retention_days: int
    """For which hours are kept at all."""
    ordered: Callable[[], None]
    """Told that there is news in the log."""
    wait_for: Callable[[int, float], bool]
    """Waits until this replica's memory has come to an entry of the log, for so many seconds at most."""


class Importer:
    """Answers ``POST /v1/history``."""

    def __init__(
        self,
        parts: ImportParts,
        settings: AccessSettings,
        metrics: WebhookMetrics,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts, self._settings, self._metrics, self._wall_clock = parts, settings, metrics, wall_clock

    def known(self, authorization: str | None) -> Sender | HttpAnswer | None:
        """Return from memory who imports, or why it is not let in; None = ``entering`` must be asked."""
        try:
            return self._parts.access.known_writer(authorization, PATH, verb=VERB)
        except Denied as denied:
            return self._denied(denied)

    def entering(self, authorization: str | None) -> Sender | HttpAnswer:
        """Find out who imports, before the body is read; it may ask the API server."""
        try:
            return self._parts.access.writer(authorization, PATH, verb=VERB)
        except Denied as denied:
            return self._denied(denied)

    def _denied(self, denied: Denied) -> HttpAnswer:
        self._metrics.count_call(CallKind.HISTORY, denied.result)
        return fault(denied.status, denied.reason, retry_after_seconds=denied.retry_after_seconds)

    def history(self, call: Call) -> HttpAnswer:
        """Store the hours that a body holds; the answer says how many, and why others were refused."""
        try:
            result, answer = CallResult.ACCEPTED, self._taken(call)
        except Denied as denied:
            self._metrics.count_call(CallKind.HISTORY, denied.result)
            return fault(denied.status, denied.reason, retry_after_seconds=denied.retry_after_seconds)
        except ReportTooLarge as error:
            result, answer = CallResult.TOO_LARGE, fault(413, str(error))
        except NotAReport as error:
            result, answer = CallResult.MALFORMED, fault(400, str(error))
        except StoreAway:
            result = CallResult.STORE_AWAY
            answer = fault(503, "the database is away", retry_after_seconds=STORE_RETRY_SECONDS)
        except Exception:
            log.exception("an import failed")
            result, answer = CallResult.ERROR, fault(500, "failed; see the webhook's log")
        self._metrics.count_call(CallKind.HISTORY, result)
        return answer

    def _taken(self, call: Call) -> HttpAnswer:
        access = self._parts.access
        sender = call.sender or access.writer(call.authorization, PATH, verb=VERB)
        access.admit(sender.node, CallKind.HISTORY)
        encoding = (call.content_encoding or "").strip().lower()
        if encoding not in ("", "gzip", "identity"):
            raise NotAReport("Content-Encoding: this one is not read; allowed: gzip, identity")
        text = unpacked(call.body, encoding, most_bytes=self._settings.unpacked_bytes)
        access.charge(sender.node, CallKind.HISTORY, len(text))
        body = self._read(text)
        taken, refused = self._sound(body.rows)
        now = self._wall_clock()
        done = self._parts.store.take_imported(
            [_stored(hour) for hour in taken],
            asked_by=sender.node,
            now_unix_seconds=now,
            replaces=body.source == "prometheus",
        )
        is_known = True
        if done.id is not None:
            self._parts.ordered()
            is_known = self._parts.wait_for(done.id, WAIT_SECONDS)
            log.info(
                "history imported",
                extra={
                    "asked_by": sender.node,
                    "source": body.source,
                    "hours": done.changed,
                    "refused": len(refused),
                },
            )
        answer = HistoryAnswer(taken=len(taken), changed=done.changed, refused=refused, in_memory_too=is_known)
        return HttpAnswer(body=msgspec.json.encode(answer))

    def _read(self, text: bytes) -> RawHistoryBody:
        try:
            body = _BODY.decode(text)
        except msgspec.ValidationError as error:
            raise NotAReport(fault_text(error)) from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotAReport(f"the body is no JSON: {str(error)[:200]}") from error
        if len(body.rows) > self._settings.rows:
            raise ReportTooLarge(f"{len(body.rows)} rows; allowed: at most {self._settings.rows}")
        return body

    def _sound(self, rows: list[msgspec.Raw]) -> tuple[list[ImportedHour], list[RefusedRowBody]]:
        newest = hour_of(self._wall_clock())
        oldest = newest - self._parts.retention_days * DAY_HOURS
        taken: dict[tuple[Workload, str, int], ImportedHour] = {}
        refused: list[RefusedRowBody] = []
        for number, raw in enumerate(rows):
            hour: ImportedHour | str
            try:
                hour = _sound_hour(_ROW.decode(raw), oldest=oldest, newest=newest)
            except msgspec.ValidationError as error:
                hour = fault_text(error)
            except (msgspec.DecodeError, RecursionError) as error:
                hour = str(error)[:300] or "nested too deeply"
            if isinstance(hour, str):
                refused.append(RefusedRowBody(row=number, reason=hour))
            elif taken.setdefault((hour.workload, hour.container, hour.unix_hour), hour) is not hour:
                reason = f"unixHour: {hour.unix_hour} of this container is given twice"
                refused.append(RefusedRowBody(row=number, reason=reason))
        return list(taken.values()), refused


class Doors:
    """Who is let in before a body is read: agents to post, and who may to import."""

    def __init__(self, posts: Posts, importer: Importer) -> None:
        self._posts, self._importer = posts, importer

    def known(self, kind: CallKind, authorization: str | None) -> Sender | HttpAnswer | None:
        """Return from memory who calls, or why it is not let in; None = ``entering`` must be asked."""
        is_import = kind is CallKind.HISTORY
        return self._importer.known(authorization) if is_import else self._posts.known(kind, authorization)

    def entering(self, kind: CallKind, authorization: str | None) -> Sender | HttpAnswer:
        """Find out who calls; it may ask the API server."""
        is_import = kind is CallKind.HISTORY
        return self._importer.entering(authorization) if is_import else self._posts.entering(kind, authorization)


def _sound_hour(row: ImportedHourBody, *, oldest: int, newest: int) -> ImportedHour | str:
    """Return an hour as it was sent if it is sound; else what is wrong with it, its place first."""
    if not is_text(row.workload):
        return "workload: half a character"
    if not oldest <= row.unix_hour < newest:
        return f"unixHour: {row.unix_hour}; allowed: {oldest} to {newest - 1}, hours that are over and still kept"
    most_samples = row.pods * HOUR_SECONDS
    if row.covered_seconds > most_samples * _COVER_SLACK_RATIO:
        return f"coveredSeconds: {row.covered_seconds:g} of {row.pods} pods in an hour"
    if row.cpu is None and row.memory is None:
        return "cpu, memory: neither is given"
    if row.cpu is None and row.cpu_adjusted is not None:
        return "cpuAdjusted: without cpu"
    signals: tuple[tuple[str, ImportedSamplesBody | None, ExponentialScheme, float], ...] = (
        ("cpu", row.cpu, CPU_BUCKETS, CPU_BUCKETS.max_value),
        ("cpuAdjusted", row.cpu_adjusted, CPU_BUCKETS, CPU_BUCKETS.max_value),
        ("memory", row.memory, MEMORY_BUCKETS, MAX_BYTES),
    )
    distributions: dict[str, Distribution | None] = {}
    for name, samples, scheme, most in signals:
        distribution = None
        if samples is not None:
            distribution = sound_distribution(samples, scheme, most, most_samples * _COVER_SLACK_RATIO)
        if isinstance(distribution, str):
            return f"{name}.{distribution}"
        distributions[name] = distribution
    return ImportedHour(
        workload=Workload(namespace=row.namespace, kind=row.kind, name=row.workload),
        container=row.container,
        unix_hour=row.unix_hour,
        covered_seconds=row.covered_seconds,
        pods=row.pods,
        cpu=distributions["cpu"],
        cpu_adjusted=distributions["cpuAdjusted"],
        memory=distributions["memory"],
        kills=tuple(ImportedKill(second=second, memory_bytes=size) for second, size in row.oom_kills),
    )


def _stored(hour: ImportedHour) -> StoredSketch:
    return StoredSketch(
        key=str(hour.key), unix_hour=hour.unix_hour, payload=encode(imported_sketch(hour), hour.unix_hour)
    )

"""``plimsoll backfill``: history from elsewhere on the first day, so that the first new pod is sized by it."""

from __future__ import annotations

import argparse
import base64
import json
import re
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Final

from agent.cli.client.webhook import (
    DEFAULT_ACCOUNT,
    ComeAgainError,
    NoWebhookAnswerError,
    WebhookReader,
    add_webhook_options,
    api_from,
)
from agent.cli.options.settings_options import fail
from agent.cli.text.figures import counted
from agent.cli.text.progress import progress
from agent.cli.text.spans import harmless
from agent.named_file import PAGE_MOST_BYTES, read_named

if TYPE_CHECKING:
    from agent.cli.client.backfill import Day, HistoryWalk, LabelNames
    from agent.cli.client.prometheus import PrometheusOptions
    from agent.core.history.workloads.imported import ImportedHour, ImportSource

IMPORTER: Final = "plimsoll/plimsoll-webhook-importer"
MOST_DAYS: Final = 14
"""As long as the webhook keeps hours; the policies vpa and crane look so far back."""
DAYS: Final = 7
ROWS: Final = 300
"""Of one call: some 200 kB."""
CHECKPOINTS: Final = 100
"""Handed over at once."""
TRIES: Final = 30
MOST_WAIT_SECONDS: Final = 60.0
_INTERRUPTED: Final = 130
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_]*")
_METRIC: Final = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_REASONS: Final = 5
_FORMAT: Final = "plimsoll-backfill"
_SHOWN: Final = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    past = parser.add_mutually_exclusive_group(required=True)
    past.add_argument("--prometheus", metavar="URL", help="its address, with a path if it has one")
    past.add_argument(
        "--vpa-checkpoints",
        action="store_true",
        help="without a Prometheus: what the Vertical Pod Autoscaler keeps in the API server of --kubeconfig",
    )
    parser.add_argument(
        "--days",
        metavar="N",
        type=_within(1, MOST_DAYS),
        default=DAYS,
        help=f"of Prometheus (default: {DAYS}, as far back as plimsoll and cruise look; at most {MOST_DAYS})",
    )
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", action="append", default=[], help="only this one; may be given again"
    )
    parser.add_argument("--dry-run", action="store_true", help="read and count; nothing is sent")
    parser.add_argument(
        "--progress",
        metavar="FILE",
        type=Path,
        help="keep what is done in FILE, and go on from there when started again",
    )
    source = parser.add_argument_group("Prometheus")
    source.add_argument("--bearer-file", metavar="FILE", type=Path, help="a token to send as Authorization: Bearer")
    source.add_argument("--basic-file", metavar="FILE", type=Path, help="USER:PASSWORD to send as Authorization: Basic")
    source.add_argument(
        "--prometheus-ca-file", metavar="FILE", type=Path, help="CA certificates to trust (default: the system's)"
    )
    source.add_argument(
        "--header", metavar="NAME=VALUE", action="append", default=[], help="for instance X-Scope-OrgID=prod"
    )
    source.add_argument(
        "--label", metavar="NAME=VALUE", action="append", default=[], help="a label of all series, such as cluster=prod"
    )
    source.add_argument(
        "--label-name",
        metavar="NAME=OTHER",
        action="append",
        default=[],
        help="how namespace, pod or container is called there, such as pod=pod_name",
    )
    source.add_argument(
        "--metric-prefix", metavar="TEXT", default="", help="what all names of metrics begin with there"
    )
    source.add_argument(
        "--metric-name",
        metavar="NAME=OTHER",
        action="append",
        default=[],
        help="how a metric is called there, such as container_memory_working_set_bytes=ws_bytes",
    )
    source.add_argument(
        "--rate-window", metavar="SECONDS", type=_within(30, 600), default=120, help="of CPU rates (default: 120)"
    )
    source.add_argument(
        "--queries-per-second", metavar="N", type=_within(1, 1000), default=2, help="at most (default: 2)"
    )
    source.add_argument(
        "--max-samples", metavar="N", type=_within(1, 10**12), default=200_000_000, help="read at most (default: 2e8)"
    )
    source.add_argument(
        "--timeout", metavar="SECONDS", type=_within(1, 600), default=60, help="of one answer (default: 60)"
    )
    add_webhook_options(parser)
    parser.epilog = (
        f"Asks as {IMPORTER} unless --account or --token-file is given. Hours that agents told of stay as they are; "
        "imported ones count with 10 % more, as scrapes miss short peaks. A checkpoint stands for each hour of one "
        "day, and replaces none that came from Prometheus. Running it again changes nothing. Exit code: 0 imported or "
        "counted, 1 not all of it, 2 bad input, 130 stopped by Ctrl-C."
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, and send."""
    from agent.cli.client.backfill import NAMESPACE
    from agent.cli.client.prometheus import PrometheusError
    from agent.cli.client.vpa_checkpoints import CheckpointsError

    for namespace in arguments.namespace:
        if not NAMESPACE.fullmatch(namespace):
            fail(f"backfill: --namespace {namespace!r}: is not allowed; allowed: a namespace's name")
    tally = _Tally()
    bring = _from_checkpoints(arguments) if arguments.vpa_checkpoints else _from_prometheus(arguments)
    if arguments.account == DEFAULT_ACCOUNT:
        arguments.account = IMPORTER
    try:
        left_out = bring(None if arguments.dry_run else WebhookReader(arguments), tally)
    except (PrometheusError, CheckpointsError, NoWebhookAnswerError) as error:
        print(f"plimsoll backfill: {error}{tally.so_far(arguments)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"plimsoll backfill: stopped{tally.so_far(arguments)}", file=sys.stderr)
        return _INTERRUPTED
    print(tally.line(is_dry_run=arguments.dry_run))
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if tally.refused:
        print(
            f"plimsoll backfill: the webhook refused {counted(tally.refused, 'hour')}; {tally.first_refusal}",
            file=sys.stderr,
        )
        return 1
    return 0


_Bring = Callable[["WebhookReader | None", "_Tally"], list[str]]
"""Reads all there is and hands it over, where there is a webhook to; returns what was left out, and why."""


def _from_prometheus(arguments: argparse.Namespace) -> _Bring:
    from agent.cli.client.backfill import HistoryWalk, WalkOptions, none_found
    from agent.cli.client.prometheus import PrometheusReader

    source = _source_of(arguments)
    labels = _pairs(arguments.label, "label", _LABEL)
    names = _label_names(arguments.label_name)
    metrics = _metric_names(arguments)
    options = WalkOptions(
        days=arguments.days,
        namespaces=tuple(arguments.namespace),
        matchers=labels,
        names=names,
        metric_prefix=arguments.metric_prefix,
        metric_names=metrics,
        rate_window_seconds=arguments.rate_window,
    )
    given = [source.url, sorted(labels.items()), str(names), arguments.metric_prefix, sorted(metrics.items())]
    done = _Progress(arguments.progress, [*given, arguments.rate_window])

    def bring(target: WebhookReader | None, tally: _Tally) -> list[str]:
        reader = PrometheusReader(source)
        walk = HistoryWalk(reader, options, now_unix_seconds=time.time())
        try:
            days = walk.days(walk.namespaces())
            to_read = [day for day in days if not done.has(day)]
            tally.skipped = len(days) - len(to_read)
            if to_read:
                print(_estimate(walk.least_queries(len(to_read)), len(to_read), arguments), file=sys.stderr)
            with progress(sys.stderr, "backfill") as bar:
                for number, day in enumerate(to_read, 1):
                    hours = walk.hours(day)
                    tally.add(hours)
                    if target is not None:
                        _send(target, hours, tally)
                        done.done(day)
                    bar.wipe()
                    print(f"{number}/{len(to_read)} {_day_text(day)}: {counted(len(hours), 'hour')}", file=sys.stderr)
                    bar.show(number / len(to_read))
            if not tally.hours and not tally.skipped:
                raise none_found(walk, arguments.days)
        finally:
            tally.queries, tally.samples = reader.queries, reader.samples
        return _left_out(walk, tally, arguments)

    return bring


def _estimate(queries: int, days: int, arguments: argparse.Namespace) -> str:
    minutes = max(round(queries / arguments.queries_per_second / 60), 1)
    at_least = f"{counted(minutes, 'minute')} or more" if queries > arguments.queries_per_second * 60 else "a minute"
    return (
        f"to read: {counted(days, 'day')} of namespaces, {queries} queries or more, "
        f"{arguments.queries_per_second} a second: {at_least}"
    )


def _left_out(walk: HistoryWalk, tally: _Tally, arguments: argparse.Namespace) -> list[str]:
    lines = [
        (len(walk.pods_without_owner), "pod", "whose owner kube-state-metrics does not tell"),
        (len(walk.bare_pods), "pod", "that nobody owns: each would be a workload of its own, and nobody sizes it"),
        (walk.odd_namespaces, "namespace", "whose name no namespace can have"),
        (tally.empty, "day", "of namespaces without a container that is known there"),
        (
            tally.without_cpu,
            "hour",
            f"of containers as to CPU: no rate over {arguments.rate_window} s there; allowed: a larger --rate-window",
        ),
    ]
    return [f"{counted(count, what)} {why}" for count, what, why in lines if count]


def _from_checkpoints(arguments: argparse.Namespace) -> _Bring:
    from agent.cli.client.vpa_checkpoints import CheckpointsError, CheckpointWalk

    api = api_from(arguments)
    if api is None:
        fail("backfill: --vpa-checkpoints: there is no API server to ask; allowed: with --kubeconfig FILE")
    if arguments.progress is not None:
        fail("backfill: --progress: is of --prometheus; allowed: run --vpa-checkpoints again, which changes nothing")

    def bring(target: WebhookReader | None, tally: _Tally) -> list[str]:
        walk = CheckpointWalk(api, arguments.namespace, now_unix_seconds=time.time())
        checkpoints = walk.hours()
        reasons = walk.left_out.most_common(_REASONS)
        lines = [
            f"{counted(count, 'checkpoint')} such as {harmless(walk.first_left_out[why])}: {harmless(why)}"
            for why, count in reasons
        ]
        if more := sum(walk.left_out.values()) - sum(count for _, count in reasons):
            lines.append(f"{counted(more, 'checkpoint')} for other reasons")
        if not checkpoints:
            detail = f"; {'; '.join(lines)}" if lines else ""
            raise CheckpointsError(f"no checkpoint of a VerticalPodAutoscaler was found that counts{detail}")
        with progress(sys.stderr, "backfill") as bar:
            for first in range(0, len(checkpoints), CHECKPOINTS):
                hours = [hour for checkpoint in checkpoints[first : first + CHECKPOINTS] for hour in checkpoint]
                tally.add(hours)
                if target is not None:
                    _send(target, hours, tally, source="vpa-checkpoints")
                bar.show(min(first + CHECKPOINTS, len(checkpoints)) / len(checkpoints))
        return lines

    return bring


class _Tally:
    """What was done so far."""

    def __init__(self) -> None:
        self.containers: set[object] = set()
        self.workloads: set[object] = set()
        self.namespaces: set[str] = set()
        self.hours = self.sent = self.changed = self.refused = self.skipped = 0
        self.queries = self.samples = 0
        self.empty = self.without_cpu = 0
        self.first_refusal = ""

    def add(self, hours: Sequence[ImportedHour]) -> None:
        self.hours += len(hours)
        self.empty += not hours
        for hour in hours:
            self.without_cpu += hour.cpu is None
            self.namespaces.add(hour.workload.namespace)
            self.workloads.add(hour.workload)
            self.containers.add((hour.workload, hour.container))

    def line(self, *, is_dry_run: bool) -> str:
        did = "would be imported" if is_dry_run else "imported"
        new = "" if is_dry_run else f" ({self.changed} new)"
        skipped = f"; {counted(self.skipped, 'day')} done before" if self.skipped else ""
        read = f"; {counted(self.samples, 'sample')} in {counted(self.queries, 'answer')}" if self.queries else ""
        return (
            f"{did}: {counted(len(self.namespaces), 'namespace')}, {counted(len(self.workloads), 'workload')}, "
            f"{counted(len(self.containers), 'container')}, {counted(self.hours, 'hour')}{new}{read}{skipped}"
        )

    def so_far(self, arguments: argparse.Namespace) -> str:
        if not self.sent:
            return "; nothing was sent"
        again = "--progress goes on from there" if arguments.progress is not None else "running it again is safe"
        return f"; {counted(self.sent, 'whole hour')} sent before; {again}"


class _Progress:
    """Which days are done; kept in a file where one was named."""

    def __init__(self, path: Path | None, source: object) -> None:
        self._path = path
        self._source = sha256(json.dumps(source).encode()).hexdigest()
        self._done: list[list[object]] = []
        if path is None:
            return
        try:
            text = read_named(path, most_bytes=PAGE_MOST_BYTES)
        except FileNotFoundError:
            if not path.parent.is_dir():
                fail(f"backfill: --progress {path}: there is no directory {path.parent}")
            return
        except OSError as error:
            fail(f"backfill: --progress {path}: cannot be read: {error.strerror}")
        try:
            document: object = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, Mapping) or document.get("format") != _FORMAT:
            fail(f"backfill: --progress {path}: is no file of this command's; allowed: a new name")
        if document.get("source") != self._source:
            fail(f"backfill: --progress {path}: is of another Prometheus or other labels; allowed: a new name")
        done = document.get("done")
        self._done = [day for day in done if isinstance(day, list)] if isinstance(done, list) else []

    def has(self, day: Day) -> bool:
        return list(day) in self._done

    def done(self, day: Day) -> None:
        if self._path is None:
            return
        from agent.node.files.atomic_write import replace_file

        self._done.append(list(day))
        document = {"format": _FORMAT, "version": 1, "source": self._source, "done": self._done}
        try:
            replace_file(self._path, json.dumps(document).encode())
        except OSError as error:
            raise NoWebhookAnswerError(f"--progress {self._path}: cannot be written: {error.strerror}") from error


def _send(
    target: WebhookReader, hours: Sequence[ImportedHour], tally: _Tally, *, source: ImportSource = "prometheus"
) -> None:
    import msgspec

    from agent.webhook.queries.import_bodies import HistoryAnswer, HistoryBody, ImportedHourBody

    for first in range(0, len(hours), ROWS):
        piece = hours[first : first + ROWS]
        body = msgspec.json.encode(HistoryBody(source=source, rows=[ImportedHourBody.of(hour) for hour in piece]))
        for tries_left in reversed(range(TRIES)):
            try:
                answer, _ = target.post("/v1/history", body, HistoryAnswer)
                break
            except ComeAgainError as again:
                if not tries_left:
                    raise
                sleep(min(again.retry_after_seconds, MOST_WAIT_SECONDS))
        tally.sent += answer.taken
        tally.changed += answer.changed
        tally.refused += len(answer.refused)
        if answer.refused and not tally.first_refusal:
            refusal = answer.refused[0]
            where = piece[refusal.row].workload if refusal.row < len(piece) else None
            named = "" if where is None else f"{where.kind} {where.namespace}/{where.name}: "
            tally.first_refusal = f"{named}{' '.join(refusal.reason.split())[:_SHOWN]}"


def _source_of(arguments: argparse.Namespace) -> PrometheusOptions:
    from agent.cli.client.prometheus import PrometheusOptions, address_of

    url = address_of(arguments.prometheus)
    if url is None:
        shown = "".join(mark for mark in arguments.prometheus.rpartition("@")[2] if mark.isprintable())
        fail(f"backfill: --prometheus {shown}: is not allowed; allowed: http://HOST:PORT or https://HOST/PATH")
    headers = _pairs(arguments.header, "header", _HEADER)
    if arguments.bearer_file is not None and arguments.basic_file is not None:
        fail("backfill: --bearer-file and --basic-file are both given; allowed: one of them")
    if arguments.bearer_file is not None:
        headers["Authorization"] = f"Bearer {_secret(arguments.bearer_file, 'bearer-file')}"
    if arguments.basic_file is not None:
        pair = _secret(arguments.basic_file, "basic-file")
        if ":" not in pair:
            fail(f"backfill: --basic-file {arguments.basic_file}: no USER:PASSWORD in it")
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    authority = None
    if arguments.prometheus_ca_file is not None:
        authority = _text(arguments.prometheus_ca_file, "prometheus-ca-file")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority)
        except (ssl.SSLError, ValueError):
            fail(f"backfill: --prometheus-ca-file {arguments.prometheus_ca_file}: no PEM certificate in it")
    return PrometheusOptions(
        url=url,
        headers=headers,
        authority=authority,
        queries_per_second=arguments.queries_per_second,
        timeout_seconds=arguments.timeout,
        most_samples=arguments.max_samples,
    )


def _metric_names(arguments: argparse.Namespace) -> dict[str, str]:
    from agent.cli.client.backfill import METRICS

    if arguments.metric_prefix and not _METRIC.fullmatch(arguments.metric_prefix):
        fail(
            f"backfill: --metric-prefix {arguments.metric_prefix!r}: is not allowed; allowed: letters, digits, _ and :"
        )
    names = _pairs(arguments.metric_name, "metric-name", _METRIC)
    for name, other in names.items():
        if name not in METRICS or not _METRIC.fullmatch(other):
            fail(f"backfill: --metric-name {name}={other}: is not allowed; allowed: NAME= one of {', '.join(METRICS)}")
    return names


def _label_names(given: Sequence[str]) -> LabelNames:
    from agent.cli.client.backfill import LabelNames

    names = _pairs(given, "label-name", _LABEL)
    known = ("namespace", "pod", "container")
    for name, other in names.items():
        if name not in known or not _LABEL.fullmatch(other):
            fail(f"backfill: --label-name {name}={other}: is not allowed; allowed: {'=, '.join(known)}= and a label")
    return LabelNames(**names)


def _pairs(given: Sequence[str], flag: str, allowed: re.Pattern[str]) -> dict[str, str]:
    counts = Counter(text.partition("=")[0] for text in given)
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not allowed.fullmatch(name) or not value.isprintable() or counts[name] > 1:
            fail(f"backfill: --{flag} {name!r}: is not allowed; allowed: NAME=VALUE, each name once")
        pairs[name] = value
    return pairs


def _secret(path: Path, flag: str) -> str:
    text = _text(path, flag).strip()
    if not text or not text.isprintable():
        fail(f"backfill: --{flag} {path}: is empty, or no single line")
    return text


def _text(path: Path, flag: str) -> str:
    try:
        return read_named(path, most_bytes=PAGE_MOST_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"backfill: --{flag} {path}: cannot be read: {getattr(error, 'strerror', None) or 'no plain text'}")


def _within(least: int, most: int) -> type[int]:
    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed: {least} to {most}")
        return number

    return read  # type: ignore[return-value]  # argparse takes any callable


def _day_text(day: Day) -> str:
    begun = time.strftime("%Y-%m-%d %H:%M", time.gmtime(day.start_seconds))
    return f"{day.namespace} from {begun} UTC, {counted((day.end_seconds - day.start_seconds) // 3600, 'hour')}"

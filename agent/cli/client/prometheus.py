"""One question to a Prometheus, or to what speaks its API (Mimir, Thanos, VictoriaMetrics): bounded, paced, checked.

Face. Nothing that comes from there is believed: an answer that is not what was asked for is an error of one line.
"""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
import numpy as np
import urllib3

from agent.core.history.workloads.scraped_hours import ScrapedSeries

MOST_BYTES: Final = 64 << 20
"""Of one answer, unpacked."""
MOST_SERIES: Final = 20_000
"""Of one answer."""
MOST_POINTS: Final = 11_000
"""Of one series, as Prometheus itself bounds it."""
CONNECT_SECONDS: Final = 10.0
TRIES: Final = 4
"""Of one question that is put off."""
AGAIN_SECONDS: Final = 2.0
"""Where no header says when to come again."""
MOST_WAIT_SECONDS: Final = 60.0
_PUT_OFF: Final = (429, 502, 503, 504)
_WHOLE: Final = {"partial_response": "false", "deny_partial_response": "1"}
"""Thanos and VictoriaMetrics leave out what a part of them does not answer unless told not to; others pass it over."""
_PIECE_BYTES: Final = 1 << 16
_SHOWN: Final = 200


class PrometheusError(Exception):
    """No answer, or none that can be believed; one line."""


class _PutOffError(PrometheusError):
    """Not now; the same may be asked again after some seconds."""

    def __init__(self, text: str, retry_after_seconds: float) -> None:
        super().__init__(text)
        self.retry_after_seconds: Final = retry_after_seconds


class BudgetSpentError(PrometheusError):
    """As many samples were read as were allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusOptions:
    """Where it is, and who asks."""

    url: str
    """Without a slash at the end; paths are put to it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    authority: str | None = None
    """PEM; None = the system's authorities."""
    queries_per_second: float = 2.0
    timeout_seconds: float = 60.0
    """For a whole answer."""
    most_samples: int = 200_000_000
    """Over all answers."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct):
    resultType: Literal["matrix", "vector"]  # noqa: N815 - Prometheus' word
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: Literal["success"]
    data: _Data
    warnings: list[str] = []
    is_partial: bool = msgspec.field(default=False, name="isPartial")


class _Refusal(msgspec.Struct):
    error: str


Labels = tuple[str, ...]
"""The values of the labels that were asked for, in their order."""


class PrometheusReader:
    """Asks one Prometheus, no faster than it may."""

    def __init__(
        self,
        options: PrometheusOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options, self._clock, self._sleep = options, clock, sleep
        context = urllib3.util.ssl_.create_urllib3_context()
        if options.authority is None:
            context.load_default_certs()
        else:
            try:
                context.load_verify_locations(cadata=options.authority)
            except (ssl.SSLError, ValueError) as error:
                raise PrometheusError("the CA file has no PEM certificate in it") from error
        self._pool = urllib3.PoolManager(ssl_context=context)
        self._next_seconds = clock()
        self.queries = 0
        self.samples = 0
        """Read, over all answers."""

    def now(self, query: str, labels: Labels, *, unix_seconds: int) -> dict[Labels, float]:
        """Evaluate at one moment; return the value by the labels' values."""
        vector = self._asked("query", query, {"time": str(unix_seconds)}, "vector")
        values: dict[Labels, float] = {}
        for series in vector:
            name = self._named(series, labels, values)
            if series.value is None:
                raise self._lie(f"a series of {_shown(query)} has no value")
            values[name] = self._number(series.value[1], query, name)
        self._count(len(vector))
        return values

    def over(
        self, query: str, labels: Labels, *, start_seconds: int, end_seconds: int, step_seconds: int
    ) -> dict[Labels, ScrapedSeries]:
        """Evaluate at each step from the start to the end, both included; return the series by the labels' values."""
        steps = (end_seconds - start_seconds) // step_seconds + 1
        assert steps <= MOST_POINTS  # noqa: S101 - a fault of the caller
        times = {"start": str(start_seconds), "end": str(end_seconds), "step": str(step_seconds)}
        matrix = self._asked("query_range", query, times, "matrix")
        all_series: dict[Labels, ScrapedSeries] = {}
        for series in matrix:
            name = self._named(series, labels, all_series)
            if len(series.values) > steps:
                raise self._lie(f"{len(series.values)} values of {_of(name)}; allowed: {steps}")
            seconds = [second for second, _ in series.values]
            is_sound = all(
                start_seconds <= second <= end_seconds and (second - start_seconds) % step_seconds == 0
                for second in seconds
            )
            if not is_sound or any(later <= earlier for earlier, later in pairwise(seconds)):
                raise self._lie(f"times of {_of(name)} are not those that were asked for")
            self._count(len(series.values))
            all_series[name] = ScrapedSeries(
                np.array(seconds, dtype=np.int64),
                np.array([self._number(text, query, name) for _, text in series.values], dtype=np.float64),
            )
        return all_series

    def _named(self, series: _Series, labels: Labels, known: Mapping[Labels, object]) -> Labels:
        name = tuple(series.metric.get(label, "") for label in labels)
        if name in known:
            raise self._lie(f"two series of {_of(name)}")
        return name

    def _number(self, text: str, query: str, name: Labels) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0.0 <= value < math.inf:
            raise self._lie(
                f"value {text[:40]!r} of {_of(name)}; allowed: finite numbers from 0 (query {_shown(query)})"
            )
        return value

    def _count(self, samples: int) -> None:
        self.samples += samples
        if self.samples > self._options.most_samples:
            raise BudgetSpentError(f"more than {self._options.most_samples} samples were read; allowed: --max-samples")

    def _asked(self, path: str, query: str, times: Mapping[str, str], kind: str) -> list[_Series]:
        body = self._answered(path, {"query": query, **times, **_WHOLE})
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._lie(f"its answer is not that of a Prometheus: {str(error)[:_SHOWN]}") from error
        if answer.data.resultType != kind:
            raise self._lie(f"its answer is a {answer.data.resultType}, not a {kind}")
        if answer.is_partial or answer.warnings:
            why = f": {answer.warnings[0][:_SHOWN]}" if answer.warnings else ""
            raise self._lie(f"its answer is not whole{why}")
        if len(answer.data.result) > MOST_SERIES:
            raise self._lie(f"{len(answer.data.result)} series in one answer; allowed: {MOST_SERIES}")
        return answer.data.result

    def _answered(self, path: str, fields: Mapping[str, str]) -> bytes:
        """Ask at the pace that is allowed, and again where it is put off."""
        for tries_left in reversed(range(TRIES)):
            wait_seconds = self._next_seconds - self._clock()
            if wait_seconds > 0:
                self._sleep(wait_seconds)
            self._next_seconds = self._clock() + 1.0 / self._options.queries_per_second
            self.queries += 1
            try:
                return self._body(path, fields)
            except _PutOffError as later:
                if not tries_left:
                    raise
                self._next_seconds = self._clock() + min(later.retry_after_seconds, MOST_WAIT_SECONDS)
        raise AssertionError("never here")

    def _body(self, path: str, fields: Mapping[str, str]) -> bytes:
        options = self._options
        until = self._clock() + options.timeout_seconds
        try:
            answer = self._pool.request(
                "POST",
                f"{options.url}/api/v1/{path}",
                fields=fields,
                encode_multipart=False,
                headers={"Accept": "application/json", "Accept-Encoding": "gzip", **options.headers},
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=options.timeout_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                body = self._read(answer, until)
            finally:
                answer.close()  # what is left of an answer that is too long is not waited for
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise PrometheusError(f"Prometheus at {options.url}: no answer: {_reason_of(error)}") from error
        if 300 <= answer.status < 400:
            raise self._lie(f"{answer.status}: it sends elsewhere; allowed: the address itself")
        if answer.status in _PUT_OFF:
            after = answer.headers.get("Retry-After", "")
            seconds = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else AGAIN_SECONDS
            raise _PutOffError(str(self._lie(f"{answer.status}: {_refusal_of(body)}")), seconds)
        if answer.status != 200:
            raise self._lie(f"{answer.status}: {_refusal_of(body)}")
        return body

    def _read(self, answer: urllib3.BaseHTTPResponse, until: float) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := answer.read1(_PIECE_BYTES):  # not ``read``: that waits until it has so much
            size += len(piece)
            if size > MOST_BYTES:
                raise self._lie(f"an answer of more than {MOST_BYTES >> 20} MiB")
            if self._clock() > until:
                raise self._lie(f"an answer that takes longer than {self._options.timeout_seconds:g} s")
            pieces.append(piece)
        return b"".join(pieces)

    def _lie(self, what: str) -> PrometheusError:
        plain = "".join(mark if mark.isprintable() else " " for mark in what)  # parts of it are from there
        return PrometheusError(f"Prometheus at {self._options.url}: {' '.join(plain.split())}")


def address_of(url: str) -> str | None:
    """Return the URL that paths are put to; None = it is none for a Prometheus."""
    given = url.rstrip("/")
    try:
        address = urlsplit(given)
        host, _ = address.hostname, address.port  # to ask for the port is to have it checked
    except ValueError:
        return None
    is_plain = not (address.query or address.fragment or "@" in address.netloc) and given.isprintable()
    return given if host and address.scheme in ("http", "https") and is_plain and " " not in given else None


def _of(name: Labels) -> str:
    return "/".join(part[:80] for part in name) or "one series"


def _shown(query: str) -> str:
    return query if len(query) <= _SHOWN else f"{query[:_SHOWN]}..."


def _refusal_of(body: bytes) -> str:
    try:
        said = msgspec.json.decode(body, type=_Refusal).error
    except (msgspec.DecodeError, RecursionError):
        return "no reason given"
    return " ".join(said.split())[:_SHOWN]


def _reason_of(error: Exception) -> str:
    cause: BaseException = error
    while (
        inner := next((part for part in (*cause.args, cause.__cause__) if isinstance(part, BaseException)), None)
    ) is not None:
        cause = inner
    return " ".join((getattr(cause, "strerror", None) or str(cause) or type(cause).__name__).split())[:_SHOWN]

"""A page of /metrics as a scraper asked for it: its format, and whether it is compressed.

Metrics. Series are made elsewhere; here they are only written down. How is the library's to say: it writes each family
once, and from then on only the values in those lines are exchanged, which more than halves what a scrape costs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.utils import floatToGoString

NO_COMPRESSION_BELOW_BYTES: Final = 1024
_END: Final = b"# EOF\n"
_value_text: Final[Callable[[float], str]] = floatToGoString


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsPage:
    """One answer to a scrape."""

    content_type: str
    content_encoding: str | None
    """``gzip`` or None."""
    body: bytes


@dataclass(frozen=True, slots=True)
class _Alone:
    """A registry of one family."""

    family: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.family,)


def _written(family: Metric, *, openmetrics: bool) -> str:
    """Write a family as the library does."""
    if openmetrics:
        page: bytes = generate_openmetrics(_Alone(family))  # type: ignore[no-untyped-call]
        return page.removesuffix(_END).decode()
    return generate_latest(_Alone(family)).decode()


_Series = tuple[str, dict[str, str], object, object, object]


@dataclass(frozen=True, slots=True)
class _Shape:
    """All of a family's text but its values."""

    about: tuple[str, str, str, str]
    series: list[_Series]
    header: str
    heads: list[str]
    """Of each line of a series, all before the value."""


@dataclass(frozen=True, slots=True)
class _Written:
    """One family as it was written last."""

    family: Metric
    text: str


def _about(family: Metric) -> tuple[str, str, str, str]:
    return family.name, family.documentation, family.type, family.unit


def _series(family: Metric) -> list[_Series]:
    """Return all of a family's samples but their values."""
    return [
        (sample.name, sample.labels, sample.timestamp, sample.exemplar, sample.native_histogram)
        for sample in family.samples
    ]


def _learnt(family: Metric, text: str) -> _Shape | None:
    """Learn a family's shape from what the library wrote; None = a line holds more than a series and its value."""
    *lines, _ = text.split("\n")
    first = len(lines) - len(family.samples)
    series, heads = _series(family), [line.rpartition(" ")[0] + " " for line in lines[first:]]
    again = [head + _value_text(sample.value) for head, sample in zip(heads, family.samples, strict=True)]
    is_plain = all(about[2:] == (None, None, None) for about in series)
    # The library puts some series of a histogram last, under headers of their own.
    is_in_order = all(line.startswith("#") for line in lines[:first]) and again == lines[first:]
    if not (is_plain and is_in_order):
        return None
    header = "".join(f"{line}\n" for line in lines[:first])
    return _Shape(about=_about(family), series=series, header=header, heads=heads)


class PageWriter:
    """Writes pages of one registry. Names and labels are written by the library once, and values by it each time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._shapes: dict[tuple[str, bool], _Shape] = {}
        self._written: dict[tuple[str, bool], _Written] = {}

    def page(self, *, openmetrics: bool, accept_encoding: str, more: str = "") -> MetricsPage:
        """Return all families, and ``more`` in the same format; gzip at level 1 if it is accepted; any thread."""
        body = (self._text(openmetrics=openmetrics) + more).encode() + (_END if openmetrics else b"")
        content_type = CONTENT_TYPE_OPENMETRICS if openmetrics else CONTENT_TYPE_PLAIN_0_0_4
        if len(body) >= NO_COMPRESSION_BELOW_BYTES and accepts_gzip(accept_encoding):
            packer = zlib.compressobj(1, zlib.DEFLATED, 31)  # 31 = a gzip header around the largest window
            return MetricsPage(
                content_type=content_type, content_encoding="gzip", body=packer.compress(body) + packer.flush()
            )
        return MetricsPage(content_type=content_type, content_encoding=None, body=body)

    def _text(self, *, openmetrics: bool) -> str:
        return "".join(self._family(family, openmetrics=openmetrics) for family in self._registry.collect())

    def _family(self, family: Metric, *, openmetrics: bool) -> str:
        # The very same object has the same values: whoever gives a family changes no more in it.
        written = self._written.get((family.name, openmetrics))
        if written is None or written.family is not family:
            written = _Written(family, self._text_of(family, openmetrics=openmetrics))
            self._written[family.name, openmetrics] = written
        return written.text

    def _text_of(self, family: Metric, *, openmetrics: bool) -> str:
        shape = self._shapes.get((family.name, openmetrics))
        if shape is not None and shape.about == _about(family) and shape.series == _series(family):
            values = [_value_text(sample.value) for sample in family.samples]
            return shape.header + "".join([f"{head}{value}\n" for head, value in zip(shape.heads, values, strict=True)])
        text = _written(family, openmetrics=openmetrics)
        learnt = _learnt(family, text)
        if learnt is not None:
            self._shapes[family.name, openmetrics] = learnt
        return text


def _weights(header: str) -> dict[str, float]:
    """Read ``name;q=0.5, other`` as names and weights; a weight that is no number counts as 0."""
    weights: dict[str, float] = {}
    for item in header.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if name:
            weights[name] = max(weight, weights.get(name, 0.0))
    return weights


def wants_openmetrics(accept: str) -> bool:
    """Return whether OpenMetrics is wanted at least as much as plain text; ``*/*`` is plain text."""
    weights = _weights(accept)
    wish = weights.get("application/openmetrics-text", 0.0)
    return wish > 0 and wish >= weights.get("text/plain", 0.0)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the client takes gzip."""
    weights = _weights(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0

"""Families of series as tables: each is named once, with its help and labels, and registered in one loop. Metrics.

Three kinds: what this process counts or sets itself, with closed label sets that stand at 0 from the start; gauges that
are there only while their value is known; and readings of what others keep, taken when the page is asked for.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values with the value of their series."""


@dataclass(frozen=True, slots=True)
class Family:
    """Series of one name that this process counts or sets."""

    kind: type[Counter] | type[Gauge] | type[Histogram]
    name: str
    """With its unit; a counter's with ``_total``."""
    text: str
    labels: Mapping[str, Iterable[str]]
    """Every value that each label can have."""
    unit: str = ""
    buckets: tuple[float, ...] = ()


def counter(name: str, text: str, **labels: Iterable[str]) -> Family:
    """Return a family of counters."""
    return Family(Counter, name, text, labels)


def gauge(name: str, text: str, *, unit: str = "", **labels: Iterable[str]) -> Family:
    """Return a family of gauges."""
    return Family(Gauge, name, text, labels, unit)


def histogram(name: str, text: str, buckets: tuple[float, ...], *, unit: str = "") -> Family:
    """Return a family with one histogram."""
    return Family(Histogram, name, text, {}, unit, buckets)


class SeriesTable:
    """The series of a table of families, by family name and label values; any thread.

    A name or a label value that is not in the table is a KeyError: a fault of the caller.
    """

    def __init__(self, families: Iterable[Family], registry: CollectorRegistry) -> None:
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._gauges: dict[tuple[str, ...], Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._totals: dict[tuple[str, ...], int] = {}
        for family in families:
            name, text, label_names = family.name, family.text, tuple(family.labels)
            if family.kind is Histogram:
                self._histograms[name] = Histogram(
                    name, text, unit=family.unit, buckets=family.buckets, registry=registry
                )
                continue
            keys = [(name, *values) for values in itertools.product(*family.labels.values())]
            if family.kind is Counter:
                counters = Counter(name, text, label_names, registry=registry)
                self._counters |= {key: counters.labels(*key[1:]) if label_names else counters for key in keys}
            else:
                gauges = Gauge(name, text, label_names, unit=family.unit, registry=registry)
                self._gauges |= {key: gauges.labels(*key[1:]) if label_names else gauges for key in keys}

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        self._counters[name, *labels].inc(by)

    def count_up_to(self, name: str, *labels: str, total: int) -> None:
        """Add what a total that others keep gained since the last call; a smaller one began anew and counts whole."""
        child = self._counters[name, *labels]
        before = self._totals.get((name, *labels), 0)
        more = total - before if total >= before else total
        if more:
            child.inc(more)
        self._totals[name, *labels] = total

    def set(self, name: str, *labels: str, value: float) -> None:
        """Set a gauge."""
        self._gauges[name, *labels].set(value)

    def observe(self, name: str, value: float) -> None:
        """Record a value in a histogram."""
        self._histograms[name].observe(value)


@dataclass(frozen=True, slots=True)
class MeasuredFamily:
    """Gauges of one name that are there once they have been measured."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """Return the unit that the name ends in; empty = it counts things."""
        last = self.name.rpartition("_")[2]
        return last if last in ("seconds", "ratio", "cores", "bytes") else ""


class MeasuredGauges:
    """Gauges that are on the page only while their value is known: a 0 would be a measurement. Any thread may set."""

    def __init__(self, families: Iterable[MeasuredFamily]) -> None:
        self._families = tuple(families)
        self._lock = threading.Lock()
        self._values: dict[str, dict[tuple[str, ...], float]] = {family.name: {} for family in self._families}

    def set(self, name: str, *labels: str, value: float | None) -> None:
        """Set a gauge; None = not known (any more)."""
        with self._lock:
            self._set(name, labels, value)

    def set_together(self, values: Mapping[str, float | None]) -> None:
        """Set gauges without labels, by name, so that every page has all of them new or all of them old."""
        with self._lock:
            for name, value in values.items():
                self._set(name, (), value)

    def _set(self, name: str, labels: tuple[str, ...], value: float | None) -> None:
        if value is None:
            self._values[name].pop(labels, None)
        else:
            self._values[name][labels] = value

    def collect(self) -> Iterable[Metric]:
        """Return the families, as a registry asks for them."""
        with self._lock:
            values = {name: sorted(series.items()) for name, series in self._values.items()}
        for about in self._families:
            family = GaugeMetricFamily(about.name, about.text, labels=about.labels, unit=about.unit)
            for labels, value in values[about.name]:
                family.add_metric(labels, value)
            yield family


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyReading:
    """One family that is read when the page is asked for."""

    name: str
    """With its unit, and without ``_total``."""
    text: str
    labels: tuple[str, ...]
    is_counter: bool
    read: Callable[[], Values]
    """What is not known is left out. Must be quick."""


def gauge_reading(name: str, text: str, read: Callable[[], Values], *labels: str) -> FamilyReading:
    """Return a reading of gauges."""
    return FamilyReading(name=name, text=text, labels=labels, is_counter=False, read=read)


def counter_reading(name: str, text: str, read: Callable[[], Values], *labels: str) -> FamilyReading:
    """Return a reading of counters; the name is without ``_total``."""
    return FamilyReading(name=name, text=text, labels=labels, is_counter=True, read=read)


class Readings:
    """The families that others keep."""

    def __init__(self) -> None:
        self._families: Final[list[FamilyReading]] = []

    def add(self, families: Iterable[FamilyReading]) -> None:
        """Add families to the page; before the first one is asked for."""
        self._families.extend(families)

    def collect(self) -> Iterable[Metric]:
        """Return the families, as a registry asks for them."""
        for reading in self._families:
            kind = CounterMetricFamily if reading.is_counter else GaugeMetricFamily
            family = kind(reading.name, reading.text, labels=reading.labels)
            for labels, value in sorted(reading.read()):
                family.add_metric(labels, value)
            yield family

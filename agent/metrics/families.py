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
from prometheus_client.registry import Collector

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


class _KeptFamily(Collector):
    """What one family gave when it was asked last: the very same object as long as nothing was counted or set.

    Most of some hundred families stand still between two scrapes, and ``exposition`` writes what is the same object
    only once. Any thread may count, and any collect.
    """

    def __init__(self, family: Counter | Gauge | Histogram) -> None:
        self._family = family
        self._given: tuple[Metric, ...] = ()
        self._lock = threading.Lock()
        self.has_moved = True

    def describe(self) -> Iterable[Metric]:
        return self._family.describe()

    def collect(self) -> Iterable[Metric]:
        with self._lock:  # of two at once the slower one would keep what is older
            if self.has_moved:
                self.has_moved = False  # first: what is counted from here on may be in what is given, or not
                self._given = tuple(self._family.collect())
            return self._given


class SeriesTable:
    """The series of a table of families, by family name and label values; any thread.

    A name or a label value that is not in the table is a KeyError: a fault of the caller.
    """

    def __init__(self, families: Iterable[Family], registry: CollectorRegistry) -> None:
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._gauges: dict[tuple[str, ...], Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._totals: dict[tuple[str, ...], int] = {}
        self._set_to: dict[tuple[str, ...], float] = {}
        self._set_lock = threading.Lock()
        self._kept: dict[str, _KeptFamily] = {}
        for family in families:
            name, text, label_names = family.name, family.text, tuple(family.labels)
            keys = [(name, *values) for values in itertools.product(*family.labels.values())]
            metric: Counter | Gauge | Histogram
            if family.kind is Histogram:
                metric = self._histograms[name] = Histogram(
                    name, text, unit=family.unit, buckets=family.buckets, registry=None
                )
            elif family.kind is Counter:
                metric = counters = Counter(name, text, label_names, registry=None)
                self._counters |= {key: counters.labels(*key[1:]) if label_names else counters for key in keys}
            else:
                metric = gauges = Gauge(name, text, label_names, unit=family.unit, registry=None)
                self._gauges |= {key: gauges.labels(*key[1:]) if label_names else gauges for key in keys}
            self._kept[name] = _KeptFamily(metric)
            registry.register(self._kept[name])

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        self._counters[name, *labels].inc(by)
        self._kept[name].has_moved = True

    def count_up_to(self, name: str, *labels: str, total: int) -> None:
        """Add what a total that others keep gained since the last call; a smaller one began anew and counts whole."""
        child = self._counters[name, *labels]
        before = self._totals.get((name, *labels), 0)
        more = total - before if total >= before else total
        if more:
            child.inc(more)
            self._kept[name].has_moved = True
        self._totals[name, *labels] = total

    def set(self, name: str, *labels: str, value: float) -> None:
        """Set a gauge."""
        child = self._gauges[name, *labels]
        with self._set_lock:  # the gauge and what it was set to must agree
            if self._set_to.get((name, *labels)) != value:
                child.set(value)
                self._set_to[name, *labels] = value
                self._kept[name].has_moved = True

    def observe(self, name: str, value: float) -> None:
        """Record a value in a histogram."""
        self._histograms[name].observe(value)
        self._kept[name].has_moved = True


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
        self._given: dict[str, Metric] = {}
        """Families as they were given last; without those of which a value has changed since."""

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
        values = self._values[name]
        if values.get(labels) == value:
            return
        if value is None:
            del values[labels]
        else:
            values[labels] = value
        self._given.pop(name, None)

    def collect(self) -> Iterable[Metric]:
        """Return the families, as a registry asks for them; the very same object while its values are the same."""
        with self._lock:
            for about in self._families:
                if about.name not in self._given:
                    self._given[about.name] = self._family(about)
            return tuple(self._given[about.name] for about in self._families)

    def _family(self, about: MeasuredFamily) -> Metric:
        family = GaugeMetricFamily(about.name, about.text, labels=about.labels, unit=about.unit)
        for labels, value in sorted(self._values[about.name].items()):
            family.add_metric(labels, value)
        return family


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

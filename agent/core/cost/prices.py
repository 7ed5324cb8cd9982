"""Prices of nodes: from rules by label, from a sheet, from core-hours and GiB-hours, else from a list. Core, pure.

A node's price is split into core-hours and GiB-hours in the ratio of the reference prices: with a price of P, c cores
and g GiB, and reference prices pc and pg, a core-hour is pc * P / (pc * c + pg * g). So what a pod requests has a
price, and what nobody requests is what is left of P, a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from typing import Final

from agent.core.cluster.facts import NodeAmounts
from agent.core.cost.price_sheet import PriceSheet
from agent.core.numbers.units import GIB

LIST_CPU_CORE_HOUR: Final = Decimal("0.031611")
"""OpenCost's reference, configs/default.json: after Google Cloud's us-central1; USD."""
LIST_MEMORY_GIB_HOUR: Final = Decimal("0.004237")
LIST_SPOT_CPU_CORE_HOUR: Final = Decimal("0.006655")
LIST_SPOT_MEMORY_GIB_HOUR: Final = Decimal("0.000892")
LIST_CURRENCY: Final = "USD"
LIST_PRICE_NOTE: Final = "list price (OpenCost's reference), not your bill"
QUANTUM: Final = Decimal("1e-9")
"""To which every price and every pod's share is rounded once; sums of them are exact."""
MOST_PRICE: Final = Decimal(1_000_000)
"""Of an hour of anything; what is more is a slip of the pen."""
MOST_RULES: Final = 1000
_SPOT_LABELS: Final = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
_NUMBER: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?", re.ASCII)
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,315}[A-Za-z0-9])?", re.ASCII)
_EXACT: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)
_RULES_ALLOWED: Final = "KEY=VALUE[,KEY=VALUE...]:PRICE, several with ; between them"


class PriceError(ValueError):
    """A price that is not understood; one line: where, what, what is allowed."""


class PriceSource(StrEnum):
    """Where a node's price is from."""

    RULE = "cost.nodes"
    FILE = "cost.file"
    RATES = "cost.cpuCoreHour and cost.memoryGibHour"
    LIST = "list price"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRule:
    """What nodes with certain labels cost."""

    labels: tuple[tuple[str, str], ...]
    hourly: Decimal

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node has all of the labels."""
        return all(labels.get(key) == value for key, value in self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrice:
    """What one node costs an hour."""

    hourly: Decimal
    cpu_core_hour: Decimal
    """Not rounded: only what is made of it is."""
    memory_gib_hour: Decimal
    source: PriceSource
    rule: int | None = None
    """Which of the rules, from 1; None = it is from none."""

    @property
    def is_list_price(self) -> bool:
        """Return whether it is somebody's list, and not what the operator pays."""
        return self.source is PriceSource.LIST

    @property
    def words(self) -> str:
        """Return where it is from."""
        return str(self.source) if self.rule is None else f"{self.source} rule {self.rule}"

    def cpu(self, millicores: int) -> Decimal:
        """Return what so much CPU costs an hour, rounded to ``QUANTUM``."""
        return _rounded(_EXACT.multiply(self.cpu_core_hour, Decimal(millicores)) / 1000)

    def memory(self, size_bytes: int) -> Decimal:
        """Return what so much memory costs an hour, rounded to ``QUANTUM``."""
        return _rounded(_EXACT.divide(_EXACT.multiply(self.memory_gib_hour, Decimal(size_bytes)), Decimal(GIB)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """All that is known of prices."""

    currency: str = LIST_CURRENCY
    month_hours: Decimal = Decimal(730)
    cpu_core_hour: Decimal | None = None
    """None = the list's; both or neither are set."""
    memory_gib_hour: Decimal | None = None
    rules: tuple[PriceRule, ...] = ()
    sheet: PriceSheet = field(default_factory=PriceSheet)

    @property
    def has_list_rates(self) -> bool:
        """Return whether nodes without a price of their own are priced by a list."""
        return self.cpu_core_hour is None or self.memory_gib_hour is None

    @property
    def reference(self) -> tuple[Decimal, Decimal]:
        """Return what a core-hour and a GiB-hour cost where a node has no price of its own."""
        if self.cpu_core_hour is None or self.memory_gib_hour is None:
            return LIST_CPU_CORE_HOUR, LIST_MEMORY_GIB_HOUR
        return self.cpu_core_hour, self.memory_gib_hour

    def month(self, hourly: Decimal) -> Decimal:
        """Return a month of it, exactly."""
        return _EXACT.multiply(hourly, self.month_hours)

    def node_price(
        self, capacity: NodeAmounts, labels: Mapping[str, str], *, name: str, provider_id: str = ""
    ) -> NodePrice:
        """Return what a node costs: by the first rule that fits, else the sheet, else its cores and GiB."""
        for number, rule in enumerate(self.rules, 1):
            if rule.fits(labels):
                return self._split(rule.hourly, capacity, PriceSource.RULE, number)
        hourly = self.sheet.hourly(name=name, labels=labels, provider_id=provider_id)
        if hourly is not None:
            return self._split(hourly, capacity, PriceSource.FILE, None)
        cpu, memory = self.reference
        source = PriceSource.LIST if self.has_list_rates else PriceSource.RATES
        if source is PriceSource.LIST and any(labels.get(key) == value for key, value in _SPOT_LABELS):
            cpu, memory = LIST_SPOT_CPU_CORE_HOUR, LIST_SPOT_MEMORY_GIB_HOUR
        hourly = _rounded(_whole_price(capacity, cpu, memory))
        return NodePrice(hourly=hourly, cpu_core_hour=cpu, memory_gib_hour=memory, source=source)

    def _split(self, hourly: Decimal, capacity: NodeAmounts, source: PriceSource, rule: int | None) -> NodePrice:
        hourly = _rounded(hourly)
        cpu, memory = self.reference
        share = _EXACT.divide(hourly, _whole_price(capacity, cpu, memory))
        return NodePrice(
            hourly=hourly,
            cpu_core_hour=_EXACT.multiply(cpu, share),
            memory_gib_hour=_EXACT.multiply(memory, share),
            source=source,
            rule=rule,
        )


def parse_price(text: str, where: str) -> Decimal:
    """Read a price.

    Raises:
        PriceError: It is no plain decimal number from 0 to ``MOST_PRICE``.
    """
    price = Decimal(text) if _NUMBER.fullmatch(text) else None
    if price is None or price > MOST_PRICE:
        allowed = f"a number from 0 to {MOST_PRICE}, such as 0.077"
        raise PriceError(f"{where}: {text[:60]!r} is not allowed; allowed: {allowed}")
    return price


def parse_rules(text: str, where: str = "cost.nodes") -> tuple[PriceRule, ...]:
    """Read prices by label: ``karpenter.sh/capacity-type=spot,node.kubernetes.io/instance-type=c5a.xlarge:0.077;...``.

    Raises:
        PriceError: One of them is not understood, or there are too many.
    """
    parts = [part for part in text.split(";") if part.strip()]
    if len(parts) > MOST_RULES:
        raise PriceError(f"{where}: {len(parts)} rules are not allowed; allowed: at most {MOST_RULES}")
    return tuple(_rule(part.strip(), f"{where} rule {number}") for number, part in enumerate(parts, 1))


def _rule(text: str, where: str) -> PriceRule:
    stated, colon, price = text.rpartition(":")
    labels = []
    for pair in stated.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not colon or not equals or not _LABEL.fullmatch(key) or not (value == "" or _LABEL.fullmatch(value)):
            raise PriceError(f"{where}: {text[:80]!r} is not allowed; allowed: {_RULES_ALLOWED}")
        labels.append((key, value))
    return PriceRule(labels=tuple(labels), hourly=parse_price(price.strip(), where))


def month_text(amount: Decimal) -> str:
    """Write money for people: two digits after the point, half to even; a figure that rounds to nothing has no sign."""
    text = f"{amount.quantize(Decimal('0.01'), rounding=ROUND_HALF_EVEN, context=_EXACT):,}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def money_text(amount: Decimal) -> str:
    """Write an amount exactly, without an exponent and without zeros at the end."""
    text = f"{amount:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def summed(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts of ``QUANTUM``."""
    total = Decimal(0)
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def less(amount: Decimal, other: Decimal) -> Decimal:
    """Return the exact difference of two amounts."""
    return _EXACT.subtract(amount, other)


def _whole_price(capacity: NodeAmounts, cpu: Decimal, memory: Decimal) -> Decimal:
    """Return what all cores and GiB of a node cost, not rounded."""
    cores = Decimal(capacity.cpu_millicores) / 1000
    gib = _EXACT.divide(Decimal(capacity.memory_bytes), Decimal(GIB))
    return _EXACT.add(_EXACT.multiply(cpu, cores), _EXACT.multiply(memory, gib))


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(QUANTUM, context=_EXACT)

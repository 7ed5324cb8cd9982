"""A sheet of nodes' prices in the columns that OpenCost reads. Core, pure: text in, prices out.

Source: OpenCost, configs/pricing_schema.csv and pkg/cloud/provider/csvprovider.go: by the node's own identifier first,
else the mean of the rows of its region and instance type. Rows of volumes and GPUs are passed over.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from types import MappingProxyType
from typing import Final

COLUMNS: Final = (
    "EndTimestamp",
    "InstanceID",
    "Region",
    "AssetClass",
    "InstanceIDField",
    "InstanceType",
    "MarketPriceHourly",
    "Version",
)
MOST_ROWS: Final = 20_000
MOST_SHEET_BYTES: Final = 4 << 20
INSTANCE_TYPE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
REGION_LABELS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_PRICE: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,12})?", re.ASCII)
_NAME: Final = "metadata.name"
_PROVIDER: Final = "spec.providerID"
_LABEL: Final = "metadata.labels."
_FIELDS_ALLOWED: Final = f"{_NAME}, {_PROVIDER}, {_LABEL}KEY"
_PASSED_OVER: Final = frozenset({"pv", "gpu"})
_AWS: Final = re.compile(r"aws:///[^/]+/([^/]+)")
_EXACT: Final = Context(prec=60)


class SheetError(ValueError):
    """A sheet that is not understood; one line: which line of it, what, what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSheet:
    """Prices of nodes."""

    by_node: Mapping[tuple[str, str, str], Decimal] = field(default_factory=lambda: MappingProxyType({}))
    """By field, region and identifier, in small letters; a region may be empty: any."""
    by_class: Mapping[tuple[str, str], Decimal] = field(default_factory=lambda: MappingProxyType({}))
    """Means, by region and instance type."""

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields of nodes that identifiers stand in."""
        return frozenset(name for name, _, _ in self.by_node)

    def hourly(self, *, name: str, labels: Mapping[str, str], provider_id: str) -> Decimal | None:
        """Return what a node costs an hour; None = the sheet does not know it."""
        region = _first(labels, REGION_LABELS).lower()
        for asked in sorted(self.fields):
            identifier = _identifier(asked, name, labels, provider_id).lower()
            if not identifier:
                continue
            for place in dict.fromkeys((region, "")):
                price = self.by_node.get((asked, place, identifier))
                if price is not None:
                    return price
        kind = _first(labels, INSTANCE_TYPE_LABELS).lower()
        return self.by_class.get((region, kind), self.by_class.get(("", kind))) if kind else None


def parse_sheet(text: str, where: str = "cost.file") -> PriceSheet:
    """Read a sheet; a line that begins with # is passed over, and the last of two rows for one node holds.

    Raises:
        SheetError: A column is missing, or a row is not understood.
    """
    if len(text) > MOST_SHEET_BYTES:
        raise SheetError(f"{where}: {len(text)} characters are not allowed; allowed: at most {MOST_SHEET_BYTES}")
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    by_node: dict[tuple[str, str, str], Decimal] = {}
    classes: dict[tuple[str, str], list[Decimal]] = {}
    header: tuple[str, ...] | None = None
    count = 0
    try:
        for cells in rows:
            at = f"{where} line {rows.line_num}"
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if header is None:
                header = tuple(cell.strip() for cell in cells)
                if header != COLUMNS:
                    raise SheetError(f"{at}: the columns are not those of OpenCost; allowed: {','.join(COLUMNS)}")
                continue
            count += 1
            if count > MOST_ROWS:
                raise SheetError(f"{at}: too many rows; allowed: at most {MOST_ROWS}")
            _take(cells, at, by_node, classes)
    except csv.Error as error:
        raise SheetError(f"{where} line {rows.line_num}: no CSV: {error}") from error
    if header is None:
        raise SheetError(f"{where}: it is empty; allowed: a first line {','.join(COLUMNS)}")
    return PriceSheet(
        by_node=by_node,
        by_class={
            place: _EXACT.divide(sum(prices, Decimal(0)), Decimal(len(prices))) for place, prices in classes.items()
        },
    )


def _take(
    cells: list[str],
    at: str,
    by_node: dict[tuple[str, str, str], Decimal],
    classes: dict[tuple[str, str], list[Decimal]],
) -> None:
    if len(cells) != len(COLUMNS):
        raise SheetError(f"{at}: {len(cells)} cells; allowed: {len(COLUMNS)}")
    row = dict(zip(COLUMNS, (cell.strip() for cell in cells), strict=True))
    if row["AssetClass"].lower() in _PASSED_OVER:
        return
    text = row["MarketPriceHourly"]
    if not _PRICE.fullmatch(text):
        raise SheetError(f"{at}: MarketPriceHourly: {text[:60]!r} is not allowed; allowed: a number such as 0.077")
    asked = row["InstanceIDField"]
    if asked not in (_NAME, _PROVIDER) and not (asked.startswith(_LABEL) and asked != _LABEL):
        raise SheetError(f"{at}: InstanceIDField: {asked[:60]!r} is not allowed; allowed: {_FIELDS_ALLOWED}")
    price, region = Decimal(text), row["Region"].lower()
    if row["InstanceID"]:
        by_node[asked, region, row["InstanceID"].lower()] = price
    if row["InstanceType"]:
        classes.setdefault((region, row["InstanceType"].lower()), []).append(price)
    if not row["InstanceID"] and not row["InstanceType"]:
        raise SheetError(f"{at}: neither InstanceID nor InstanceType; allowed: one of them, or both")


def _identifier(asked: str, name: str, labels: Mapping[str, str], provider_id: str) -> str:
    if asked == _NAME:
        return name
    if asked == _PROVIDER:
        match = _AWS.match(provider_id)
        return match[1] if match else provider_id.removeprefix("azure://")
    return labels.get(asked.removeprefix(_LABEL), "")


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")

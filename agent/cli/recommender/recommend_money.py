"""What containers of one node cost by a sheet of prices, beside what is recommended for them. Face, pure.

As ``plimsoll cost`` has it: the same arithmetic, the same names, the same mark of a list price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from agent.core.cluster.facts import NodeAmounts
from agent.core.cost.allocation import Figures, PodRequests, PodSizes, pod_figures
from agent.core.cost.price_sheet import PriceSheet
from agent.core.cost.prices import LIST_PRICE_NOTE, NodePrice, Prices, money_text, month_text
from agent.core.recommender.recommendation import Recommendation

CSV_HEADER: Final = ("currency", "cost_month", "possible_month", "needed_month", "is_list_price")
_CSV_DIGITS: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMoney:
    """The price of a node, and so of what its containers request."""

    prices: Prices
    price: NodePrice

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what is to stand above figures."""
        hours, node = money_text(self.prices.month_hours), self.text(self.price.hourly)
        first = f"{self.prices.currency} a month of {hours} hours, by what is requested now; the node costs {node}"
        return (first, f"* = {LIST_PRICE_NOTE}: the sheet does not name this node") if self.is_list_price else (first,)

    @property
    def is_list_price(self) -> bool:
        """Return whether figures rest on a list."""
        return self.price.is_list_price

    def of(self, item: Recommendation) -> Figures:
        """Return what a container costs an hour; what is withheld counts as it is."""
        cpu, memory = item.resources.cpu_request_millicores or 0, item.resources.memory_request_bytes or 0
        now = PodRequests(cpu_millicores=cpu, memory_bytes=memory)
        recommended = PodRequests(
            cpu_millicores=_or(item.cpu_millicores.request, cpu), memory_bytes=_or(item.memory_bytes.request, memory)
        )
        return pod_figures(PodSizes(now=now, written=now, recommended=recommended), self.price)

    def text(self, hourly: Decimal) -> str:
        """Write a month of it for people."""
        return month_text(self.prices.month(hourly)) + ("*" if self.is_list_price else "")

    def cells(self, item: Recommendation) -> list[object]:
        """Return the cells of CSV."""
        figures = self.of(item)
        months = (self.prices.month(hourly) for hourly in (figures.cost, figures.possible, figures.needed))
        amounts = (month.quantize(_CSV_DIGITS) for month in months)
        return [self.prices.currency, *amounts, str(self.is_list_price).lower()]

    def document(self) -> dict[str, object]:
        """Return what JSON says of prices; money is exact, as a text."""
        return {
            "currency": self.prices.currency,
            "month_hours": money_text(self.prices.month_hours),
            "node_month": money_text(self.prices.month(self.price.hourly)),
            "is_list_price": self.is_list_price,
            "list_price_note": LIST_PRICE_NOTE if self.is_list_price else "",
        }

    def item_document(self, item: Recommendation) -> Mapping[str, str]:
        """Return what JSON says of a container."""
        figures = self.of(item)
        months = {"cost_month": figures.cost, "possible_month": figures.possible, "needed_month": figures.needed}
        return {name: money_text(self.prices.month(hourly)) for name, hourly in months.items()}


def money_of(sheet: PriceSheet, node: str, *, cpus: int, memory_bytes: int) -> NodeMoney:
    """Return the money of a node: by the sheet's row ``metadata.name``, else by the list."""
    prices = Prices(sheet=sheet)
    capacity = NodeAmounts(cpu_millicores=cpus * 1000, memory_bytes=memory_bytes)
    return NodeMoney(prices=prices, price=prices.node_price(capacity, {}, name=node))


def _or(recommended: int | None, now: int) -> int:
    return now if recommended is None else recommended

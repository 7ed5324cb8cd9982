"""Prices as settings: what is refused, and in which words."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from agent.core.cost.price_sheet import COLUMNS
from agent.core.cost.prices import PriceError
from agent.settings import SettingsError
from agent.settings.webhook_sections import CostSettings
from agent.webhook.settings import load_webhook_settings, read_prices

OWN = {"cost.cpuCoreHour": "0.04", "cost.memoryGibHour": "0.005"}


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"cost.currency": "usd"}, "cost.currency: 'usd' is not allowed; allowed: three capital letters, such as USD"),
        (
            {"cost.currency": "EUR"},
            "cost.currency: EUR is not allowed without cost.cpuCoreHour and cost.memoryGibHour: the list prices are in "
            "USD",
        ),
        (
            {"cost.cpuCoreHour": "0.04"},
            "cost.cpuCoreHour and cost.memoryGibHour: one is not allowed without the other",
        ),
        (
            {"cost.nodes": "pool=blue"},
            "cost.nodes rule 1: 'pool=blue' is not allowed; allowed: KEY=VALUE[,KEY=VALUE...]:PRICE, several with ; "
            "between them",
        ),
        (
            {"cost.nodes": "pool=blue:free"},
            "cost.nodes rule 1: 'free' is not allowed; allowed: a number from 0 to 1000000, such as 0.077",
        ),
    ],
)
def test_what_is_no_price_stops_the_start(stated: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_webhook_settings(None, environment={}, overrides=stated)
    assert said in error.value.errors


def test_prices_are_as_they_were_written() -> None:
    settings = load_webhook_settings(
        None, environment={"PLIMSOLL_COST_NODES": "pool=blue:0.1"}, overrides={**OWN, "cost.currency": "EUR"}
    )
    prices = read_prices(settings.cost)
    assert (prices.currency, prices.month_hours, prices.reference) == (
        "EUR",
        Decimal("730.0"),
        (Decimal("0.04"), Decimal("0.005")),
    )
    assert prices.rules[0].hourly == Decimal("0.1")


def test_a_file_is_read_or_said_to_be_none(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    with pytest.raises(PriceError, match=r"cost\.file .*prices\.csv: cannot be read: No such file"):
        read_prices(CostSettings(file=file))
    file.write_bytes(b"\xff")
    with pytest.raises(PriceError, match=r"cost\.file .*prices\.csv: cannot be read: no UTF-8"):
        read_prices(CostSettings(file=file))
    file.write_text("a,b\n")
    with pytest.raises(PriceError, match=r"cost\.file .*prices\.csv line 1: the columns are not those of OpenCost"):
        read_prices(CostSettings(file=file))
    file.write_text(f"{','.join(COLUMNS)}\n,n1,,node,metadata.name,,0.5,\n")
    price = read_prices(CostSettings(file=file)).sheet.hourly(name="n1", labels={}, provider_id="")
    assert price == Decimal("0.5")

"""What a node costs, and how that is split into cores and GiB."""

from __future__ import annotations

from decimal import Decimal

import pytest

from agent.core.cluster.facts import NodeAmounts
from agent.core.cost.price_sheet import COLUMNS, MOST_ROWS, MOST_SHEET_BYTES, SheetError, parse_sheet
from agent.core.cost.prices import (
    MOST_RULES,
    PriceError,
    Prices,
    PriceSource,
    money_text,
    month_text,
    parse_price,
    parse_rules,
)

GIB = 1 << 30
FOUR = NodeAmounts(cpu_millicores=4000, memory_bytes=16 * GIB)
HEAD = ",".join(COLUMNS)


def test_a_node_with_a_price_is_split_in_the_ratio_of_the_reference() -> None:
    prices = Prices(
        cpu_core_hour=Decimal("0.04"), memory_gib_hour=Decimal("0.005"), rules=parse_rules("a=b:1;kind=big,zone=x:0.12")
    )
    price = prices.node_price(FOUR, {"kind": "big", "zone": "x"}, name="n")
    # 4 x 0.04 + 16 x 0.005 = 0.24, so 0.12 is half of it: 0.02 a core and 0.0025 a GiB
    assert (price.hourly, price.words, price.is_list_price) == (Decimal("0.12"), "cost.nodes rule 2", False)
    assert (price.cpu(1000), price.memory(GIB)) == (Decimal("0.02"), Decimal("0.0025"))
    assert price.cpu(4000) + price.memory(16 * GIB) == price.hourly


def test_a_node_without_one_costs_its_cores_and_gib() -> None:
    own = Prices(cpu_core_hour=Decimal("0.04"), memory_gib_hour=Decimal("0.005"))
    price = own.node_price(FOUR, {"karpenter.sh/capacity-type": "spot"}, name="n")
    assert (price.hourly, price.source) == (Decimal("0.24"), PriceSource.RATES)
    # 4 x 0.031611 + 16 x 0.004237 = 0.126444 + 0.067792
    listed = Prices().node_price(FOUR, {}, name="n")
    assert (listed.hourly, listed.words, listed.is_list_price) == (Decimal("0.194236"), "list price", True)
    # 4 x 0.006655 + 16 x 0.000892 = 0.02662 + 0.014272
    spot = Prices().node_price(FOUR, {"karpenter.sh/capacity-type": "spot"}, name="n")
    assert (spot.hourly, spot.is_list_price) == (Decimal("0.040892"), True)
    assert Prices().month(Decimal("0.1")) == 73


@pytest.mark.parametrize("text", ["", "-1", "1e3", "1.", ".5", "nan", "1000000.1", "1" * 13, "0.0770000000001x", " 1"])
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match=r"here: .* is not allowed; allowed: a number from 0 to 1000000"):
        parse_price(text, "here")


@pytest.mark.parametrize("text", ["a=b", "a:1", "=b:1", "a=b,:1", "a=b/:1", "ä=b:1"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match=r"cost.nodes rule 1: .* is not allowed; allowed: KEY=VALUE"):
        parse_rules(text)


def test_rules_are_bounded_and_empty_ones_passed_over() -> None:
    assert parse_rules(" a= :0;; ")[0].labels == (("a", ""),)
    assert parse_rules("a=b:0")[0].fits({"a": "b", "c": "d"})
    assert not parse_rules("a=b:0")[0].fits({"a": "c"})
    with pytest.raises(PriceError, match="1001 rules are not allowed; allowed: at most 1000"):
        parse_rules(";".join(["a=b:1"] * (MOST_RULES + 1)))


def test_money_is_written_exactly_or_to_the_cent() -> None:
    assert [money_text(Decimal(amount)) for amount in ("1.500000000", "0E-9", "-0.0", "10", "1E+2", "-2.5")] == [
        "1.5",
        "0",
        "0",
        "10",
        "100",
        "-2.5",
    ]
    assert [month_text(Decimal(amount)) for amount in ("82.125", "82.135", "-0.001", "-1234.5", "0")] == [
        "82.12",
        "82.14",
        "0.00",
        "-1,234.50",
        "0.00",
    ]


# -- sheets ----------------------------------------------------------------------------------------------------------


def row(**cells: str) -> str:
    known = {"AssetClass": "node", "InstanceIDField": "metadata.name", "MarketPriceHourly": "0.1", **cells}
    return ",".join(known.get(column, "") for column in COLUMNS)


def test_a_sheet_is_asked_by_the_node_first_and_by_its_class_else() -> None:
    sheet = parse_sheet(
        "\n".join(
            [
                "# prices of spring",
                HEAD,
                row(InstanceID="N1", Region="EU", MarketPriceHourly="0.5"),
                row(InstanceID="n1", MarketPriceHourly="0.4"),
                row(InstanceID="i-7", InstanceIDField="spec.providerID", MarketPriceHourly="0.3"),
                row(InstanceID="vm", InstanceIDField="spec.providerID", MarketPriceHourly="0.25"),
                row(InstanceID="blue", InstanceIDField="metadata.labels.pool", MarketPriceHourly="0.2"),
                row(InstanceType="c5", Region="eu", MarketPriceHourly="1"),
                row(InstanceType="c5", Region="eu", MarketPriceHourly="2"),
                row(InstanceType="c5", MarketPriceHourly="7"),
                row(AssetClass="pv", MarketPriceHourly="odd"),
                row(AssetClass="gpu"),
                "",
                "",
            ]
        )
    )
    eu, kind = "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"
    asked = [
        ("n1", {eu: "eu"}, ""),
        ("n1", {eu: "us"}, ""),
        ("x", {}, "aws:///eu-1a/i-7"),
        ("x", {}, "azure://VM"),
        ("x", {"pool": "blue"}, ""),
        ("x", {kind: "C5", eu: "eu"}, ""),
        ("x", {kind: "c5", eu: "us"}, ""),
        ("x", {kind: "c6"}, ""),
        ("x", {}, ""),
    ]
    prices = [sheet.hourly(name=name, labels=labels, provider_id=provider) for name, labels, provider in asked]
    assert [None if hourly is None else str(hourly) for hourly in prices] == [
        *("0.5", "0.4", "0.3", "0.25", "0.2", "1.5", "7", None, None)
    ]
    price = Prices(sheet=sheet).node_price(FOUR, {"pool": "blue"}, name="x")
    assert (price.hourly, price.source, price.is_list_price) == (Decimal("0.2"), PriceSource.FILE, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "prices.csv: it is empty; allowed: a first line EndTimestamp,"),
        ("a,b", "prices.csv line 1: the columns are not those of OpenCost; allowed: EndTimestamp,"),
        (f"{HEAD}\na,b", "prices.csv line 2: 2 cells; allowed: 8"),
        (f'{HEAD}\n"a', "prices.csv line 2: no CSV: unexpected end of data"),
        (
            f"{HEAD}\n{row(MarketPriceHourly='free')}",
            "prices.csv line 2: MarketPriceHourly: 'free' is not allowed; allowed: a number such as 0.077",
        ),
        (
            f"{HEAD}\n{row(InstanceIDField='metadata.annotations.x')}",
            "prices.csv line 2: InstanceIDField: 'metadata.annotations.x' is not allowed; allowed: metadata.name",
        ),
        (f"{HEAD}\n{row()}", "prices.csv line 2: neither InstanceID nor InstanceType; allowed: one of them, or both"),
        (f"{HEAD}\n" + f"{row(AssetClass='pv')}\n" * (MOST_ROWS + 1), "too many rows; allowed: at most 20000"),
        ("x" * (MOST_SHEET_BYTES + 1), "characters are not allowed"),
    ],
)
def test_a_sheet_that_is_not_understood_says_where(text: str, said: str) -> None:
    with pytest.raises(SheetError) as error:
        parse_sheet(text, "prices.csv")
    assert said in str(error.value)
    assert "\n" not in str(error.value)

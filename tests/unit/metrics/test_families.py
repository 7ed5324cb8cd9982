"""What a table of families gives a page: the very same object while nothing moved, and never an old value."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from agent.metrics.exposition import PageWriter
from agent.metrics.families import MeasuredFamily, MeasuredGauges, SeriesTable, counter, gauge, histogram

COUNTED, SET, SEEN, MEASURED = "counted_total", "set", "seen_seconds", "measured_ratio"


class Page:
    """One registry with a family of each kind."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.table = SeriesTable(
            [
                counter(COUNTED, "Counted.", kind=("a", "b")),
                gauge(SET, "Set."),
                histogram(SEEN, "Seen.", (0.1, 1.0), unit="seconds"),
            ],
            self.registry,
        )
        self.measured = MeasuredGauges([MeasuredFamily(MEASURED, "Measured.", ("of",))])
        self.registry.register(self.measured)
        self.writer = PageWriter(self.registry)

    def families(self) -> dict[str, Metric]:
        return {family.name: family for family in self.registry.collect()}

    def text(self) -> str:
        return self.writer.page(openmetrics=False, accept_encoding="").body.decode()


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.mark.parametrize(
    ("moved", "move", "line"),
    [
        ("counted", lambda page: page.table.count(COUNTED, "a"), 'counted_total{kind="a"} 1.0'),
        ("counted", lambda page: page.table.count_up_to(COUNTED, "b", total=3), 'counted_total{kind="b"} 3.0'),
        ("set", lambda page: page.table.set(SET, value=2.5), "set 2.5"),
        ("seen_seconds", lambda page: page.table.observe(SEEN, 0.5), 'seen_seconds_bucket{le="1.0"} 1.0'),
        ("measured_ratio", lambda page: page.measured.set(MEASURED, "x", value=0.25), 'measured_ratio{of="x"} 0.25'),
    ],
)
def test_only_the_family_that_moved_is_another_object_and_the_page_has_its_value(
    page: Page, moved: str, move: Callable[[Page], None], line: str
) -> None:
    before, text = page.families(), page.text()
    assert page.text() == text
    assert all(family is before[name] for name, family in page.families().items())

    move(page)

    after = page.families()
    assert [name for name in after if after[name] is not before[name]] == [moved]
    assert line not in text
    assert line in page.text().splitlines()


def test_what_is_told_again_as_it_was_moves_nothing(page: Page) -> None:
    def tell() -> None:
        page.table.count_up_to(COUNTED, "a", total=7)
        page.table.set(SET, value=1.0)
        page.measured.set_together({})
        page.measured.set(MEASURED, "x", value=0.5)

    tell()
    before = page.families()
    tell()
    assert all(family is before[name] for name, family in page.families().items())


def test_a_measured_gauge_that_is_not_known_any_more_leaves_the_page(page: Page) -> None:
    page.measured.set(MEASURED, "x", value=0.5)
    assert 'measured_ratio{of="x"} 0.5' in page.text()
    page.measured.set(MEASURED, "x", value=None)
    page.measured.set(MEASURED, "x", value=None)
    assert "measured_ratio{" not in page.text()

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from agent.cli.recommender.recommend_html import page
from agent.cli.recommender.recommend_view import Order, ordered
from agent.core.recommender.recommendation import Recommendations
from tests.recommendations import mixed_node, node, recommendation, young

_VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Refuses tags that do not nest; keeps the text of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += f" {data}"


def read(answer: Recommendations) -> Reader:
    reader = Reader()
    reader.feed(page(replace(answer, items=ordered(answer.items, Order.SEVERITY))))
    reader.close()
    assert not reader.open
    return reader


def test_page_needs_nothing_from_elsewhere_and_nests() -> None:
    assert read(mixed_node()).links == []
    assert "http" not in page(mixed_node())
    assert "<script" not in page(mixed_node())


def test_page_has_two_lines_for_each_container_and_a_heading_for_each_namespace() -> None:
    rows = read(mixed_node()).rows
    # 1 line of titles, 3 namespaces, 8 containers of 2 resources
    assert len(rows) == 1 + 3 + 8 * 2
    first = " ".join(rows[2].split())
    assert first.startswith(
        "!! much too small cache-0/redis StatefulSet cache; history 2d00h; newest 0.4s old; 2 out-of"
    )
    assert " ".join(rows[3].split()) == (
        "memory 128MiB 300MiB add 172MiB 256MiB→600MiB base 150MiB, peak 300MiB, limit raised with it 180 in 29m50s"
    )


def test_page_tells_totals_and_what_is_withheld() -> None:
    text = page(mixed_node())
    for part in ("CPU to add", "192m", "Memory to free", "CPU 1 stale, 1 young; memory 1 gaps, 1 no signal, 1 young"):
        assert part in text
    assert "to add</span>" not in page(node(young()))  # nothing is known: not 0
    assert "no history yet" in page(node(young()))


def test_page_of_nothing_says_so() -> None:
    assert "nothing is watched yet" in page(node())


def test_names_cannot_break_out_of_the_page() -> None:
    hostile = "<script>alert(1)</script>"
    item = recommendation(hostile, hostile, namespace=hostile, workload=(hostile, hostile))
    text = page(node(item, node=hostile, policy=hostile, notes=(hostile,)))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_bars_never_leave_their_box() -> None:
    shares = [int(share) for share in re.findall(r"(?:width|left):(\d+)%", page(mixed_node()))]
    assert shares
    assert max(shares) == 100

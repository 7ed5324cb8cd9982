"""Several threads that want a report before its time; what is asked for by one is in test_reporter.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.reports.test_reporter import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    reporting = Node(tmp_path / "reports")
    yield reporting
    reporting.close()


def test_of_two_askers_the_one_that_wants_less_takes_nothing_from_the_other(node: Node) -> None:
    node.run_for(30)
    node.run_for(500)
    before, end, asked = len(node.webhook.taken), node.webhook.ends[-1], node.clock.seconds
    assert end + 5 < asked
    node.reporter.hasten(asked)
    node.reporter.hasten(end - 1)  # of which there is a report: the webhook may not have answered to it yet
    node.run_for(10)
    assert len(node.webhook.taken) == before + 1
    assert node.webhook.ends[-1] == pytest.approx(asked, abs=0.01)

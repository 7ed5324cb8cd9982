"""Reading all disruption budgets, page by page; whatever is wrong is one line and no budgets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent.kube.client.errors import TooLong, Unreachable
from agent.webhook.cluster.disruption_budgets import MOST_PAGES, PATH, read_budgets
from tests.fake_api import FakeApi, Lines


def budget(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {}, "status": {}}


class Asked(FakeApi):
    """An API server that answers lists as a function of the query does."""

    def __init__(self, listing: Callable[[Mapping[str, str]], object]) -> None:
        super().__init__()
        self._listing = listing

    def stream(  # type: ignore[override]  # as the real one's
        self, path: str, *, query: Mapping[str, str] | None = None, **_: object
    ) -> Lines:
        assert path == PATH
        return Lines([json.dumps(self._listing(dict(query or {}))).encode()])


def page(*budgets: object, more: str = "") -> dict[str, Any]:
    return {"kind": "PodDisruptionBudgetList", "metadata": {"continue": more}, "items": list(budgets)}


def test_all_pages_are_read() -> None:
    asked = []

    def listing(query: Mapping[str, str]) -> object:
        asked.append(query)
        return page(budget("b")) if "continue" in query else page(budget("a"), more="more")

    budgets = read_budgets(Asked(listing))
    assert not isinstance(budgets, str)
    assert [disruption_budget.name for disruption_budget in budgets] == ["a", "b"]
    assert asked == [{"limit": "500"}, {"limit": "500", "continue": "more"}]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], f"disruption budgets cannot be read: GET {PATH}: not a list of the API: "),
        (page({}), "a disruption budget is not understood: metadata.name: missing"),
        (page(more="x"), f"there are more than {500 * MOST_PAGES} disruption budgets"),
    ],
)
def test_what_is_odd_is_one_line(answer: object, said: str) -> None:
    fault = read_budgets(Asked(lambda _: answer))
    assert isinstance(fault, str)
    assert fault.startswith(said)


@pytest.mark.parametrize("error", [Unreachable("no answer"), TooLong("a page")])
def test_a_server_that_is_away_or_has_too_much_to_be_held_is_told(error: Unreachable) -> None:
    def listing(_: object) -> object:
        raise error

    fault = read_budgets(Asked(listing))
    assert isinstance(fault, str)
    assert fault.startswith("disruption budgets cannot be read: ")

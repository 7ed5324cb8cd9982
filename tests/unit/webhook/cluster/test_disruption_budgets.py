"""Reading all disruption budgets, page by page; whatever is wrong is one line and no budgets."""

from __future__ import annotations

from typing import Any

import pytest

from agent.kube.client.errors import Unreachable
from agent.webhook.cluster.disruption_budgets import MOST_PAGES, PATH, read_budgets
from tests.fake_api import FakeApi


def budget(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {}, "status": {}}


def test_all_pages_are_read() -> None:
    asked = []

    def answer(method: str, path: str, query: Any = None, **_: Any) -> Any:
        asked.append((method, path, dict(query)))
        if "continue" in query:
            return {"items": [budget("b")], "metadata": {}}
        return {"items": [budget("a")], "metadata": {"continue": "more"}}

    budgets = read_budgets(Asked(answer))
    assert not isinstance(budgets, str)
    assert [disruption_budget.name for disruption_budget in budgets] == ["a", "b"]
    assert asked == [("GET", PATH, {"limit": "500"}), ("GET", PATH, {"limit": "500", "continue": "more"})]


class Asked(FakeApi):
    """An API server that answers calls as a function does."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answering = answer

    def call(self, method: str, path: str, **more: Any) -> Any:
        more.pop("timeout_seconds", None)
        return self._answering(method, path, **more)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "disruption budgets cannot be read: the API server's answer is no list"),
        ({"items": [{}]}, "a disruption budget is not understood: metadata.name: missing"),
        ({"items": [], "metadata": {"continue": "x"}}, f"there are more than {500 * MOST_PAGES} disruption budgets"),
    ],
)
def test_what_is_odd_is_one_line(answer: Any, said: str) -> None:
    fault = read_budgets(Asked(lambda *_, **__: answer))
    assert isinstance(fault, str)
    assert fault.startswith(said)


def test_a_server_that_is_away_is_told() -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise Unreachable("no answer")

    fault = read_budgets(Asked(away))
    assert isinstance(fault, str)
    assert fault.startswith("disruption budgets cannot be read: ")

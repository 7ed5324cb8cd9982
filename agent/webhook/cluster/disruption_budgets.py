"""All PodDisruptionBudgets, read when somebody asks which nodes could go; not watched: few ask. Webhook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.core.cost.fit import DisruptionBudget
from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.placement_json import disruption_budget_from_json

PATH: Final = "/apis/policy/v1/poddisruptionbudgets"
PAGE: Final = 500
MOST_PAGES: Final = 100
READ_SECONDS: Final = 5.0


def read_budgets(api: Api) -> tuple[DisruptionBudget, ...] | str:
    """Return all of them, or why they are not known, one line."""
    budgets: list[DisruptionBudget] = []
    query = {"limit": str(PAGE)}
    for _ in range(MOST_PAGES):
        try:
            page = api.call("GET", PATH, query=query, timeout_seconds=READ_SECONDS)
        except KubeError as error:
            return f"disruption budgets cannot be read: {error}"
        items = page.get("items") if isinstance(page, Mapping) else None
        if not isinstance(items, list):
            return "disruption budgets cannot be read: the API server's answer is no list"
        try:
            budgets.extend(disruption_budget_from_json(item) for item in items)
        except ConvertError as error:
            return f"a disruption budget is not understood: {error}"
        metadata = page.get("metadata") if isinstance(page, Mapping) else None
        more = metadata.get("continue") if isinstance(metadata, Mapping) else None
        if not isinstance(more, str) or not more:
            return tuple(budgets)
        query["continue"] = more
    return f"there are more than {PAGE * MOST_PAGES} disruption budgets"

"""All PodDisruptionBudgets, read when somebody asks which nodes could go; not watched: few ask. Webhook."""

from __future__ import annotations

from typing import Final

from agent.core.cost.fit import DisruptionBudget
from agent.kube.calls.listing import read_listing
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

    def take(document: object) -> None:
        budgets.append(disruption_budget_from_json(document))

    for _ in range(MOST_PAGES):
        try:
            page = read_listing(api, PATH, take, query=query, timeout_seconds=READ_SECONDS)
        except KubeError as error:
            return f"disruption budgets cannot be read: {error}"
        except ConvertError as error:
            return f"a disruption budget is not understood: {error}"
        if page.next_page is None:
            return tuple(budgets)
        query["continue"] = page.next_page
    return f"there are more than {PAGE * MOST_PAGES} disruption budgets"

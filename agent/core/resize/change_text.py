"""Changes of a pod's requests and limits in one line of text, for logs and Events. Core, pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.numbers.amount_text import amount_text
from agent.core.plan.pod_change import Change, Setting

POD_BUDGET = "the pod"
"""What a pod's own budget is called where containers have names."""


def changes_text(changes: Iterable[Change]) -> str:
    """Write ``app: cpu 100m -> 250m, memory limit 64MiB -> 128MiB; the pod: ...``, container by container."""
    return "; ".join(
        f"{name or POD_BUDGET}: {', '.join(_text(change) for change in container_changes)}"
        for name, container_changes in by_container(changes).items()
    )


def by_container(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Sort changes by container, in the order met; those of the pod's own budget under the empty name."""
    grouped: dict[str, list[Change]] = {}
    for change in changes:
        grouped.setdefault(change.container, []).append(change)
    return grouped


def _text(change: Change) -> str:
    unit = change.resource.unit
    what = change.resource.value if change.setting is Setting.REQUEST else f"{change.resource} limit"
    return f"{what} {amount_text(change.before, unit)} -> {amount_text(change.after, unit)}"

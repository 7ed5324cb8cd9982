"""Changes of a pod's requests and limits in one line of text, for logs and Events. Core, pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.amounts import amount_text
from agent.core.planned import Change, Setting

POD_BUDGET = "the pod"
"""What a pod's own budget is called where containers have names."""


def changes_text(changes: Sequence[Change]) -> str:
    """Write ``app: cpu 100m -> 250m, memory limit 64MiB -> 128MiB; the pod: ...``, container by container."""
    by_container: dict[str, list[str]] = {}
    for change in changes:
        unit = change.resource.unit
        what = change.resource.value if change.setting is Setting.REQUEST else f"{change.resource} limit"
        text = f"{what} {amount_text(change.before, unit)} -> {amount_text(change.after, unit)}"
        by_container.setdefault(change.container or POD_BUDGET, []).append(text)
    return "; ".join(f"{name}: {', '.join(texts)}" for name, texts in by_container.items())

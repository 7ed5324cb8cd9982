"""Decisions as a node tells the webhook of them: one row each, known by the log that it stands in and its number there.

Core, pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.core.plan.pod_change import Change
from agent.core.resize.decision import Decision

DECISIONS_PATH: Final = "/v1/decisions"
"""Where the webhook takes them."""
DECISIONS_SCHEMA: Final = 1
MAX_DECISIONS_A_POST: Final = 200
MAX_CHANGES: Final = 64
"""Of one decision that are told: requests and limits of sixteen containers."""
MAX_DETAIL: Final = 400
"""Characters of a sentence that are told."""
MAX_REASON: Final = 120
_DECIMALS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSource:
    """Whose decisions they are."""

    node: str
    incarnation: str
    """Of the node's decision log: sequence numbers count within it."""
    agent: str
    """The agent's version."""
    dropped: int
    """Decisions of this log that went out of it before they could be told."""


def decisions_text(source: DecisionSource, decisions: Sequence[Decision], *, unix_now: float) -> str:
    """Return the body of a post, JSON; ages are reckoned from ``unix_now``, the clock that stamped the decisions."""
    document = {
        "schema": DECISIONS_SCHEMA,
        "node": source.node,
        "incarnation": source.incarnation,
        "agent": source.agent,
        "dropped": source.dropped,
        "decisions": [_row(decision, unix_now) for decision in decisions],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _row(decision: Decision, unix_now: float) -> dict[str, object]:
    pod = decision.pod
    optional: dict[str, object] = {
        "namespace": None if pod is None else pod.namespace,
        "pod": None if pod is None else pod.name,
        "podUid": None if pod is None else pod.uid,
        "detail": decision.detail[:MAX_DETAIL] or None,
        "changes": [_change(change) for change in decision.changes[:MAX_CHANGES]] or None,
        "seconds": None if decision.seconds is None else round(max(decision.seconds, 0.0), _DECIMALS),
        "repeats": None if decision.repeats == 1 else decision.repeats,
        "by": decision.by,
    }
    return {
        "sequence": decision.sequence,
        "ageSeconds": round(max(unix_now - decision.unix_seconds, 0.0), _DECIMALS),
        "action": decision.action.value,
        "outcome": decision.outcome.value,
        "reason": decision.reason[:MAX_REASON],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _change(change: Change) -> dict[str, object]:
    return {
        **({"container": change.container} if change.container else {}),
        "resource": change.resource.value,
        "field": change.setting.value,
        "before": change.before,
        "after": change.after,
    }

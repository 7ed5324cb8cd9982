"""Whether one more node may carry the overload taint, and the question and its answer on the wire. Core, pure.

A node asks before it taints itself; who is granted it holds one of the places for some time, until its taint is seen on
the node object. So a load that comes over all nodes at once never takes more than the stated share of them. Whatever is
not known is a reason not to taint; a taint that is there is the node's own to take away.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.eviction.options import ArbiterOptions

TAINT_PATH: Final = "/v1/taint"
TAINT_VERSION: Final = 1
LONGEST_GRANT_SECONDS: Final = 3600.0
_LONGEST_TEXT: Final = 1000


class TaintReason(StrEnum):
    """Why a node may taint itself or not, from a closed set; a metric label."""

    GRANTED = "granted"
    CAP = "taint_cap"
    """As many nodes as may be are tainted, or are about to be."""
    UNKNOWN_NODE = "unknown_node"
    """The cluster has no such node, as far as the webhook has heard."""
    PAUSED = "paused"
    FACTS_UNKNOWN = "facts_unknown"
    """What the webhook knows of the cluster is not whole, or too old."""
    STORE_AWAY = "store_away"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRuling:
    """The answer to one question."""

    reason: TaintReason
    detail: str = ""
    """One line for people, with the figures."""

    @property
    def is_granted(self) -> bool:
        """Return whether the node may be tainted."""
        return self.reason is TaintReason.GRANTED


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintAnswer:
    """The answer as the node reads it."""

    is_granted: bool
    reason: str
    detail: str
    seconds: float
    """For how long a grant holds, from the question on."""


def most_tainted(nodes: int, options: ArbiterOptions) -> int:
    """Return how many of so many nodes may be tainted: the share, rounded down, but one where the share is not 0."""
    share = options.tainted_nodes_ratio
    return max(1, int(share * nodes)) if share > 0 and nodes > 0 else 0


def cap_ruling(
    node: str, *, nodes: int, tainted: Collection[str], granted: Collection[str], options: ArbiterOptions
) -> TaintRuling:
    """Return whether a node may be tainted; those that were granted it lately may not be seen with it yet."""
    if node in tainted:
        return TaintRuling(reason=TaintReason.GRANTED, detail="it is tainted already")
    others, most = len({*tainted, *granted} - {node}), most_tainted(nodes, options)
    detail = f"{others} of {nodes} nodes are tainted or about to be, at most {most} may (arbiter.taintedNodesRatio)"
    return TaintRuling(reason=TaintReason.GRANTED if others < most else TaintReason.CAP, detail=detail)


def taint_text(node: str) -> str:
    """Write the question of a node."""
    return json.dumps({"schema": TAINT_VERSION, "node": node}, separators=(",", ":"))


def taint_answer_of(text: bytes) -> TaintAnswer | None:
    """Read the answer; None = this is none, and grants nothing."""
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, Mapping):
        return None
    is_granted, reason, detail, seconds = (document.get(key) for key in ("granted", "reason", "detail", "seconds"))
    if not (isinstance(is_granted, bool) and isinstance(reason, str) and isinstance(detail, str)):
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_GRANT_SECONDS:
        return None
    return TaintAnswer(
        is_granted=is_granted, reason=_line(reason)[:64], detail=_line(detail)[:_LONGEST_TEXT], seconds=float(seconds)
    )


def _line(text: str) -> str:
    return " ".join(text.split())

"""Whether this node may carry the overload taint: asked of the webhook, and granted where there is none. Node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintPermission:
    """Whether the node may be tainted now."""

    is_granted: bool = False
    reason: str | None = None
    """Why it may not, in one word; None = it may, or the answer has yet to come."""
    detail: str = ""


GRANTED: Final = TaintPermission(is_granted=True)
ASKED: Final = TaintPermission()

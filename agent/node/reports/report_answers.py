"""What an answer of the webhook means for a report: taken, never to be taken, or to be sent again. Node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agent.kube.client.errors import one_line
from agent.metrics.report_series import PostResult
from agent.node.reports.client import WebhookAnswer

_SHOWN: Final = 200
_MOST_ROWS: Final = 1 << 31
"""Of one report, far beyond any; a number that no float holds would break who counts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What came of sending a report."""

    result: PostResult
    sentence: str = ""
    """Why it was not taken."""
    answer: Mapping[str, object] | None = None
    """Of a report that was taken."""
    retry_after_seconds: float | None = None
    is_cut: bool = False
    """The report was taken, and the answer was longer than is read: nothing is known of what it says."""

    @property
    def is_taken(self) -> bool:
        """Return whether the webhook has it."""
        return self.answer is not None


def judged(answer: WebhookAnswer, url: str) -> Sent:
    """Return what an answer to a report means."""
    status, said = answer.status, _fault_of(answer.body)
    sentence = f"{url} answered {status}" + (f": {said}" if said else "")
    if status == 200 and answer.is_too_long:
        # It has the report; sending the same again would bring the same answer, for ever.
        return Sent(result=PostResult.TAKEN, sentence=f"{url} answered with more than is read", answer={}, is_cut=True)
    if status == 200:
        document = _object(answer.body)
        taken = None if document is None else document.get("taken")
        if document is None or not isinstance(taken, int) or isinstance(taken, bool) or not 0 <= taken <= _MOST_ROWS:
            return Sent(
                result=PostResult.NOT_UNDERSTOOD, sentence=f"{url} answered 200 with something else than a webhook does"
            )
        is_repeated = document.get("repeated") is True
        return Sent(result=PostResult.REPEATED if is_repeated else PostResult.TAKEN, answer=document)
    if status in (400, 413):
        return Sent(result=PostResult.REFUSED, sentence=sentence)
    if status in (401, 403):
        result = PostResult.FORBIDDEN
    elif status == 429:
        result = PostResult.THROTTLED
    else:
        result = PostResult.UNAVAILABLE if status >= 500 else PostResult.NOT_UNDERSTOOD
    return Sent(result=result, sentence=sentence, retry_after_seconds=answer.retry_after_seconds)


def _object(body: bytes) -> Mapping[str, object] | None:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _fault_of(body: bytes) -> str:
    """Return what the webhook says of a refusal, on one line."""
    said = (_object(body) or {}).get("error")
    return one_line(said)[:_SHOWN] if isinstance(said, str) else ""

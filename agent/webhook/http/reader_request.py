"""What every question of people's goes through: who may read, which page, and what is said when it fails. Webhook.

Any thread.
"""

from __future__ import annotations

import hashlib
import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from agent.metrics.call_result import CallKind, CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook.entity_tag import is_held
from agent.webhook.http.access import Access, Denied, Scope
from agent.webhook.http.routes import Call, HttpAnswer, fault
from agent.webhook.store.shapes import StoreAway

log = logging.getLogger(__name__)

PAGE: Final = 100
MOST_PAGE: Final = 500
STORE_RETRY_SECONDS: Final = 10.0

T = TypeVar("T")


class BadQuestionError(ValueError):
    """A query that is not understood; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage(Generic[T]):
    """A part of a list."""

    items: tuple[T, ...]
    total: int
    """Of the whole list."""
    next: str | None
    """What to ask for as ``after``; None = this is the last part."""


class QuestionDoor:
    """The door of questions."""

    def __init__(
        self, access: Access, metrics: WebhookMetrics, *, kind: CallKind = CallKind.READING, verb: str = "get"
    ) -> None:
        """Begin; ``verb`` is what RBAC must grant on the path, ``kind`` what is counted."""
        self._access, self._metrics = access, metrics
        self._kind, self._verb = kind, verb

    def answered(self, call: Call, work: Callable[[Call], HttpAnswer]) -> HttpAnswer:
        """Answer a question of somebody who may ask it; whatever goes wrong is an answer too."""

        def allowed() -> HttpAnswer:
            self._access.reader(call.authorization, call.path, verb=self._verb)
            return work(call)

        return self._guarded(call, allowed)

    def scoped(
        self, call: Call, work: Callable[[Call, Scope], HttpAnswer], *, namespace: str | None = None
    ) -> HttpAnswer:
        """Answer a question with what of the cluster the asker may see.

        Args:
            namespace: The only one that it is about; None = any.
        """

        def allowed() -> HttpAnswer:
            return work(call, self._access.scope(call.authorization, call.path, namespace))

        return self._guarded(call, allowed)

    def _guarded(self, call: Call, work: Callable[[], HttpAnswer]) -> HttpAnswer:
        try:
            answer, result = work(), CallResult.ACCEPTED
        except Denied as denied:
            answer = fault(denied.status, denied.reason, retry_after_seconds=denied.retry_after_seconds)
            result = denied.result
        except BadQuestionError as error:
            answer, result = fault(400, str(error)), CallResult.MALFORMED
        except StoreAway:
            answer = fault(503, "the database is away", retry_after_seconds=STORE_RETRY_SECONDS)
            result = CallResult.STORE_AWAY
        except Exception:
            log.exception("a question failed", extra={"path": call.path})
            answer, result = fault(500, "failed; see the webhook's log"), CallResult.ERROR
        self._metrics.count_call(self._kind, result)
        return answer


def tagged(call: Call, body: bytes, now_unix_seconds: float) -> HttpAnswer:
    """Return the answer with a body, or 304 where the asker holds it: ages do not count, which grow by themselves.

    Args:
        now_unix_seconds: The moment from which the body's ages were reckoned.
    """

    def moment(match: re.Match[bytes]) -> bytes:
        seconds = float(match[2])
        return match[1] + b"%d" % round(now_unix_seconds + (seconds if match[1] in _LEFT else -seconds))

    tag = f'W/"{hashlib.blake2b(_AGES.sub(moment, body), digest_size=12).hexdigest()}"'
    headers = {"ETag": tag}
    if is_held(call.if_none_match, tag):
        return HttpAnswer(status=304, headers=headers)
    return HttpAnswer(body=body, headers=headers)


_LEFT: Final = (b'"stopShrinkingSeconds":',)
"""Of fields that tell how long something goes on; the others, since when it has."""
_AGES: Final = re.compile(
    rb'("(?:ageSeconds|[a-zA-Z]+AgeSeconds|historySeconds|stopShrinkingSeconds)":)(-?[0-9.]+(?:e[-+]?[0-9]+)?)'
)


def page_of(call: Call, items: Sequence[T], key: Callable[[T], tuple[str, ...]], allowed: str) -> ListPage[T]:
    """Return the part of a list, in the order of keys, that ``limit=`` and ``after=`` choose.

    Raises:
        BadQuestionError: One of the two is not understood; ``allowed`` says what ``after`` is to look like.
    """
    limit, start = limit_of(call), 0
    if "after" in call.query:
        start = bisect_right([key(item) for item in items], _after(call.query["after"], allowed))
    chosen = tuple(items[start : start + limit])
    has_more = start + limit < len(items)
    return ListPage(items=chosen, total=len(items), next="/".join(key(chosen[-1])) if has_more else None)


def limit_of(call: Call) -> int:
    """Return how many ``limit=`` asks for.

    Raises:
        BadQuestionError: It is not understood.
    """
    text = call.query.get("limit")
    if text is None:
        return PAGE
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= MOST_PAGE):
        raise BadQuestionError(f"limit: {text[:60]!r} is not allowed; allowed: 1 to {MOST_PAGE}")
    return int(text)


def _after(text: str, allowed: str) -> tuple[str, ...]:
    parts = tuple(text.split("/"))
    if len(parts) != allowed.count("/") + 1:
        raise BadQuestionError(f"after: {text[:60]!r} is not allowed; allowed: {allowed}")
    return parts

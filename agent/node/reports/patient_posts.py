"""Posts of what is told beside the reports: how each went, and how long to wait before the next. Node; one thread."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from enum import Enum
from typing import Final

from agent.kube.client.errors import CredentialsError
from agent.node.reports.client import WebhookAway, WebhookClient

log = logging.getLogger(__name__)

REFUSED_SECONDS: Final = 3600.0
"""For which a webhook that does not know the path is left alone."""
_OK: Final = 200
_UNKNOWN: Final = frozenset({404, 405, 415})
_SPOILT: Final = frozenset({400, 413})


class PostEnd(Enum):
    """How a post ended."""

    TAKEN = "taken"
    SPOILT = "spoilt"  # Never to be taken as it is: it is not sent again
    UNKNOWN = "unknown"  # The webhook is older than the path
    AWAY = "away"  # Or busy, or one of the two lacks a right


@dataclass(frozen=True, slots=True, kw_only=True)
class PostWaits:
    """How long a sender waits after a post that was not taken: doubled each time, up to a bound."""

    again_seconds: float
    longest_again_seconds: float


class PatientPosts:
    """Posts to one path; no connection is kept between two, so that another replica may have the next."""

    def __init__(self, client: WebhookClient, path: str, *, what: str, waits: PostWaits) -> None:
        self._client, self._path, self._what, self._waits = client, path, what, waits
        self._again_seconds = waits.again_seconds

    def close(self) -> None:
        """Close the connection; from the thread that posts, or after its end."""
        self._client.close()

    def post(self, text: str) -> tuple[PostEnd, float]:
        """Return how it ended, and for how many seconds nothing is to be sent if it was not taken; 0 = it was."""
        status, asked_to_wait_seconds = 0, 0.0
        try:
            answer = self._client.post(self._path, text)
            status, asked_to_wait_seconds = answer.status, answer.retry_after_seconds or 0.0
            if status == _OK:
                self._log_refused(answer.body)
        except (WebhookAway, CredentialsError) as error:
            log.debug("the webhook was not told", extra={"of": self._what, "cause": str(error)})
        finally:
            self._client.close()
        if status == _OK:
            self._again_seconds = self._waits.again_seconds
            return PostEnd.TAKEN, 0.0
        if status in _UNKNOWN:
            return PostEnd.UNKNOWN, REFUSED_SECONDS
        wait_seconds = max(self._again_seconds, asked_to_wait_seconds)
        self._again_seconds = min(2 * self._again_seconds, self._waits.longest_again_seconds)
        return PostEnd.SPOILT if status in _SPOILT else PostEnd.AWAY, wait_seconds

    def _log_refused(self, body: bytes) -> None:
        """Log for debugging what the webhook took no part of."""
        try:
            refused = json.loads(body).get("refused")
        except (ValueError, AttributeError):
            return
        if refused:
            first = str(refused[0])[:200]
            log.debug("the webhook refused a part", extra={"of": self._what, "refused": len(refused), "reason": first})

"""What the webhook is called for beside admissions, and what may become of a call. Metrics; both are labels."""

from __future__ import annotations

from enum import StrEnum


class CallKind(StrEnum):
    """What is called."""

    REPORT = "report"
    EVICTIONS = "evictions"
    TAINT = "taint"
    RUNS = "runs"
    DECISIONS = "decisions"
    READING = "reading"
    FORGETTING = "forgetting"
    HISTORY = "history"


class CallResult(StrEnum):
    """What may become of a report, of a call with proposals, and of a question."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    NO_TOKEN = "no_token"  # noqa: S105  a label
    BAD_TOKEN = "bad_token"  # noqa: S105  a label
    WRONG_ACCOUNT = "wrong_account"
    NO_CLAIM = "no_claim"
    WRONG_NODE = "wrong_node"
    FORBIDDEN = "forbidden"
    TOO_MANY = "too_many"
    OVERLOAD = "overload"
    NOT_READY = "not_ready"
    API_AWAY = "api_away"
    STORE_AWAY = "store_away"
    ERROR = "error"

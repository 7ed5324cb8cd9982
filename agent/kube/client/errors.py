"""What can go wrong between the agent and the API server. Every message is one line, and no token is ever in it.

KubeError
|- CredentialsError   nothing was asked: the credentials cannot be used
|- Unreachable        asked, and no answer that is understood
|  `- TooLong         asked, and the answer has more bytes in one line than are held
|- ApiError           the server's answer is no
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LONGEST_MESSAGE: Final = 1000
"""Characters of a server's message that are kept: validation can repeat whole objects."""

GONE: Final = 410
"""The resourceVersion asked for is no longer kept: list anew."""
LONGEST_WAIT_SECONDS: Final = 366 * 86_400.0
"""Who asks for more than this is not understood: no server means it, and what comes from a header has no end."""
TOO_MANY_REQUESTS: Final = 429
GATEWAY_TIMEOUT: Final = 504


class KubeError(Exception):
    """Something between the agent and the API server failed."""


class CredentialsError(KubeError):
    """Credentials that cannot be used; the message names file, place and what is allowed."""


class Unreachable(KubeError):  # noqa: N818  a state of the world, as it is logged
    """No answer, or none that is understood: refused, reset, timed out, not JSON.

    Attributes:
        may_have_been_done: The request was a write and may have reached the server; look before it is sent again.
    """

    def __init__(self, message: str, *, may_have_been_done: bool = False) -> None:
        super().__init__(one_line(message))
        self.may_have_been_done = may_have_been_done


class TooLong(Unreachable):
    """One line of a stream is longer than any that is held in memory: ask for fewer objects at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One of the details of a refusal; empty texts are not given."""

    reason: str = ""
    field: str = ""
    message: str = ""


class ApiError(KubeError):
    """The server answered with a code other than 2xx.

    Attributes:
        status: The HTTP code, or the ``code`` of a Status object that came inside a watch.
        reason: ``Conflict``, ``Forbidden``, ...; empty when the answer was no Status object.
        message: What the server says, on one line.
        causes: Its details.
        retry_after_seconds: How long it asks to be left alone; None = it does not say.
    """

    def __init__(
        self,
        what: str,
        *,
        status: int,
        reason: str = "",
        message: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = one_line(message)
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds
        known = " ".join(part for part in (str(status), reason) if part)
        super().__init__(f"{what}: {known}" + (f": {self.message}" if self.message else ""))


def api_error(what: str, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Read a refusal.

    Args:
        body: A Status object as a rule; whatever a proxy sends otherwise.
    """
    text = body.decode("utf-8", errors="replace")
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, Mapping):
        return ApiError(what, status=status, message=text, retry_after_seconds=_seconds(retry_after))
    return error_of_status(what, document, status=status, retry_after=retry_after)


def error_of_status(
    what: str, document: Mapping[object, object], *, status: int | None = None, retry_after: str | None = None
) -> ApiError:
    """Read a Status object, wherever it came from; what is malformed in it counts as absent."""
    code = document.get("code")
    details = document.get("details")
    details = details if isinstance(details, Mapping) else {}
    causes = details.get("causes")
    seconds = _seconds(retry_after)
    return ApiError(
        what,
        status=status if status is not None else code if isinstance(code, int) else 0,
        reason=_text(document.get("reason")),
        message=_text(document.get("message")),
        causes=tuple(
            Cause(
                reason=_text(cause.get("reason")),
                field=_text(cause.get("field")),
                message=one_line(_text(cause.get("message"))),
            )
            for cause in (causes if isinstance(causes, list) else [])
            if isinstance(cause, Mapping)
        ),
        retry_after_seconds=seconds if seconds is not None else _seconds(details.get("retryAfterSeconds")),
    )


def one_line(text: str) -> str:
    """Return a text on one line, without control characters, and cut it where it is too long."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 3]}..."


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    """Read a number of seconds >= 0; 0 is "none asked for". A date, which HTTP allows too, is not understood."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = float(value)  # not int, which refuses thousands of digits
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_WAIT_SECONDS:
        return None
    return float(value)

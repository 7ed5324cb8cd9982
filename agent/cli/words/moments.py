"""The words for a moment in the past, the same in every verb: ``--at "10m ago"``.

Face. Pure but for arguments of the command line, which take the present moment from the clock.
"""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime

ALLOWED = 'now, "90s ago", "10m ago", "1h30m ago", "2d ago", or an ISO time such as 2026-11-21T14:05:00Z'

_LONGEST_SECONDS = 1e11
"""Three thousand years: more is no time that anybody means, and an infinite one no number that can be handed on."""
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)", re.ASCII)
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?\s*[smhd]\s*)+", re.ASCII)
_AGE = re.compile(r"((?:\d+(?:\.\d+)?\s*[smhd]\s*)+?)\s*(?:ago)?", re.ASCII)


ALLOWED_SPANS = "90s, 10m, 1h30m, 2d"


class TimeWordError(ValueError):
    """Words that name no moment up to now, or no span; the message names them and what is allowed."""


def parse_age_seconds(text: str, *, now_unix_seconds: float) -> float:
    """Return how long ago a moment was, in seconds >= 0; see ``ALLOWED``. An ISO time without a zone is local time.

    Raises:
        TimeWordError: Not one of the forms, or a moment that is still to come.
    """
    words = text.strip().lower()
    if words == "now":
        return 0.0
    if _AGE.fullmatch(words) and (seconds := _sum_of(words)) <= _LONGEST_SECONDS:
        return seconds
    try:
        moment = datetime.fromisoformat(text.strip())
        # astimezone() takes a time without a zone as local, which is what a person at this machine means
        age_seconds = now_unix_seconds - moment.astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise TimeWordError(f"{text!r} is not a time; allowed: {ALLOWED}") from error
    if age_seconds < 0:
        raise TimeWordError(f"{text!r} is in the future; allowed: {ALLOWED}")
    return age_seconds


def parse_span_seconds(text: str) -> float:
    """Return the seconds of a span such as ``1h30m``, above 0; TimeWordError = not one of the forms, or nothing."""
    words = text.strip().lower()
    seconds = _sum_of(words)
    if not _SPAN.fullmatch(words) or not 0 < seconds <= _LONGEST_SECONDS:
        raise TimeWordError(f"{text!r} is not a duration; allowed: {ALLOWED_SPANS}")
    return seconds


def _sum_of(words: str) -> float:
    return sum(float(amount) * _UNIT_SECONDS[unit] for amount, unit in _AMOUNT.findall(words))


def age_argument(text: str) -> float:
    """Read how long ago a moment was, for ``type=`` of an argument."""
    try:
        return parse_age_seconds(text, now_unix_seconds=time.time())
    except TimeWordError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def span_argument(text: str) -> float:
    """Read a span of time in seconds, for ``type=`` of an argument."""
    try:
        return parse_span_seconds(text)
    except TimeWordError as error:
        raise argparse.ArgumentTypeError(str(error)) from error

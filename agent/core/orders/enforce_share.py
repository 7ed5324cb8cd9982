"""The share of a workload's pods that is enforced: how it is written, and how pods are counted out. Core, pure.

Each pod holds a ticket for its life, 0 to 9999, and is in a share of so many hundredths of a percent as are more than
its ticket. So a larger share has everybody in it who was in a smaller one. ``plan.needs.share_ticket`` says whose
ticket is which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

TICKETS: Final = 10_000
LAST_TICKET: Final = TICKETS - 1
"""In no share but the whole."""
_DIGITS: Final = 4
_SPREAD: Final = "0527491638"
"""Digits such that neighbours are far apart: of any two one is below 5, so that 50 % is every other pod."""
ENFORCE_SHARE_ALLOWED: Final = "0% to 100%, two decimals at most, such as 10% or 2.5%"
_SHARE: Final = re.compile(r"(?P<whole>\d{1,3})(?:\.(?P<part>\d{1,2}))? ?%", re.ASCII)


class EnforceShareError(ValueError):
    """A text that is no share; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class EnforceShare:
    """How many of a workload's pods are enforced; the others are as in mode recommend."""

    tickets: int
    """Hundredths of a percent: 0 to 10000."""

    def holds(self, ticket: int) -> bool:
        """Return whether a pod with this ticket is enforced."""
        return ticket < self.tickets

    def __str__(self) -> str:
        """Return ``10 %``."""
        return f"{self.tickets / 100:g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """A share whose pods fared worse than the others: nobody of the workload is enforced while it is ordered."""

    share: str
    """As it was ordered; one that is not understood stands for any."""
    reason: str

    def concerns(self, share: EnforceShare) -> bool:
        """Return whether a share is this one: another is a person's new word."""
        try:
            return parse_enforce_share(self.share) == share
        except EnforceShareError:
            return True


def parse_enforce_share(text: str) -> EnforceShare:
    """Read a share.

    Raises:
        EnforceShareError: It is none.
    """
    match = _SHARE.fullmatch(text.strip())
    tickets = -1 if match is None else int(match["whole"]) * 100 + int((match["part"] or "").ljust(2, "0"))
    if not 0 <= tickets <= TICKETS:
        raise EnforceShareError(ENFORCE_SHARE_ALLOWED)
    return EnforceShare(tickets)


def counted_ticket(number: int) -> int:
    """Return the ticket of the pod with this number in a row of pods.

    The digits of the number in reverse, each spread out: of ten pods in a row exactly one is below 1000, and of any
    row up to 200 pods as many are below any bound as should be, to less than two.
    """
    return int("".join(_SPREAD[int(digit)] for digit in reversed(f"{number % TICKETS:0{_DIGITS}d}")))


def hashed_ticket(text: str) -> int:
    """Return the ticket that goes with a text that never changes."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big") % TICKETS

"""How much of the process each address uses up, so that nobody takes more than a share of it. Webhook; no I/O.

Nothing tells an API server from a stranger: Kubernetes gives admission webhooks no client certificate unless every API
server is configured to send one. So no address is refused for what it is: each gets as much as an API server could
need, 1,000 small admissions a second, and nobody more, which leaves the other half to everybody else. Those behind one
address (a NodePort, a NAT) have one share together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

SHARE_RATIO: Final = 0.5
"""Of a CPU, in the long run."""
BURST_SECONDS: Final = 4.0
"""Of a CPU, at once."""
MOST_OWED_SECONDS: Final = 2.0
"""So long an address waits at most, however much it used up: API servers wait no longer for an answer."""
REQUEST_SECONDS: Final = 0.0003
"""Of any request, its head and answer; measured."""
HANDSHAKE_SECONDS: Final = 0.001
"""Of the beginning of TLS."""
MOST_ADDRESSES: Final = 10_000
"""Those heard of longest ago are forgotten first."""


class Shares:
    """The CPU seconds that each address used lately, against its share. Used by the event loop alone."""

    def __init__(self, clock: Callable[[], float], *, share_ratio: float = SHARE_RATIO) -> None:
        """Begin: everybody has all of it, ``share_ratio`` of a CPU in the long run."""
        self._clock, self._ratio = clock, share_ratio
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Seconds of CPU that are not worked off, and when that was so."""

    def charge(self, address: str, seconds: float) -> None:
        """Record work done, or about to be done, for an address."""
        most = BURST_SECONDS + MOST_OWED_SECONDS * self._ratio
        self._used[address] = min(self._left(address) + seconds, most), self._clock()
        self._used.move_to_end(address)
        while len(self._used) > MOST_ADDRESSES:
            self._used.popitem(last=False)

    def owed_seconds(self, address: str) -> float:
        """Return for how long an address has to wait; 0 = it has not used up its share."""
        return max(0.0, self._left(address) - BURST_SECONDS) / self._ratio

    def __len__(self) -> int:
        return len(self._used)

    def _left(self, address: str) -> float:
        used, since_seconds = self._used.get(address, (0.0, 0.0))
        return max(0.0, used - (self._clock() - since_seconds) * self._ratio)

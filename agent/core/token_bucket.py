"""A budget over time: so many actions in any minute, and never one more. Core, pure; time is an argument."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_SECONDS: Final = 60.0


class TokenBucket:
    """Holds tokens; each that is taken comes back 60 seconds later.

    So no 60 seconds see more actions than there are tokens, wherever they begin: a bucket that fills evenly would let
    nearly twice as many through. Tokens that are missing at the start come back evenly over the first minute; nodes
    that start together with different fills do not act in step.
    """

    def __init__(self, tokens: int, *, now_seconds: float, fill_ratio: float = 1.0) -> None:
        """Make a bucket.

        Args:
            tokens: How many actions any 60 seconds may see, at least 1.
            now_seconds: Of any clock that does not go backwards.
            fill_ratio: The share of tokens that is there at once, 0..1.

        Raises:
            ValueError: There would be no tokens, or the share is none.
        """
        if tokens < 1 or not 0.0 <= fill_ratio <= 1.0:
            msg = f"{tokens} tokens, {fill_ratio} of them there: at least 1 is needed, and a share of 0..1"
            raise ValueError(msg)
        self._tokens: Final = tokens
        missing = tokens - int(tokens * fill_ratio)
        self._back_at_seconds: deque[float] = deque(
            now_seconds + WINDOW_SECONDS * (index + 1) / missing for index in range(missing)
        )
        """When each token that is out comes back, soonest first."""

    def available(self, now_seconds: float) -> int:
        """Give how many tokens are there."""
        while self._back_at_seconds and self._back_at_seconds[0] <= now_seconds:
            self._back_at_seconds.popleft()
        return self._tokens - len(self._back_at_seconds)

    def take(self, now_seconds: float) -> bool:
        """Take a token; False, and nothing is taken, when none is there."""
        if not self.available(now_seconds):
            return False
        self._back_at_seconds.append(now_seconds + WINDOW_SECONDS)
        return True

    def wait_seconds(self, now_seconds: float) -> float:
        """Give the seconds until a token is there; 0 = now."""
        return 0.0 if self.available(now_seconds) else self._back_at_seconds[0] - now_seconds

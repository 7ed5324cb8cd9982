"""A budget over time: so many actions in any minute, and never one more. Core, pure; time is an argument."""

from __future__ import annotations

from typing import Final

WINDOW_SECONDS: Final = 60.0


class TokenBucket:
    """Holds tokens; each that is taken comes back 60 seconds later.

    So no 60 seconds see more actions than there are tokens, wherever they begin: a bucket that fills evenly would let
    nearly twice as many through. Tokens that are missing at the start come back evenly over the first minute; buckets
    that start together with different phases do not give theirs in step.
    """

    __slots__ = ("_back_at_seconds", "_filled_at_seconds", "_tokens")

    def __init__(self, tokens: int, *, now_seconds: float, fill_ratio: float = 1.0, phase_ratio: float = 1.0) -> None:
        """Make a bucket.

        Args:
            tokens: How many actions any 60 seconds may see, at least 1.
            now_seconds: Of any clock that does not go backwards.
            fill_ratio: The share of tokens that is there at once, 0..1.
            phase_ratio: When the first of the missing ones comes back, 0..1 of the time between two of them.

        Raises:
            ValueError: There would be no tokens, or a share is none.
        """
        if tokens < 1 or not 0.0 <= fill_ratio <= 1.0 or not 0.0 <= phase_ratio <= 1.0:
            msg = (
                f"{tokens} tokens, {fill_ratio} of them there, phase {phase_ratio}: at least 1 is needed, and shares "
                "of 0..1"
            )
            raise ValueError(msg)
        self._tokens: Final = tokens
        missing = tokens - int(tokens * fill_ratio)
        # No deque: it takes 0.7 kB where nothing is in it, and the webhook has two buckets of each node.
        self._back_at_seconds = [
            now_seconds + WINDOW_SECONDS * (index + phase_ratio) / missing for index in range(missing)
        ]
        """When each token that is out comes back, soonest first."""
        self._filled_at_seconds: Final = self._back_at_seconds[-1] if missing else now_seconds

    def available(self, now_seconds: float) -> int:
        """Return how many tokens are there."""
        back = 0
        for back_at_seconds in self._back_at_seconds:
            if back_at_seconds > now_seconds:
                break
            back += 1
        if back:
            del self._back_at_seconds[:back]
        return self._tokens - len(self._back_at_seconds)

    def is_filling(self, now_seconds: float) -> bool:
        """Return whether tokens that were missing at the start are still to come."""
        return now_seconds < self._filled_at_seconds

    def take(self, now_seconds: float) -> bool:
        """Take a token; False, and nothing is taken, when none is there."""
        if not self.available(now_seconds):
            return False
        self._back_at_seconds.append(now_seconds + WINDOW_SECONDS)
        return True

    def wait_seconds(self, now_seconds: float) -> float:
        """Return the seconds until a token is there; 0 = now."""
        return 0.0 if self.available(now_seconds) else self._back_at_seconds[0] - now_seconds


def filling_bucket(tokens: int, *, reserve: int, now_seconds: float, chance: float) -> TokenBucket:
    """Return the bucket of an agent that starts: the reserve and one more are there, the rest comes within a minute.

    So 5,000 agents that start together begin with one action each and go on evenly, each in its own phase; what is
    urgent finds the reserve from the first moment on.

    Args:
        tokens: How many actions any 60 seconds may see, at least 1.
        reserve: How many of them are kept for what is urgent, below ``tokens``.
        now_seconds: Of any clock that does not go backwards.
        chance: 0..1, drawn by the caller.
    """
    # Half a token more: a share of whole tokens comes back from its product with them a little less than whole.
    there = (reserve + 1.5) / tokens if reserve + 1 < tokens else 1.0
    return TokenBucket(tokens, now_seconds=now_seconds, fill_ratio=there, phase_ratio=chance)

"""Bodies of requests: read within bounds of size, time and number, so that nobody who may send can fill the memory.

Webhook. One that is too large is read to its end, or nearly so: who still writes when the connection closes does not
find the answer, and would send the same again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import ClientDisconnect

from agent.webhook.admission.glance import MAX_REVIEW_BYTES

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of a request before its body; and of a review that is too large, enough to find whom to answer."""
MAX_REVIEWS_BYTES: Final = 32 << 20
"""Of all reviews on their way in, beyond the first MAX_HEAD_BYTES of each, which most are within. Anybody may send
them, and two thousand of the largest would be 16 GB."""
MAX_DISCARDED_BYTES: Final = 16 << 20
"""Of a body that is too large."""
DRAIN_SECONDS: Final = 1.0
"""For the rest of a body whose sender is not let in."""


class BodyTooLarge(Exception):  # noqa: N818
    """More bytes than are taken; holds those that came first, and how many came."""

    def __init__(self, begun: bytes, size: int) -> None:
        super().__init__()
        self.begun: Final = begun
        self.size: Final = size


class TooSlow(Exception):  # noqa: N818
    """The body did not come in time."""


class Bodies:
    """Reads them, and knows how much of reviews is held now. Of the event loop."""

    def __init__(self, request_seconds: float) -> None:
        self._request_seconds = request_seconds
        self.reviews_bytes = 0
        """Of reviews on their way in, beyond the first MAX_HEAD_BYTES of each."""

    async def review(self, stream: AsyncIterator[bytes]) -> bytes:
        """Read a review.

        Raises:
            BodyTooLarge: It is, or all on their way are; with its first MAX_HEAD_BYTES.
            TooSlow: It did not come in time.
            ClientDisconnect: The sender left.
        """
        pieces: list[bytes] = []
        size = held = 0
        is_too_large = False
        try:
            async with asyncio.timeout(self._request_seconds):
                async for piece in stream:
                    size += len(piece)
                    if is_too_large:
                        if size > MAX_DISCARDED_BYTES:
                            break
                        continue
                    pieces.append(piece)
                    more = max(0, size - MAX_HEAD_BYTES) - held
                    held += more
                    self.reviews_bytes += more
                    if size > MAX_REVIEW_BYTES or (more and self.reviews_bytes > MAX_REVIEWS_BYTES):
                        is_too_large = True
                        pieces = [b"".join(pieces)[:MAX_HEAD_BYTES]]
                        self.reviews_bytes -= held
                        held = 0
        except TimeoutError:
            if not is_too_large:
                raise TooSlow from None
        finally:
            self.reviews_bytes -= held
        if is_too_large:
            raise BodyTooLarge(pieces[0], size)
        return b"".join(pieces)

    async def posted(self, stream: AsyncIterator[bytes], most_bytes: int, stated_length: str) -> bytes:
        """Read what somebody who was let in posts; an empty ``stated_length`` = there is no header Content-Length.

        Raises:
            BodyTooLarge: It is; nothing of it is kept.
            TooSlow: It did not come in time.
            ClientDisconnect: The sender left.
        """
        is_too_large = stated_length.isdigit() and int(stated_length[:20]) > most_bytes
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._request_seconds):
                async for piece in stream:
                    size += len(piece)
                    is_too_large = is_too_large or size > most_bytes
                    if is_too_large:
                        pieces.clear()
                    else:
                        pieces.append(piece)
                    if size > MAX_DISCARDED_BYTES and is_too_large:
                        break
        except TimeoutError:
            if not is_too_large:
                raise TooSlow from None
        if is_too_large:
            raise BodyTooLarge(b"", size)
        return b"".join(pieces)

    async def drain(self, stream: AsyncIterator[bytes], most_bytes: int) -> None:
        """Take what comes within a moment, at most so much, and forget it."""
        size = 0
        with contextlib.suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(DRAIN_SECONDS):
                async for piece in stream:
                    size += len(piece)
                    if size > most_bytes:
                        return

"""The largest demand of several nodes such that one of them can be left out again. Core, pure.

Kept are the largest value, the node that it is of, and the largest value of any other node: so "the largest of all
nodes but this one" is exact, whichever node is asked about, and costs two values instead of one per node. Nodes are
hashes of their names (32 bits): that two of 5,000 nodes share one has a chance of 0.3 %; they then count as one node.

Values are the sixteen-bit codes of ``minute_codec``: they rise with their amounts, 0.05 % too large at most, never too
small, and 0 is what is missing.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from agent.core.history.minute.minute_codec import LARGEST, MANTISSA_BITS


def code_of(amount: int) -> int:
    """Return the code of a whole amount: what ``minute_codec.encode`` does for arrays; no more than its largest."""
    amount = min(amount, int(LARGEST))
    shift = max(amount.bit_length() - (MANTISSA_BITS + 1), 0)
    return (shift << MANTISSA_BITS) + -(-amount >> shift) + 1


def amount_of(code: int) -> int | None:
    """Return the whole amount of a code; None = missing."""
    if code == 0:
        return None
    exponent = max((code - 1) >> MANTISSA_BITS, 1)
    return (code - 1 - ((exponent - 1) << MANTISSA_BITS)) << (exponent - 1)


def node_number(node: str) -> int:
    """Return a node's hash, 32 bits, never 0."""
    digest = blake2b(node.encode(errors="surrogatepass"), digest_size=4, person=b"node").digest()
    return int.from_bytes(digest, "big") or 1


class Leaders(NamedTuple):
    """The largest value, the hash of its node, and the largest value of any other node."""

    top: int = 0
    node: int = 0
    """Of the top value; of two nodes with the same one, the one with the larger hash."""
    second: int = 0
    """Largest of another node."""

    def with_value(self, value: int, node: int) -> Leaders:
        """Add a value of a node."""
        if value == 0:
            return self
        if node == self.node:
            return Leaders(max(self.top, value), node, self.second)
        if (value, node) > (self.top, self.node):
            return Leaders(value, node, self.top)
        return Leaders(self.top, self.node, max(self.second, value))

    def merged(self, other: Leaders) -> Leaders:
        """Add all that the other did."""
        if other.node == self.node:
            return Leaders(max(self.top, other.top), self.node, max(self.second, other.second))
        first, then = (self, other) if (self.top, self.node) > (other.top, other.node) else (other, self)
        # What the lesser one's second is of might be the first's node; but it is not above the lesser one's top.
        return Leaders(first.top, first.node, max(first.second, then.top))

"""How values are divided into the buckets of a histogram.

Core, pure. A scheme is a value: histograms of equal schemes can be merged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.core.numbers import go_float

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BucketScheme(Protocol):
    """Buckets 0 .. count - 1, each from its start up to the start of the next; the last one has no end.

    Source:
        facts/vpa.md section 2 (recommender/util/histogram_options.go).
    """

    @property
    def count(self) -> int:
        """How many buckets; at least 2."""

    @property
    def ends(self) -> Floats:
        """What a percentile answers per bucket, shape ``(count,)``: its end, of the last one its start."""

    def find(self, values: Floats) -> Ints:
        """Return the bucket of each value; values outside belong to the first or the last bucket."""

    def starts(self, buckets: Ints) -> Floats:
        """Return the least value of each bucket."""


@dataclass(frozen=True)
class LinearScheme:
    """Buckets of one size.

    Raises:
        ValueError: A parameter is not positive and finite.
    """

    max_value: float
    """The last bucket starts here or above."""
    bucket_size: float

    def __post_init__(self) -> None:
        _check_positive("max_value", self.max_value)
        _check_positive("bucket_size", self.bucket_size)

    @cached_property
    def count(self) -> int:
        """How many buckets."""
        return math.ceil(self.max_value / self.bucket_size) + 1

    @cached_property
    def ends(self) -> Floats:
        """What a percentile answers per bucket."""
        return _ends(self)

    def find(self, values: Floats) -> Ints:
        """Return the bucket of each value: the plain quotient, so 0.3 is in bucket 2 of size 0.1 (0.3 / 0.1 < 3)."""
        quotients = values / self.bucket_size
        # Clamped while still float: a float beyond 64 bits has no integer. Truncation and floor agree from 0 on.
        return np.clip(quotients, 0.0, self.count - 1.0, out=quotients).astype(np.int64)

    def starts(self, buckets: Ints) -> Floats:
        """Return the least value of each bucket."""
        return buckets.astype(np.float64) * self.bucket_size


@dataclass(frozen=True)
class ExponentialScheme:
    """Buckets of which each is ``ratio`` times as wide as the one before.

    Raises:
        ValueError: A parameter is not positive and finite, or the ratio not above 1.
    """

    max_value: float
    """The last bucket starts here or above."""
    first_bucket_size: float
    ratio: float

    def __post_init__(self) -> None:
        _check_positive("max_value", self.max_value)
        _check_positive("first_bucket_size", self.first_bucket_size)
        if not 1.0 < self.ratio < math.inf:
            msg = f"ratio {self.ratio} of a bucket scheme: above 1 and finite is allowed"
            raise ValueError(msg)

    @cached_property
    def count(self) -> int:
        """How many buckets."""
        return math.ceil(float(self._indices(np.array([self.max_value]))[0])) + 1

    @cached_property
    def ends(self) -> Floats:
        """What a percentile answers per bucket."""
        return _ends(self)

    def find(self, values: Floats) -> Ints:
        """Return the bucket of each value: a quotient of two logarithms, exact at the edges."""
        indices = self._indices(np.maximum(values, self.first_bucket_size))
        indices[values < self.first_bucket_size] = 0.0
        return np.minimum(indices, self.count - 1.0, out=indices).astype(np.int64)

    def starts(self, buckets: Ints) -> Floats:
        """Return the least value of each bucket."""
        return self._starts[buckets]

    def _indices(self, values: Floats) -> Floats:
        """Return where values lie on the scale of buckets; truncated it is the bucket."""
        return go_float.log(values * (self.ratio - 1.0) / self.first_bucket_size + 1.0) / self._log_ratio

    @cached_property
    def _log_ratio(self) -> float:
        return float(go_float.log(np.array([self.ratio]))[0])

    @cached_property
    def _starts(self) -> Floats:
        growth = self.ratio - 1.0
        powers = [go_float.whole_power(self.ratio, bucket) for bucket in range(1, self.count)]
        return np.array([0.0, *(self.first_bucket_size * (power - 1.0) / growth for power in powers)])


def _check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        msg = f"{name} {value} of a bucket scheme: positive and finite is allowed"
        raise ValueError(msg)


def _ends(scheme: BucketScheme) -> Floats:
    last = scheme.count - 1
    return scheme.starts(np.minimum(np.arange(1, scheme.count + 1), last))

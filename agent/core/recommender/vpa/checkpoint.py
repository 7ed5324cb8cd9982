"""Checkpoints of histograms, and of a container's CPU and memory histogram, as the Vertical Pod Autoscaler keeps them.

Core, pure. The form for exchange: weights become whole numbers of at most 10,000, so anything below 1/20,000 of the
largest is lost. What has to come back exactly is kept with ``Histograms.to_arrays``.

Source:
    facts/vpa.md section 10 (recommender/util/histogram.go, recommender/model/aggregate_container_state.go).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.numbers.histogram import Histograms

VERSION: Final = "v3"
"""The only version of the aggregate that is read."""

_LARGEST_WEIGHT: Final = 10_000


class CheckpointError(ValueError):
    """A checkpoint that cannot be loaded; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One histogram."""

    bucket_weights: Mapping[int, int]
    """Relative weights by bucket; the largest saved one is 10,000, zeros are left out."""
    total_weight: float
    """Of all samples, decayed; also of those whose bucket was lost."""
    reference_unix_seconds: float | None = None
    """To which time decayed weights refer; None = there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheckpoint:
    """What is known of one container: both histograms, and how many CPU samples came from when to when."""

    version: str = VERSION
    first_sample_unix_seconds: float | None
    """None = no sample yet."""
    last_sample_unix_seconds: float | None
    """None = no sample yet."""
    samples: int
    """CPU samples."""
    cpu: Checkpoint
    memory: Checkpoint


def save(histograms: Histograms, row: int) -> Checkpoint:
    """Return the checkpoint of one row: its used buckets, scaled so that the largest weighs 10,000, rounded half up."""
    used = histograms.used(row)
    weights = histograms.weights(row)[used]
    references, has_reference = histograms.references(np.array([row]))
    # The ratio first, then the product: the other order rounds differently.
    scaled = np.floor(weights * (_LARGEST_WEIGHT / weights.max()) + 0.5) if weights.size else weights
    return Checkpoint(
        bucket_weights={used.start + int(index): int(scaled[index]) for index in np.flatnonzero(scaled)},
        total_weight=float(histograms.total_weights(np.array([row]))[0]),
        reference_unix_seconds=float(references[0]) if has_reference[0] else None,
    )


def load(histograms: Histograms, row: int, checkpoint: Checkpoint | None) -> None:
    """Add a checkpoint to a row, empty as a rule: the total is spread over the buckets by their weights.

    A checkpoint whose weights are all 0 loads as empty, whatever its total. Without a reference a decaying histogram
    is wiped by the next sample, as it is upstream.

    Raises:
        CheckpointError: It is missing, its total is negative, or a bucket or weight is out of range. Nothing is added.
    """
    present = _checked(histograms, checkpoint)
    weights = np.zeros(histograms.scheme.count)
    for bucket, weight in present.bucket_weights.items():
        weights[bucket] = weight
    whole = sum(present.bucket_weights.values())
    if whole:
        weights *= present.total_weight / whole
    histograms.load(row, weights, present.total_weight, present.reference_unix_seconds)


def load_state(cpu: Histograms, memory: Histograms, row: int, state: StateCheckpoint) -> None:
    """Add both histograms of an aggregate to a row; times and count of the samples are the caller's to take over.

    Raises:
        CheckpointError: Another version, or one of the histograms cannot be loaded. Nothing is added to either.
    """
    if state.version != VERSION:
        msg = f"checkpoint of version {state.version!r}: {VERSION!r} is allowed"
        raise CheckpointError(msg)
    for histograms, checkpoint in ((cpu, state.cpu), (memory, state.memory)):
        _checked(histograms, checkpoint)
    load(cpu, row, state.cpu)
    load(memory, row, state.memory)


def _checked(histograms: Histograms, checkpoint: Checkpoint | None) -> Checkpoint:
    """Return back a checkpoint that can be loaded.

    Raises:
        CheckpointError: It cannot.
    """
    if checkpoint is None:
        msg = "checkpoint of a histogram is missing"
        raise CheckpointError(msg)
    if not 0.0 <= checkpoint.total_weight < math.inf:
        msg = f"checkpoint of a histogram: total weight {checkpoint.total_weight}: 0 or more, finite, is allowed"
        raise CheckpointError(msg)
    last = histograms.scheme.count - 1
    for bucket, weight in checkpoint.bucket_weights.items():
        if not 0 <= bucket <= last:
            msg = f"checkpoint of a histogram: bucket {bucket}: 0 to {last} are allowed"
            raise CheckpointError(msg)
        if weight < 0:
            msg = f"checkpoint of a histogram: weight {weight} of bucket {bucket}: 0 or more is allowed"
            raise CheckpointError(msg)
    return checkpoint

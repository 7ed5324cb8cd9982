"""Checkpoints of the Vertical Pod Autoscaler as the API server keeps them. Pure.

Source:
    VerticalPodAutoscalerCheckpoint of autoscaling.k8s.io/v1 (pkg/apis/autoscaling.k8s.io/v1/types.go).
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.recommender.vpa.checkpoint import Checkpoint, StateCheckpoint
from agent.kube.objects.json_reader import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheckpoint:
    """What the recommender knew of one container of the workload of a VerticalPodAutoscaler."""

    namespace: str
    autoscaler: str
    container: str
    state: StateCheckpoint


def checkpoint_name(document: object) -> str:
    """Return what a checkpoint is called in words, as far as it says."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    names = metadata if isinstance(metadata, dict) else {}
    return f"{str(names.get('namespace', '?'))[:63]}/{str(names.get('name', '?'))[:253]}"


def checkpoint_from_json(document: object) -> NamedCheckpoint:
    """Read a VerticalPodAutoscalerCheckpoint, or raise ConvertError."""
    top = Reader(document, "")
    spec, status = top.child("spec"), top.child("status")
    return NamedCheckpoint(
        namespace=top.child("metadata").required_text("namespace"),
        autoscaler=spec.required_text("vpaObjectName"),
        container=spec.required_text("containerName"),
        state=StateCheckpoint(
            version=status.text("version") or "",
            first_sample_unix_seconds=status.unix_seconds("firstSampleStart"),
            last_sample_unix_seconds=status.unix_seconds("lastSampleStart"),
            samples=max(status.whole("totalSamplesCount") or 0, 0),
            cpu=_histogram(status.child("cpuHistogram")),
            memory=_histogram(status.child("memoryHistogram")),
        ),
    )


def _histogram(histogram: Reader) -> Checkpoint:
    weights: dict[int, int] = {}
    for bucket, weight in histogram.wholes("bucketWeights").items():
        if not (bucket.isascii() and bucket.isdigit() and len(bucket) <= 4):
            raise histogram.error("bucketWeights", bucket[:20], "numbers of buckets")
        weights[int(bucket)] = weight
    return Checkpoint(
        bucket_weights=weights,
        total_weight=histogram.number("totalWeight") or 0.0,
        reference_unix_seconds=histogram.unix_seconds("referenceTimestamp"),
    )

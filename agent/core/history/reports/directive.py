"""What the webhook tells a node in the answer to its report. Core, pure.

Only what other nodes and the cluster know: the node has its own history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.workload import Workload

DIRECTIVES_VERSION: Final = 1
HOURS: Final = 24
"""Hours of a day: as many peaks, the first from 00:00 to 01:00 UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDirective:
    """What the other nodes saw of one container of a workload. CPU in millicores, memory in bytes; None = not known."""

    container: str
    cpu_peak_millicores: int | None = None
    """Largest in seven days."""
    memory_peak_bytes: int | None = None
    cpu_hour_peaks_millicores: tuple[int | None, ...] = ()
    """Largest per UTC hour of the day over seven days, 24 of them; empty = not known."""
    memory_hour_peaks_bytes: tuple[int | None, ...] = ()
    oom_memory_bytes: int | None = None
    """Largest figure of the kills of seven days, this node's included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerDirective:
    """What a VerticalPodAutoscaler of the recommender ``plimsoll`` orders; each as the annotation would say it."""

    name: str
    """``VPA shop/web``."""
    mode: str | None = None
    """None = nothing said; so for the others."""
    eviction_ranking: str | None = None
    container_policies: str | None = None
    """JSON (``orders.container_policies``)."""
    startup_boost: str | None = None
    windows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDirective:
    """What holds for one workload on the node."""

    workload: Workload
    mode: str | None = None
    """By the cluster's rules: off, recommend, protect or enforce; None = nothing said. Annotations win over it."""
    policy: str | None = None
    left_alone_for: str | None = None
    """``VerticalPodAutoscaler shop/web`` that sets this workload's requests; None = nobody does."""
    cpu_frozen_for: str | None = None
    """``HorizontalPodAutoscaler shop/web`` that scales on CPU requests."""
    memory_frozen_for: str | None = None
    cpu_frozen_containers: tuple[str, ...] | None = None
    """The only ones whose CPU requests it divides by; None = those of all."""
    memory_frozen_containers: tuple[str, ...] | None = None
    cpu_preserved: str | None = None
    """What is kept of the target of that autoscaler, in words: it moves with CPU requests, so these are sized. None =
    they stay."""
    memory_preserved: str | None = None
    hpa_targets: tuple[UtilizationTarget, ...] = ()
    """The shares of requests that its autoscalers want in use; empty = not known, or there are none."""
    stop_shrinking_seconds: float | None = None
    """From now on; after an out-of-memory kill anywhere. None = it may shrink."""
    replicas: int | None = None
    containers: tuple[ContainerDirective, ...] = ()
    startup_boost: str | None = None
    """By the cluster's rules, as ``plimsoll.dev/startup-boost`` would say it; None = nothing said."""
    windows: str | None = None
    """By the cluster's rules, as ``plimsoll.dev/windows`` would say it; None = nothing said."""
    autoscaler: AutoscalerDirective | None = None
    """None = there is none of ours, or it orders nothing."""
    enforce_share: str | None = None
    """By the cluster's rules, as ``plimsoll.dev/enforce-share`` would say it; None = nothing said."""
    share_taken_back: str | None = None
    """The enforced share, ``10 %``, that is enforced no more, as its pods fared worse than the others; None = none."""
    share_taken_back_for: str | None = None
    """In what they fared worse; None = not told."""
    stop_shrinking_for: str | None = None
    """After what the workload only grows, where it was no out-of-memory kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directives:
    """All that a node was told."""

    etag: str
    pause_reason: str | None = None
    """The cluster is paused: nothing is written. None = it is not."""
    workloads: tuple[WorkloadDirective, ...] = ()
    """Of the workloads that run on the node, by namespace, kind and name."""
    left_out: int = 0
    """Values of the answer that were not understood, or too many, and were left out by who read it."""

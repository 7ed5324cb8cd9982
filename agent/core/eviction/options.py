"""What can be set of evictions; the docstring under each field is its documentation. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from agent.core.numbers.allowed_range import Between


class EvictionMode(StrEnum):
    """What the webhook makes of a proposal that nothing speaks against."""

    RECOMMEND = "recommend"
    """It says that it would have evicted; nothing that could evict is even built."""
    ENFORCE = "enforce"
    """It evicts, within all budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterOptions:
    """When the webhook evicts, and how much at most; counted over all its replicas."""

    mode: EvictionMode = EvictionMode.RECOMMEND
    """recommend evicts nobody and says whom it would; enforce evicts pods that are in mode enforce themselves."""
    protected_namespaces: str = "kube-system,kube-public,kube-node-lease,plimsoll"
    """Namespaces from which nobody is evicted, separated by commas; beside act.excludedNamespaces."""
    evictions_per_minute: Annotated[int, Between(1, 1000)] = 6
    """Evictions in the whole cluster at most, in any minute."""
    namespace_evictions_per_minute: Annotated[int, Between(1, 1000)] = 3
    """Of these, in one namespace."""
    node_evictions_per_hour: Annotated[int, Between(1, 1000)] = 6
    """Evictions from one node at most, in any hour: one that never fits is not emptied."""
    workload_evictions_per_hour: Annotated[int, Between(1, 1000)] = 6
    """Evictions of one workload's pods at most, in any hour."""
    workload_share_ratio: Annotated[float, Between(0, 1)] = 0.5
    """Share of a workload's replicas that may be missing at once, 0..1, rounded down to whole pods: those that are not
    available, and those evicted within replacementSeconds. 0.5 of three replicas is one."""
    single_replicas: bool = False
    """Evict the only pod of a workload too: nothing serves until its replacement runs. Else the share forbids it."""
    replacement_seconds: Annotated[float, Between(10, 86_400)] = 600.0
    """Seconds for which an evicted pod counts as missing, whatever runs in its place: a replacement has to warm up."""
    refused_back_off_seconds: Annotated[float, Between(1, 86_400)] = 60.0
    """Seconds until a workload is tried again whose disruption budget allowed none; doubled with each refusal ..."""
    most_back_off_seconds: Annotated[float, Between(1, 604_800)] = 3600.0
    """... up to this."""
    unanswered_seconds: Annotated[float, Between(30, 3600)] = 60.0
    """Seconds after which an eviction that was begun and never settled (a replica was killed) is looked into; until
    then it counts as made."""
    stale_seconds: Annotated[float, Between(1, 3600)] = 180.0
    """Seconds without news of the API server after which nobody is evicted."""
    tainted_nodes_ratio: Annotated[float, Between(0, 1)] = 0.2
    """Share of the cluster's nodes that may carry the overload taint at once, 0..1, rounded down to whole nodes but at
    least one; 0 = none. Nodes ask before they taint themselves, and do not where there is no answer."""
    taint_grant_seconds: Annotated[float, Between(30, 3600)] = 120.0
    """Seconds for which a node that was granted the taint holds its place before the taint is seen."""
    pod_reads_per_minute: Annotated[int, Between(1, 100_000)] = 600
    """Pods read from the API server at most per minute and replica: each proposal is checked on the pod as it is."""

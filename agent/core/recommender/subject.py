"""The container about which a recommendation is asked for, and many of them as the arrays that policies take.

Core, pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.cluster.pod import ContainerKind, QosClass
from agent.core.cluster.runtime_profile import RuntimeProfile
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.cluster.workload import DAEMON_SET_KIND, Workload
from agent.core.history.reports.directive import ContainerDirective
from agent.core.numbers.arrays import Rows
from agent.core.recommender.credit import Credit
from agent.core.recommender.other_nodes import OWN_MINUTES, column, elsewhere_of
from agent.core.recommender.policy import CurrentAmounts, Present
from agent.core.window.pod_itself import PodItself
from agent.core.window.snapshot import CpuWindow, MemoryWindow, Missing

_CPU_BASE: Final = "usage_p75_millicores"
"""The figure whose absence tells why CPU is unknown: the adjusted one may lack nothing but PSI."""
_MEMORY_BASE: Final = "working_set_p75_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One container as it is at the moment."""

    row: int
    """Of the policy's state."""
    identity: UnitIdentity
    workload: Workload | None
    resources: UnitResources
    cpu: CpuWindow
    memory: MemoryWindow
    """As memory is asked for: without cold file cache where that is left out."""
    sample_age_seconds: float | None
    """Age of the newest good reading; None = there is none."""
    history_minutes: int
    """Minutes known in the history of seven days."""
    history_span_seconds: float
    """From the oldest known minute to now; 0 = none."""
    oom_kills: int
    """Out-of-memory kills remembered."""
    pod_containers: int = 1
    """Containers of its pod, itself included."""
    has_pod_level_requests: bool = False
    """Its pod states requests of its own."""
    wants_whole_cores: bool = False
    """The pod asks by annotation for whole CPU cores for this container."""
    container_kind: ContainerKind | None = None
    """None = not known, or it has no pod."""
    pod_itself: PodItself | None = None
    """What its pod uses in none of its containers and is counted here; None = nothing, or it counts elsewhere."""
    keeps_memory_limit: bool = False
    """Its memory limit is not lowered."""
    runtime: RuntimeProfile | None = None
    """What its language runtime takes of memory by its own flags; None = not known."""
    elsewhere: ContainerDirective | None = None
    """What other nodes saw of its workload's; None = nothing is known, or believed."""
    credit: Credit | None = None
    """Whether starvation is answered within seconds, by the newest plan; None = no plan has said."""

    @property
    def has_own_week(self) -> bool:
        """Return whether this node need not go by the peaks of others."""
        is_daemon = self.workload is not None and self.workload.kind == DAEMON_SET_KIND
        return is_daemon or self.history_minutes >= OWN_MINUTES

    @property
    def cpu_base_millicores(self) -> float | None:
        """Return the sustained demand, PSI-adjusted where PSI is there; None = not known."""
        adjusted = self.cpu.adjusted_p75_millicores
        return self.cpu.usage_p75_millicores if adjusted is None else adjusted

    @property
    def cpu_missing(self) -> Missing | None:
        """Return why the sustained CPU demand is not known; None = it is."""
        return self.cpu.missing.get(_CPU_BASE)

    @property
    def memory_missing(self) -> Missing | None:
        """Return why the sustained working set is not known; None = it is."""
        return self.memory.missing.get(_MEMORY_BASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """When an answer is believed."""

    min_span_seconds: float
    """Measured for less: withheld as too young."""
    max_age_seconds: float
    """The newest reading is older: withheld as stale."""
    is_history_known: bool = True
    """The policy knows all there is of the past. Without it, peaks are missing: an answer may then only raise."""


def rows_of(subjects: Sequence[Subject]) -> Rows:
    """Return the rows of the policy's state, shape ``(k,)``."""
    return np.array([subject.row for subject in subjects], dtype=np.intp)


def present_of(subjects: Sequence[Subject]) -> Present:
    """Return what the windows say of the moment, shape ``(k,)`` each."""
    cpu, has_cpu = column([subject.cpu_base_millicores for subject in subjects])
    memory, has_memory = column([subject.memory.working_set_p75_bytes for subject in subjects])
    return Present(
        cpu_base_millicores=cpu,
        has_cpu=has_cpu,
        memory_base_bytes=memory,
        has_memory=has_memory,
        pod_containers=np.array([subject.pod_containers for subject in subjects], dtype=np.int64),
        wants_whole_cores=np.array([subject.wants_whole_cores for subject in subjects], dtype=np.bool_),
        elsewhere=elsewhere_of(
            [subject.elsewhere for subject in subjects], [subject.has_own_week for subject in subjects]
        ),
        has_credit=np.array([subject.credit is Credit.GRANTED for subject in subjects], dtype=np.bool_),
    )


def stated_of(subjects: Sequence[Subject]) -> CurrentAmounts:
    """Return what is requested and used now, shape ``(k,)`` each."""
    cpu_request, has_cpu_request = column([subject.resources.cpu_request_millicores for subject in subjects])
    cpu_limit, has_cpu_limit = column([subject.resources.cpu_limit_millicores for subject in subjects])
    memory_request, has_memory_request = column([subject.resources.memory_request_bytes for subject in subjects])
    memory_limit, has_memory_limit = column([subject.resources.memory_limit_bytes for subject in subjects])
    working_set, has_working_set = column([subject.memory.working_set_bytes for subject in subjects])
    memory_current, has_memory_current = column([subject.memory.current_bytes for subject in subjects])
    runtimes = [subject.runtime for subject in subjects]
    floors = [0 if profile is None else profile.limit_floor_bytes for profile in runtimes]
    readers = [
        profile.runtime if profile is not None and profile.reads_limit_at_start else None for profile in runtimes
    ]
    return CurrentAmounts(
        cpu_request_millicores=cpu_request,
        has_cpu_request=has_cpu_request,
        cpu_limit_millicores=cpu_limit,
        has_cpu_limit=has_cpu_limit,
        memory_request_bytes=memory_request,
        has_memory_request=has_memory_request,
        memory_limit_bytes=memory_limit,
        has_memory_limit=has_memory_limit,
        working_set_bytes=working_set,
        has_working_set=has_working_set,
        memory_current_bytes=memory_current,
        has_memory_current=has_memory_current,
        is_guaranteed=np.array([subject.identity.qos is QosClass.GUARANTEED for subject in subjects], dtype=np.bool_),
        keeps_memory_limit=np.array([subject.keeps_memory_limit for subject in subjects], dtype=np.bool_),
        heap_floor_bytes=np.array(floors, dtype=np.float64) if any(floors) else None,
        limit_readers=readers if any(readers) else None,
    )

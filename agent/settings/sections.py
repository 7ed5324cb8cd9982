"""What can be set: frozen dataclasses; the docstring under each field is its documentation, with unit and reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from agent.core.eviction.proposals import ProposeOptions
from agent.core.numbers.allowed_range import Between, Unset
from agent.core.orders.guard_options import GuardOptions
from agent.core.orders.plan_options import ActOptions, OverloadOptions, PlanOptions, PodLimitsOptions
from agent.core.orders.policy_options import (
    BoundsOptions,
    CraneOptions,
    CruiseOptions,
    PolicyName,
    SizingOptions,
    VpaOptions,
)
from agent.core.orders.profile import Profile, ProfileSetting, profile_settings
from agent.core.orders.run_options import WorkloadOptions


def camel(snake: str) -> str:
    """Return a field's name as the file spells it."""
    head, *rest = snake.split("_")
    return head + "".join(word.capitalize() for word in rest)


class SamplerChoice(StrEnum):
    """Which sampler reads the counters."""

    AUTO = "auto"
    NATIVE = "native"
    REFERENCE = "reference"


class ScopeChoice(StrEnum):
    """Which cgroups are watched."""

    AUTO = "auto"
    KUBERNETES = "kubernetes"
    MACHINE = "machine"


class LogLevel(StrEnum):
    """From which level on a log line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


STATE_DIRECTORY: Final = Path("/var/lib/plimsoll")
RUNTIME_DIRECTORY: Final = Path("/run/plimsoll")
"""Of root: in memory, and empty after a reboot."""


class LogFormat(StrEnum):
    """How a log line is written."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


def default_state_directory(environment: Mapping[str, str], *, uid: int) -> Path:
    """Return where the state is kept unless told: /var/lib for root, the XDG state directory for others."""
    if uid == 0:
        return STATE_DIRECTORY
    return Path(environment.get("XDG_STATE_HOME") or Path(environment.get("HOME") or "/", ".local/state"), "plimsoll")


def default_socket(environment: Mapping[str, str], *, uid: int) -> Path:
    """Return where the control socket is unless told; without a runtime directory it stands beside the state."""
    if uid == 0:
        return RUNTIME_DIRECTORY / "agent.sock"
    runtime = environment.get("XDG_RUNTIME_DIR")
    return (Path(runtime, "plimsoll") if runtime else default_state_directory(environment, uid=uid)) / "agent.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How often which files are read."""

    interval_seconds: Annotated[float, Between(0.1, 60)] = 1.0
    """Seconds between two sweeps over all containers; 1 s shows bursts that 15 s scrapes hide."""
    slow_interval_seconds: Annotated[float, Between(1, 600)] = 10.0
    """Seconds between two reads of the dear files, memory.stat only where it may have moved; memory windows' rows."""
    fast_lane_hz: Annotated[float, Between(0, 20)] = 4.0
    """Reads a second of a few pressure totals, so that contention starts a sweep early; 0 = off."""
    relist_seconds: Annotated[float, Between(1, 3600)] = 30.0
    """Seconds between two looks for what inotify missed, by link counts; each twentieth lists the whole tree."""
    retry_absent_seconds: Annotated[float, Between(1, 3600)] = 60.0
    """Seconds until absent files are tried again, and limits, and memory.stat of cgroups at rest, are read anew."""
    sweep_budget_seconds: Annotated[float, Between(0.001, 10)] = 0.05
    """Seconds of CPU time a sweep may take; when it overruns, the rate is halved. 5 % of a core at 1 Hz."""
    max_containers: Annotated[int, Between(1, 20_000)] = 1000
    """Cgroups watched at most; the rings' file is sized for it. Kubernetes asks for 110 pods a node."""
    open_files_reserve: Annotated[int, Between(16, 65_536)] = 256
    """File descriptors kept free for everything but the sampler: scrapes, sockets, logs."""
    sampler: SamplerChoice = SamplerChoice.AUTO
    """auto takes the C sampler and falls back to plain Python; native insists; reference is plain Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Over which time figures are taken, and when a window is believed."""

    cpu_window_seconds: Annotated[float, Between(10, 3600)] = 600.0
    """Seconds of CPU readings behind a figure."""
    memory_window_seconds: Annotated[float, Between(60, 86_400)] = 1800.0
    """Seconds of memory readings behind a figure."""
    rate_window_seconds: Annotated[float, Between(1, 3600)] = 60.0
    """Seconds over which one CPU rate is taken; it slides by the tick, so a window holds hundreds of rates."""
    percentile: Annotated[float, Between(0.01, 1)] = 0.75
    """The sustained demand, 0..1: 0.75 is P75."""
    max_gap_ratio: Annotated[float, Between(0, 1)] = 0.2
    """Share of a window that may be gap, 0..1; beyond it there is no figure."""
    tolerance_ratio: Annotated[float, Between(0, 1)] = 0.05
    """Excess over the node's CPUs put down to timestamp jitter, 0..1; beyond it a rate is implausible."""
    max_step_seconds: Annotated[float, Between(0.2, 600)] = 5.0
    """Seconds between two readings beyond which there is a gap and no rate; at least 2 x the interval."""


class ColdFileChoice(StrEnum):
    """What becomes of file cache that nobody came back for."""

    REPORT = "report"
    EXCLUDE = "exclude"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """What counts as memory in use."""

    cold_file: ColdFileChoice = ColdFileChoice.REPORT
    """report shows file cache that nobody came back for; exclude also requests none for it, and lowers no limit."""
    cold_file_window_seconds: Annotated[float, Between(60, 7200)] = 1800.0
    """Seconds in which nobody came back, no less than windows.memoryWindowSeconds; an hour: 9 MiB of 250 containers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupSettings:
    """Where the cgroup tree is and which part of it counts."""

    mount: Annotated[Path | None, Unset("the cgroup v2 mount of this machine")] = None
    """Mount point of cgroup v2, for instance /host/sys/fs/cgroup in a pod."""
    root: str = "/"
    """The kubelet's --cgroup-root, as a path inside the tree."""
    scope: ScopeChoice = ScopeChoice.AUTO
    """kubernetes watches pods, machine services and sessions, auto pods where there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    """What survives a restart."""

    directory: Annotated[
        Path | None,
        Unset("/var/lib/plimsoll for root, else $XDG_STATE_HOME/plimsoll", none_means="all in memory only"),
    ] = field(default_factory=lambda: default_state_directory(os.environ, uid=os.geteuid()))
    """Directory of history, ledger and log; a restarted agent goes on where it was."""
    rings_directory: Annotated[
        Path | None, Unset("/run/plimsoll where state.directory is /var/lib/plimsoll, else state.directory")
    ] = None
    """Directory of the rings, best in memory: they are written again and again, and mean nothing after a reboot."""

    @property
    def directory_of_rings(self) -> Path | None:
        """Return where the rings are; None = in memory, without a file."""
        if self.directory is None or self.rings_directory is not None:
            return None if self.directory is None else self.rings_directory
        return RUNTIME_DIRECTORY if self.directory == STATE_DIRECTORY else self.directory


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """Where the agent answers."""

    address: str = "127.0.0.1"
    """IPv4 or IPv6 address for /metrics, /healthz and /readyz; 0.0.0.0 or :: is every interface."""
    port: Annotated[int, Between(0, 65_535)] = 9473
    """TCP port of the same; 0 = any free one, told in the log."""
    socket: Annotated[
        Path | None,
        Unset("/run/plimsoll/agent.sock for root, else $XDG_RUNTIME_DIR/plimsoll/agent.sock", none_means="no socket"),
    ] = field(default_factory=lambda: default_socket(os.environ, uid=os.geteuid()))
    """Unix socket that `plimsoll top` and the other verbs ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """What /metrics says."""

    per_container: bool = False
    """Series for each container too (up to 19 each); dear for Prometheus on large clusters, so off."""
    per_workload: bool = False
    """Series of how good sizing was for each container of a workload too (up to 48 each); dear as well, so off."""
    max_series: Annotated[int, Between(0, 1_000_000)] = 20_000
    """Series of containers, and of workloads, on a page at most; plimsoll_series_dropped counts what is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """What is logged and how."""

    level: LogLevel = LogLevel.INFO
    """Lowest level written."""
    format: LogFormat = LogFormat.AUTO
    """auto writes text to a terminal and JSON elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendSettings:
    """What is recommended, and when an answer is believed."""

    policy: PolicyName = PolicyName.PLIMSOLL
    """The policy that sizes; plimsoll simulate tells on recordings which would have been best."""
    min_span_seconds: Annotated[float, Between(0, 86_400)] = 600.0
    """Seconds a container must have been measured before anything is recommended for it."""
    max_age_seconds: Annotated[float, Between(5, 3600)] = 60.0
    """Seconds since the newest reading beyond which nothing is recommended: the container may be gone."""


class ApiChoice(StrEnum):
    """Whether the Kubernetes API is the pod source."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """How the API server is reached."""

    api: ApiChoice = ApiChoice.AUTO
    """auto asks the API server in a pod, or with a kubeconfig and no pods file; on insists; off never asks."""
    kubeconfig: Annotated[Path | None, Unset("the pod's own service account")] = None
    """A kubeconfig file; its current context is taken."""
    request_timeout_seconds: Annotated[float, Between(0.5, 60)] = 10.0
    """Seconds for one call; watches last longer."""
    require_node_claim: bool = True
    """Write only with a token that names this node (a pod's own does from Kubernetes 1.32 on); else recommend only."""
    events: bool = True
    """Report resizes as Kubernetes Events on the pods, at most a few a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSettings:
    """What is reported to the central webhook."""

    url: Annotated[str | None, Unset("nothing is reported")] = None
    """The webhook, https://HOST[:PORT]: histories go there, and what other nodes know comes back."""
    interval_seconds: Annotated[float, Between(60, 600)] = 300.0
    """Seconds that one report covers; each node has moments of its own, so that they do not report all at once."""
    token_file: Annotated[Path | None, Unset("no token is sent")] = None
    """A token whose audience is the webhook and which names this node; read again whenever it changes."""
    ca_file: Annotated[Path | None, Unset("the authorities that this machine trusts")] = None
    """Certificates of the webhook's authority; read again with each connection."""
    timeout_seconds: Annotated[float, Between(0.5, 60)] = 10.0
    """Seconds to connect, and again for each pause in an answer."""
    queue_bytes: Annotated[int, Between(65_536, 1 << 30)] = 16 * 1024 * 1024
    """Bytes of unsent reports on disk at most (2 MiB without a state directory); 250 containers fill this in a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the agent; each part is handed its own section and no more."""

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    windows: WindowSettings = field(default_factory=WindowSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    cgroup: CgroupSettings = field(default_factory=CgroupSettings)
    state: StateSettings = field(default_factory=StateSettings)
    serving: ServingSettings = field(default_factory=ServingSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
    recommend: RecommendSettings = field(default_factory=RecommendSettings)
    bounds: BoundsOptions = field(default_factory=BoundsOptions)
    cruise: CruiseOptions = field(default_factory=CruiseOptions)
    vpa: VpaOptions = field(default_factory=VpaOptions)
    crane: CraneOptions = field(default_factory=CraneOptions)
    sizing: SizingOptions = field(default_factory=SizingOptions)
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    plan: PlanOptions = field(default_factory=PlanOptions)
    workloads: WorkloadOptions = field(default_factory=WorkloadOptions)
    act: ActOptions = field(default_factory=ActOptions)
    guard: GuardOptions = field(default_factory=GuardOptions)
    overload: OverloadOptions = field(default_factory=OverloadOptions)
    pod_limits: PodLimitsOptions = field(default_factory=PodLimitsOptions)
    report: ReportSettings = field(default_factory=ReportSettings)
    propose: ProposeOptions = field(default_factory=ProposeOptions)
    profile: Profile = Profile.DEFAULT
    """document = where no setting says otherwise, as the CruiseKube document writes: literal fit, this hour only,
    5-minute rates, overload by load alone, memory limits exactly 2 x what was seen. For agent and webhook alike."""
    evaluate_interval_seconds: Annotated[float, Between(0.1, 3600)] = 60.0
    """Seconds between two evaluations of all windows, for metrics and minute rows; below 1 is for tests."""
    pods_file: Annotated[Path | None, Unset("no names of pods, only what cgroups tell")] = None
    """A PodList as JSON or YAML (kubectl get pods -o json): gives names, requests and limits."""
    cluster_pause_file: Annotated[Path | None, Unset("no file tells of the cluster's pause")] = None
    """The ConfigMap's key ``pause``, mounted: nothing is written while it says ``true`` or why, or is unreadable."""
    cluster_pause_config_map: Annotated[str | None, Unset("no ConfigMap is watched")] = None
    """NAMESPACE/NAME of that ConfigMap, watched: its pause is heard within a second, and its end too. The file and the
    webhook's answers tell of a pause beside it, whatever becomes of the watch."""
    node_name: Annotated[str | None, Unset("the host name")] = None
    """The node's name in Kubernetes."""

    def to_dict(self) -> dict[str, object]:
        """Return all values under their keys in the file, as plain JSON values; for the log line at the start."""
        return {camel(setting.name): _plain(getattr(self, setting.name)) for setting in fields(self)}

    def of_profile(self) -> tuple[ProfileSetting, ...]:
        """Return the settings that the profile is about, as they are in force."""
        return profile_settings(self.profile, self.to_dict())


def _plain(value: object) -> object:
    if is_dataclass(value):
        return {camel(setting.name): _plain(getattr(value, setting.name)) for setting in fields(value)}
    return str(value) if isinstance(value, (Path, StrEnum)) else value

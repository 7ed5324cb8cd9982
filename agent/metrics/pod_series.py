"""The series of whole pods and of QoS tiers: tiers always, pods where series of single containers are wanted too.

Metrics. They are measured at each slow tick in cgroups of their own, not added up. Here millicores become cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from agent.core.cluster.unit import tier_name
from agent.core.window.snapshot import PodStatus, UnitStatus
from agent.metrics.container_series import escaped

Figures = Callable[[UnitStatus], tuple[float | None, ...]]
P75_AND_PEAK: Final = ("0.75", "1")
_QUANTILES: Final = "0.75 is the sustained use, 1 the peak"


@dataclass(frozen=True, slots=True)
class _Family:
    stem: str
    """What follows ``plimsoll_tier_`` or ``plimsoll_pod_``; it ends in the unit."""
    text: str
    figures: Figures
    quantiles: tuple[str, ...] = ()
    """One for each figure; empty = there is one, without a quantile."""


FAMILIES: Final = (
    _Family(
        "cpu_usage_cores",
        f"CPU use over the CPU window; {_QUANTILES}.",
        lambda unit: (_cores(unit.cpu.usage_p75_millicores), _cores(unit.cpu.usage_peak_millicores)),
        P75_AND_PEAK,
    ),
    _Family(
        "cpu_waiting_ratio",
        "Share of the CPU window in which some task in it waited for a CPU, its own throttling taken out.",
        lambda unit: (unit.cpu.waiting_ratio,),
    ),
    _Family(
        "cpu_throttled_ratio",
        "Time in which its own cpu.max held tasks back, per second of the CPU window, at most 1.",
        lambda unit: (unit.cpu.throttled_ratio,),
    ),
    _Family(
        "memory_working_set_bytes",
        f"memory.current less inactive_file over the memory window; {_QUANTILES}.",
        lambda unit: (unit.memory.working_set_p75_bytes, unit.memory.working_set_peak_bytes),
        P75_AND_PEAK,
    ),
    _Family(
        "memory_peak_bytes",
        "memory.peak: the most since the cgroup was made, page cache included.",
        lambda unit: (unit.memory.lifetime_peak_bytes,),
    ),
    _Family(
        "memory_limit_bytes",
        "Its own memory.max; absent where there is no limit.",
        lambda unit: (unit.memory_max_bytes,),
    ),
    _Family(
        "memory_stalled_ratio",
        "Share of the memory window in which some task in it waited for memory.",
        lambda unit: (unit.memory.pressure_some_ratio,),
    ),
    _Family(
        "oom_kills",
        "Out-of-memory kills in it within the memory window.",
        lambda unit: (unit.memory.oom_kills,),
    ),
)
"""Of a tier and of a pod alike."""
_ITSELF: Final[tuple[tuple[str, str, Callable[[PodStatus], float | None]], ...]] = (
    (
        "plimsoll_pod_itself_cpu_usage_cores",
        "CPU use of the newest minute in none of the pod's containers.",
        lambda pod: _cores(pod.itself_cpu_millicores),
    ),
    (
        "plimsoll_pod_itself_memory_working_set_bytes",
        "Working set in none of the pod's containers: a shim, files in memory of containers that have ended.",
        lambda pod: pod.itself_working_set_bytes,
    ),
)
SERIES_PER_POD: Final = sum(len(family.quantiles) or 1 for family in FAMILIES) + len(_ITSELF)


class TierSeries:
    """The newest figures of ``kubepods`` and the QoS tiers, as a registry asks for them; any thread."""

    def __init__(self) -> None:
        self._tiers: Sequence[UnitStatus] = ()

    def publish(self, tiers: Sequence[UnitStatus]) -> None:
        """Record the newest figures."""
        self._tiers = tiers

    def collect(self) -> Iterable[Metric]:
        """Return the series."""
        tiers = {tier_name(tier.identity.cgroup_path): tier for tier in self._tiers}
        for about in FAMILIES:
            labels = ("tier", "quantile") if about.quantiles else ("tier",)
            family = GaugeMetricFamily(f"plimsoll_tier_{about.stem}", about.text, labels=labels)
            for name, tier in tiers.items():
                for place, figure in enumerate(about.figures(tier)):
                    if figure is not None:
                        family.add_metric((name, *about.quantiles[place : place + 1]), figure)
            yield family


def pods_text(pods: Sequence[PodStatus], *, max_series: int, openmetrics: bool = False) -> tuple[str, int]:
    """Write all families over all pods, joined by hand as those of containers are.

    Returns:
        The text, empty without pods; and how many series at most were left out because of the cap: those of pods
        without a name, of the same name as another, and of the last ones in order of namespace and name.
    """
    named = {_labels(pod): pod for pod in pods if pod.whole.identity.pod is not None}
    shown = [(f'namespace="{escaped(key[0])}",pod="{escaped(key[1])}"', named[key]) for key in sorted(named)]
    shown = shown[: max_series // SERIES_PER_POD]
    dropped = (sum(pod.whole.identity.pod is not None for pod in pods) - len(shown)) * SERIES_PER_POD
    parts: list[str] = []
    for about in FAMILIES:
        name = f"plimsoll_pod_{about.stem}"
        lines: list[str] = []
        for labels, pod in shown:
            for place, figure in enumerate(about.figures(pod.whole)):
                if figure is not None:
                    quantile = f',quantile="{about.quantiles[place]}"' if about.quantiles else ""
                    lines.append(f"{name}{{{labels}{quantile}}} {figure!r}\n")
        parts += _family_text(name, about.text, lines, openmetrics=openmetrics)
    for name, text, own_figure in _ITSELF:
        known = ((labels, own_figure(pod)) for labels, pod in shown)
        lines = [f"{name}{{{labels}}} {figure!r}\n" for labels, figure in known if figure is not None]
        parts += _family_text(name, text, lines, openmetrics=openmetrics)
    return "".join(parts), dropped


def _family_text(name: str, text: str, lines: Sequence[str], *, openmetrics: bool) -> Sequence[str]:
    if not lines:
        return ()
    unit = name.rpartition("_")[2]
    has_unit = openmetrics and unit in ("cores", "bytes", "ratio")
    return (f"# HELP {name} {text}\n# TYPE {name} gauge\n", f"# UNIT {name} {unit}\n" if has_unit else "", *lines)


def _labels(pod: PodStatus) -> tuple[str, str]:
    identity = pod.whole.identity
    return identity.namespace or "", identity.pod or ""


def _cores(millicores: float | None) -> float | None:
    return None if millicores is None else millicores / 1000

"""CPU amounts as the kernel's knobs carry them: shares, weight, quota, ``cpu.max``. Core, pure.

Every division is an integer division that truncates, as in the kubelet; where a logarithm is needed (the newer weight
formula) it is taken in double precision, as the runtimes do.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from agent.core.numbers.units import divide_truncating

MIN_SHARES = 2
MAX_SHARES = 262_144
SHARES_PER_CPU = 1024
MAX_WEIGHT = 10_000
DEFAULT_PERIOD_USEC = 100_000
MIN_QUOTA_USEC = 1000
"""The kernel takes no smaller quota (kernel/sched/core.c)."""
NO_QUOTA_USEC = -1
"""What the kubelet passes for "no limit"; the file then says ``max``."""
SYSTEMD_QUOTA_STEP_USEC = 10_000
"""systemd keeps whole percents of one CPU: 10 ms per second."""

_WEIGHT_STEPS = MAX_WEIGHT - 1
_SHARE_STEPS = MAX_SHARES - MIN_SHARES
_USEC_PER_SECOND = 1_000_000
_SIGNED = re.compile(r"[+-]?[0-9]+\Z")
_UNSIGNED = re.compile(r"[0-9]+\Z")


class CpuMaxError(ValueError):
    """Text that is not the content of a ``cpu.max`` file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuMax:
    """The content of a ``cpu.max`` file."""

    quota_usec: int | None
    """CPU time per period; None = ``max``, no limit."""
    period_usec: int

    @property
    def millicores(self) -> int | None:
        """Return the limit in millicores, rounded down; None = no limit."""
        return None if self.quota_usec is None else quota_to_millicores(self.quota_usec, self.period_usec)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdQuota:
    """A quota after systemd has rounded it."""

    quota_per_second_usec: int | None
    """The unit's CPUQuotaPerSecUSec; None = infinity."""
    cpu_max_quota_usec: int
    """What lands in ``cpu.max``; -1 = ``max``."""


def millicores_to_shares(millicores: int) -> int:
    """Return cpu.shares for a CPU request; 0 and less give the kernel's minimum of 2.

    Source:
        ``MilliCPUToShares`` of the kubelet's cm/helpers_linux.go.
    """
    return min(max(millicores * SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES)


def shares_to_millicores(shares: int) -> int:
    """Return the millicores that cpu.shares stand for, rounded up; below the minimum of 2 shares for none."""
    return -(-shares * 1000 // SHARES_PER_CPU) if shares >= MIN_SHARES else 0


def millicores_to_quota(millicores: int, period_usec: int = DEFAULT_PERIOD_USEC) -> int:
    """Return the CFS quota for a CPU limit in microseconds; 0 = leave unset, otherwise at least 1000.

    Source:
        ``MilliCPUToQuota`` of the kubelet's cm/helpers_linux.go.
    """
    if millicores == 0:
        return 0
    return max(millicores * period_usec // 1000, MIN_QUOTA_USEC)


def quota_to_millicores(quota_usec: int, period_usec: int) -> int:
    """Return the millicores a quota stands for, truncated; 0 = no limit (a quota of -1).

    Raises:
        ZeroDivisionError: The period is 0, which no kernel shows.
    """
    if quota_usec == NO_QUOTA_USEC:
        return 0
    return divide_truncating(quota_usec * 1000, period_usec)


def shares_to_weight_linear(shares: int) -> int:
    """Return cpu.weight by the linear formula: what the kubelet writes on kubepods, QoS levels and pods.

    Args:
        shares: cpu.shares; 0 = unset and stays 0.

    Source:
        ``getCPUWeight`` of the kubelet's cm/cgroup_manager_linux.go; KEP-2254.
    """
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    if shares <= MIN_SHARES:
        return min(shares, 1)
    return 1 + (shares - MIN_SHARES) * _WEIGHT_STEPS // _SHARE_STEPS


def shares_to_weight_quadratic(shares: int) -> int:
    """Return cpu.weight by the quadratic formula: what runc >= 1.3.2 and crun >= 1.23 write on containers.

    Args:
        shares: cpu.shares; 0 = unset and stays 0.

    Source:
        ``ConvertCPUSharesToCgroupV2Value`` of opencontainers/cgroups. Fixed points: 2 -> 1, 1024 -> 100,
        262144 -> 10000.
    """
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    if shares <= MIN_SHARES:
        return min(shares, 1)
    log = math.log2(shares)
    return math.ceil(math.pow(10.0, (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0))


def weight_to_shares_linear(weight: int) -> int:
    """Return the cpu.shares that the kubelet reads back from a cpu.weight of 1 to 10000."""
    return (weight - 1) * _SHARE_STEPS // _WEIGHT_STEPS + MIN_SHARES


def shares_match_after_round_trip(allocated_shares: int, read_back_shares: int) -> bool:
    """Return whether shares read back through the coarse linear weight are what was allocated."""
    return weight_to_shares_linear(shares_to_weight_linear(allocated_shares)) == read_back_shares


def systemd_quota(quota_usec: int, period_usec: int) -> SystemdQuota:
    """Round a quota as systemd's cgroup driver does: up to whole percents of one CPU.

    Args:
        quota_usec: 0 or -1 = no limit.
        period_usec: 0 = the default of 100 ms.

    Source:
        ``addCPUQuota`` of opencontainers/cgroups systemd/common.go: the rounded value is also what lands in
        cpu.max, but a quota that needs no rounding is passed on as it came.
    """
    if quota_usec <= 0:
        return SystemdQuota(quota_per_second_usec=None, cpu_max_quota_usec=NO_QUOTA_USEC)
    period_usec = period_usec or DEFAULT_PERIOD_USEC
    per_second_usec = quota_usec * _USEC_PER_SECOND // period_usec
    if per_second_usec % SYSTEMD_QUOTA_STEP_USEC == 0:
        return SystemdQuota(quota_per_second_usec=per_second_usec, cpu_max_quota_usec=quota_usec)
    per_second_usec = (per_second_usec // SYSTEMD_QUOTA_STEP_USEC + 1) * SYSTEMD_QUOTA_STEP_USEC
    return SystemdQuota(
        quota_per_second_usec=per_second_usec, cpu_max_quota_usec=per_second_usec * period_usec // _USEC_PER_SECOND
    )


def parse_cpu_max(text: str) -> CpuMax:
    """Read the content of a ``cpu.max`` file: ``QUOTA PERIOD`` or ``max PERIOD``.

    Raises:
        CpuMaxError: Fewer than two fields, a field that is no number of 64 bits, or a period of 0.

    Source:
        cgroup-v2.rst; the kubelet's cm/cgroup_v2_manager_linux.go (which also passes over anything after the period).
    """
    lines = text.strip().splitlines()
    fields = lines[0].split() if lines else []
    if len(fields) < 2:
        msg = f"cpu.max: {text!r} is not 'QUOTA PERIOD' or 'max PERIOD'"
        raise CpuMaxError(msg)
    quota, period = fields[:2]
    if quota != "max" and not (_SIGNED.match(quota) and -(1 << 63) <= int(quota) < 1 << 63):
        msg = f"cpu.max: quota {quota!r} is neither a whole number of 64 bits nor 'max'"
        raise CpuMaxError(msg)
    if not _UNSIGNED.match(period) or not 0 < int(period) < 1 << 64:
        msg = f"cpu.max: period {period!r} is not a whole number of 64 bits above 0"
        raise CpuMaxError(msg)
    quota_usec = None if quota == "max" or int(quota) == NO_QUOTA_USEC else int(quota)
    return CpuMax(quota_usec=quota_usec, period_usec=int(period))

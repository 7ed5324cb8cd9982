"""One value that should be in a cgroup's file against the one that is. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.core.machine.cgroup_files import Amount, FileReading, Unlimited, UnreadFile
from agent.core.machine.cpu_knobs import (
    CpuMax,
    shares_match_after_round_trip,
    shares_to_millicores,
    shares_to_weight_linear,
    shares_to_weight_quadratic,
    systemd_quota,
    weight_to_shares_linear,
)
from agent.core.numbers.units import INT64_MAX


class State(StrEnum):
    """How a value stands against what it should be."""

    EQUAL = "equal"
    DRIFTED = "drifted"
    NOT_THERE = "not there"
    UNKNOWN = "unknown"


class Formula(StrEnum):
    """Which formula a cpu.weight follows."""

    LINEAR = "linear"
    """The kubelet's own; runc up to 1.3.1, crun before 1.23."""
    QUADRATIC = "quadratic"
    """runc from 1.3.2, crun from 1.23."""
    EITHER = "either"
    """Both give this weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A cpu.weight that should be there."""

    shares: int
    takes_quadratic: bool
    """A runtime writes it, of whatever version; the kubelet's own are linear."""

    @property
    def linear(self) -> int:
        """Return the weight by the linear formula."""
        return shares_to_weight_linear(self.shares)

    @property
    def quadratic(self) -> int | None:
        """Return the weight by the quadratic formula; None = it does not count here."""
        return shares_to_weight_quadratic(self.shares) if self.takes_quadratic else None

    def formula_of(self, weight: int) -> Formula | None:
        """Return which formula gives this weight; None = none that counts here."""
        is_linear = shares_match_after_round_trip(self.shares, weight_to_shares_linear(weight))
        if weight == self.quadratic:
            return Formula.EITHER if is_linear else Formula.QUADRATIC
        return Formula.LINEAR if is_linear else None


Target = Amount | Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValue:
    """Another value that is right as well, and why."""

    target: Target
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedValue:
    """What should be in a file."""

    file: str
    target: Target | None
    """None = it cannot be told; ``doubt`` says why."""
    is_written: bool = True
    """False = nobody writes it and the target is the kernel's default: a file that is missing is then no finding."""
    granule_bytes: int = 1
    """The kernel rounds the amount down to a multiple of these."""
    at_least: bool = False
    """More, or no limit, is as good."""
    accepted: tuple[AcceptedValue, ...] = ()
    doubt: str | None = None
    """Why another value proves nothing."""
    hint: str | None = None
    """What may explain another value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonOutcome:
    """The answer for one file."""

    state: State
    target: Target | None
    """Which target was compared in the end."""
    found: Amount | None
    formula: Formula | None = None
    difference: float | None = None
    """Found minus expected in the unit of the file (``cpu.max``: millicores); None = equal, or one has no limit."""
    note: str | None = None


def compare(wanted: WantedValue, reading: FileReading, *, is_systemd: bool) -> ComparisonOutcome | None:
    """Compare a file with what should be in it; where systemd keeps the cgroups, a quota as it rounds is right too.

    Returns:
        None = there is nothing to compare: no file, and nothing that should be in it.
    """
    amount = reading.amount
    if amount is None:
        if not wanted.is_written:
            return None
        cannot_know = reading.unread in (UnreadFile.UNREADABLE, UnreadFile.NOT_UNDERSTOOD)
        return ComparisonOutcome(
            state=State.UNKNOWN if cannot_know else State.NOT_THERE,
            target=wanted.target,
            found=None,
            note=reading.unread,
        )
    if wanted.target is None:
        return ComparisonOutcome(state=State.UNKNOWN, target=None, found=amount, note=wanted.doubt)
    choices = ((wanted.target, None), *((other.target, other.note) for other in wanted.accepted))
    for target, note in choices:
        if _matches(target, amount, wanted, is_systemd=is_systemd):
            formula = target.formula_of(amount) if isinstance(target, Weights) and isinstance(amount, int) else None
            note = note or _rounding_note(target, amount)
            return ComparisonOutcome(state=State.EQUAL, target=target, found=amount, formula=formula, note=note)
    return ComparisonOutcome(
        state=State.DRIFTED if wanted.doubt is None else State.UNKNOWN,
        target=wanted.target,
        found=amount,
        difference=_difference(wanted.target, amount),
        note=wanted.doubt or wanted.hint or _request_note(wanted.target, amount),
    )


def _matches(target: Target, amount: Amount, wanted: WantedValue, *, is_systemd: bool) -> bool:
    if isinstance(target, Weights):
        return isinstance(amount, int) and target.formula_of(amount) is not None
    if isinstance(target, CpuMax):
        return isinstance(amount, CpuMax) and _is_same_quota(target, amount, is_systemd=is_systemd)
    if isinstance(target, Unlimited):
        return amount is target
    if isinstance(amount, int):
        return amount in (target, target // wanted.granule_bytes * wanted.granule_bytes) or (
            wanted.at_least and amount >= target
        )
    # The kernel shows what is beyond its counters as no limit.
    return amount is Unlimited.MAX and (wanted.at_least or target > INT64_MAX - wanted.granule_bytes)


def _is_same_quota(target: CpuMax, cpu_max: CpuMax, *, is_systemd: bool) -> bool:
    if target.quota_usec == cpu_max.quota_usec:
        return target.quota_usec is None or target.period_usec == cpu_max.period_usec
    if not is_systemd or target.quota_usec is None or target.period_usec != cpu_max.period_usec:
        return False
    return cpu_max.quota_usec == systemd_quota(target.quota_usec, target.period_usec).cpu_max_quota_usec


def _rounding_note(target: Target, amount: Amount) -> str | None:
    if isinstance(target, CpuMax) and isinstance(amount, CpuMax) and target.quota_usec != amount.quota_usec:
        return "within systemd's rounding to whole percents of a CPU"
    return None


def _request_note(target: Target, amount: Amount) -> str | None:
    if not isinstance(target, Weights) or not isinstance(amount, int):
        return None
    return f"the weight of a CPU request of {shares_to_millicores(weight_to_shares_linear(amount))}m"


def _difference(target: Target, amount: Amount) -> float | None:
    if isinstance(target, Weights) and isinstance(amount, int):
        known = [weight for weight in (target.linear, target.quadratic) if weight is not None]
        return amount - min(known, key=lambda weight: abs(amount - weight))
    if isinstance(target, CpuMax) and isinstance(amount, CpuMax):
        if target.quota_usec is None or amount.quota_usec is None:
            return None
        return amount.quota_usec * 1000 / amount.period_usec - target.quota_usec * 1000 / target.period_usec
    return amount - target if isinstance(target, int) and isinstance(amount, int) else None

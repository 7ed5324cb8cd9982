"""What the ledger holds, as bodies of answers, and who may see what. Webhook. Amounts are means over an hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Final

import msgspec

from agent.core.history.workloads.usage_ledger import LedgerAmounts, LedgerHour
from agent.webhook.http.access import Scope
from agent.webhook.reports.bodies import Body
from agent.webhook.store.records.usage_ledger import LedgerMargins, LedgerSum

_MILLI: Final = 1000
_MINUTE_SECONDS: Final = 60
_DECIMALS: Final = 2
_MOST_NAMES: Final = 500


class ScopeBody(Body, kw_only=True):
    """What of the cluster the asker may see, and so what the answer is about."""

    whole_cluster: bool
    namespaces: int | None = None
    """Whose pods the asker may list; null = the whole cluster."""
    of_namespaces: int | None = None
    """How many there are."""
    names: list[str] = msgspec.field(default_factory=list)
    """The asker's own."""
    words: str


class LedgerCpuBody(Body, kw_only=True):
    """CPU of all pods together in one hour; null = not known."""

    written_millicores: int | None
    """As the pods' authors wrote it."""
    requested_millicores: int | None
    recommended_millicores: int | None
    used_mean_millicores: int | None
    used_p95_millicores: int | None
    """Of each container the P95 of all its pods' samples, times the pods."""
    short_minutes: float | None
    """Of containers, with more used than requested."""


class LedgerMemoryBody(Body, kw_only=True):
    """Memory, likewise."""

    written_bytes: int | None
    requested_bytes: int | None
    recommended_bytes: int | None
    used_mean_bytes: int | None
    used_p95_bytes: int | None
    short_minutes: float | None


class LedgerHourBody(Body, kw_only=True):
    """One workload in one UTC hour."""

    unix_hour: int
    """Hours since 1970."""
    pods: float
    """Mean number."""
    cpu: LedgerCpuBody
    memory: LedgerMemoryBody
    kills: int
    """For want of memory."""


class LedgerSumBody(Body, kw_only=True):
    """Several workloads in one hour, or in the mean hour of a day; amounts are sums of what is known."""

    unix_hour: int | None
    """null = of a day."""
    pods: float
    cpu: LedgerCpuBody
    memory: LedgerMemoryBody
    kills: int
    """In the hour, or in the whole day."""
    workloads: int
    without_requested: int
    """Workloads of which what they request is not known."""
    without_recommended: int
    freed_cpu_millicores: int
    """Written above what is requested; this and the next are never netted with one another."""
    possible_cpu_millicores: int
    """Requested above what is recommended."""
    needed_cpu_millicores: int
    """Recommended above what is requested."""
    freed_memory_bytes: int
    possible_memory_bytes: int
    needed_memory_bytes: int


def scope_body(scope: Scope) -> ScopeBody:
    """Return what of the cluster somebody may see; the names of others are not told."""
    if scope.namespaces is None:
        return ScopeBody(whole_cluster=True, words="the whole cluster")
    count, known = len(scope.namespaces), scope.known_namespaces
    return ScopeBody(
        whole_cluster=False,
        namespaces=count,
        of_namespaces=known,
        names=sorted(scope.namespaces)[:_MOST_NAMES],
        words=f"{count} of {known} namespaces {'is' if count == 1 else 'are'} yours",
    )


def hour_body(hour: LedgerHour) -> LedgerHourBody:
    """Return a row."""
    return LedgerHourBody(
        unix_hour=hour.unix_hour,
        pods=round(hour.pods_milli / _MILLI, _DECIMALS),
        cpu=_cpu(hour.cpu),
        memory=_memory(hour.memory),
        kills=hour.kills,
    )


def sum_body(total: LedgerSum, unix_hour: int | None) -> LedgerSumBody:
    """Return a sum, of several hours their mean."""
    hours = max(total.hours, 1)
    return LedgerSumBody(
        unix_hour=unix_hour,
        pods=round(total.pods_milli / _MILLI / hours, _DECIMALS),
        cpu=_cpu(_shared(total.cpu, hours)),
        memory=_memory(_shared(total.memory, hours)),
        kills=total.kills,
        workloads=total.workloads,
        without_requested=total.without_requested,
        without_recommended=total.without_recommended,
        freed_cpu_millicores=total.cpu_margins.freed // hours,
        possible_cpu_millicores=total.cpu_margins.possible // hours,
        needed_cpu_millicores=total.cpu_margins.needed // hours,
        freed_memory_bytes=total.memory_margins.freed // hours,
        possible_memory_bytes=total.memory_margins.possible // hours,
        needed_memory_bytes=total.memory_margins.needed // hours,
    )


def added(sums: Iterable[LedgerSum]) -> LedgerSum | None:
    """Add up sums of the same hours; None = there are none."""
    every = list(sums)
    if not every:
        return None
    return LedgerSum(
        hours=max(ledger_sum.hours for ledger_sum in every),
        workloads=sum(ledger_sum.workloads for ledger_sum in every),
        without_requested=sum(ledger_sum.without_requested for ledger_sum in every),
        without_recommended=sum(ledger_sum.without_recommended for ledger_sum in every),
        pods_milli=sum(ledger_sum.pods_milli for ledger_sum in every),
        cpu=_amounts(ledger_sum.cpu for ledger_sum in every),
        memory=_amounts(ledger_sum.memory for ledger_sum in every),
        kills=sum(ledger_sum.kills for ledger_sum in every),
        cpu_margins=_margins([ledger_sum.cpu_margins for ledger_sum in every]),
        memory_margins=_margins([ledger_sum.memory_margins for ledger_sum in every]),
    )


def _margins(every: Sequence[LedgerMargins]) -> LedgerMargins:
    return LedgerMargins(
        freed=sum(margins.freed for margins in every),
        possible=sum(margins.possible for margins in every),
        needed=sum(margins.needed for margins in every),
    )


def _amounts(every: Iterable[LedgerAmounts]) -> LedgerAmounts:
    listed = list(every)
    known = {
        field.name: [amount for ledger_amounts in listed if (amount := getattr(ledger_amounts, field.name)) is not None]
        for field in fields(LedgerAmounts)
    }
    return LedgerAmounts(**{name: sum(amounts) if amounts else None for name, amounts in known.items()})


def _shared(amounts: LedgerAmounts, hours: int) -> LedgerAmounts:
    """Return amounts of several hours as those of their mean; what was short stays whole."""
    if hours == 1:
        return amounts
    return LedgerAmounts(
        written=_part(amounts.written, hours),
        requested=_part(amounts.requested, hours),
        recommended=_part(amounts.recommended, hours),
        used=_part(amounts.used, hours),
        used_p95=_part(amounts.used_p95, hours),
        short_seconds=amounts.short_seconds,
    )


def _part(amount: int | None, hours: int) -> int | None:
    return None if amount is None else round(amount / hours)


def _cpu(amounts: LedgerAmounts) -> LedgerCpuBody:
    return LedgerCpuBody(
        written_millicores=amounts.written,
        requested_millicores=amounts.requested,
        recommended_millicores=amounts.recommended,
        used_mean_millicores=amounts.used,
        used_p95_millicores=amounts.used_p95,
        short_minutes=_minutes(amounts.short_seconds),
    )


def _memory(amounts: LedgerAmounts) -> LedgerMemoryBody:
    return LedgerMemoryBody(
        written_bytes=amounts.written,
        requested_bytes=amounts.requested,
        recommended_bytes=amounts.recommended,
        used_mean_bytes=amounts.used,
        used_p95_bytes=amounts.used_p95,
        short_minutes=_minutes(amounts.short_seconds),
    )


def _minutes(seconds: int | None) -> float | None:
    return None if seconds is None else round(seconds / _MINUTE_SECONDS, _DECIMALS)

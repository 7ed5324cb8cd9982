"""Which workloads a list shows and in which order: by what a query asks for, of what the asker may see. Webhook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.cost.allocation import Figures
from agent.core.history.workloads.usage_ledger import LedgerAmounts, LedgerHour
from agent.core.orders.order import Mode
from agent.webhook.http.access import Scope
from agent.webhook.http.reader_request import BadQuestionError, limit_of, page_of
from agent.webhook.http.routes import Call
from agent.webhook.queries.standings import Severity, Standings, WorkloadStanding
from agent.webhook.workloads.shapes import WorkloadSeen

MOST_SOUGHT: Final = 100
"""Characters of ``q=``."""
BY_NAME: Final = "name"
PATTERN: Final = "NAMESPACE/KIND/NAME"
_PIECE: Final = 100

_Amount = Callable[[LedgerHour], float | None]
_Rank = tuple[float | Decimal, ...]


def _possible(amounts: LedgerAmounts) -> int | None:
    if amounts.requested is None or amounts.recommended is None:
        return None
    return max(amounts.requested - amounts.recommended, 0)


def _short(row: LedgerHour) -> float | None:
    known = [seconds for seconds in (row.cpu.short_seconds, row.memory.short_seconds) if seconds is not None]
    return max(known) if known else None


_AMOUNTS: Final[Mapping[str, _Amount]] = {
    "cpu-possible": lambda row: _possible(row.cpu),
    "memory-possible": lambda row: _possible(row.memory),
    "cpu-requested": lambda row: row.cpu.requested,
    "memory-requested": lambda row: row.memory.requested,
    "cpu-used": lambda row: row.cpu.used,
    "memory-used": lambda row: row.memory.used,
}
_COSTS: Final[Mapping[str, Callable[[Figures], Decimal]]] = {
    "cost": lambda figures: figures.cost,
    "cost-possible": lambda figures: figures.possible,
}
SORTS: Final = (BY_NAME, "short", "kills", *_AMOUNTS, *_COSTS)
_SEVERITIES: Final = {Severity.SHORT: 3, Severity.OVER: 2, Severity.FITS: 1, Severity.UNKNOWN: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWorkload:
    """One that a list shows."""

    seen: WorkloadSeen
    standing: WorkloadStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChoice:
    """What a query asks for."""

    namespace: str | None
    kind: str | None
    sought: str
    """In lower case; empty = anything."""
    mode: str | None
    severity: Severity | None
    sort: str
    is_reversed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPage:
    """A part of the list."""

    items: tuple[ListedWorkload, ...]
    total: int
    next: str | None
    by_severity: Mapping[str, int]
    """Of all that match but for the severity that was asked for."""


def choice_of(call: Call) -> WorkloadChoice:
    """Return what is asked for.

    Raises:
        BadQuestionError: It is not understood.
    """
    query = call.query
    sought = query.get("q", "")
    if len(sought) > MOST_SOUGHT:
        raise BadQuestionError(f"q: {len(sought)} characters; allowed: at most {MOST_SOUGHT}")
    severity = _one_of(query, "severity", tuple(Severity))
    return WorkloadChoice(
        namespace=query.get("namespace"),
        kind=query.get("kind"),
        sought=sought.lower(),
        mode=_one_of(query, "mode", tuple(Mode)),
        severity=None if severity is None else Severity(severity),
        sort=_one_of(query, "sort", SORTS) or BY_NAME,
        is_reversed=_one_of(query, "reverse", ("true", "false")) == "true",
    )


def page(
    call: Call,
    every: Sequence[WorkloadSeen],
    scope: Scope,
    *,
    standings: Callable[[], Standings],
    mode_of: Callable[[WorkloadSeen], str],
    cost_of: Callable[[Workload], Figures | None],
    pause: Callable[[], None] = lambda: None,
) -> WorkloadPage:
    """Return the page that a query asks for.

    Args:
        every: All workloads, by name.
        standings: How they stand; asked for once.
        mode_of: In which mode one is.
        cost_of: What one costs; None = not known.
        pause: Called between pieces of work, to let others run.

    Raises:
        BadQuestionError: It is not understood, or the workload that it goes on from is not in the list any more.
    """
    choice, now = choice_of(call), standings()
    chosen: list[ListedWorkload] = []
    counted: Counter[str] = Counter()
    for number, seen in enumerate(every):
        if number % _PIECE == _PIECE - 1:
            pause()
        if not (scope.holds(seen.workload.namespace) and _is_chosen(seen, choice, mode_of)):
            continue
        standing = now.of(seen.workload)
        counted[standing.severity] += 1
        if choice.severity in (None, standing.severity):
            chosen.append(ListedWorkload(seen=seen, standing=standing))
    by_severity = {str(severity): counted[severity] for severity in Severity}
    if choice.sort == BY_NAME and not choice.is_reversed:
        plain = page_of(call, chosen, _key, PATTERN)
        return WorkloadPage(items=plain.items, total=plain.total, next=plain.next, by_severity=by_severity)
    chosen = _sorted(chosen, choice, cost_of)
    return _part(call, chosen, by_severity)


def _is_chosen(seen: WorkloadSeen, choice: WorkloadChoice, mode_of: Callable[[WorkloadSeen], str]) -> bool:
    workload = seen.workload
    if choice.namespace not in (None, workload.namespace) or choice.kind not in (None, workload.kind):
        return False
    if choice.sought:
        texts = (f"{workload.namespace}/{workload.name}", *seen.containers)
        if not any(choice.sought in text.lower() for text in texts):
            return False
    return choice.mode is None or mode_of(seen) == choice.mode


def is_by_cost(call: Call) -> bool:
    """Return whether the order that is asked for is of money."""
    return call.query.get("sort") in _COSTS


def _sorted(
    chosen: list[ListedWorkload], choice: WorkloadChoice, cost_of: Callable[[Workload], Figures | None]
) -> list[ListedWorkload]:
    """Return them in order: largest first, those of which it is not known last whichever way; as large ones by name."""
    if choice.sort == BY_NAME:
        return chosen[::-1]
    known: list[tuple[_Rank, ListedWorkload]] = []
    unknown: list[ListedWorkload] = []
    for entry in chosen:
        if choice.sort in _COSTS:
            figures = cost_of(entry.seen.workload)
            amount: _Rank | None = None if figures is None else (_COSTS[choice.sort](figures),)
        else:
            amount = _amount(entry.standing, choice.sort)
        if amount is None:
            unknown.append(entry)
        else:
            known.append((amount, entry))
    known.sort(key=lambda pair: pair[0], reverse=not choice.is_reversed)  # stable: by name where they are alike
    return [entry for _, entry in known] + unknown


def _amount(standing: WorkloadStanding, sort: str) -> _Rank | None:
    row = standing.hour
    if row is None:
        return None
    if sort == "kills":
        return (standing.kills_week,)
    if sort == "short":
        return _SEVERITIES[standing.severity], standing.kills_week, _short(row) or 0.0
    amount = _AMOUNTS[sort](row)
    return None if amount is None else (amount,)


def _part(call: Call, chosen: Sequence[ListedWorkload], by_severity: Mapping[str, int]) -> WorkloadPage:
    limit, start = limit_of(call), 0
    after = call.query.get("after")
    if after is not None:
        start = next((number for number, entry in enumerate(chosen, 1) if "/".join(_key(entry)) == after), 0)
        if not start:
            raise BadQuestionError(
                f"after: {after[:60]!r} is not in this list; allowed: next of the page before, or begin again without"
            )
    items = tuple(chosen[start : start + limit])
    has_more = start + limit < len(chosen)
    return WorkloadPage(
        items=items,
        total=len(chosen),
        next="/".join(_key(items[-1])) if has_more else None,
        by_severity=by_severity,
    )


def _key(entry: ListedWorkload) -> tuple[str, str, str]:
    workload = entry.seen.workload
    return workload.namespace, workload.kind, workload.name


def _one_of(query: Mapping[str, str], name: str, allowed: Sequence[str]) -> str | None:
    text = query.get(name)
    if text is None or text in allowed:
        return text
    raise BadQuestionError(f"{name}: {text[:60]!r} is not allowed; allowed: {', '.join(allowed)}")

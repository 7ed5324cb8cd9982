"""Each resize that the API server saw against each that the agent decided, one by one. Pure.

The witnesses of a decision are, in this order: the decision log's line of the answer, the ledger of an agent that was
killed with the resize under way (it is on the disk before the patch is sent), and, while the disk was full, the log.
The witness of a patch is the audit log: its line of the answer, or, of a server that was killed before it wrote one,
the line that it had come.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.core.numbers.quantity import parse_quantity
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.resize.decision import Action, Decision, Outcome
from agent.node.orders.verbs import LATER
from tests.cluster.audit import Call

Amounts = frozenset[tuple[str, str, str, int]]
"""Container, resource, ``request`` or ``limit``, and the amount after it: millicores or bytes."""
RESIZES: Final = (Action.RESIZE, Action.REVERT, Action.RESTORE)
TAKEN: Final = (Outcome.ACCEPTED, Outcome.APPLIED, Outcome.REVERTED)
"""What an answer of "done" is put down as."""
REFUSED: Final = (Outcome.INFEASIBLE, Outcome.REJECTED, Outcome.CONFLICT)
BAD_REQUEST: Final = 400
THROTTLED: Final = 429
SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One PATCH of a pod's ``resize`` that the API server noted."""

    pod: str
    """``namespace/name``."""
    uid: str
    """Empty = not known: the server noted only that it came."""
    amounts: Amounts
    code: int | None
    """None = no answer is noted."""
    node: str | None
    """That the caller's token names."""
    unix_seconds: float

    @property
    def is_done(self) -> bool:
        """Return whether it changed the pod."""
        return self.code is not None and self.code < BAD_REQUEST

    @property
    def is_refused(self) -> bool:
        """Return whether it surely did not."""
        return self.code is not None and BAD_REQUEST <= self.code < SERVER_ERROR

    @property
    def is_unclear(self) -> bool:
        """Return whether nobody knows: its caller or its server was gone before the answer."""
        return not self.is_done and not self.is_refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One resize that the agent put down."""

    pod: str
    uid: str
    amounts: Amounts
    outcome: Outcome
    count: int = 1
    """How often it was said in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnesses:
    """What the agent left behind of its decisions."""

    decided: Sequence[Decided]
    """The decision log: the answers to patches, oldest first."""
    under_way: Sequence[Decided]
    """Of ledgers of agents that were ended: what was sent and not answered."""
    logged: Mapping[tuple[str, Outcome], int]
    """Lines of the log that tell of an answer, by pod and outcome."""
    disk_full: Sequence[tuple[float, float]]
    """From when to when, UTC seconds, decisions were in memory alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """What came of the comparison."""

    by_decision: int
    by_ledger: int
    by_log: int
    refused: int
    """Patches that the server refused, and the agent knows it."""
    faults: tuple[str, ...]
    """One line each; empty = all is matched."""


def patch_of(call: Call) -> Patch:
    """Read a call of the audit log."""
    metadata = (call.body or {}).get("metadata") or {}
    return Patch(
        pod=f"{call.namespace}/{call.name}",
        uid=str(metadata.get("uid", "")),
        amounts=amounts_of(call.body or {}),
        code=call.code or None,
        node=call.node,
        unix_seconds=call.received_unix_seconds,
    )


def amounts_of(body: Mapping[str, Any]) -> Amounts:
    """Read the body of a resize."""
    spec = body.get("spec") or {}
    stated = [(entry["name"], entry.get("resources") or {}) for entry in spec.get("containers", [])]
    stated += [(entry["name"], entry.get("resources") or {}) for entry in spec.get("initContainers", [])]
    stated += [("", spec["resources"])] if spec.get("resources") else []
    return frozenset(
        (container, resource, setting.removesuffix("s"), amount_of(resource, text))
        for container, resources in stated
        for setting in ("requests", "limits")
        for resource, text in (resources.get(setting) or {}).items()
    )


def amount_of(resource: str, text: str) -> int:
    """Return millicores of CPU, else whole units."""
    return parse_quantity(text) // (NANOS_PER_MILLI if resource == "cpu" else NANOS_PER_UNIT)


def decided_of(decision: Decision) -> Decided | None:
    """Return a decision that answers a patch; None = it tells of something else.

    Of what became of a patch later, of one that was not sent, or of one that is promised and put down again when sent.
    """
    is_answer = decision.action in RESIZES and decision.seconds is None and decision.outcome is not Outcome.WITHHELD
    if not is_answer or decision.pod is None or decision.detail == LATER:
        return None
    return Decided(
        pod=str(decision.pod),
        uid=decision.pod.uid,
        amounts=frozenset(
            (change.container, str(change.resource), str(change.setting), change.after) for change in decision.changes
        ),
        outcome=decision.outcome,
        count=decision.repeats,
    )


def under_way_of(ledger: Mapping[str, Any]) -> list[Decided]:
    """Return what a ledger's file says is sent and not answered."""
    decisions = []
    for record in ledger.get("pods", []):
        flight = record.get("flight")
        if not flight or flight["state"] != "sent":
            continue
        step = flight["step"]
        decisions.append(
            Decided(
                pod=f"{step['ref']['namespace']}/{step['ref']['name']}",
                uid=step["ref"]["uid"],
                amounts=frozenset(
                    (change["container"], change["resource"], change["setting"], change["after"])
                    for change in step["changes"]
                ),
                outcome=Outcome.ERROR,
            )
        )
    return decisions


def matched(patches: Sequence[Patch], witnesses: Witnesses) -> Matched:
    """Compare: every patch must have been decided, and everything decided must have been sent."""
    open_decisions = _Decisions(witnesses.decided)
    under_way = _Decisions(witnesses.under_way)
    lines = Counter(witnesses.logged)
    faults: list[str] = []
    counts: Counter[str] = Counter()
    for patch in (patch for patch in patches if patch.is_done):
        if open_decisions.take(patch, (*TAKEN, Outcome.ERROR)):
            counts["decision"] += 1
        elif under_way.take(patch, (Outcome.ERROR,)):
            counts["ledger"] += 1
        elif _is_within(patch.unix_seconds, witnesses.disk_full) and _take_line(lines, patch.pod, TAKEN):
            counts["log"] += 1
        else:
            faults.append(f"{patch.pod}: the API server took {_words(patch.amounts)}, and nobody decided it")
    for patch in (patch for patch in patches if patch.is_unclear and patch.uid):
        is_known = open_decisions.take(patch, (Outcome.ERROR, *TAKEN)) or under_way.take(patch, (Outcome.ERROR,))
        if not is_known and not _take_line(lines, patch.pod, (Outcome.ERROR,)):
            faults.append(f"{patch.pod}: {_words(patch.amounts)} was sent, and nobody decided it")
    unanswered = Counter(patch.pod for patch in patches if patch.is_unclear and not patch.uid)
    for decided in open_decisions.left(TAKEN):
        if unanswered[decided.pod]:
            unanswered[decided.pod] -= 1
            counts["decision"] += 1
        else:
            faults.append(f"{decided.pod}: decided {_words(decided.amounts)}, and no such patch was taken")
    refusals = _refusals(patches, witnesses, unanswered, faults)
    return Matched(
        by_decision=counts["decision"],
        by_ledger=counts["ledger"],
        by_log=counts["log"],
        refused=refusals,
        faults=tuple(faults),
    )


def _refusals(patches: Sequence[Patch], witnesses: Witnesses, unanswered: Counter[str], faults: list[str]) -> int:
    """Compare what was refused, by pod: the log has a line for each answer, the decision log counts the same ones."""
    by_server = Counter(patch.pod for patch in patches if patch.is_refused)
    by_agent: Counter[str] = Counter()
    for (pod, outcome), count in witnesses.logged.items():
        by_agent[pod] += count if outcome in REFUSED else 0
    # An answer of "too many requests" is an error to the agent.
    throttled = Counter(patch.pod for patch in patches if patch.code == THROTTLED)
    ended = Counter(decided.pod for decided in witnesses.under_way)
    for pod in sorted(by_server.keys() | by_agent.keys()):
        if by_server[pod] - throttled[pod] - ended[pod] > by_agent[pod]:
            faults.append(f"{pod}: {by_server[pod]} patches were refused, the agent tells of {by_agent[pod]}")
        if by_agent[pod] > by_server[pod] + unanswered[pod]:
            faults.append(f"{pod}: the agent tells of {by_agent[pod]} refusals, the server of {by_server[pod]}")
    return by_server.total()


class _Decisions:
    """Decisions that wait for their patch, by pod."""

    def __init__(self, decided: Iterable[Decided]) -> None:
        self._open: dict[str, list[tuple[Decided, int]]] = defaultdict(list)
        for decision in decided:
            self._open[decision.uid].append((decision, decision.count))

    def take(self, patch: Patch, outcomes: Sequence[Outcome]) -> bool:
        """Find the decision behind a patch and count it out; the outcomes are tried in their order."""
        waiting = self._open[patch.uid]
        for outcome in outcomes:
            for place, (decided, count) in enumerate(waiting):
                if decided.outcome is outcome and decided.amounts == patch.amounts:
                    waiting[place : place + 1] = [(decided, count - 1)] if count > 1 else []
                    return True
        return False

    def left(self, outcomes: Sequence[Outcome]) -> list[Decided]:
        """Return what found no patch, as often as it was said."""
        return [
            decided
            for waiting in self._open.values()
            for decided, count in waiting
            if decided.outcome in outcomes
            for _ in range(count)
        ]


def _take_line(lines: Counter[tuple[str, Outcome]], pod: str, outcomes: Sequence[Outcome]) -> bool:
    for outcome in outcomes:
        if lines[pod, outcome]:
            lines[pod, outcome] -= 1
            return True
    return False


def _is_within(moment: float, spans: Sequence[tuple[float, float]]) -> bool:
    return any(since <= moment <= until for since, until in spans)


def _words(amounts: Amounts) -> str:
    phrases = sorted(
        f"{container or 'pod'} {resource} {setting} {amount}{'m' if resource == 'cpu' else ''}"
        for container, resource, setting, amount in amounts
    )
    return ", ".join(phrases) or "nothing that is noted"

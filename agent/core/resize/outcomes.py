"""The decision log told as resizes: what was decided and what came of it in one entry. Core, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.core.plan.pod_change import Change
from agent.core.resize.decision import Action, Decision, Outcome

_RESIZES: Final = (Action.RESIZE, Action.REVERT, Action.RESTORE)
_SENT: Final = (Outcome.ACCEPTED, Outcome.APPLIED, Outcome.REVERTED, Outcome.ERROR)
"""The answers after which more may come of a resize; ERROR: nobody knows whether it was done."""

_Key = tuple[Action, str, tuple[Change, ...]]


def newest_outcomes(decisions: Sequence[Decision]) -> tuple[Decision, ...]:
    """Leave one entry of each resize: its newest outcome, time and words, with the reason why it was made.

    The log has an entry for the server's answer, which says why the resize was made, and one for each thing that came
    of it, which says how long that took. An entry of which the first is not in the log stands as it is.

    Args:
        decisions: Newest first.

    Returns:
        Newest first; all that is no resize as it was.
    """
    first: dict[_Key, Decision] = {}
    newest: dict[int, Decision] = {}
    """By the sequence number of the first entry."""
    for decision in reversed(decisions):
        key = _key(decision)
        begun = None if key is None else first.get(key)
        if begun is not None and decision.seconds is not None:
            newest.pop(begun.sequence)  # so that it takes its new place in time
            newest[begun.sequence] = _told_on(begun, decision)
            continue
        newest[decision.sequence] = decision
        if key is not None and decision.outcome in _SENT:
            first[key] = decision
    return tuple(reversed(newest.values()))


def _key(decision: Decision) -> _Key | None:
    if decision.pod is None or decision.action not in _RESIZES:
        return None
    return decision.action, decision.pod.uid, decision.changes


def _told_on(first: Decision, newer: Decision) -> Decision:
    """Give what came of it with the reason why it was made; the newer reason where it says why it was not done."""
    has_reason = first.outcome is not Outcome.ERROR and newer.outcome is not Outcome.WITHHELD
    return replace(newer, reason=first.reason) if has_reason else newer

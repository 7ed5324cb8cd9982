"""What was decided, in words, and in which tone an outcome is told."""

from __future__ import annotations

from typing import Final

from agent.cli.text.spans import Glyphs, Tone
from agent.cli.words.plan import changes_words
from agent.core.resize.decision import Action, Decision, Outcome

OUTCOME_TONES: Final = {
    Outcome.ACCEPTED: Tone.PLAIN,
    Outcome.APPLIED: Tone.GAIN,
    Outcome.DEFERRED: Tone.NOTE,
    Outcome.INFEASIBLE: Tone.NOTE,
    Outcome.REJECTED: Tone.HOT,
    Outcome.CONFLICT: Tone.DIM,
    Outcome.ERROR: Tone.HOT,
    Outcome.REVERTED: Tone.NOTE,
    Outcome.WITHHELD: Tone.DIM,
    Outcome.PROPOSED: Tone.NOTE,
    Outcome.DONE: Tone.PLAIN,
}


def what_text(decision: Decision, glyphs: Glyphs) -> str:
    """Return what a decision was about: the action, a resize by what it changes."""
    changes = changes_words(decision.changes, glyphs.becomes)
    action = decision.action.replace("_", " ")
    if not changes:
        return action
    return changes if decision.action is Action.RESIZE else f"{action} {changes}"

"""The part of ``plimsoll why`` about acting: orders, share in the node's plan, what was done to the pod. Face, pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from agent.cli.text.paragraphs import Page, hanging
from agent.cli.text.spans import Line, Span, Tone, harmless
from agent.cli.words.advice import SIDES, AdviceSide
from agent.cli.words.decisions import OUTCOME_TONES, what_text
from agent.cli.words.plan import KEPT_WORDS, headroom_words, reserved_words, share_of, why_kept
from agent.core.orders.order import Mode, OrderSource
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import Share
from agent.core.resize.decision import Decision, newest_outcomes
from agent.core.resize.why import Acted, Why

_PROTECTED: Final = "it is given more when it is short; mode protect holds every fall, and nobody is evicted"


def acted_lines(item: Why, page: Page) -> list[Line]:
    """Return the section; empty where whoever answers does not plan."""
    acted = item.acted
    if acted is None:
        return []
    lines: list[Line] = [(Span("PLAN", Tone.TITLE), Span(f"  {_orders_text(acted)}", Tone.DIM))]
    if acted.reserved is not None:
        reserved = reserved_words(acted.reserved, _share_in_force(acted))
        lines.append((Span(f"  left as it is: {reserved}", Tone.NOTE),))
    if acted.orders.mode is Mode.PROTECT:
        lines += hanging((Span("  protect: ", Tone.DIM),), _PROTECTED, page)
    if acted.is_evicted:
        lines.append((Span("  the node does not fit: its eviction is proposed (plimsoll plan)", Tone.NOTE),))
    for sentence in acted.told:
        lines += hanging((Span("  by the webhook: ", Tone.DIM),), harmless(sentence), page, Tone.NOTE)
    for fault in acted.orders.faults:
        lines += hanging((Span("  "),), str(fault), page, Tone.HOT)
    if acted.planned is not None and acted.reserved is None:
        for side in SIDES:
            share = share_of(side, acted.planned)
            if share is not None:
                lines += hanging((Span(f"  {side.title}: ", Tone.DIM),), _share_text(side, share, page), page)
        words = None if acted.cpu is None else headroom_words(acted.cpu)
        if words is not None:
            lines += hanging((Span("  the node's CPU: ", Tone.DIM),), words, page)
    if acted.startup_boost is not None:
        lines += hanging((Span("  start: ", Tone.DIM),), acted.startup_boost, page)
    for sentence in acted.runs:
        lines += hanging((Span("  run here: ", Tone.DIM),), harmless(sentence), page)
    if acted.windows is not None:
        text = f"{acted.windows}; what it is short of is given at any time ({acted.orders.windows_source})"
        lines += hanging((Span("  windows: ", Tone.DIM),), text, page)
    if acted.oom_score is not None:
        score = acted.oom_score
        text = f"{score.found} by the request of its start; a restart gives {score.after_restart}"
        lines += hanging((Span("  oom_score_adj: ", Tone.DIM),), f"{text} (the higher, the sooner killed)", page)
    if acted.decisions:
        lines.append((Span("DONE LATELY", Tone.TITLE), Span("  newest first (plimsoll events)", Tone.DIM)))
        for decision in newest_outcomes(acted.decisions):
            lines += _decision_lines(decision, page)
    return lines


def _orders_text(acted: Acted) -> str:
    orders = acted.orders
    texts = [f"mode {orders.mode} ({orders.mode_source})", f"ranking {orders.ranking}"]
    if orders.policy_source is not OrderSource.CONFIGURATION:
        texts.append(f"policy {orders.policy} ({orders.policy_source})")
    share = _share_in_force(acted)
    if share is not None:
        texts.append(f"enforced share {share} ({orders.enforce_share_source})")
    return ", ".join(texts)


def _share_in_force(acted: Acted) -> str | None:
    share = acted.orders.share_in_force
    return None if share is None else str(share)


def _share_text(side: AdviceSide, share: Share, page: Page) -> str:
    text = side.text
    if share.withheld is not None:
        return f"no prediction: the request of {text(share.request)} counts as it stands"
    short = f" + {text(share.urgent)} since it is short now" if share.urgent else ""
    sentence = (
        f"base {text(share.base)} + {text(share.headroom)} of the node's spike headroom{short} = {text(share.final)}"
    )
    if share.applied is not None and share.applied != share.request:
        sentence += f"; request {text(share.request)} {page.glyphs.becomes} {text(share.applied)}"
        if share.kept is KeptReason.EVICTION_PENDING:
            sentence += f", as it {KEPT_WORDS[share.kept]}"
    elif share.possible is not None:
        sentence += f"; request of {text(share.request)} kept, {text(share.possible)} would be possible: mode protect"
    elif share.kept is not None:
        sentence += f"; request of {text(share.request)} kept: {why_kept(share.kept, share)}"
    else:
        sentence += "; as requested"
    if share.limit_applied is not None and share.limit_applied != share.limit:
        sentence += f"; limit {text(share.limit)} {page.glyphs.becomes} {text(share.limit_applied)}"
    elif share.limit_kept is not None:
        sentence += f"; limit of {text(share.limit)} kept: {KEPT_WORDS[share.limit_kept]}"
    return sentence


def _decision_lines(decision: Decision, page: Page) -> list[Line]:
    moment = datetime.fromtimestamp(decision.unix_seconds, UTC)
    times = f" x{decision.repeats}" if decision.repeats > 1 else ""
    detail = decision.detail or decision.reason
    sentence = f"{what_text(decision, page.glyphs)}{times}" + (f": {harmless(detail)}" if detail else "")
    head = (Span(f"  {moment:%H:%M:%S} ", Tone.DIM), Span(f"{decision.outcome} ", OUTCOME_TONES[decision.outcome]))
    return list(hanging(head, sentence, page))

"""Why a workload would be given what it would be given, step by step and in sentences. Webhook; pure.

Written from what the answer holds anyhow, so that sentences and figures cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent.core.numbers.amount_text import BYTES, MILLICORES, amount_text
from agent.webhook.queries.workload_bodies import AdviceBody, ContainerBody, ExplanationStepBody, WorkloadBody

_DAY_SECONDS: Final = 86_400
_HOUR_SECONDS: Final = 3600
_MISSING: Final = {
    "unknown_workload": "nothing is known of the workload",
    "unknown_container": "nothing is known of the container",
    "too_young": "its history is younger than plan.minAgeSeconds",
    "not_loaded": "its history is being worked out; ask again in a minute",
}


def explanation_of(body: WorkloadBody) -> list[ExplanationStepBody]:
    """Return the steps, in the order in which they are taken."""
    applies = body.applies
    steps = [
        _step(None, "applies", f"mode is {applies.mode.value}: {applies.mode.source}"),
        _step(None, "policy", f"policy is {applies.policy.value}: {applies.policy.source}"),
    ]
    if applies.pause.value is not None:
        steps.append(_step(None, "applies", f"the cluster is paused: {applies.pause.value} ({applies.pause.source})"))
    for what, holder, preserved in (
        ("CPU", applies.cpu_frozen_for, applies.cpu_preserved),
        ("memory", applies.memory_frozen_for, applies.memory_preserved),
        ("all of it", applies.left_alone_for, None),
    ):
        if preserved is not None:
            steps.append(_step(None, "autoscaler", f"{what} is sized, and {holder} follows: {preserved}"))
        elif holder is not None:
            steps.append(_step(None, "autoscaler", f"{what} is left to {holder}"))
    if applies.stop_shrinking_seconds is not None:
        why = "" if applies.stop_shrinking_for is None else f": {applies.stop_shrinking_for}"
        steps.append(_step(None, "applies", f"it only grows for {_span(applies.stop_shrinking_seconds)} more{why}"))
    for container in body.containers:
        steps += _of_container(container)
    steps += [_step(None, "bound", f"{bound.name} {bound.value}: {bound.source}") for bound in applies.bounds]
    steps += [_step(None, "autoscaler", sentence) for sentence in body.hpa_advice]
    return steps


def _of_container(body: ContainerBody) -> Iterator[ExplanationStepBody]:
    name, advice = body.container, body.advice
    if advice.missing is not None:
        yield _step(name, "advice", f"no advice: {_MISSING.get(advice.missing, advice.missing)}")
        return
    if advice.history_seconds is not None and advice.pods is not None:
        pods = f"{advice.pods} pod{'' if advice.pods == 1 else 's'}"
        yield _step(name, "history", f"{_span(advice.history_seconds)} of history, {pods} in the newest hour")
    if advice.imported_hours:
        yield _step(name, "history", f"{advice.imported_hours} hours of it were imported, and count with 10 % more")
    if advice.stands_in_for is not None:
        yield _step(name, "policy", f"{advice.policy} stands in: {advice.stands_in_for} has no figures yet")
    for resource, asked, largest, base, unit in _figures(advice):
        if asked is None:
            yield _step(name, "advice", f"{resource}: no figure")
            continue
        seen = [
            text
            for text in (
                None if base is None else f"P75 of the newest hour {amount_text(base, unit)}",
                None if largest is None else f"largest in seven days {amount_text(largest, unit)}",
            )
            if text is not None
        ]
        yield _step(
            name, "advice", f"{resource}: {amount_text(asked, unit)}" + (f" ({', '.join(seen)})" if seen else "")
        )
    if advice.oom_memory_bytes is not None:
        yield _step(name, "kills", f"killed for want of memory at {amount_text(advice.oom_memory_bytes, BYTES)}")


def _figures(advice: AdviceBody) -> tuple[tuple[str, int | None, int | None, int | None, str], ...]:
    return (
        ("CPU", advice.cpu_request_millicores, advice.cpu_max_millicores, advice.cpu_base_millicores, MILLICORES),
        ("memory", advice.memory_request_bytes, advice.memory_max_bytes, advice.memory_base_bytes, BYTES),
    )


def _step(container: str | None, step: str, words: str) -> ExplanationStepBody:
    return ExplanationStepBody(container=container, step=step, words=words)


def _span(seconds: float) -> str:
    if seconds >= 2 * _DAY_SECONDS:
        return f"{seconds / _DAY_SECONDS:.0f} days"
    if seconds >= 2 * _HOUR_SECONDS:
        return f"{seconds / _HOUR_SECONDS:.0f} hours"
    return f"{max(seconds / 60, 1):.0f} minutes"

"""Admissions for people and for machines: what would be patched, from what, what is left and why. Face, pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.cli.text.paragraphs import Page, fact, hanging
from agent.cli.text.spans import Glyphs, Line, Span, Tone, clip_line, harmless
from agent.core.admission.answer import Admission, AdmissionOutcome, ContainerAdmission, Move, Note
from agent.core.admission.estimate import Estimate
from agent.core.admission.patch import patch_operations
from agent.core.admission.words import estimate_words

OUTCOME_WORDS: Final = {
    AdmissionOutcome.PATCHED: "patched",
    AdmissionOutcome.NOOP: "unchanged",
    AdmissionOutcome.NO_HISTORY: "unchanged, no history",
    AdmissionOutcome.EXCLUDED: "left alone",
    AdmissionOutcome.ERROR: "unchanged, for a fault",
    AdmissionOutcome.DENIED: "denied",
}
_TONES: Final = {
    AdmissionOutcome.PATCHED: Tone.ACCENT,
    AdmissionOutcome.DENIED: Tone.HOT,
    AdmissionOutcome.ERROR: Tone.HOT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedPod:
    """One pod and what becomes of it."""

    namespace: str
    name: str
    admission: Admission
    has_annotations: bool


def page_lines(pods: Sequence[AdmittedPod], notes: Sequence[str], *, width: int, glyphs: Glyphs) -> list[Line]:
    """Return the notes and a paragraph for each pod."""
    page = Page(width=width, glyphs=glyphs)
    lines: list[Line] = []
    for note in notes:
        lines += hanging((Span("note ", Tone.NOTE),), note, page)
    for pod in pods:
        lines += [*([()] if lines else []), *_pod_lines(pod, page)]
    return [clip_line(line, width, ellipsis=glyphs.ellipsis) for line in lines]


def _pod_lines(pod: AdmittedPod, page: Page) -> Iterator[Line]:
    admission = pod.admission
    workload = admission.workload
    yield (
        Span(harmless(f"{pod.namespace}/{pod.name}"), Tone.TITLE),
        Span(f"  {OUTCOME_WORDS[admission.outcome]}", _TONES.get(admission.outcome, Tone.NOTE)),
    )
    yield from fact("workload", f"{workload.kind} {workload.namespace}/{workload.name}", page)
    if admission.orders is not None:
        orders = admission.orders
        yield from fact("mode", f"{orders.mode} by the {orders.mode_source}", page)
        yield from fact("policy", f"{orders.policy} by the {orders.policy_source}", page)
    yield from fact("because", admission.why, page)
    if admission.pod_limits:
        yield from fact("pod limits", admission.pod_limits, page)
    for container in admission.containers:
        yield from _container_lines(container, page)
    for warning in admission.warnings:
        yield from fact("warning", warning, page, Tone.NOTE)


def _container_lines(container: ContainerAdmission, page: Page) -> Iterator[Line]:
    changes = ", ".join(map(str, container.moves))
    if container.estimate is None and not changes:
        return
    known = "not asked for" if container.estimate is None else estimate_words(container.estimate)
    yield from fact(harmless(container.name), f"{changes or 'unchanged'} ({known})", page)
    for note in container.notes:
        yield from fact("", f"left: {note}", page, Tone.DIM)


def json_text(pods: Sequence[AdmittedPod], notes: Sequence[str]) -> str:
    """Return all as JSON; ASCII, so no name can steer a terminal. What is not there is null."""
    document = {"pods": [_pod_document(pod) for pod in pods], "notes": list(notes)}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _pod_document(pod: AdmittedPod) -> Mapping[str, object]:
    admission, orders = pod.admission, pod.admission.orders
    workload = admission.workload
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "workloadKind": workload.kind,
        "workloadName": workload.name,
        "outcome": admission.outcome,
        "why": admission.why,
        "mode": None if orders is None else orders.mode,
        "modeSource": None if orders is None else orders.mode_source,
        "policy": None if orders is None else orders.policy,
        "policySource": None if orders is None else orders.policy_source,
        "podLimits": admission.pod_limits or None,
        "denial": admission.denial,
        "warnings": list(admission.warnings),
        "containers": [_container_document(container) for container in admission.containers],
        "patch": patch_operations(admission, has_annotations=pod.has_annotations),
    }


def _container_document(container: ContainerAdmission) -> Mapping[str, object]:
    estimate = container.estimate
    return {
        "container": container.name,
        "kind": container.kind,
        "source": estimate.source if isinstance(estimate, Estimate) else None,
        "historySeconds": estimate.history_seconds if isinstance(estimate, Estimate) else None,
        "noHistory": None if estimate is None or isinstance(estimate, Estimate) else estimate,
        "changes": [_move_document(move) for move in container.moves],
        "left": [_note_document(note) for note in container.notes],
    }


def _move_document(move: Move) -> Mapping[str, object]:
    return {
        "resource": move.resource,
        "setting": move.setting,
        "unit": move.resource.unit,
        "before": move.before,
        "after": move.after,
    }


def _note_document(note: Note) -> Mapping[str, object]:
    return {"resource": note.resource, "setting": note.setting, "reason": note.left, "by": note.by or None}

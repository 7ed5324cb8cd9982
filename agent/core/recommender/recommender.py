"""From what is known of the containers of a node to recommendations: policy, bounds, and what is withheld and why.

Core, pure. Arrays go through policy and bounds once for all containers; objects are made at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.core.cluster.resource import Resource
from agent.core.cluster.unit import UnitIdentity
from agent.core.numbers.amount_text import amount_text
from agent.core.numbers.arrays import Floats
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.recommender.bounds import BoundedAnswer, apply, bounds_of
from agent.core.recommender.credit import CPU_IN_PLACE, CREDIT_WORDS, Credit
from agent.core.recommender.other_nodes import raised_by_kills
from agent.core.recommender.outlook import Outlook
from agent.core.recommender.pod_itself import stated_with_pod_itself, with_pod_itself
from agent.core.recommender.policy import Policy, Proposals, Step, Steps
from agent.core.recommender.recommendation import (
    OWN_BASE,
    OWN_LIMIT,
    OWN_PEAK,
    Advice,
    Basis,
    Recommendation,
    RequestSeverity,
    Withheld,
)
from agent.core.recommender.runtime_advice import runtime_advice
from agent.core.recommender.severity import cpu_severity, memory_severity
from agent.core.recommender.subject import Conditions, Subject, present_of, rows_of, stated_of
from agent.core.window.snapshot import Missing

_Judge = Callable[[int | None, int | None], RequestSeverity]
_NOT_CONTROLLED: Final = Withheld.NOT_CONTROLLED
_NOTHING_EXTRA: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedRecommendation:
    """A recommendation with what led to it."""

    recommendation: Recommendation
    steps: tuple[Step, ...]
    """Of the policy and of the bounds after it, in order."""
    changes: tuple[str, ...]
    """What would change the answer, one sentence each."""
    hours_counted: tuple[int, ...]
    """UTC hours that the answer goes by, each by its start in Unix seconds; empty = the policy takes none apart."""


def recommend(
    subjects: Sequence[Subject],
    policy: Policy,
    *,
    now_unix_seconds: float,
    conditions: Conditions,
    options: BoundsOptions,
) -> list[Recommendation]:
    """Recommend for containers, in their order; nothing for none."""
    if not subjects:
        return []
    present = present_of(subjects)
    borne = [subject.pod_itself for subject in subjects]
    proposals = policy.recommend(rows_of(subjects), present, now_unix_seconds=now_unix_seconds)
    proposals = with_pod_itself(raised_by_kills(proposals, present, None), borne, None)
    proposals = _believed(proposals, conditions)
    bounded = apply(proposals, stated_with_pod_itself(stated_of(subjects), borne), options)
    answers = _recommendations(subjects, policy.name, proposals, bounded, conditions, options)
    places = [place for place, subject in enumerate(subjects) if _is_told(subject)]
    own = recommend(
        [replace(subjects[place], elsewhere=None) for place in places],
        policy,
        now_unix_seconds=now_unix_seconds,
        conditions=conditions,
        options=options,
    )
    for place, alone in zip(places, own, strict=True):
        answers[place] = _with_own(answers[place], alone)
    return answers


def _is_told(subject: Subject) -> bool:
    """Return whether what other nodes saw of a container may count: their peaks for a week, memory at kills always."""
    elsewhere = subject.elsewhere
    return elsewhere is not None and (elsewhere.oom_memory_bytes is not None or not subject.has_own_week)


def _with_own(answer: Recommendation, alone: Recommendation) -> Recommendation:
    """Return an answer with what it would be by this node's own figures, where that is something else."""
    cpu = _own_figures(Resource.CPU, answer.cpu_millicores, alone.cpu_millicores)
    memory = _own_figures(Resource.MEMORY, answer.memory_bytes, alone.memory_bytes)
    if not cpu and not memory:
        return answer
    return replace(
        answer,
        cpu_millicores=replace(answer.cpu_millicores, extra={**answer.cpu_millicores.extra, **cpu}),
        memory_bytes=replace(answer.memory_bytes, extra={**answer.memory_bytes.extra, **memory}),
    )


def _own_figures(resource: Resource, advice: Advice, alone: Advice) -> dict[str, float]:
    if (advice.base, advice.peak, advice.proposed, advice.limit) == (
        alone.base,
        alone.peak,
        alone.proposed,
        alone.limit,
    ):
        return {}
    figures = {OWN_BASE: alone.base, OWN_PEAK: alone.peak, OWN_LIMIT: alone.limit}
    otherwise = {OWN_BASE: alone.proposed, OWN_PEAK: alone.proposed, OWN_LIMIT: 0.0}
    known = {name: figure if figure is not None else otherwise[name] for name, figure in figures.items()}
    return {f"{resource}_{name}": float(figure or 0.0) for name, figure in known.items()}


def in_spec_order(
    items: Iterable[Recommendation], place_of: Callable[[UnitIdentity], int | None]
) -> tuple[Recommendation, ...]:
    """Return recommendations so that the containers of one pod follow each other as its spec has them.

    A patch that names them in another order is refused. Pods stand in the order of their first containers.

    Args:
        items: Of the containers of a node, in any order.
        place_of: Returns the place of a container in its pod's spec; None = not known: it comes last.
    """
    pods: dict[str, list[tuple[float, Recommendation]]] = {}
    for item in items:
        identity = item.identity
        place = place_of(identity)
        members = pods.setdefault(identity.pod_uid or identity.cgroup_path, [])
        members.append((math.inf if place is None else place, item))
    return tuple(item for members in pods.values() for _, item in sorted(members, key=lambda member: member[0]))


def explain(
    subject: Subject,
    policy: Policy,
    *,
    now_unix_seconds: float,
    conditions: Conditions,
    options: BoundsOptions,
) -> ReasonedRecommendation:
    """Recommend for one container by the same code, telling each step and what would change the answer."""
    subjects, steps = (subject,), Steps()
    present, borne = present_of(subjects), (subject.pod_itself,)
    stated = stated_with_pod_itself(stated_of(subjects), borne)
    cold = subject.memory.cold_file
    if cold is not None and cold.is_left_out:
        note = "memory.coldFile is exclude: of each figure that follows"
        steps.say("memory", "left out: file cache that nobody came back for", cold.active_bytes, "bytes", note)
    proposals = policy.recommend(rows_of(subjects), present, now_unix_seconds=now_unix_seconds, steps=steps)
    proposals = with_pod_itself(raised_by_kills(proposals, present, steps), borne, steps)
    _say_no_credit(steps, subject, proposals)
    proposals = _believed(proposals, conditions)
    bounded = apply(proposals, stated, options, steps=steps)
    (answer,) = _recommendations(subjects, policy.name, proposals, bounded, conditions, options)
    if _is_told(subject):
        unaware = [replace(subject, elsewhere=None)]
        (alone,) = recommend(unaware, policy, now_unix_seconds=now_unix_seconds, conditions=conditions, options=options)
        answer = _with_own(answer, alone)
    now = subject.resources
    _conclude(steps, Resource.CPU, answer.cpu_millicores, now.cpu_request_millicores, now.cpu_limit_millicores)
    _conclude(steps, Resource.MEMORY, answer.memory_bytes, now.memory_request_bytes, now.memory_limit_bytes)
    outlook = Outlook(subject, proposals, stated, options, conditions)
    return ReasonedRecommendation(
        recommendation=answer,
        steps=tuple(steps.taken),
        changes=outlook.sentences(answer),
        hours_counted=tuple(steps.hours),
    )


def _say_no_credit(steps: Steps, subject: Subject, proposals: Proposals) -> None:
    """Record why the full price is asked for, where the policy knows another one."""
    credit = subject.credit
    if credit is not None and credit is not Credit.GRANTED and CPU_IN_PLACE in proposals.extra:
        steps.say(Resource.CPU, "no credit for seconds", None, "", CREDIT_WORDS[credit])


def _believed(proposals: Proposals, conditions: Conditions) -> Proposals:
    """Return proposals that only raise where the past is not known."""
    if conditions.is_history_known:
        return proposals
    always = np.ones_like(proposals.has_cpu)
    return replace(proposals, cpu_upward_only=always, memory_upward_only=always)


def _conclude(steps: Steps, resource: Resource, advice: Advice, request: int | None, limit: int | None) -> None:
    """Record what comes out for one resource, beside what is stated now."""
    unit = resource.unit
    now = "there is no request now" if request is None else f"the request is {amount_text(request, unit)} now"
    if advice.withheld is not None:
        reason = advice.withheld.replace("_", " ")
        steps.say(resource.value, "recommended request", None, unit, f"withheld: {reason}; {now}")
        return
    steps.say(resource.value, "recommended request", advice.request, unit, now)
    if advice.limit is not None and limit is not None:
        steps.say(
            resource.value, "recommended limit", advice.limit, unit, f"the limit is {amount_text(limit, unit)} now"
        )


@dataclass(frozen=True, slots=True)
class _Side:
    """One resource of all subjects as plain lists: reading an array number by number is slow."""

    request: list[int]
    has: list[bool]
    limit: list[int]
    has_limit: list[bool]
    bits: list[int]
    has_proposal: list[bool]
    base: list[float]
    peak: list[float]
    proposed: list[float]
    upward_only: list[bool]
    credit: list[bool]
    extra: list[Mapping[str, float]]

    def advice(self, index: int, withheld: Withheld | None, stated: int | None, judge: _Judge) -> Advice:
        request = self.request[index] if withheld is None else None
        has = self.has_proposal[index]
        return Advice(
            request=request,
            limit=self.limit[index] if withheld is None and self.has_limit[index] else None,
            withheld=withheld,
            severity=judge(stated, request),
            base=self.base[index] if has else None,
            peak=self.peak[index] if has else None,
            proposed=self.proposed[index] if has else None,
            bounds=bounds_of(self.bits[index]) if withheld is None else (),
            is_upward_only=has and self.upward_only[index],
            has_credit=has and self.credit[index],
            extra=self.extra[index] if has else _NOTHING_EXTRA,
        )


def _recommendations(
    subjects: Sequence[Subject],
    policy: str,
    proposals: Proposals,
    bounded: BoundedAnswer,
    conditions: Conditions,
    options: BoundsOptions,
) -> list[Recommendation]:
    nobody = [False] * len(subjects)
    cpu = _Side(
        request=_whole(bounded.cpu_request_millicores),
        has=bounded.has_cpu.tolist(),
        limit=_whole(bounded.cpu_limit_millicores),
        has_limit=bounded.has_cpu_limit.tolist(),
        bits=bounded.cpu_bounds.tolist(),
        has_proposal=(proposals.has_cpu & np.isfinite(proposals.cpu_request_millicores)).tolist(),
        base=proposals.cpu_base_millicores.tolist(),
        peak=proposals.cpu_peak_millicores.tolist(),
        proposed=proposals.cpu_request_millicores.tolist(),
        upward_only=proposals.cpu_upward_only.tolist(),
        credit=nobody if proposals.has_credit is None else proposals.has_credit.tolist(),
        extra=_extra(proposals, Resource.CPU),
    )
    memory = _Side(
        request=_whole(bounded.memory_request_bytes),
        has=bounded.has_memory.tolist(),
        limit=_whole(bounded.memory_limit_bytes),
        has_limit=bounded.has_memory_limit.tolist(),
        bits=bounded.memory_bounds.tolist(),
        has_proposal=(proposals.has_memory & np.isfinite(proposals.memory_request_bytes)).tolist(),
        base=proposals.memory_base_bytes.tolist(),
        peak=proposals.memory_peak_bytes.tolist(),
        proposed=proposals.memory_request_bytes.tolist(),
        upward_only=proposals.memory_upward_only.tolist(),
        credit=nobody,
        extra=_extra(proposals, Resource.MEMORY),
    )
    cpu_barred = _NOT_CONTROLLED if options.controlled_resources is ControlledResources.MEMORY else None
    memory_barred = _NOT_CONTROLLED if options.controlled_resources is ControlledResources.CPU else None
    answers: list[Recommendation] = []
    for index, subject in enumerate(subjects):
        resources, cpu_window, memory_window = subject.resources, subject.cpu, subject.memory
        cpu_withheld = cpu_barred or _withheld(
            subject, subject.cpu_missing, cpu_window.span_seconds, conditions, has=cpu.has[index]
        )
        memory_withheld = memory_barred or _withheld(
            subject, subject.memory_missing, memory_window.span_seconds, conditions, has=memory.has[index]
        )
        memory_advice = memory.advice(index, memory_withheld, resources.memory_request_bytes, memory_severity)
        answers.append(
            Recommendation(
                identity=subject.identity,
                workload=subject.workload,
                policy=policy,
                resources=resources,
                cpu_millicores=cpu.advice(index, cpu_withheld, resources.cpu_request_millicores, cpu_severity),
                memory_bytes=memory_advice,
                basis=Basis(
                    cpu_readings=cpu_window.readings,
                    cpu_span_seconds=cpu_window.span_seconds,
                    memory_readings=memory_window.readings,
                    memory_span_seconds=memory_window.span_seconds,
                    sample_age_seconds=subject.sample_age_seconds,
                    history_minutes=subject.history_minutes,
                    history_span_seconds=subject.history_span_seconds,
                    oom_kills=subject.oom_kills,
                ),
                container_kind=subject.container_kind,
                runtime=subject.runtime,
                runtime_advice=()
                if subject.runtime is None
                else runtime_advice(subject.runtime, resources.memory_limit_bytes, memory_advice),
            )
        )
    return answers


def _withheld(
    subject: Subject, missing: Missing | None, window_seconds: float, conditions: Conditions, *, has: bool
) -> Withheld | None:
    """Return why one resource of a container gets no recommendation; None = it gets one.

    A window with gaps is no reason by itself: a policy that answers from days of history need not mind them.
    """
    if subject.sample_age_seconds is None:
        return Withheld.NO_DATA
    if missing is Missing.NO_SIGNAL:
        return Withheld.NO_SIGNAL
    if subject.sample_age_seconds > conditions.max_age_seconds:
        return Withheld.STALE
    if max(subject.history_span_seconds, window_seconds) < conditions.min_span_seconds:
        return Withheld.TOO_YOUNG
    if has:
        return None
    return Withheld.GAPS if missing is Missing.GAPS else Withheld.NO_DATA


def _whole(amounts: Floats) -> list[int]:
    whole: list[int] = amounts.astype(np.int64).tolist()
    return whole


def _extra(proposals: Proposals, resource: Resource) -> list[Mapping[str, float]]:
    """Return the policy's further figures of one resource, row by row; the name says of which."""
    named = {name: values.tolist() for name, values in proposals.extra.items() if name.startswith(f"{resource}_")}
    if not named:
        return [_NOTHING_EXTRA] * proposals.has_cpu.size
    return [dict(zip(named, values, strict=True)) for values in zip(*named.values(), strict=True)]

"""What a plan is called for people: why pods are left alone, why requests are kept, amounts, changes. Face, pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from agent.cli.text.spans import harmless
from agent.cli.words.advice import CPU, MEMORY, WITHHELD_WORDS, AdviceSide
from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import ContainerPlan, Phase, PlanStep, ResourcePlan, Share
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.change_text import by_container

RESERVED_WORDS: Final = {
    ReservedReason.OFF: "mode off",
    ReservedReason.RECOMMEND: "recommend only",
    ReservedReason.NOT_IN_SHARE: "not in the enforced share",
    ReservedReason.SHARE_TAKEN_BACK: "enforced share taken back",
    ReservedReason.EXCLUDED: "excluded namespace",
    ReservedReason.NAMESPACE_UNKNOWN: "namespace not known",
    ReservedReason.FAULTY_ANNOTATION: "annotation or flag not understood",
    ReservedReason.PINNED: "pinned",
    ReservedReason.PLACEHOLDER: "keeps room for others",
    ReservedReason.STATIC: "static pod",
    ReservedReason.BARE: "no controller",
    ReservedReason.JOB: "job, it ends",
    ReservedReason.UNKNOWN_OWNER: "owner of another kind",
    ReservedReason.GUARANTEED: "Guaranteed",
    ReservedReason.BEST_EFFORT: "BestEffort, no request to resize",
    ReservedReason.EXCLUSIVE_CPUS: "exclusive CPUs",
    ReservedReason.DEVICES: "holds devices",
    ReservedReason.WINDOWS: "Windows",
    ReservedReason.TOO_YOUNG: "too young",
    ReservedReason.NOT_RUNNING: "not running yet",
    ReservedReason.TERMINATING: "terminating",
    ReservedReason.NO_DATA: "nothing measured",
    ReservedReason.HPA: "scaled by an HPA",
    ReservedReason.VPA: "sized by a VPA",
    ReservedReason.LEFT_OUT: "cannot be planned soundly",
}
KEPT_WORDS: Final = {
    KeptReason.SMALL_CHANGE: "change too small",
    KeptReason.COOL_DOWN: "cool-down after its last resize",
    KeptReason.UPWARD_ONLY: "only upward for now",
    KeptReason.GAPS: "no prediction",
    KeptReason.QOS: "QoS class kept",
    KeptReason.HPA: "scaled by an HPA",
    KeptReason.NOT_STATED: "no request to resize",
    KeptReason.NODE_FULL: "node is full",
    KeptReason.RESTART_POLICY: "would restart it",
    KeptReason.TOO_OLD: "API server or kubelet too old",
    KeptReason.IN_USE: "too little over memory in use",
    KeptReason.INFEASIBLE: "answered infeasible before",
    KeptReason.IN_FLIGHT: "a resize is under way",
    KeptReason.POD_LEVEL: "the pod's budget carries it",
    KeptReason.NOT_APPLIED: "only looked at",
    KeptReason.PAUSED: "paused",
    KeptReason.BUDGET: "no resize left in this minute",
    KeptReason.DEFERRED: "last resize deferred",
    KeptReason.LIMIT_RANGE: "rejected before",
    KeptReason.CALM: "falls are asked for calmly",
    KeptReason.SMALL_FALL: "too small a fall while starvation is answered in seconds",
    KeptReason.READ_AT_START: "not lowered: its runtime reads its limit at start",
    KeptReason.HEAP: "not lowered: its runtime's fixed heap",
    KeptReason.BOOSTED: "boosted while it starts",
    KeptReason.WINDOW: "outside its windows",
    KeptReason.PROTECT: "mode protect: never lowered",
    KeptReason.TIER_FULL: "the QoS tier's memory limit",
    KeptReason.EVICTION_PENDING: "shares what is free until the proposed evictions",
}


def reserved_words(reserved: ReservedReason, share: str | None) -> str:
    """Return why a pod is left alone; ``share`` is the enforced share of its workload, None = there is none."""
    words = RESERVED_WORDS[reserved]
    if share is None or reserved not in (ReservedReason.NOT_IN_SHARE, ReservedReason.SHARE_TAKEN_BACK):
        return words
    return (
        f"enforced share of {share} taken back"
        if reserved is ReservedReason.SHARE_TAKEN_BACK
        else f"{words} of {share}"
    )


PHASE_WORDS: Final = {Phase.SHRINK: "shrink", Phase.GROW: "grow", Phase.LIMIT_DOWN: "limit down"}
POD_BUDGET: Final = "(pod)"
"""What a pod's own budget is called where containers have names."""
SIDE_OF: Final = {Resource.CPU: CPU, Resource.MEMORY: MEMORY}


def amount(resource: Resource, value: float | None) -> str:
    """Return an amount of a resource as people write it; a negative one with its sign."""
    text = SIDE_OF[resource].text
    return f"-{text(-value)}" if value is not None and value < 0 else text(value)


def headroom_words(sums: ResourcePlan) -> str | None:
    """Return where the headroom comes from, where it goes by what was seen together and fits; None = it does not."""
    joint = sums.joint
    if joint is None or sums.is_infeasible:
        return None
    seen = datetime.fromtimestamp(joint.seen_unix_seconds, UTC)
    words = (
        f"headroom {amount(sums.resource, sums.headroom)}: the containers were seen "
        f"{amount(sums.resource, joint.amount)} above their bases together at {seen:%H:%M UTC on %a %d %b}; "
        f"the largest single spike is {amount(sums.resource, sums.spike_largest)}"
    )
    wanted = max(sums.spike_largest, min(joint.amount, sums.spike_total))
    if joint.amount > sums.spike_total:
        words += f", and all spikes in sum are {amount(sums.resource, sums.spike_total)}, beyond which nobody asks"
    if wanted > sums.headroom:
        words += f"; {amount(sums.resource, wanted - sums.headroom)} of it do not fit, for which nobody has to go"
    return words


def change_words(change: Change, becomes: str) -> str:
    """Return ``CPU 500m -> 250m`` or ``memory limit 512MiB -> 400MiB``."""
    side = SIDE_OF[change.resource]
    what = side.title if change.setting is Setting.REQUEST else f"{side.title} limit"
    return f"{what} {side.text(change.before)} {becomes} {side.text(change.after)}"


def changes_words(changes: tuple[Change, ...], becomes: str) -> str:
    """Return all changes of a pod, container by container: ``app CPU 500m -> 250m, memory ...; proxy CPU ...``."""
    return "; ".join(
        f"{harmless(name) if name else POD_BUDGET} {', '.join(change_words(change, becomes) for change in own)}"
        for name, own in by_container(changes).items()
    )


def step_words(step: PlanStep) -> str:
    """Return what kind of step it is."""
    return f"{PHASE_WORDS[step.phase]}, urgent" if step.is_urgent else PHASE_WORDS[step.phase]


def share_of(side: AdviceSide, container: ContainerPlan) -> Share | None:
    """Return what a plan says of one resource of a container."""
    return container.cpu if side.resource is Resource.CPU else container.memory


def kept_words(container: ContainerPlan) -> str:
    """Return why a container's requests and limits are not what was planned; empty = they are."""
    texts: dict[str, list[str]] = {}
    for side in (CPU, MEMORY):
        for what, reason in _reasons(share_of(side, container)):
            texts.setdefault(reason, []).append(f"{side.title} {what}".rstrip())
    if len(texts) == 1:
        ((reason, subjects),) = texts.items()
        if subjects == [CPU.title, MEMORY.title]:
            return reason
    return "; ".join(f"{' and '.join(subjects)}: {reason}" for reason, subjects in texts.items())


def why_kept(reason: KeptReason, share: Share) -> str:
    """Return why a request is kept, and until when where that is known."""
    if share.waits_until_unix_seconds is None:
        return KEPT_WORDS[reason]
    moment = datetime.fromtimestamp(share.waits_until_unix_seconds, UTC)
    day = f"{moment:%Y-%m-%d} " if reason is KeptReason.WINDOW else ""
    return f"{KEPT_WORDS[reason]}, waits until {day}{moment:%H:%M} UTC"


def _reasons(share: Share | None) -> list[tuple[str, str]]:
    if share is None:
        return []
    reasons = []
    if share.withheld is not None:
        reasons.append(("", f"no prediction ({WITHHELD_WORDS[share.withheld]})"))
    elif share.kept is not None:
        reasons.append(("", why_kept(share.kept, share)))
    if share.limit_kept is not None:
        reasons.append(("limit", KEPT_WORDS[share.limit_kept]))
    return reasons

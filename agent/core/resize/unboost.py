"""What takes a boost back: the CPU that a pod had more while it started. Core, pure; time is an argument."""

from __future__ import annotations

from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import workload_of
from agent.core.plan.needs.given_boost import END_WORDS, BoostEnd, GivenBoost, standing_changes
from agent.core.plan.plan import Phase, PlanStep
from agent.core.resize.originals import ref_of


def unboost_step(pod: Pod, boost: GivenBoost, end: BoostEnd) -> PlanStep | None:
    """Return the step that lowers requests, and limits that were raised, to what the pod runs with; None = it has them.

    CPU alone, and all of it in one step: of a Guaranteed pod requests must equal limits at every moment.
    """
    changes = standing_changes(pod, boost)
    if not changes:
        return None
    return PlanStep(
        ref=ref_of(pod),
        workload=workload_of(pod),
        phase=Phase.SHRINK,
        changes=changes,
        reason=f"the start is over: {END_WORDS[end]}",
        is_urgent=True,
    )

"""What must hold of every plan, stated once: the planner, the tests and the agent all ask here. Core, pure.

Reckoned from the plan's own figures and the pods of the state, not with the planner's working values. The node's sums
are kept from step to step: of a pod that has been stepped, the requests of its spec after the step; of the others, what
they hold now.

Source:
    Facts on CruiseKube, section 14; facts on node agents, section 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import CPU, MEMORY, Pod, PodRef, Requirements
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import DAEMON_SET_KIND
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.order import Mode, Ranking
from agent.core.plan.node_room import counted, holds_room
from agent.core.plan.plan import ContainerPlan, Invariant, Plan, PlanStep, PodPlan, ResourcePlan, Share
from agent.core.plan.pod_change import Change, Setting, actuated, changed_numbers, changed_pod, number_of, pod_numbers

SPIKE: Final = "spike >= 0"
WITHIN: Final = "base <= final <= peak"
FINALS_FIT: Final = "sum of finals <= available, or nothing is written"
APPLIED_FIT: Final = "sum after all steps <= available, or no more than before"
HEADROOM: Final = "headroom <= what is left above the bases, and <= sum of spikes"
LIMITS: Final = "limit >= request"
LIMIT_WITHIN: Final = "no memory limit is raised above what the node has"
QOS: Final = "QoS class unchanged"
DAEMON_SETS: Final = "DaemonSets are neither evicted nor grown past what fits"
NO_EVICTION: Final = "no-eviction is not evicted"
UNTOUCHED: Final = "no step for pods that are reserved or only looked at; of evicted ones nothing falls"
ONLY_RISES: Final = "in mode protect nothing is lowered and nobody is evicted"
EVICTED_ONCE: Final = "at most one eviction per pod"
EVICTED_LARGER: Final = "evicted only if admission would ask for more"
PREFIXES: Final = "after every step the node holds its pods"
MEANINGFUL: Final = "every step changes what is there"
IN_PLAN: Final = "steps lead to what the plan says"

_NAMES: Final = (
    SPIKE,
    WITHIN,
    FINALS_FIT,
    APPLIED_FIT,
    HEADROOM,
    LIMITS,
    LIMIT_WITHIN,
    QOS,
    DAEMON_SETS,
    NO_EVICTION,
    UNTOUCHED,
    ONLY_RISES,
    EVICTED_ONCE,
    EVICTED_LARGER,
    PREFIXES,
    MEANINGFUL,
    IN_PLAN,
)
_NOTHING: Final = Requirements()


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What a plan was found to be."""

    invariants: tuple[Invariant, ...]
    pods: Mapping[str, str]
    """Uids of pods that break one by themselves, and what they break: without them the rest may be sound."""


def check(plan: Plan, state: NodeState) -> tuple[Invariant, ...]:
    """State every invariant of a plan for the node it was made for, in a fixed order, and where it does not hold."""
    return examine(plan, state).invariants


def examine(plan: Plan, state: NodeState) -> Examination:
    """State every invariant of a plan as ``check`` does, and which pods break one by themselves."""
    faults = _Faults()
    for pod in plan.pods:
        if pod.reserved is None:
            _check_shares(pod, plan.memory.allocatable, faults)
    for resource in (plan.cpu, plan.memory):
        _check_sums(resource, plan, faults)
    by_uid = {pod.ref.uid: pod for pod in plan.pods}
    _check_evictions(plan, by_uid, faults)
    _check_steps(plan, by_uid, state, faults)
    invariants = tuple(
        Invariant(name=name, holds=name not in faults.details, detail=faults.details.get(name, "")) for name in _NAMES
    )
    return Examination(invariants=invariants, pods=faults.pods)


@dataclass(slots=True)
class _Faults:
    """The first place at which each invariant does not hold."""

    details: dict[str, str] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    """By uid, the first fault of each pod that has one."""

    def add(self, name: str, detail: str, *uids: str) -> None:
        """Record a fault, and of whom it is; only the first of each kind. No uid = of the node's sums."""
        self.details.setdefault(name, detail)
        for uid in uids:
            self.pods.setdefault(uid, f"{name} does not hold for it ({detail})")


def _check_shares(pod: PodPlan, allocatable_memory_bytes: int, faults: _Faults) -> None:
    containers: Iterable[ContainerPlan] = pod.containers if pod.budget is None else (*pod.containers, pod.budget)
    for container in containers:
        for share in (container.cpu, container.memory):
            if share is None:
                continue
            final, limit, after = share.final, share.limit_applied, share.applied
            if share.spike < 0:
                faults.add(SPIKE, f"{_place(pod, container, share)}: {share.spike}", pod.ref.uid)
            if not share.base <= final <= share.peak:
                detail = f"{_place(pod, container, share)}: {share.base} <= {final} <= {share.peak}"
                faults.add(WITHIN, detail, pod.ref.uid)
            is_lower = (after or 0) < (share.request or 0) or (limit or 0) < (share.limit or 0)
            if pod.mode is Mode.PROTECT and is_lower:
                faults.add(ONLY_RISES, _place(pod, container, share), pod.ref.uid)
            if limit is not None and after is not None and limit < after:
                faults.add(LIMITS, f"{_place(pod, container, share)}: {limit} below {after}", pod.ref.uid)
        memory = container.memory
        if memory is None or memory.limit is None or memory.limit_applied is None:
            continue
        # One that has to stay above its request may be a byte more.
        most = max(memory.limit, allocatable_memory_bytes, (memory.applied or 0) + 1)
        if memory.limit_applied > most:
            detail = f"{_place(pod, container, memory)}: {memory.limit_applied} > {most}"
            faults.add(LIMIT_WITHIN, detail, pod.ref.uid)


def _place(pod: PodPlan, container: ContainerPlan, share: Share) -> str:
    return f"{pod.ref} {container.name or 'pod'} {Resource.CPU if share is container.cpu else Resource.MEMORY}"


def _check_sums(sums: ResourcePlan, plan: Plan, faults: _Faults) -> None:
    spikes = sum(share.spike for pod in plan.pods if not pod.is_evicted for share in _shares(pod, sums.resource))
    left = max(0, sums.available - sums.base_total)
    if sums.headroom > min(left, spikes):
        faults.add(HEADROOM, f"{sums.resource}: {sums.headroom} of {left}, spikes {spikes}")
    writes = any(change.resource is sums.resource for step in plan.steps for change in step.changes)
    if not sums.is_applied or sums.is_infeasible:
        if writes:
            faults.add(FINALS_FIT, f"{sums.resource} is written")
        return
    if sums.final_total > sums.available:
        faults.add(FINALS_FIT, f"{sums.resource}: {sums.final_total} > {sums.available}")
        if any(_grows(pod, sums.resource) for pod in plan.pods if pod.workload.kind == DAEMON_SET_KIND):
            faults.add(DAEMON_SETS, f"{sums.resource}: {sums.final_total} > {sums.available}")


def _grows(pod: PodPlan, resource: Resource) -> bool:
    return any(share.final > share.base for share in _shares(pod, resource))


def _shares(pod: PodPlan, resource: Resource) -> list[Share]:
    """Return a planned pod's shares of a resource, its own budget's among them."""
    containers = pod.containers if pod.budget is None else (*pod.containers, pod.budget)
    return [share for container in containers if (share := _of(container, resource)) is not None]


def _check_evictions(plan: Plan, pods: Mapping[str, PodPlan], faults: _Faults) -> None:
    seen: set[PodRef] = set()
    for eviction in plan.evictions:
        place = str(eviction.ref)
        pod = pods.get(eviction.ref.uid)
        if eviction.ref in seen:
            faults.add(EVICTED_ONCE, place, eviction.ref.uid)
        seen.add(eviction.ref)
        if eviction.workload.kind == DAEMON_SET_KIND:
            faults.add(DAEMON_SETS, place, eviction.ref.uid)
        if eviction.ranking is Ranking.NO_EVICTION:
            faults.add(NO_EVICTION, place, eviction.ref.uid)
        if pod is not None and pod.mode is Mode.PROTECT:
            faults.add(ONLY_RISES, f"{place} is evicted", eviction.ref.uid)
        if pod is None or pod.reserved is not None:
            faults.add(UNTOUCHED, f"{place} is evicted", eviction.ref.uid)
        elif not _returns_larger(pod, eviction.resource):
            faults.add(EVICTED_LARGER, place, eviction.ref.uid)


def _returns_larger(pod: PodPlan, resource: Resource) -> bool:
    """Return whether admission would ask for more than the pod has; of one that the plan lets go, after all steps."""
    budget = _of(pod.budget, resource) if pod.budget is not None else None
    shares = [_of(container, resource) for container in pod.containers] if budget is None else [budget]
    stated = [
        (share.peak, max(share.request, share.applied or 0) if pod.is_evicted else share.request)
        for share in shares
        if share is not None and share.request is not None
    ]
    return sum(peak for peak, _ in stated) > sum(request for _, request in stated)


def _of(container: ContainerPlan, resource: Resource) -> Share | None:
    return container.cpu if resource is Resource.CPU else container.memory


def _check_steps(plan: Plan, plans: Mapping[str, PodPlan], state: NodeState, faults: _Faults) -> None:
    if not plan.steps:
        return
    node = state.node
    if node is None or node.allocatable_cpu_millicores is None or node.allocatable_memory_bytes is None:
        faults.add(PREFIXES, "the node is not known")
        return
    pods = {pod.uid: pod for pod in state.pods if holds_room(pod)}
    if not pods.keys() <= plans.keys():
        faults.add(PREFIXES, "a pod of the node is not in the plan")
    allocatable = (node.allocatable_cpu_millicores, node.allocatable_memory_bytes)
    cpu = held_cpu = sum(pod.cpu_counted_millicores for pod in plan.pods)
    memory = held_memory = sum(pod.memory_counted_bytes for pod in plan.pods)
    stepped: dict[str, SteppedPod] = {}
    for step in plan.steps:
        uid = step.ref.uid
        pod, pod_plan = pods.get(uid), plans.get(uid)
        if pod is None or pod_plan is None:
            faults.add(UNTOUCHED, f"{step.ref} is not on the node")
            continue
        if pod_plan.reserved is not None or not pod_plan.mode.resizes:
            faults.add(UNTOUCHED, str(step.ref), uid)
        elif pod_plan.is_evicted and any(change.after < change.before for change in step.changes):
            faults.add(UNTOUCHED, f"{step.ref} is evicted, and falls", uid)
        if pod_plan.mode is Mode.PROTECT and any(change.after < change.before for change in step.changes):
            faults.add(ONLY_RISES, f"{step.phase} of {step.ref}", uid)
        after = stepped.get(uid)
        if after is None:
            after = stepped[uid] = SteppedPod(pod, (pod_plan.cpu_counted_millicores, pod_plan.memory_counted_bytes))
        held = after.held
        for fault, detail in after.take(step):
            faults.add(_FAULTS[fault], f"{step.phase} of {step.ref}: {detail}", uid)
        cpu += after.held[0] - held[0]
        memory += after.held[1] - held[1]
        for amount, more, most, unit in (
            (cpu, after.held[0] - held[0], allocatable[0], "millicores"),
            (memory, after.held[1] - held[1], allocatable[1], "bytes"),
        ):
            if more > 0 and amount > most:
                # With an odd one among those that were stepped, it is likelier that one that takes more than it says.
                odd = [each for each in stepped if pods[each].is_resize_infeasible]
                faults.add(PREFIXES, f"{step.phase} of {step.ref}: {amount} of {most} {unit}", *(odd or [uid]))
    fractions = sum(len(pod.containers) for pod in plan.pods)
    for sums, more, rest in (
        (plan.cpu, cpu - held_cpu, allocatable[0] - cpu),
        (plan.memory, memory - held_memory, allocatable[1] - memory),
    ):
        # Amounts of a plan are rounded up one by one: with room for all that is held it is fractions that are beyond.
        beyond = sums.applied_total - sums.available - (fractions if rest >= 0 else 0)
        if beyond > 0 and more > 0:
            faults.add(APPLIED_FIT, f"{sums.resource}: {sums.applied_total} > {sums.available}, by {more} more")
    for uid, after in stepped.items():
        _check_end(plans[uid], after, faults)


def _check_end(pod: PodPlan, after: SteppedPod, faults: _Faults) -> None:
    containers = pod.containers if pod.budget is None else (*pod.containers, pod.budget)
    for container in containers:
        numbers = after.numbers.get(container.name, _NOTHING)
        for resource, share in ((Resource.CPU, container.cpu), (Resource.MEMORY, container.memory)):
            if share is None:
                continue
            for setting, wanted in ((Setting.REQUEST, share.applied), (Setting.LIMIT, share.limit_applied)):
                number = number_of(numbers, resource, setting) or 0
                if wanted is not None and wanted != number:
                    detail = f"{pod.ref} {container.name or 'pod'}: {number} instead of {wanted}"
                    faults.add(IN_PLAN, detail, pod.ref.uid)


class Broken(StrEnum):
    """What a step must not do to a pod."""

    CHANGE = "change"
    """Change from what is not there, to what is there, or to nothing."""
    LIMIT = "limit"
    """A request above its limit."""
    QOS = "qos"


_FAULTS: Final = {Broken.CHANGE: MEANINGFUL, Broken.LIMIT: LIMITS, Broken.QOS: QOS}


class SteppedPod:
    """A pod between two steps, as if the kubelet had acted on all so far."""

    def __init__(self, pod: Pod, held: tuple[int, int]) -> None:
        self.held = held
        """Millicores and bytes; before the first step, what it holds now."""
        self.numbers = pod_numbers(pod)
        """What is stated after all steps so far."""
        self._original = dict(self.numbers)
        self._pod = pod
        self._steps: list[PlanStep] = []
        self._is_plain = not pod.init_containers and pod.resources is None and not pod.overhead

    def take(self, step: PlanStep) -> Iterator[tuple[Broken, str]]:
        """Apply a step; return what it breaks, and where."""
        self._steps.append(step)
        if not step.changes:
            yield Broken.CHANGE, "it changes nothing"
        for change in step.changes:
            numbers = self.numbers.get(change.container)
            stated = 0 if numbers is None else number_of(numbers, change.resource, change.setting) or 0
            if stated != change.before or change.before in (0, change.after):
                yield Broken.CHANGE, f"{_change_place(change)} from {change.before} to {change.after}"
            if change.after <= 0:
                yield Broken.CHANGE, f"{_change_place(change)} to {change.after}"
            if numbers is not None:
                self.numbers[change.container] = changed_numbers(numbers, change)
        keeps_shape = True
        for change in step.changes:
            numbers, original = self.numbers.get(change.container), self._original.get(change.container)
            if numbers is None or original is None:
                continue
            if _is_above_limit(numbers, change.resource):
                limit, request = (
                    number_of(numbers, change.resource, each) for each in (Setting.LIMIT, Setting.REQUEST)
                )
                # Rounded up, as all amounts of a plan are: fractions of one unit do not count.
                if limit and request and request > limit:
                    yield Broken.LIMIT, f"{_change_place(change)} {limit} below {request}"
            if _is_pair(numbers, change.resource) != _is_pair(original, change.resource):
                keeps_shape = False
        if self._is_plain and keeps_shape:
            # Each request that equalled its limit does, each other does not: every container keeps its class.
            requests = [numbers.requests for numbers in self.numbers.values()]
            self.held = (
                -(-sum([amounts.get(CPU, 0) for amounts in requests]) // NANOS_PER_MILLI),
                -(-sum([amounts.get(MEMORY, 0) for amounts in requests]) // NANOS_PER_UNIT),
            )
            return
        pod = self._pod
        for taken in self._steps:
            pod = changed_pod(pod, taken.changes)
        self.held = counted(actuated(pod))
        before, after = computed_qos_class(self._pod), computed_qos_class(pod)
        if before is not after:
            yield Broken.QOS, f"{after} after {before}"


def _is_pair(numbers: Requirements, resource: Resource) -> bool:
    return numbers.requests.get(resource, 0) == numbers.limits.get(resource, 0)


def _is_above_limit(numbers: Requirements, resource: Resource) -> bool:
    return 0 < numbers.limits.get(resource, 0) < numbers.requests.get(resource, 0)


def _change_place(change: Change) -> str:
    return f"{change.container or 'pod'} {change.resource} {change.setting}"

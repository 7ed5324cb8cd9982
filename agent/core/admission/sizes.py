"""What one container of a new pod is given, from what is known of its workload. Core, pure.

Amounts are millicores or bytes. A request or limit of 0 counts as not stated, as to Kubernetes. Only what is stated is
changed; a first memory limit alone is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.core.admission.answer import LeftReason, Note
from agent.core.admission.estimate import Estimate, EstimateSource
from agent.core.admission.limit_ranges import ANYTHING, AllowedRange
from agent.core.admission.options import AdmissionOptions
from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.pod import MEMORY, Container, Requirements
from agent.core.cluster.resource import Resource
from agent.core.cluster.runtime_profile import RuntimeProfile
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders.container_policies import NO_POLICY, ContainerPolicy
from agent.core.plan.pod_change import Setting
from agent.core.plan.sizing.container_sizing import MOST, Edges, bounded, limit_within, pair
from agent.core.recommender.policy import LimitRule


@dataclass(slots=True, kw_only=True)
class ContainerSide:
    """One resource of one container while it is worked on."""

    resource: Resource
    request_before: int | None
    limit_before: int | None
    request: int | None = None
    limit: int | None = None
    runtime: RuntimeProfile | None = None
    """Of memory: what its language runtime takes by its own flags; None = nothing that is known."""
    is_tied: bool = False
    """The limit moved in proportion to the request: one does not move without the other."""
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.request, self.limit = self.request_before, self.limit_before

    @property
    def is_changed(self) -> bool:
        """Return whether anything differs."""
        return self.request != self.request_before or self.limit != self.limit_before

    def copied(self) -> ContainerSide:
        """Return one that can be worked on without this one."""
        twin = ContainerSide(
            resource=self.resource,
            request_before=self.request_before,
            limit_before=self.limit_before,
            runtime=self.runtime,
            is_tied=self.is_tied,
            notes=list(self.notes),
        )
        twin.request, twin.limit = self.request, self.limit
        return twin

    def revert(self, left: LeftReason, by: str = "") -> None:
        """Leave everything as it came."""
        for setting, now, was in self._settings():
            if now != was:
                self.note(setting, left, by)
        self.request, self.limit = self.request_before, self.limit_before

    def revert_growth(self, setting: Setting, left: LeftReason, by: str) -> None:
        """Leave what would become more (a first limit, too) as it came; the rest follows so that it still holds."""
        is_pair = self.request == self.limit and self.request_before == self.limit_before
        if setting is Setting.REQUEST and (self.request or 0) > (self.request_before or 0):
            self.note(setting, left, by)
            self.request = self.request_before
        elif setting is Setting.LIMIT and (self.limit or 0) > (self.limit_before or 0):
            self.note(setting, left, by)
            self.limit = self.limit_before
        else:
            return
        if is_pair or self.is_tied:
            self.request, self.limit = self.request_before, self.limit_before
        elif self.limit is not None and self.request is not None:
            self.request = min(self.request, self.limit)

    def note(self, setting: Setting, left: LeftReason, by: str = "") -> None:
        """Record why something is left."""
        self.notes.append(Note(resource=self.resource, setting=setting, left=left, by=by))

    def _settings(self) -> tuple[tuple[Setting, int | None, int | None], ...]:
        return (
            (Setting.REQUEST, self.request, self.request_before),
            (Setting.LIMIT, self.limit, self.limit_before),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingRules:
    """What holds for all containers of one pod."""

    options: AdmissionOptions
    edges: Mapping[Resource, Edges]
    """With the bounds that the pod orders."""
    ordered: Mapping[Resource, tuple[int | None, int | None]]
    """Least and most by annotation alone: what is outside is changed however little that is."""
    limit_rule: LimitRule
    is_guaranteed: bool
    """Requests and limits are equal and move together."""
    is_daemon: bool
    grows_daemons: bool
    """DaemonSet pods are sized by the history of their node, or of nodes alike."""
    held: Mapping[Resource, tuple[LeftReason, str]] = field(default_factory=dict)
    """Resources that are left as a whole, why and by whom."""
    frozen: FrozenAxes = field(default_factory=FrozenAxes)
    """Whose requests an HPA divides by; of a resource whose requests all count ``held`` says it."""
    allowed: Mapping[Resource, AllowedRange] = field(default_factory=dict)
    only_raises: bool = False
    """Mode protect: nothing becomes less than it came with, no limit is taken off, and none set for the first time."""
    budget: Mapping[Resource, int] = field(default_factory=dict)
    """Limit of the pod as a whole, which no container's limit may pass and which takes the place of a first one."""
    policy: ContainerPolicy = NO_POLICY
    """What is ordered for the one container that is sized."""


def sides_of(container: Container) -> dict[Resource, ContainerSide]:
    """Return both resources of a container as it came."""
    return {
        resource: ContainerSide(
            resource=resource,
            request_before=request,
            limit_before=limit,
            runtime=container.runtime if resource is Resource.MEMORY else None,
        )
        for resource, (request, limit) in stated_amounts(container.resources).items()
    }


def stated_amounts(stated: Requirements) -> dict[Resource, tuple[int | None, int | None]]:
    """Return the request and the limit of both resources; millicores or bytes, None = not stated.

    Of a fraction (1.1Gi is no whole number of bytes) the request is rounded up and the limit down, so that a request
    that is raised to it is not above it; up as well where it would be below the request.
    """
    request_bytes, limit_bytes = stated.memory_request_bytes, stated.memory_limit_bytes
    if limit_bytes:
        whole_bytes = stated.limits[MEMORY] // NANOS_PER_UNIT
        limit_bytes = whole_bytes if whole_bytes >= max(request_bytes or 0, 1) else limit_bytes
    return {
        Resource.CPU: (stated.cpu_request_millicores or None, stated.cpu_limit_millicores or None),
        Resource.MEMORY: (request_bytes or None, limit_bytes or None),
    }


def size_container(sides: Mapping[Resource, ContainerSide], estimate: Estimate, rules: SizingRules) -> None:
    """Size both resources of a container, each by itself."""
    is_strict = rules.is_daemon and not (rules.grows_daemons and estimate.source is not EstimateSource.WORKLOAD)
    for resource, wanted in (
        (Resource.CPU, cpu_wish(estimate)),
        (Resource.MEMORY, memory_wish(estimate, rules.policy)),
    ):
        side = sides[resource]
        if side.request_before is None and side.limit_before is None:
            continue
        if resource in rules.held:
            side.note(Setting.REQUEST, *rules.held[resource])
        elif not rules.policy.sizes(resource):
            side.note(Setting.REQUEST, LeftReason.NOT_APPLIED)
        elif wanted is None:
            side.note(Setting.REQUEST, LeftReason.NO_FIGURE)
        else:
            _size(side, min(wanted, MOST), estimate, rules, is_strict=is_strict)
            if rules.only_raises:
                _keep_raised(side)


def _keep_raised(side: ContainerSide) -> None:
    """Take back what became less; a limit stays, or follows a request that passes it, and no first one is set."""
    request, limit = side.request, side.limit
    if request is not None:
        side.request = max(request, side.request_before or 0)
    side.limit = None if side.limit_before is None else max(limit or 0, side.limit_before, side.request or 0)
    for setting, wished, now in ((Setting.REQUEST, request, side.request), (Setting.LIMIT, limit, side.limit)):
        if wished != now:
            side.note(setting, LeftReason.PROTECT)


def cpu_wish(estimate: Estimate) -> int | None:
    """Return the predicted peak, else the largest seen; never below the base. None = nothing is known."""
    asked = estimate.cpu_max_millicores if estimate.cpu_request_millicores is None else estimate.cpu_request_millicores
    return None if asked is None else max(asked, estimate.cpu_base_millicores or 0)


def memory_wish(estimate: Estimate, policy: ContainerPolicy = NO_POLICY) -> int | None:
    """Return the same of memory; never below what was too little at a kill, and what its policy adds to that."""
    asked = estimate.memory_max_bytes if estimate.memory_request_bytes is None else estimate.memory_request_bytes
    killed = estimate.oom_memory_bytes
    needed = None if killed is None else policy.after_kill_bytes(killed)
    known = [amount for amount in (asked, needed) if amount is not None]
    return max(*known, estimate.memory_base_bytes or 0) if known else None


def _size(side: ContainerSide, wanted: int, estimate: Estimate, rules: SizingRules, *, is_strict: bool) -> None:
    amount = _with_heap(side, wanted, bounded(wanted, rules.edges[side.resource]), rules)
    if rules.is_guaranteed and rules.policy.are_limits_kept:
        side.note(Setting.REQUEST, LeftReason.QOS)  # the request alone may not part from its limit
        return
    if rules.is_guaranteed:
        _size_pair(side, amount, estimate, rules, is_strict=is_strict)
        return
    if side.request_before is None:
        side.note(Setting.REQUEST, LeftReason.NOT_STATED)
    elif is_strict:
        side.note(Setting.REQUEST, LeftReason.DAEMON_SET)
    else:
        side.request = _request(side, amount, rules)
    if rules.policy.are_limits_kept:
        _stay_below_limit(side, rules)
    elif rules.limit_rule is LimitRule.NEEDED and side.resource is Resource.MEMORY:
        _raise_needed_limit(side, estimate, rules)
    elif rules.limit_rule is not LimitRule.RAISE:
        _move_limit(side, estimate, rules)
    elif side.resource is Resource.CPU:
        _take_limit_off(side, rules)
    else:
        _set_memory_limit(side, amount, estimate, rules, is_strict=is_strict)


def _with_heap(side: ContainerSide, wanted: int, amount: int, rules: SizingRules) -> int:
    """Return a request for a fixed heap and what is beside it: raised to the most allowed, lowered to what it needs."""
    if side.runtime is None:
        return amount
    floor = side.runtime.request_floor_bytes(wanted)
    held = max(amount, bounded(floor, rules.edges[side.resource]) if floor else 0, min(floor, side.request_before or 0))
    if held > amount:
        side.note(Setting.REQUEST, LeftReason.RUNTIME, side.runtime.heap_source)
    return held


def _runtime_limit(side: ContainerSide, estimate: Estimate) -> int:
    """Return the least memory limit for what its runtime takes; 0 = any. It is read anew by the pod that is created."""
    if side.runtime is None:
        return 0
    least = side.runtime.least_limit_bytes(max(amount or 0 for amount in _seen(estimate)))
    if side.runtime.hidden:  # flags that nobody can read may fix a heap for the limit that there is
        least = max(least, side.limit_before or 0)
    return min(least, MOST)


def _unfilled_limit(side: ContainerSide, estimate: Estimate, rules: SizingRules) -> int | None:
    """Return the memory limit that is not raised, as to raise it would be to hope for use; None = it may be raised."""
    before, seen = side.limit_before, [amount for amount in _seen(estimate) if amount is not None]
    if side.runtime is None or before is None or not seen or before < rules.edges[side.resource].least:
        return None
    return before if side.runtime.leaves_unfilled(before, max(seen)) else None


def _seen(estimate: Estimate) -> tuple[int | None, int | None, int | None]:
    return estimate.memory_max_bytes, estimate.memory_alone_bytes, estimate.oom_memory_bytes


def _not_above(side: ContainerSide, amount: int, most: int | None) -> int:
    """Return a limit that is not raised past what was never nearly reached."""
    if most is None or amount <= most:
        return amount
    side.note(Setting.LIMIT, LeftReason.UNFILLED)
    return most


def _size_pair(side: ContainerSide, amount: int, estimate: Estimate, rules: SizingRules, *, is_strict: bool) -> None:
    """Set one amount as request and limit: it holds the peak, and what the limit should be, by itself."""
    if is_strict:
        side.note(Setting.REQUEST, LeftReason.DAEMON_SET)
        return
    wish = _memory_kept(side, estimate)
    if side.resource is Resource.MEMORY and rules.limit_rule is LimitRule.RAISE:
        wish = max(wish, _largest_seen(estimate, rules) or 0, _limit_alone(side, estimate, rules))
    both = bounded(pair(amount, wish), rules.edges[side.resource])
    side.request = side.limit = _request(side, _not_above(side, both, _unfilled_limit(side, estimate, rules)), rules)


def _request(side: ContainerSide, amount: int, rules: SizingRules) -> int:
    """Return the request: what the LimitRanges allow of the amount; as it is where memory differs by little."""
    allowed, before = rules.allowed.get(side.resource, ANYTHING), side.request_before or 0
    request = allowed.within(amount)
    if request != amount:
        side.note(Setting.REQUEST, LeftReason.LIMIT_RANGE, allowed.by)
    if side.resource is Resource.CPU or request == before or not _is_small(request, before, rules):
        return request
    least, most = rules.ordered.get(side.resource, (None, None))
    if (least is not None and before < least) or (most is not None and before > most):
        return request
    side.note(Setting.REQUEST, LeftReason.SMALL_CHANGE)
    return before


def _is_small(amount: int, before: int, rules: SizingRules) -> bool:
    return abs(amount - before) <= rules.options.memory_threshold_bytes


def _memory_kept(side: ContainerSide, estimate: Estimate) -> int:
    """Return how far a memory limit may fall: to what was in use at most, as no kernel asks for a percentile."""
    if side.resource is Resource.CPU or side.limit_before is None:
        return 0
    used = (amount or 0 for amount in _seen(estimate))
    return min(max(_runtime_limit(side, estimate), *used), side.limit_before)


def _move_limit(side: ContainerSide, estimate: Estimate, rules: SizingRules) -> None:
    """Keep the limit, or its ratio to the request: policies that mean limits by what they recommend."""
    if side.limit is None or side.request is None or side.request_before is None:
        return
    if rules.limit_rule is LimitRule.PROPORTIONAL:
        moved = max(side.limit * side.request // side.request_before, side.request)
        moved = _not_above(side, moved, _unfilled_limit(side, estimate, rules))
        side.request = min(side.request, moved)
        side.is_tied = True
        _put_limit(side, max(moved, side.request, _memory_kept(side, estimate)), rules)
        return
    _stay_below_limit(side, rules)


def _raise_needed_limit(side: ContainerSide, estimate: Estimate, rules: SizingRules) -> None:
    """Raise a memory limit that what was needed passes; a run that got through within its limit proves nothing more.

    So a run that fills whatever it is given, with file cache or a heap that goes by the limit, is not given ever more.
    """
    needed = max(estimate.memory_max_bytes or 0, estimate.oom_memory_bytes or 0)
    if side.limit is not None and needed > side.limit:
        within = limit_within(needed, side.limit, rules.edges[side.resource].most, rules.options.memory_limit_ratio)
        if within != needed:
            side.note(Setting.LIMIT, LeftReason.MAX_MEMORY)
        _put_limit(side, max(within, side.request or 0), rules)
    _stay_below_limit(side, rules)


def _stay_below_limit(side: ContainerSide, rules: SizingRules) -> None:
    """Fit the request to a limit that stays."""
    limit = side.limit
    if limit is None or side.request is None:
        return
    least = min(rules.allowed.get(side.resource, ANYTHING).least_request(limit), limit)
    if side.request > limit:
        side.note(Setting.REQUEST, LeftReason.LIMIT)
        side.request = limit
    elif side.request < least:
        side.note(Setting.REQUEST, LeftReason.LIMIT_RANGE, rules.allowed[side.resource].by)
        side.request = least


def _take_limit_off(side: ContainerSide, rules: SizingRules) -> None:
    """Remove a CPU limit; where it must stay, raise it to the request."""
    if side.limit is None:
        return
    allowed = rules.allowed.get(side.resource, ANYTHING)
    if not rules.options.cpu_limits_removed:
        side.note(Setting.LIMIT, LeftReason.NOT_APPLIED)
    elif allowed.limit_kept_for is not None:
        side.note(Setting.LIMIT, LeftReason.LIMIT_RANGE, allowed.limit_kept_for)
    else:
        side.limit = None
        return
    if side.request is not None and side.request > side.limit:
        _put_limit(side, side.request, rules)
    _stay_below_limit(side, rules)


def _set_memory_limit(
    side: ContainerSide, amount: int, estimate: Estimate, rules: SizingRules, *, is_strict: bool
) -> None:
    """Set the limit of twice what was ever needed, together with the request; a first one where nothing else limits.

    A request that stays, or moves by no more than is worth it, leaves the limit as it came. A limit without a request
    that may move with it (none is stated, or a DaemonSet's is left) goes by its own difference.

    Source:
        CruiseKube's webhook: one threshold, of the request, for both.
    """
    options, before = rules.options, side.limit_before
    if before is None and (is_strict or not options.memory_limits_added or Resource.MEMORY in rules.budget):
        return
    wish = _memory_limit_wish(side, amount, estimate, rules)
    if wish is None:
        _stay_below_limit(side, rules)
        return
    within = limit_within(wish, before, rules.edges[side.resource].most, options.memory_limit_ratio)
    limit = _not_above(side, max(within, side.request or 0), _unfilled_limit(side, estimate, rules))
    if is_strict and limit <= (before or 0):
        return
    left = _left_limit(side, limit, rules, is_strict=is_strict)
    if left is not None:
        if limit != before:
            side.note(Setting.LIMIT, left)
        _stay_below_limit(side, rules)
        return
    if within != wish:
        side.note(Setting.LIMIT, LeftReason.MAX_MEMORY)
    _put_limit(side, limit, rules)


def _memory_limit_wish(side: ContainerSide, amount: int, estimate: Estimate, rules: SizingRules) -> int | None:
    """Return what the limit should be; None = by nothing but what was seen, and nothing was."""
    options, before, unit = rules.options, side.limit_before, rules.edges[side.resource].unit
    of_request = int(amount * options.memory_limit_ratio) if options.memory_limit_of_request else 0
    wish = max(of_request, _largest_seen(estimate, rules) or 0, options.memory_limit_floor_bytes)
    if not wish:
        return None
    needed = min(_runtime_limit(side, estimate), before or MOST)
    if needed > wish and side.runtime is not None:
        side.note(Setting.LIMIT, LeftReason.RUNTIME, side.runtime.hidden or side.runtime.heap_source)
        wish = needed
    wish = min(-(-wish // unit) * unit, MOST)
    return max(wish, _limit_alone(side, estimate, rules))


def _limit_alone(side: ContainerSide, estimate: Estimate, rules: SizingRules) -> int:
    """Return how far a memory limit may fall by one node's word alone, which may be true; it raises none.

    A limit below it kills the busy one of unequal replicas.
    """
    return min(int((estimate.memory_alone_bytes or 0) * rules.options.memory_limit_ratio), side.limit_before or 0)


def _left_limit(side: ContainerSide, limit: int, rules: SizingRules, *, is_strict: bool) -> LeftReason | None:
    """Return why a memory limit stays as it came; None = it moves."""
    before = side.limit_before
    if is_strict or side.request is None or side.request_before is None:
        is_small = before is not None and _is_small(limit, before, rules)
        return LeftReason.SMALL_CHANGE if is_small else None
    stays = _is_small(side.request, side.request_before, rules) and (before is None or side.request <= before)
    return LeftReason.REQUEST_STAYS if stays else None


def _largest_seen(estimate: Estimate, rules: SizingRules) -> int | None:
    """Return the ratio times the largest memory of seven days and of kills; None = neither is known."""
    seen = [amount for amount in (estimate.memory_max_bytes, estimate.oom_memory_bytes) if amount is not None]
    return int(max(seen) * rules.options.memory_limit_ratio) if seen else None


def _put_limit(side: ContainerSide, wish: int, rules: SizingRules) -> None:
    """Set a limit as far as ranges and the pod's own limit allow; the request never passes it."""
    allowed = rules.allowed.get(side.resource, ANYTHING)
    limit = max(wish, allowed.least)
    most = allowed.most_limit(side.request or 0) if side.request is not None else allowed.most
    if most is not None and limit > most:
        side.note(Setting.LIMIT, LeftReason.LIMIT_RANGE, allowed.by)
        limit = most
    budget = rules.budget.get(side.resource)
    if budget is not None and limit > budget:
        side.note(Setting.LIMIT, LeftReason.POD_BUDGET)
        limit = budget
    side.limit = limit
    if side.request is not None and side.request > limit:
        side.request = limit

"""Which placeholder pods of a CapacityBuffer to make, resize and remove. Core, pure; time is an argument.

One pass looks at what there is and says what to do next, a bounded number of things at a time; what it has to remember
until the next pass it hands back. Names are given by number, so that a pass that is made twice, or by two replicas,
makes nothing twice. Pods that gave way to others are made again later each time: as long as real pods want the room
they have it. Where it is not known how many chunks there should be, pods stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.buffers.buffer import BUFFER_KIND, Buffer
from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.buffers.placeholder_pod import BUFFER_UID, PlaceholderShape
from agent.core.buffers.placeholder_state import PlaceholderState, after_setback
from agent.core.cluster.effective_resources import CountingRule, pod_requests
from agent.core.cluster.pod import RESIZE_PENDING, RUNNING, Pod, Requirements, has_ended
from agent.core.cluster.qos import pod_qos_class
from agent.core.orders.annotations import PLACEHOLDER_SHAPE, is_placeholder
from agent.core.resize.status import RESIZE_IN_PROGRESS

UNSEEN_SECONDS: Final = 30.0
"""A pod that was made and that the watch does not show within so long is not there."""
NEXT_PASS_SECONDS: Final = 1.0
REPLACED_AT_ONCE_RATIO: Final = 0.25
"""Of a buffer's pods at most, rounded up, in one pass: the rest goes on keeping its room."""
_LONGEST_STEM: Final = 40
"""Of the buffer's name in a pod's: a host is named by the first 63 characters of it."""
_NUMBER: Final = re.compile(r"-(0|[1-9][0-9]{0,8})\Z")
_POD_SCHEDULED: Final = "PodScheduled"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderWish:
    """What should be there of one buffer."""

    buffer: Buffer
    replicas: int | None
    """None = it cannot be told: nothing is made or removed."""
    shape: PlaceholderShape | None
    """None = a chunk requests nothing, or is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """One resize in place."""

    name: str
    uid: str
    containers: tuple[tuple[str, Requirements], ...]
    """What they should have; those that have it already are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomStanding:
    """How a buffer's room is kept at the moment."""

    wanted: int | None
    """Placeholder pods that there should be; None = it cannot be told."""
    asked: int | None
    """Chunks that the status asks for; more than ``wanted`` where that is capped or a chunk requests nothing."""
    ready: int
    """Scheduled, running, and as large as a chunk."""
    waiting: int
    """Without a node."""
    waiting_words: str
    """What the scheduler says of one of them."""
    starting: int
    """On a node, and not running yet."""
    changing: int
    """Running, and not as large as a chunk (yet)."""
    hold_until_unix_seconds: float | None = None
    """Those that are missing are made again then."""
    refusal: str | None = None

    @property
    def missing(self) -> int:
        """Count those that are not there."""
        return max((self.wanted or 0) - self.ready - self.waiting - self.starting - self.changing, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderPlan:
    """What to do now, in this order."""

    removals: tuple[tuple[str, str], ...]
    """Name and uid of pods."""
    resizings: tuple[Resizing, ...]
    creations: tuple[str, ...]
    state: PlaceholderState
    """If all of it is done."""
    again_seconds: float | None
    """When to look again though nothing changes; None = not before."""
    standing: RoomStanding


def buffer_uid_of(pod: Pod) -> str | None:
    """Return whose placeholder a pod is: of the buffer that controls it. None = nobody's: nothing is done to it."""
    owner = next((reference for reference in pod.owners if reference.is_controller), None)
    if owner is None or owner.kind != BUFFER_KIND or not is_placeholder(pod):
        return None
    return owner.uid if pod.labels.get(BUFFER_UID) == owner.uid else None


def stem_of(buffer: Buffer) -> str:
    """Return what the names of a buffer's placeholders begin with; of another buffer of the same name it is another."""
    return f"{buffer.name[:_LONGEST_STEM].rstrip('.-')}-room-{buffer.uid[:5]}"


def plan_placeholders(
    wish: PlaceholderWish,
    pods: Sequence[Pod],
    state: PlaceholderState,
    *,
    now_unix_seconds: float,
    options: PlaceholderOptions,
    can_resize: bool,
) -> PlaceholderPlan:
    """Return what to do next about one buffer's placeholders; ``pods`` are all that are seen, ended ones too."""
    seen = {pod.uid for pod in pods}
    names = {pod.name for pod in pods}
    unseen_pods = {
        name: since
        for name, since in state.made.items()
        if name not in names and now_unix_seconds - since < UNSEEN_SECONDS
    }
    removed = {
        uid: since for uid, since in state.removed.items() if uid in seen and now_unix_seconds - since < UNSEEN_SECONDS
    }
    living = [pod for pod in pods if is_living(pod) and pod.uid not in removed]
    uids = frozenset(pod.uid for pod in living)
    if state.living - uids:
        # They gave way to others, or their node went: nobody here removed them.
        state = after_setback(state, now_unix_seconds, options)
    state = replace(state, living=uids, removed=removed, unresizable=state.unresizable & seen, made=unseen_pods)
    wanted = _wanted(wish, options)
    turn = _Turn(wish=wish, options=options, state=state, now=now_unix_seconds, can_resize=can_resize)
    turn.remove([pod for pod in pods if has_ended(pod) and not pod.is_terminating and pod.uid not in removed])
    if wanted is not None:
        surplus = max(len(living) + len(unseen_pods) - wanted, 0)
        ordered = sorted(living, key=lambda pod: _order_of_removal(pod, wish.shape))
        turn.remove(ordered[:surplus])
        staying_pods = ordered[surplus:]
        turn.change(staying_pods)
        turn.create(
            wanted - len(staying_pods) - len(unseen_pods),
            names | unseen_pods.keys(),
            sum(_is_waiting(pod) for pod in staying_pods),
        )
    staying = [pod for pod in living if pod.uid not in turn.state.removed]
    return turn.plan(_standing(wish, wanted, staying, turn.state, now_unix_seconds))


class _Turn:
    def __init__(
        self,
        *,
        wish: PlaceholderWish,
        options: PlaceholderOptions,
        state: PlaceholderState,
        now: float,
        can_resize: bool,
    ) -> None:
        self.state = state
        self._wish, self._options, self._now, self._can_resize = wish, options, now, can_resize
        self._removals: list[tuple[str, str]] = []
        self._resizings: list[Resizing] = []
        self._creations: list[str] = []
        self._again: list[float] = []
        until = state.hold_until_unix_seconds
        self._is_held = until is not None and now < until

    def remove(self, pods: Sequence[Pod]) -> None:
        room = self._options.pods_per_pass - len(self._removals)
        if len(pods) > room:
            self._again.append(NEXT_PASS_SECONDS)
        for pod in pods[:room]:
            self._removals.append((pod.name, pod.uid))
        gone = dict.fromkeys((pod.uid for pod in pods[:room]), self._now)
        if gone:
            self._again.append(UNSEEN_SECONDS)
        self.state = replace(self.state, removed={**self.state.removed, **gone}, living=self.state.living - gone.keys())

    def change(self, pods: Sequence[Pod]) -> None:
        """Bring pods to the shape: in place where that can be, else by removing them, a part at a time."""
        shape = self._wish.shape
        if shape is None:
            return
        to_replace: list[Pod] = []
        for pod in pods:
            if not _has_shape(pod, shape) or pod.uid in self.state.unresizable:
                to_replace.append(pod)
                continue
            changes = _changes(pod, shape)
            if not changes:
                wait = self._wait_for_resize(pod)
                if wait is not None and wait <= 0.0:
                    to_replace.append(pod)
                elif wait is not None:
                    self._again.append(wait)
            elif not self._can_resize or pod.phase != RUNNING or not _keeps_class(pod, changes):
                to_replace.append(pod)
            elif len(self._resizings) < self._options.pods_per_pass:
                self._resizings.append(Resizing(name=pod.name, uid=pod.uid, containers=changes))
            else:
                self._again.append(NEXT_PASS_SECONDS)
        if self._is_held and any(not _is_waiting(pod) for pod in to_replace):
            # What goes now would not be made again before the hold is over: better the old size than none.
            to_replace = [pod for pod in to_replace if _is_waiting(pod)]
        most = max(-int(-len(pods) * REPLACED_AT_ONCE_RATIO // 1), 1)
        if len(to_replace) > most:
            self._again.append(NEXT_PASS_SECONDS)
        if to_replace:
            self.remove(to_replace[:most])
            self._again.append(NEXT_PASS_SECONDS)

    def create(self, missing: int, taken: set[str], waiting: int) -> None:
        """Create what is missing, under the lowest numbers that are free."""
        until = self.state.hold_until_unix_seconds
        if missing <= 0 or self._wish.shape is None:
            return
        if self._is_held and until is not None:
            self._again.append(until - self._now)
            return
        count = min(missing, self._options.pods_per_pass, max(self._options.most_waiting - waiting, 0))
        stem, number = stem_of(self._wish.buffer), 0
        while len(self._creations) < count:
            name = f"{stem}-{number}"
            if name not in taken:
                self._creations.append(name)
            number += 1
        if count < missing and waiting + count < self._options.most_waiting:
            self._again.append(NEXT_PASS_SECONDS)
        self._again.append(UNSEEN_SECONDS)
        self.state = replace(self.state, made={**self.state.made, **dict.fromkeys(self._creations, self._now)})

    def plan(self, standing: RoomStanding) -> PlaceholderPlan:
        return PlaceholderPlan(
            removals=tuple(self._removals),
            resizings=tuple(self._resizings),
            creations=tuple(self._creations),
            state=self.state,
            again_seconds=min(self._again, default=None),
            standing=standing,
        )

    def _wait_for_resize(self, pod: Pod) -> float | None:
        """Return how long to wait yet for a resize that is put off, 0 or less = no longer; None = there is none."""
        pending = pod.condition(RESIZE_PENDING)
        if pending is None:
            return None
        since = pending.last_transition_unix_seconds
        return 0.0 if since is None else since + self._options.resize_patience_seconds - self._now


# -- what there is -------------------------------------------------------------------------------------------------


def is_living(pod: Pod) -> bool:
    """Return whether a pod has not ended and is not going."""
    return not pod.is_terminating and not has_ended(pod)


def _is_waiting(pod: Pod) -> bool:
    return pod.node_name is None


def _has_shape(pod: Pod, shape: PlaceholderShape) -> bool:
    return pod.annotations.get(PLACEHOLDER_SHAPE) == shape.digest


def _changes(pod: Pod, shape: PlaceholderShape) -> tuple[tuple[str, Requirements], ...]:
    """Return the containers whose amounts are not what they should be; the rest is the namespace's doing."""
    stated = {container.name: container.resources for container in pod.containers}
    nothing = Requirements()
    return tuple(
        (name, wanted)
        for name, wanted in shape.containers
        if not _says(stated.get(name, nothing).requests, wanted.requests)
        or not _says(stated.get(name, nothing).limits, wanted.limits)
    )


def _says(amounts: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(amounts.get(name) == amount for name, amount in wanted.items())


def _keeps_class(pod: Pod, changes: tuple[tuple[str, Requirements], ...]) -> bool:
    """Return whether the pod's QoS class stays: a resize must not change it."""
    becomes = dict(changes)
    containers = tuple(
        replace(
            container,
            resources=Requirements(
                requests={**container.resources.requests, **becomes[container.name].requests},
                limits={**container.resources.limits, **becomes[container.name].limits},
            ),
        )
        if container.name in becomes
        else container
        for container in pod.containers
    )
    return pod_qos_class(replace(pod, recorded_qos=None, containers=containers)) is pod_qos_class(pod)


def _order_of_removal(pod: Pod, shape: PlaceholderShape | None) -> tuple[bool, bool, bool, int]:
    """Return who goes first: those without a node, then of another size, then not running; the highest number first."""
    number = _NUMBER.search(pod.name)
    is_other = shape is not None and (not _has_shape(pod, shape) or bool(_changes(pod, shape)))
    return not _is_waiting(pod), not is_other, pod.phase == RUNNING, -int(number[1]) if number is not None else 0


def _wanted(wish: PlaceholderWish, options: PlaceholderOptions) -> int | None:
    if wish.replicas is None:
        return None
    if wish.shape is None:
        return 0
    return min(max(wish.replicas, 0), options.most_pods_per_buffer)


def _standing(
    wish: PlaceholderWish,
    wanted: int | None,
    living: Sequence[Pod],
    state: PlaceholderState,
    now_unix_seconds: float,
) -> RoomStanding:
    waiting = [pod for pod in living if _is_waiting(pod)]
    bound = [pod for pod in living if not _is_waiting(pod)]
    running = [pod for pod in bound if pod.phase == RUNNING]
    ready = [pod for pod in running if _is_ready(pod, wish.shape)]
    until = state.hold_until_unix_seconds
    words = [
        condition.message
        for pod in waiting
        for condition in pod.conditions
        if condition.type == _POD_SCHEDULED and condition.message
    ]
    return RoomStanding(
        wanted=wanted,
        asked=wish.replicas,
        ready=len(ready),
        waiting=len(waiting),
        waiting_words=min(words, default=""),
        starting=len(bound) - len(running),
        changing=len(running) - len(ready),
        hold_until_unix_seconds=until if until is not None and now_unix_seconds < until else None,
        refusal=state.refusal,
    )


def _is_ready(pod: Pod, shape: PlaceholderShape | None) -> bool:
    if shape is None:
        return True
    is_moving = any(pod.condition(type_name) is not None for type_name in (RESIZE_PENDING, RESIZE_IN_PROGRESS))
    return _has_shape(pod, shape) and not _changes(pod, shape) and not is_moving and _is_granted(pod)


def _is_granted(pod: Pod) -> bool:
    """Return whether the kubelet has granted what is asked for; between the two there need not be a condition."""
    for container in pod.containers:
        status = pod.status_of(container.name)
        granted = None if status is None else status.allocated
        if granted is not None and any(
            granted.get(name, amount) < amount for name, amount in container.resources.requests.items()
        ):
            return False
    return True


_COUNTED: Final = CountingRule(use_status=True)
MOST_AT_ONCE: Final = 10
"""A proposal comes again in a minute if that was not enough."""


def who_gives_way(pods: Iterable[Pod], *, node: str, resource: str, lacking_nanos: int) -> tuple[Pod, ...]:
    """Choose placeholders of a node that hold what is lacking, as few and as small as will do; empty = none holds any.

    The smallest that is enough, else the largest and so on. Where 0 or less is lacking how much is not known: one goes.
    """
    held = [(pod_requests(pod, _COUNTED).get(resource, 0), pod.name, pod) for pod in pods if _may_go(pod, node)]
    left = sorted((candidate for candidate in held if candidate[0] > 0), key=lambda candidate: candidate[:2])
    chosen: list[Pod] = []
    lacking = max(lacking_nanos, 1)
    while left and lacking > 0 and len(chosen) < MOST_AT_ONCE:
        index = next((place for place, candidate in enumerate(left) if candidate[0] >= lacking), len(left) - 1)
        amount, _, pod = left.pop(index)
        chosen.append(pod)
        lacking -= amount
    return tuple(chosen)


def _may_go(pod: Pod, node: str) -> bool:
    return pod.node_name == node and buffer_uid_of(pod) is not None and is_living(pod)

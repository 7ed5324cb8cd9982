"""One look at the buffers of one namespace: find out, let core decide, write. Webhook; for the controller's thread.

A failure that passes (the server is away) leaves the statuses as they are; one that lasts is told in them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from agent.core.buffers.buffer import (
    ACTIVE_CAPACITY,
    OUR_STRATEGIES,
    PLACEHOLDER_PODS,
    Buffer,
    BufferOutcome,
    Condition,
    ManagedTemplate,
    NamespaceFacts,
    Pass,
    TemplateOrder,
    Unresolved,
)
from agent.core.buffers.reconciliation import is_ours, reconcile
from agent.kube.client.errors import ApiError, KubeError, TooLong
from agent.kube.objects.buffer_json import pod_of_template
from agent.kube.objects.json_reader import ConvertError
from agent.webhook.buffers.dedicated_pods import DedicatedPods
from agent.webhook.buffers.dry_run import NotTriedError
from agent.webhook.buffers.managed_templates import ManagedTemplates
from agent.webhook.buffers.placeholders import Placeholders
from agent.webhook.buffers.resolver import Resolution, Resolver, words_of
from agent.webhook.buffers.schedules import Schedules
from agent.webhook.buffers.seams import RoomOutcome
from agent.webhook.buffers.watches import BufferWatches
from agent.webhook.buffers.writer import BufferWriter, TugError
from agent.webhook.clocks import REAL_CLOCKS, Clocks

log = logging.getLogger(__name__)

ROUNDS: Final = 4
"""Of writing templates in one look; each but the first follows somebody who was quicker."""
NOT_COUNTED: Final = "placeholder pods are not read yet from the API server: what quotas leave is not known"
_LASTING: Final = frozenset({400, 403, 404, 405, 413, 422})
"""Refusals that asking again at once would not change."""
_SERVER_FAILED: Final = 500
_ALLOWED: Final = " and ".join(sorted(OUR_STRATEGIES))


class LostLeadError(Exception):
    """Another replica leads now: nothing may be written any more."""


class AgainError(Exception):
    """Somebody else writes the same objects; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceView:
    """What the last look at a namespace came to; for answers and metrics."""

    outcomes: tuple[BufferOutcome, ...] = ()
    passed_over: tuple[Buffer, ...] = ()
    sizing: Mapping[str, str] = field(default_factory=dict)
    """By buffer name: what became of the annotation that asks for a recommended size."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """By buffer name: why what it goes by could not be read anew."""
    faults: tuple[str, ...] = ()
    """What is wrong with quotas."""
    ready: Mapping[str, int] = field(default_factory=dict)
    """By buffer name: placeholder pods that run."""
    at_unix_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceVerdict:
    """What is to be done about a namespace next."""

    view: NamespaceView
    requeue: bool
    """Something failed and is to be tried again."""
    again_seconds: float | None
    """When it may come out otherwise though nothing changes; None = it will not."""


@dataclass(slots=True)
class PassCounts:
    """What was written since the start; for metrics."""

    templates: int = 0
    statuses: int = 0


@dataclass(frozen=True, slots=True)
class WriteTerms:
    """Whether statuses may be written, and whose."""

    may_write: Callable[[], bool]
    takes_over: bool = False
    """Statuses that another controller wrote are overwritten."""


class NamespacePasses:
    """Looks at namespaces; see the module's docstring."""

    def __init__(
        self,
        *,
        watches: BufferWatches,
        resolver: Resolver,
        writer: BufferWriter,
        keeper: Placeholders,
        activities: Schedules,
        dedicated: DedicatedPods,
        terms: WriteTerms,
        clocks: Clocks = REAL_CLOCKS,
    ) -> None:
        self._watches, self._resolver, self._writer = watches, resolver, writer
        self._keeper, self._activities, self._dedicated, self._terms = keeper, activities, dedicated, terms
        self._clock, self._wall_clock = clocks.monotonic, clocks.wall
        self.counts: Final = PassCounts()
        self._managed = ManagedTemplates(watches.templates.named, writer.read_template, writer.list_templates)
        self._provisioning: dict[str, Mapping[str, Condition]] = {}
        self._tugs: dict[str, dict[str, str]] = {}
        """By namespace and buffer name: who else writes a status that is ours, again and again."""
        self._tugs_now: dict[str, str] = {}
        """The same of the namespace that is being looked at: what is told meanwhile is of its look before."""
        self._tugs_told: set[str] = set()
        """uids of buffers of which the log has told that."""

    @property
    def is_fought(self) -> bool:
        """Return whether some status is left to another controller that writes it anew each time."""
        return any(tuple(self._tugs.values()))

    def clear(self) -> None:
        """Forget all: somebody else led meanwhile."""
        self._tugs.clear()
        self._tugs_told.clear()
        self._managed.clear()
        self._provisioning.clear()

    def forget(self, namespace: str) -> None:
        """The last buffer of a namespace is gone; its templates go with it.

        Raises:
            KubeError: Pods that kept its room could not be removed.
        """
        self._managed.keep_only(namespace, frozenset())
        self._provisioning.pop(namespace, None)
        self._tugs.pop(namespace, None)
        self._keeper.keep(namespace, (), {}, self._watches.version)

    def look(self, namespace: str, buffers: Sequence[Buffer], *, period_seconds: float) -> NamespaceVerdict:
        """Reconcile a namespace; what is older than the period is found out anew.

        Raises:
            KubeError: The server did not answer; what was written already is right.
            LostLeadError, AgainError: See there.
        """
        self._managed.keep_only(namespace, frozenset(buffer.name for buffer in buffers))
        self._managed.begin(namespace, period_seconds)
        now = self._wall_clock()
        inactive, schedules, again = self._scheduled(buffers, now)
        fillings = {buffer.name: self._dedicated.filling(buffer) for buffer in buffers}
        asked = {name: filling.fault for name, filling in fillings.items() if filling.fault is not None} | schedules
        buffers = [replace(buffer, fault=asked[buffer.name]) if buffer.name in asked else buffer for buffer in buffers]
        resolved = {buffer.name: self._resolve(buffer, period_seconds) for buffer in buffers if _is_resolvable(buffer)}
        templates = self._managed.standing(namespace, [buffer for buffer in buffers if is_ours(buffer)])
        # Quotas first: what was used by pods that are made meanwhile is no room for more.
        quotas = tuple(entry.quota for entry in self._watches.quotas.find(namespace))
        usage = self._keeper.usage(namespace)
        uncounted: dict[str, str] = {}
        if usage is None and quotas and any(buffer.strategy == PLACEHOLDER_PODS for buffer in buffers):
            uncounted = {buffer.name: NOT_COUNTED for buffer in buffers if is_ours(buffer)}
        facts = NamespaceFacts(
            buffers=tuple(buffers),
            shapes={name: resolution.shape for name, resolution in resolved.items()},
            held=frozenset(name for name, resolution in resolved.items() if resolution.is_held)
            | {name for name, filling in fillings.items() if not filling.is_known}
            | uncounted.keys(),
            templates=templates,
            quotas=quotas,
            written=self._managed.unwritable(namespace, resolved, templates),
            inactive=inactive,
            filled={name: filling.pods for name, filling in fillings.items() if filling.pods is not None},
            placeholder_class=self._keeper.priority_class,
            placeholder_usage=usage or {},
            provisioning=self._provisioning.get(namespace, {}),
        )
        facts, result = self._templates_written(facts, resolved)
        self._tugs_now = {}
        self._write_statuses(result.outcomes)
        for buffer in result.passed_over:
            self._check_lead()
            self._writer.tell_unknown_strategy(buffer, _ALLOWED)
        room, result = self._kept_room(namespace, facts, result)
        self._tugs[namespace] = self._tugs_now
        waits = [wait for wait in (again, room.again_seconds) if wait is not None]
        view = NamespaceView(
            outcomes=result.outcomes,
            passed_over=result.passed_over,
            sizing={name: resolution.sizing for name, resolution in resolved.items() if resolution.sizing is not None},
            troubles=uncounted
            | {name: filling.trouble for name, filling in fillings.items() if filling.trouble is not None}
            | {name: resolution.trouble for name, resolution in resolved.items() if resolution.trouble is not None}
            | self._tugs_now,
            faults=result.faults,
            ready=room.ready,
            at_unix_seconds=now,
        )
        is_open = any(resolution.trouble is not None or not resolution.is_final for resolution in resolved.values())
        return NamespaceVerdict(view=view, requeue=result.requeue or is_open, again_seconds=min(waits, default=None))

    # -- finding out -----------------------------------------------------------------------------------------------

    def _scheduled(self, buffers: Sequence[Buffer], now: float) -> tuple[dict[str, str], dict[str, str], float | None]:
        """Return by name why buffers are empty now, what of a schedule is not understood, and when that changes."""
        inactive: dict[str, str] = {}
        faults: dict[str, str] = {}
        waits: list[float] = []
        for buffer in buffers:
            if not is_ours(buffer):
                continue
            activity = self._activities(buffer, now)
            if activity.fault is not None:
                faults[buffer.name] = activity.fault
            elif activity.inactive is not None:
                inactive[buffer.name] = activity.inactive
            if activity.changes_in_seconds is not None:
                waits.append(activity.changes_in_seconds)
        return inactive, faults, min(waits, default=None)

    def _resolve(self, buffer: Buffer, period_seconds: float) -> Resolution:
        self._check_lead()
        is_held = self._managed.is_pod_held(buffer)
        try:
            return self._resolver.resolve(buffer, not_before=period_seconds, is_pod_held=is_held)
        except KubeError as error:
            is_provided = buffer.status.replicas is not None
            if is_provided and not _is_its_own(error):
                raise  # a server that is away for a moment is no reason to give up what is provided for
            return Resolution(shape=Unresolved(reason=words_of(error)), trouble=str(error), is_held=is_provided)

    # -- writing ---------------------------------------------------------------------------------------------------

    def _templates_written(
        self, facts: NamespaceFacts, resolved: Mapping[str, Resolution]
    ) -> tuple[NamespaceFacts, Pass]:
        """Carry orders out until there are none; what stands then, and what it comes to."""
        templates, written, faults = dict(facts.templates), set(facts.written), dict(facts.write_faults)
        for _ in range(ROUNDS):
            result = reconcile(facts, read_pod=pod_of_template, now_unix_seconds=self._wall_clock())
            if not result.orders:
                return facts, result
            for order in result.orders:
                self._carry_out(order, templates, written, faults, resolved)
            facts = replace(facts, templates=dict(templates), written=frozenset(written), write_faults=dict(faults))
        raise AgainError(f"managed templates of {facts.buffers[0].namespace} are written by somebody else too")

    def _carry_out(
        self,
        order: TemplateOrder,
        templates: dict[str, ManagedTemplate],
        written: set[str],
        faults: dict[str, str],
        resolved: Mapping[str, Resolution],
    ) -> None:
        buffer, name = order.buffer, order.template_name
        if self._managed.is_as_written(order, templates.get(name)):
            written.add(buffer.name)  # what differs are the server's own defaults
            return
        self._check_lead()
        try:
            template = self._writer.write_template(order)
            if template is None:
                templates.pop(name, None)
                standing_template = self._writer.read_template(buffer, name)
                if standing_template is not None:
                    templates[name] = standing_template
                return
        except ApiError as error:
            if error.status not in _LASTING:
                raise
            faults[buffer.name] = error.message or str(error)
            return
        except ConvertError as error:
            faults[buffer.name] = str(error)
            return
        self.counts.templates += 1
        templates[name] = template
        written.add(buffer.name)
        self._managed.wrote(order, template, resolved.get(buffer.name))

    def _write_statuses(self, outcomes: Sequence[BufferOutcome]) -> None:
        for outcome in outcomes:
            if not outcome.is_changed:
                continue
            self._check_lead()
            is_shared = outcome.buffer.strategy in (None, "", ACTIVE_CAPACITY)
            may_take_over = self._terms.takes_over or not is_shared
            try:
                document = self._writer.write_status(outcome.buffer, outcome.status, may_take_over=may_take_over)
            except TugError as error:
                self._tell_of_tug(outcome.buffer, str(error))
                continue  # its room is kept all the same
            if document is None:
                continue  # it is gone, or another one has its name: the watch tells
            self.counts.statuses += 1
            buffers = self._watches.buffers
            buffers.put_answer(buffers.entry(document), now_seconds=self._clock())

    def _tell_of_tug(self, buffer: Buffer, cause: str) -> None:
        words = "" if buffer.strategy in (None, "", ACTIVE_CAPACITY) else f", though its strategy is {buffer.strategy}"
        self._tugs_now[buffer.name] = f"{cause}{words}"
        if buffer.uid not in self._tugs_told:
            self._tugs_told.add(buffer.uid)
            log.warning(
                "another controller writes the status of a buffer again and again: leaving it to it",
                extra={"buffer": f"{buffer.namespace}/{buffer.name}", "cause": f"{cause}{words}"},
            )

    def _kept_room(self, namespace: str, facts: NamespaceFacts, result: Pass) -> tuple[RoomOutcome, Pass]:
        self._check_lead()
        room = self._keeper.keep(namespace, result.outcomes, facts.templates, self._watches.version)
        if room.provisioning != self._provisioning.get(namespace, {}):
            self._provisioning[namespace] = room.provisioning
            # Over the statuses as they were just written: whatever they are told of then is the condition alone.
            buffers = tuple(replace(outcome.buffer, status=outcome.status) for outcome in result.outcomes)
            facts = replace(facts, buffers=(*buffers, *result.passed_over), provisioning=room.provisioning)
            result = reconcile(facts, read_pod=pod_of_template, now_unix_seconds=self._wall_clock())
            self._write_statuses(result.outcomes)
        return room, result

    def _check_lead(self) -> None:
        if not self._terms.may_write():
            raise LostLeadError


def _is_its_own(error: KubeError) -> bool:
    """Return whether a failure is of what one buffer names: a webhook, an API of its own, its pods; others go on."""
    if isinstance(error, ApiError):
        return error.status >= _SERVER_FAILED
    return isinstance(error, (NotTriedError, TooLong))


def _is_resolvable(buffer: Buffer) -> bool:
    has_reference = buffer.template_ref is not None or buffer.scalable_ref is not None
    return is_ours(buffer) and has_reference and buffer.fault is None and not buffer.is_terminating

"""What the containers of a manifest should request: what the webhook would make of the pods that come of it. Face.

The rules are those of admission and nobody else's: a pod that is created from an edited manifest is admitted unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from agent.cli.gitops.manifests import LISTS, POD_SPECS, Instance
from agent.cli.gitops.resource_cells import CELLS, SECTIONS, ResourceCell, stating
from agent.core.admission.answer import Admission, AdmissionFacts, AdmissionOutcome
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate, is_stood_in_for, standing_in
from agent.core.admission.limit_ranges import UNIT_NANOS
from agent.core.admission.options import AdmissionSettings
from agent.core.admission.pod_admission import admit
from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Container, ContainerKind, Pod, Requirements
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import DAEMON_SET_KIND
from agent.core.numbers.quantity import QuantityError, format_quantity, parse_quantity
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.plan.pod_change import Setting
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import pod_from_json
from agent.kube.objects.pod_template import pods_of

if TYPE_CHECKING:
    from agent.webhook.queries.workload_bodies import AdviceBody, WorkloadBody

STALE_SECONDS: Final = 86_400.0
"""Older figures are of a workload that does not run (any more); of runs the last ones count, whenever they were."""
_MEMORY_REQUEST: Final = ResourceCell(Setting.REQUEST, Resource.MEMORY)
_MEMORY_LIMIT: Final = ResourceCell(Setting.LIMIT, Resource.MEMORY)


class WithoutAmounts(Exception):  # noqa: N818
    """The workload is left as it is, and why; one line."""


class FiguresOutOfReach(WithoutAmounts):
    """What is known of it is of days ago, or not loaded yet: there were figures, and may be again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerChange:
    """One container: what is written, and what should be."""

    list_name: str
    name: str
    stated: Mapping[ResourceCell, int]
    """Nanos, of what is written."""
    wanted: Mapping[ResourceCell, int | None]
    """Nanos, of what should be written otherwise; None = it goes."""
    notes: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Return the list that it stands in, and its name."""
        return self.list_name, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedAmounts:
    """What a workload's containers should state whatever they state today."""

    by_container: Mapping[str, Mapping[ResourceCell, int]]
    """Nanos; without what is not known."""
    without_memory: Sequence[str] = ()
    """Containers whose memory is recommended and left out, as it is not known which limit stands."""


def sized(
    instance: Instance, body: WorkloadBody, settings: AdmissionSettings, *, min_change_ratio: float, now: float
) -> tuple[ContainerChange, ...]:
    """Return what the containers of a workload should be given.

    Args:
        min_change_ratio: A smaller change of an amount is not made, as a share of what is written.

    Raises:
        WithoutAmounts: It is left as a whole.
    """
    namespace = instance.namespace or "default"
    metadata = instance.document.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    document = {**instance.document, "metadata": {**known, "name": instance.name, "namespace": namespace}}
    try:
        (pod_document,) = pods_of(document, str(instance))
        pod = pod_from_json(pod_document)
        stated = _stated(instance)
    except (ConvertError, QuantityError, ValueError) as error:
        raise WithoutAmounts(f"its manifest is not understood: {error}") from error
    admission = _admission(pod, body, settings, now)
    if admission.outcome not in (AdmissionOutcome.PATCHED, AdmissionOutcome.NOOP):
        raise WithoutAmounts(admission.why)
    final = _final(pod, admission)
    held = _held(body)
    changes = []
    for container in admission.containers:
        list_name = list_of(container.kind)
        written = stated.get((list_name, container.name), {})
        wanted = _wanted(written, final[list_name, container.name], min_change_ratio, only_grows=held is not None)
        notes = (*map(str, container.notes), *((held,) if held is not None else ()))
        changes.append(
            ContainerChange(
                list_name=list_name,
                name=container.name,
                stated=written,
                wanted=wanted,
                notes=tuple(dict.fromkeys(notes)),
            )
        )
    return tuple(changes)


def recommended(body: WorkloadBody, settings: AdmissionSettings, now: float) -> RecommendedAmounts:
    """Return what a workload's containers should state whatever they state today.

    Where one node alone told of more memory than counts, the limit is what admission makes of the one that stands, and
    is stated even if it stays: what a file that is made anew does not state is taken back when that is applied. Where
    none stands none is added.

    Raises:
        WithoutAmounts: Nothing is recommended.
    """
    if body.kind not in POD_SPECS or body.kind == DAEMON_SET_KIND:
        raise WithoutAmounts(f"pods of a {body.kind} are not sized by a template")
    gone = gone_containers(body)
    if gone and len(gone) == len(body.containers):
        raise WithoutAmounts("its pods have other containers now, of which nothing is known yet")
    amounts = _of_blank(body, settings, now, {})
    doubted = [
        known
        for known in body.containers
        if known.advice.memory_alone_bytes is not None and _MEMORY_LIMIT in amounts.get(known.container, {})
    ]
    limits = {known.container: known.memory_limit_bytes for known in doubted if known.memory_limit_bytes}
    if limits:
        amounts = _of_blank(body, settings, now, limits)
    for known in doubted:
        if known.container not in limits:
            amounts[known.container].pop(_MEMORY_LIMIT, None)
    without_memory = [known.container for known in doubted if known.kind is None]
    for name in without_memory:
        amounts[name].pop(_MEMORY_REQUEST, None)
    return RecommendedAmounts(
        by_container={name: cells for name, cells in amounts.items() if cells}, without_memory=without_memory
    )


def kinds_of(body: WorkloadBody) -> dict[str, ContainerKind]:
    """Return what containers are within their pod; without those of which it is not known."""
    kinds = {
        known.container: ContainerKind(known.kind) for known in body.containers if known.kind in tuple(ContainerKind)
    }
    if not kinds and len(body.containers) == 1 and body.pod_containers is None:
        # No pod with it is known, or the webhook is older than the field; but a pod has a regular container.
        kinds[body.containers[0].container] = ContainerKind.REGULAR
    return kinds


def gone_containers(body: WorkloadBody) -> list[str]:
    """Return the containers of its history that no pod has now; none where no pod is known."""
    present = kinds_of(body) if body.pod_containers is None else body.pod_containers
    return [known.container for known in body.containers if present and known.container not in present]


def list_of(kind: ContainerKind) -> str:
    """Return the list of a pod's spec that containers of a kind stand in."""
    return LISTS[1] if kind is ContainerKind.REGULAR else LISTS[0]


def quantity(cell: ResourceCell, nanos: int) -> str:
    """Write an amount as people do in manifests: ``250m``, ``1``, ``384Mi``."""
    return format_quantity(nanos, binary=cell.resource is Resource.MEMORY)


def advice_of(body: WorkloadBody, container: str) -> AdviceBody | None:
    """Return what is advised for a container; None = it is not known."""
    return next((known.advice for known in body.containers if known.container == container), None)


def _of_blank(
    body: WorkloadBody, settings: AdmissionSettings, now: float, limits: Mapping[str, int]
) -> dict[str, dict[ResourceCell, int]]:
    """Return what admission makes of containers that state next to nothing but these memory limits, nanos.

    Raises:
        WithoutAmounts: It makes nothing of them.
    """
    spec = _blank_spec(body, limits)
    for key in reversed(POD_SPECS[body.kind]):
        spec = {key: spec}
    document = {"kind": body.kind, "metadata": {"name": body.name, "namespace": body.namespace}, **spec}
    try:
        (pod_document,) = pods_of(document, body.name)
        pod = pod_from_json(pod_document)
    except ConvertError as error:
        raise WithoutAmounts(f"not understood: {error}") from error
    admission = _admission(pod, body, settings, now)
    if admission.outcome is not AdmissionOutcome.PATCHED:
        raise WithoutAmounts(admission.why)
    told = {(move.container, ResourceCell(move.setting, move.resource)) for move in admission.moves}
    told |= {(name, _MEMORY_LIMIT) for name in limits}
    return {
        name: {cell: nanos for cell, nanos in cells.items() if (name, cell) in told}
        for (_, name), cells in _final(pod, admission).items()
    }


def _blank_spec(body: WorkloadBody, limits: Mapping[str, int]) -> dict[str, object]:
    """Return a pod's spec with the containers that its pods have; where none is known, with all as regular ones."""
    requests = {"requests": {"cpu": "1m", "memory": "1"}}  # what is stated is changed, a limit is added
    kinds, gone = kinds_of(body), gone_containers(body)
    spec: dict[str, list[object]] = {list_name: [] for list_name in LISTS}
    for known in body.containers:
        if known.container in gone:
            continue
        kind = kinds.get(known.container, ContainerKind.REGULAR)
        restarts = {"restartPolicy": "Always"} if kind is ContainerKind.SIDECAR else {}
        limit = limits.get(known.container)
        stated = requests if limit is None else {**requests, "limits": {"memory": str(limit)}}
        spec[list_of(kind)].append({"name": known.container, "image": "any", "resources": stated, **restarts})
    return {**spec}


def _held(body: WorkloadBody) -> str | None:
    return None if body.applies.stop_shrinking_seconds is None else "only grows: it was killed out of memory lately"


def _stated(instance: Instance) -> dict[tuple[str, str], dict[ResourceCell, int]]:
    """Return what is written by container, and make sure that it stands where the layers say."""
    spec: object = instance.document
    for key in POD_SPECS[instance.kind]:
        spec = spec.get(key) if isinstance(spec, dict) else None
    by_container: dict[tuple[str, str], dict[ResourceCell, int]] = {}
    for list_name in LISTS:
        containers = spec.get(list_name) if isinstance(spec, dict) else None
        for container in containers if isinstance(containers, list) else ():
            if not isinstance(container, dict):
                continue
            place = list_name, str(container.get("name"))
            if place in by_container:
                raise ValueError(f"container {place[1]} stands twice")
            fault = next((layer for layer in instance.containers.get(place, ()) if layer.fault is not None), None)
            if fault is not None:
                raise WithoutAmounts(f"{fault.file.path}: {fault.fault}")
            by_container[place] = dict(_cells(container, instance, place))
    return by_container


def _cells(
    container: dict[str, object], instance: Instance, place: tuple[str, str]
) -> Iterator[tuple[ResourceCell, int]]:
    for cell in CELLS:
        value: object = container
        for key in ("resources", SECTIONS[cell.setting], cell.resource.value):
            value = value.get(key) if isinstance(value, dict) else None
        layers = stating(instance.containers.get(place, ()), cell)
        there = layers[-1].cells[cell].value if layers else None
        text = None if value is None else str(value)
        if text != there:
            raise ValueError(f"{cell} of container {place[1]} comes from elsewhere")
        if text is not None:
            yield cell, parse_quantity(text)


def _admission(pod: Pod, body: WorkloadBody, settings: AdmissionSettings, now: float) -> Admission:
    """Ask admission as if the workload were enforced, without what is for running pods alone."""
    applies = body.applies
    rule = {
        key: text
        for key, text in ((names.MODE, applies.mode.value), (names.POLICY, applies.policy.value))
        if text is not None
    }
    act = settings.act
    settings = replace(
        settings,
        act=replace(act, mode=Mode.ENFORCE) if act.mode is Mode.RECOMMEND else act,
        admission=replace(settings.admission, pod_limits=False),
        bounds=_bounds(body, settings.bounds),
    )
    return admit(
        replace(pod, annotations=_enforced(pod.annotations)),
        facts=AdmissionFacts(
            namespace=Namespace(name=pod.namespace, annotations=_enforced(applies.annotations)),
            frozen=FrozenAxes(
                cpu_for=applies.cpu_frozen_for,
                memory_for=applies.memory_frozen_for,
                cpu_containers=_names(applies.cpu_frozen_containers),
                memory_containers=_names(applies.memory_frozen_containers),
            ),
            left_alone_for=applies.left_alone_for,
            pause_reason=applies.pause.value,
            rule=_enforced(rule),
            autoscaler={
                names.PREFIX + bound.name: bound.value
                for bound in applies.bounds
                if names.PREFIX + bound.name == names.CONTAINER_POLICIES
            },
        ),
        estimates=_estimates(body),
        settings=settings,
        now_unix_seconds=now,
    )


def _names(containers: list[str] | None) -> tuple[str, ...] | None:
    return None if containers is None else tuple(containers)


def _enforced(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return orders with ``enforce`` for ``recommend``: a person merges what is written; a boost is no request."""
    orders = {key: text for key, text in annotations.items() if key != names.STARTUP_BOOST}
    if orders.get(names.MODE, "").strip() == Mode.RECOMMEND:
        orders[names.MODE] = Mode.ENFORCE
    return orders


def _bounds(body: WorkloadBody, bounds: BoundsOptions) -> BoundsOptions:
    """Return the bounds that the webhook says it has; those of the namespace stand in its annotations."""
    nanos_by_name = {
        bound.name: parse_quantity(bound.value) for bound in body.applies.bounds if bound.source.startswith("setting")
    }
    cpu = {name: nanos // NANOS_PER_MILLI for name, nanos in nanos_by_name.items()}
    memory = {name: nanos // NANOS_PER_UNIT for name, nanos in nanos_by_name.items()}
    return replace(
        bounds,
        min_cpu_millicores=cpu.get("min-cpu", bounds.min_cpu_millicores),
        max_cpu_millicores=cpu.get("max-cpu", bounds.max_cpu_millicores),
        min_memory_bytes=memory.get("min-memory", bounds.min_memory_bytes),
        max_memory_bytes=memory.get("max-memory", bounds.max_memory_bytes),
    )


def _estimates(body: WorkloadBody) -> Callable[[Container, PolicyName], Estimate | NoEstimate]:
    is_loaded = any(known.advice.missing != NoEstimate.NOT_LOADED for known in body.containers)

    def estimate_of(container: Container, policy: PolicyName) -> Estimate | NoEstimate:
        advice = advice_of(body, container.name)
        if advice is None:
            return NoEstimate.UNKNOWN_CONTAINER
        if not is_loaded:
            raise FiguresOutOfReach("its figures are not worked out yet; ask again in a minute")
        if advice.missing is not None:
            return NoEstimate(advice.missing) if advice.missing in tuple(NoEstimate) else NoEstimate.NOT_LOADED
        estimate = _estimate(advice)
        if estimate.source is not EstimateSource.RUNS and estimate.newest_age_seconds > STALE_SECONDS:
            days = estimate.newest_age_seconds / STALE_SECONDS
            raise FiguresOutOfReach(f"its newest figures are {days:.0f} days old")
        if estimate.policy is not policy and not is_stood_in_for(policy, by=estimate.policy):
            raise WithoutAmounts(f"it is to be sized by {policy}, and the figures are of {estimate.policy}")
        return standing_in(estimate, policy)

    return estimate_of


def _estimate(advice: AdviceBody) -> Estimate:
    try:
        policy, source = PolicyName(advice.policy), EstimateSource(advice.source or EstimateSource.WORKLOAD)
    except ValueError as error:
        raise WithoutAmounts(f"its figures are not understood: {error}") from error
    figures = (advice.cpu_request_millicores, advice.memory_request_bytes, advice.cpu_max_millicores)
    more = (advice.memory_max_bytes, advice.oom_memory_bytes, advice.cpu_base_millicores, advice.memory_base_bytes)
    if any(figure is not None and figure < 0 for figure in (*figures, *more, advice.memory_alone_bytes)):
        raise WithoutAmounts("its figures are not understood: one is below 0")
    return Estimate(
        source=source,
        policy=policy,
        cpu_request_millicores=advice.cpu_request_millicores,
        memory_request_bytes=advice.memory_request_bytes,
        cpu_max_millicores=advice.cpu_max_millicores,
        memory_max_bytes=advice.memory_max_bytes,
        oom_memory_bytes=advice.oom_memory_bytes,
        cpu_base_millicores=advice.cpu_base_millicores,
        memory_base_bytes=advice.memory_base_bytes,
        history_seconds=advice.history_seconds or 0.0,
        pods=advice.pods or 0,
        newest_age_seconds=advice.newest_age_seconds or 0.0,
        memory_alone_bytes=advice.memory_alone_bytes,
        imported_hours=advice.imported_hours,
    )


def _final(pod: Pod, admission: Admission) -> dict[tuple[str, str], dict[ResourceCell, int]]:
    """Return what each container would run with, nanos."""
    by_container: dict[tuple[str, str], dict[ResourceCell, int]] = {}
    for list_name, containers in zip(LISTS, (pod.init_containers, pod.containers), strict=True):
        for container in containers:
            by_container[list_name, container.name] = dict(_amounts(container.resources))
    for move in admission.moves:
        list_name = list_of(move.kind)
        cell = ResourceCell(move.setting, move.resource)
        if move.after is None:
            by_container[list_name, move.container].pop(cell, None)
        else:
            by_container[list_name, move.container][cell] = move.after * UNIT_NANOS[move.resource]
    return by_container


def _amounts(stated: Requirements) -> Iterator[tuple[ResourceCell, int]]:
    for setting, amounts in ((Setting.REQUEST, stated.requests), (Setting.LIMIT, stated.limits)):
        for resource in Resource:
            if amounts.get(resource.value):
                yield ResourceCell(setting, resource), amounts[resource.value]


def _wanted(
    written: Mapping[ResourceCell, int], final: Mapping[ResourceCell, int], ratio: float, *, only_grows: bool
) -> dict[ResourceCell, int | None]:
    """Return what is to be written otherwise, each resource by itself."""
    wanted: dict[ResourceCell, int | None] = {}
    for resource in Resource:
        wanted.update(_wanted_of(resource, written, final, ratio, only_grows=only_grows))
    return wanted


def _wanted_of(
    resource: Resource,
    written: Mapping[ResourceCell, int],
    final: Mapping[ResourceCell, int],
    ratio: float,
    *,
    only_grows: bool,
) -> dict[ResourceCell, int | None]:
    request, limit = ResourceCell(Setting.REQUEST, resource), ResourceCell(Setting.LIMIT, resource)
    before = {limit: written.get(limit), request: written.get(request, written.get(limit))}
    after = {limit: final.get(limit), request: final.get(request)}

    def kept(cells: Sequence[ResourceCell]) -> dict[ResourceCell, int | None]:
        return {cell: before[cell] if cell in cells else after[cell] for cell in (request, limit)}

    little = [cell for cell in (request, limit) if _is_little(before[cell], after[cell], ratio, only_grows=only_grows)]
    choice = kept(little)
    asked, most = choice[request], choice[limit]
    is_pair = before[request] == before[limit] and after[request] == after[limit]
    if (asked is not None and most is not None and asked > most) or (is_pair and len(little) == 1):
        choice = before if only_grows else after
    amounts: dict[ResourceCell, int | None] = {}
    if choice[limit] != written.get(limit):
        amounts[limit] = choice[limit]
    # A request that is not written is the limit: the API server fills it in.
    is_implied = request not in written and choice[request] == choice[limit]
    if not is_implied and choice[request] is not None and choice[request] != written.get(request):
        amounts[request] = choice[request]
    return amounts


def _is_little(before: int | None, after: int | None, ratio: float, *, only_grows: bool) -> bool:
    if before is None or after is None:
        return False
    return abs(after - before) < ratio * before or (only_grows and after < before)

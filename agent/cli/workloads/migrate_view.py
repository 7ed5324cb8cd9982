"""What would change of a VerticalPodAutoscaler under Plimsoll, for people and as JSON. Face, pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from agent.cli.text.paragraphs import Page, fact
from agent.cli.text.spans import Line, Span, Tone, harmless
from agent.core.autoscalers.vpa_orders import VpaOrders
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import RECOMMENDER
from agent.core.numbers.amount_text import amount_text
from agent.core.orders import annotations as names
from agent.core.orders.container_policies import ContainerPolicy, parse_container_policies
from agent.webhook.reports.bodies import Body

_PATCH = f'{{"spec":{{"recommenders":[{{"name":"{RECOMMENDER}"}}]}}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One object, and what it would order."""

    namespace: str
    name: str
    recommenders: tuple[str, ...] = ()
    """Empty = VPA's own."""
    orders: VpaOrders | None = None
    """None = it is not understood."""
    fault: str | None = None
    """Why it is not; then nothing would be done by it."""

    @property
    def is_ours(self) -> bool:
        """Return whether Plimsoll recommends for it already."""
        return RECOMMENDER in self.recommenders


def migrating_lines(migration: Migration, page: Page) -> Iterator[Line]:
    """Return an object as lines."""
    yield (Span(harmless(f"VPA {migration.namespace}/{migration.name}"), Tone.TITLE),)
    recommender = ", ".join(migration.recommenders) or "VPA's own"
    if migration.orders is None:
        yield from fact("recommender", recommender, page)
        yield from fact("not understood", f"{migration.fault}; its workload stays left alone", page, Tone.HOT)
        return
    vpa = migration.orders.vpa
    yield from fact("target", f"{vpa.target.kind} {vpa.target.name}", page)
    yield from fact("recommender", recommender, page)
    yield from fact(
        "update mode", f"{vpa.update_mode or 'Recreate (not stated)'}: {mode_words(migration.orders)}", page
    )
    if vpa.container_policies is not None and vpa.fault is None:
        for policy in parse_container_policies(vpa.container_policies).policies:
            yield from fact("container", f"{policy.container}: {policy_words(policy)}", page)
    boost = migration.orders.on_nodes.get(names.STARTUP_BOOST)
    if boost is not None:
        yield from fact("startup boost", boost, page)
    if migration.orders.min_replicas is not None:
        yield from fact("evictions", f"only while {migration.orders.min_replicas} pods run", page)
    for requirement in migration.orders.eviction_requirements:
        yield from fact("evictions", f"only with {requirement.direction} of {', '.join(requirement.resources)}", page)
    for fault in migration.orders.faults:
        yield from fact("not as there", fault, page, Tone.HOT)
    if not migration.is_ours:
        namespace, name = quote(migration.namespace), quote(migration.name)
        patch = f"kubectl -n {namespace} patch vpa {name} --type merge -p '{_PATCH}'"
        yield (*next(fact("to switch", "", page)), Span(harmless(patch)))


def mode_words(orders: VpaOrders) -> str:
    """Return what is done with the pods."""
    if orders.left_to is not None:
        return f"left to {orders.left_to}, which go by Plimsoll's status"
    if orders.vpa.is_managed:
        return "made by Plimsoll itself, orders nothing"
    new, running = orders.at_admission[names.MODE], orders.on_nodes[names.MODE]
    if new != running:
        return f"mode {new} for new pods, {running} for those that run"
    evicted = ", never evicted" if names.EVICTION_RANKING in orders.on_nodes else ""
    return f"mode {new}{evicted}"


def policy_words(policy: ContainerPolicy) -> str:
    """Return how a container is sized."""
    if policy.is_off:
        return "not sized"
    parts = [
        f"{resource} {_range(*policy.edges(resource), resource)}"
        for resource in Resource
        if policy.edges(resource) != (None, None)
    ]
    if policy.resources != tuple(Resource):
        parts.append(f"sized: {', '.join(policy.resources) or 'nothing'}")
    if policy.are_limits_kept:
        parts.append("limits stay")
    if policy.oom_bump_up_ratio is not None:
        parts.append(f"after a kill at least x {policy.oom_bump_up_ratio:g}")
    if policy.oom_min_bump_up_bytes is not None:
        parts.append(f"after a kill at least {amount_text(policy.oom_min_bump_up_bytes, Resource.MEMORY.unit)} more")
    return "; ".join(parts) or "sized as all"


class VpaTargetBody(Body, kw_only=True):
    """What a VPA names."""

    kind: str
    name: str


class MigratingBody(Body, kw_only=True):
    """What an object would order; null = it is not understood, or says nothing of it."""

    namespace: str
    name: str
    recommenders: list[str]
    """Empty = VPA's own."""
    fault: str | None
    target: VpaTargetBody | None
    update_mode: str | None
    new_pods: dict[str, str] | None
    """Orders by name, for pods that are made."""
    running_pods: dict[str, str] | None
    left_to: str | None
    """Who acts by its status in Plimsoll's place."""
    not_honoured: list[str]


def migrating_body(migration: Migration) -> MigratingBody:
    """Return an object as ``-o json`` has it."""
    orders = migration.orders
    known = {"namespace": migration.namespace, "name": migration.name}
    if orders is None:
        return MigratingBody(
            **known,
            recommenders=[*migration.recommenders],
            fault=migration.fault,
            target=None,
            update_mode=None,
            new_pods=None,
            running_pods=None,
            left_to=None,
            not_honoured=[],
        )
    vpa = orders.vpa
    return MigratingBody(
        **known,
        recommenders=[*migration.recommenders],
        fault=vpa.fault,
        target=VpaTargetBody(kind=vpa.target.kind, name=vpa.target.name),
        update_mode=None if vpa.update_mode is None else str(vpa.update_mode),
        new_pods=dict(orders.at_admission),
        running_pods=dict(orders.on_nodes),
        left_to=orders.left_to,
        not_honoured=[*orders.faults],
    )


def _range(least: int | None, most: int | None, resource: Resource) -> str:
    shown = ["" if amount is None else amount_text(amount, resource.unit) for amount in (least, most)]
    return f"{shown[0]}..{shown[1]}"

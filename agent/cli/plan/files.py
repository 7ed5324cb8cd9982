"""A plan made here from files: pods and node as kubectl prints them, recommendations as ``recommend`` does. Face.

Without recommendations nothing is predicted: every container counts as it stands, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.core.numbers.document_text import DocumentTextError, decoded, json_value
from agent.named_file import DOCUMENT_MOST_BYTES, called, read_named

if TYPE_CHECKING:
    from agent.core.cluster.node import Namespace, Node
    from agent.core.cluster.pod import Pod
    from agent.core.plan.plan import Plan
    from agent.core.recommender.recommendation import Recommendations
    from agent.settings import Settings

NOT_SEEN_TOGETHER: Final = (
    "what containers demand together is known to the agent alone: the headroom here is the largest single spike"
)
NO_RECOMMENDATIONS: Final = (
    "no recommendations: every container counts as it stands; plimsoll recommend -o json > FILE on the node, then "
    "--recommendations FILE, gives them"
)


class PlanFilesError(ValueError):
    """Files that no plan can be made from; one line: file, place, value, what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFiles:
    """What a plan is made from."""

    pods: Path
    """``kubectl get pods -A -o json``; pods of other nodes in it are left out."""
    node: Path
    """``kubectl get node NAME -o json``."""
    recommendations: Path | None = None
    """``plimsoll recommend -o json``; what ``--prices`` adds is left out."""
    namespaces: Path | None = None
    """``kubectl get namespaces -o json``."""


def offline_plan(files: PlanFiles, settings: Settings, *, as_enforced: bool, now_unix_seconds: float) -> Plan:
    """Return the plan of a node from files.

    Args:
        as_enforced: Plan pods of mode recommend as if they were enforced.
        now_unix_seconds: Wall clock, for the ages of pods where no recommendations tell a time.

    Raises:
        PlanFilesError: A file cannot be read or understood, or does not belong to the others.
    """
    from agent.calendar import ReadWindows
    from agent.core.cluster.node import NodeState
    from agent.core.cluster.versions import gates_of
    from agent.core.orders.plan_options import HeadroomRule
    from agent.core.orders.policy_options import PolicyName
    from agent.core.plan.needs.demands import DemandSettings, demands
    from agent.core.plan.planner import build
    from agent.core.resize.constraint import constraint_of
    from agent.kube.objects.pods_file import PodsFileError, load_pods

    node = _node(files.node)
    try:
        everyone = load_pods(files.pods)
    except PodsFileError as error:
        raise PlanFilesError(str(error)) from error
    pods, strangers = _of_node(everyone, node, files)
    recommended = None if files.recommendations is None else _recommendations(files.recommendations, node)
    notes = []
    if recommended is None:
        notes.append(NO_RECOMMENDATIONS)
    elif recommended.policy == PolicyName.PLIMSOLL and settings.plan.headroom is HeadroomRule.JOINT:
        notes.append(NOT_SEEN_TOGETHER)
    if strangers:
        are = "pods are" if strangers > 1 else "pod is"
        notes.append(f"{called(files.pods)}: {strangers} {are} of another node, or of none yet: left out")
    if files.namespaces is None:
        notes.append("no --namespaces: annotations of namespaces are not known")
    taken = now_unix_seconds if recommended is None else recommended.taken_unix_seconds
    state = NodeState(
        node=node,
        pods=pods,
        namespaces={} if files.namespaces is None else _namespaces(files.namespaces),
        # What the server can do is not in any file; the node's kubelet is never newer than it.
        server_version=node.kubelet_version,
    )
    wanted = demands(
        state,
        () if recommended is None else recommended.items,
        settings=DemandSettings(
            act=settings.act, plan=settings.plan, bounds=settings.bounds, policy=settings.recommend.policy
        ),
        pinned=frozenset(),
        barred=lambda _: False,
        as_enforced=as_enforced,
        now_unix_seconds=taken,
        read_windows=ReadWindows(),
    )
    plan = build(
        state,
        wanted,
        # As the agent would: it waits for a resize that is under way, or that the kubelet has put off.
        constraints={pod.uid: constraint_of(None, pod, settings.act, taken) for pod in pods},
        gates=gates_of(state.server_version, node),
        options=settings.plan,
        bounds=settings.bounds,
        taken_unix_seconds=taken,
    )
    return replace(plan, notes=(*plan.notes, *notes))


def _of_node(pods: tuple[Pod, ...], node: Node, files: PlanFiles) -> tuple[tuple[Pod, ...], int]:
    """Return the pods bound to the node, and how many are not."""
    own = tuple(pod for pod in pods if pod.node_name == node.name)
    if pods and not own:
        names = ", ".join(sorted({pod.node_name for pod in pods if pod.node_name is not None})[:5]) or "none"
        raise PlanFilesError(
            f"{called(files.pods)}: no pod is bound to node {node.name!r} of {called(files.node)}; bound to: {names}"
        )
    return own, len(pods) - len(own)


def _node(path: Path) -> Node:
    from agent.kube.objects.json_reader import ConvertError
    from agent.kube.objects.pod_json import node_from_json

    document = _json(path)
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list):
        if len(items) != 1:
            raise PlanFilesError(
                f"{called(path)}: a list of {len(items)} nodes; allowed: kubectl get node NAME -o json"
            )
        document = items[0]
    try:
        return node_from_json(document)
    except ConvertError as error:
        raise PlanFilesError(f"{called(path)}: {error}") from error


def _namespaces(path: Path) -> dict[str, Namespace]:
    from agent.kube.objects.json_reader import ConvertError
    from agent.kube.objects.pod_json import namespaces_from_json

    try:
        return {namespace.name: namespace for namespace in namespaces_from_json(_json(path))}
    except ConvertError as error:
        raise PlanFilesError(f"{called(path)}: {error}") from error


def _recommendations(path: Path, node: Node) -> Recommendations:
    from agent.node.files.documents import RECOMMENDATIONS, DocumentFormatError

    try:
        recommendations = RECOMMENDATIONS.from_json(_without_money(_json(path)))
    except DocumentFormatError as error:
        raise PlanFilesError(f"{called(path)}: {error}; allowed: the output of plimsoll recommend -o json") from error
    if recommendations.node != node.name:
        raise PlanFilesError(
            f"{called(path)}: of node {recommendations.node!r}, not {node.name!r}; allowed: recommendations of it"
        )
    return recommendations


def _without_money(document: object) -> object:
    """Return the document as it is without ``--prices``: what a plan does not look at is left out by its name."""
    if not isinstance(document, dict):
        return document
    plain = {key: value for key, value in document.items() if key != "prices"}
    items = plain.get("items")
    if isinstance(items, list):
        plain["items"] = [
            {key: value for key, value in item.items() if key != "money"} if isinstance(item, dict) else item
            for item in items
        ]
    return plain


def _json(path: Path) -> object:
    try:
        return json_value(decoded(read_named(path, most_bytes=DOCUMENT_MOST_BYTES)))
    except OSError as error:
        raise PlanFilesError(f"{called(path)}: cannot be read: {error.strerror or error} ({path})") from error
    except DocumentTextError as error:
        raise PlanFilesError(f"{called(path)}: {error}") from error

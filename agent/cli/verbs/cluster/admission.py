"""``plimsoll admission``: what the webhook would change in a new pod, from files, without a cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agent.cli.options.row_options import add_look_options
from agent.cli.options.settings_options import add_options, fail, file_or_stdin
from agent.cli.verbs.cluster.webhook import SETTINGS_LISTER

if TYPE_CHECKING:
    from agent.cli.workloads.admission_files import AskedPod, KnownContainer
    from agent.cli.workloads.admission_view import AdmittedPod
    from agent.core.admission.estimate import Estimate, NoEstimate
    from agent.core.admission.options import AdmissionSettings
    from agent.core.cluster.facts import NodeAmounts
    from agent.core.cluster.node import Namespace
    from agent.core.cluster.pod import Container, Pod
    from agent.core.orders.policy_options import PolicyName

NO_HISTORY: Final = (
    "no --history: nothing is known of any workload; plimsoll workloads -o json of one of them, > FILE, gives it"
)
NO_NAMESPACES: Final = "no --namespaces: annotations of namespaces are not known"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    parser.add_argument(
        "--pod",
        metavar="FILE",
        type=file_or_stdin,
        required=True,
        help="YAML or JSON of a pod, or of a workload such as a Deployment (its template); - reads standard input",
    )
    parser.add_argument(
        "--history",
        "--workloads",
        metavar="FILE",
        type=file_or_stdin,
        help="output of plimsoll workloads WORKLOAD -o json; without it there is no history and nothing is sized",
    )
    parser.add_argument(
        "--namespaces", metavar="FILE", type=file_or_stdin, help="output of kubectl get namespaces -o json"
    )
    parser.add_argument(
        "--nodes",
        metavar="FILE",
        type=file_or_stdin,
        help="output of kubectl get nodes -o json; growth beyond the pod's node (else the largest) is left out",
    )
    parser.add_argument(
        "--server-version",
        metavar="VERSION",
        help="version of API server and kubelets, for instance v1.34.1; plimsoll.dev/pod-limits depends on it",
    )
    parser.add_argument("--what-if", action="store_true", help="answer as if every pod in mode recommend were enforced")
    add_look_options(parser)
    add_options(parser, lister=SETTINGS_LISTER)
    parser.epilog = "Exit code: 0 shown, 1 a pod would be denied, 2 bad input."


def run(arguments: argparse.Namespace) -> int:
    """Admit the pods of a file."""
    from agent.cli.workloads.admission_files import (
        AdmissionFilesError,
        load_asked_pods,
        load_history,
        load_namespaces,
        load_nodes,
    )
    from agent.core.admission.answer import AdmissionOutcome

    _check_version(arguments.server_version)
    _check_stdin(arguments)
    settings = _settings(arguments)
    try:
        asked = load_asked_pods(arguments.pod)
        known = () if arguments.history is None else load_history(arguments.history)
        namespaces = {} if arguments.namespaces is None else load_namespaces(arguments.namespaces)
        nodes = {} if arguments.nodes is None else load_nodes(arguments.nodes)
    except AdmissionFilesError as error:
        fail(f"admission: {error}")
    pods = [_admitted(entry, known, namespaces, nodes, settings, arguments) for entry in asked]
    notes = [
        text
        for text, is_missing in (
            (NO_HISTORY, arguments.history is None),
            (NO_NAMESPACES, arguments.namespaces is None),
        )
        if is_missing
    ]
    _print(pods, notes, arguments)
    return 1 if any(pod.admission.outcome is AdmissionOutcome.DENIED for pod in pods) else 0


def _check_version(text: str | None) -> None:
    from agent.core.cluster.versions import parse_version

    if text is not None and parse_version(text) is None:
        fail(f"admission: --server-version: {text!r} is not allowed; allowed: a version such as v1.34.1")


def _settings(arguments: argparse.Namespace) -> AdmissionSettings:
    """Return the webhook's settings: it is the one that would admit the pod."""
    try:
        from agent.cli.verbs.cluster.webhook import webhook_settings_from

        return webhook_settings_from(arguments).of_admission()
    except ModuleNotFoundError as error:
        fail(f"admission: {error.name} is not installed; allowed: pip install 'plimsoll[webhook]'")


def _check_stdin(arguments: argparse.Namespace) -> None:
    given = [
        name for name in ("pod", "history", "namespaces", "nodes") if getattr(arguments, name) == file_or_stdin("-")
    ]
    if len(given) > 1:
        fail(f"admission: {' and '.join(f'--{name} -' for name in given)}: standard input can be read only once")


def _admitted(
    asked: AskedPod,
    known: Sequence[KnownContainer],
    namespaces: dict[str, Namespace],
    nodes: dict[str, NodeAmounts],
    settings: AdmissionSettings,
    arguments: argparse.Namespace,
) -> AdmittedPod:
    from agent.cli.workloads.admission_view import AdmittedPod
    from agent.core.admission.answer import AdmissionFacts
    from agent.core.admission.pod_admission import admit
    from agent.core.cluster.facts import largest_of
    from agent.core.cluster.node import Namespace
    from agent.core.cluster.versions import resize_supported
    from agent.core.machine.pod_limits import cluster_knows_pod_level

    pod = asked.pod
    namespace = namespaces.get(pod.namespace, Namespace(name=pod.namespace))
    if arguments.what_if:
        pod, settings = _as_enforced(pod, namespace, settings)
    version = arguments.server_version
    admission = admit(
        pod,
        facts=AdmissionFacts(
            namespace=namespace,
            room=nodes.get(asked.node or "") or largest_of(nodes.values()),
            knows_pod_level_resources=cluster_knows_pod_level(version, version),
            resizes_in_place=None if version is None else resize_supported(version),
        ),
        estimates=_estimates(asked, known),
        settings=settings,
        now_unix_seconds=time.time(),
    )
    metadata = asked.document.get("metadata")
    has_annotations = isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict)
    return AdmittedPod(namespace=pod.namespace, name=pod.name, admission=admission, has_annotations=has_annotations)


def _as_enforced(pod: Pod, namespace: Namespace, settings: AdmissionSettings) -> tuple[Pod, AdmissionSettings]:
    """Return the pod and the settings with mode enforce wherever they say recommend."""
    from agent.core.orders.annotations import MODE
    from agent.core.orders.order import Mode
    from agent.core.orders.resolution import labelled

    act = replace(settings.act, mode=Mode.ENFORCE) if settings.act.mode is Mode.RECOMMEND else settings.act
    stated = {**labelled(namespace), **namespace.annotations, **pod.annotations}.get(MODE)
    if stated is not None and stated.strip() == Mode.RECOMMEND:
        pod = replace(pod, annotations={**pod.annotations, MODE: Mode.ENFORCE})
    return pod, replace(settings, act=act)


def _estimates(
    asked: AskedPod, known: Sequence[KnownContainer]
) -> Callable[[Container, PolicyName], Estimate | NoEstimate]:
    """Find containers in what the file knows; of a node's own history only the pod's node counts."""
    from agent.core.admission.estimate import NoEstimate, is_stood_in_for, standing_in
    from agent.core.cluster.workload import workload_of

    workload = workload_of(asked.pod)
    place = (workload.namespace, workload.kind, workload.name)
    own = [entry for entry in known if (entry.namespace, entry.kind, entry.name) == place]

    def estimate_of(container: Container, policy: PolicyName) -> Estimate | NoEstimate:
        if not own:
            return NoEstimate.UNKNOWN_WORKLOAD
        fitting = [
            entry
            for entry in own
            if entry.container == container.name
            and (entry.estimate.policy is policy or is_stood_in_for(policy, by=entry.estimate.policy))
            and entry.node in (None, asked.node)
        ]
        # That of its own node first, then that of the policy itself.
        chosen = min(fitting, key=lambda entry: (entry.node is None, entry.estimate.policy is not policy), default=None)
        return NoEstimate.UNKNOWN_CONTAINER if chosen is None else standing_in(chosen.estimate, policy)

    return estimate_of


def _print(pods: Sequence[AdmittedPod], notes: Sequence[str], arguments: argparse.Namespace) -> None:
    from agent.cli.top.terminal import look_from, write_lines, write_text
    from agent.cli.workloads.admission_view import json_text, page_lines

    if arguments.output == "json":
        write_text(json_text(pods, notes))
        return
    look = look_from(arguments)
    write_lines(page_lines(pods, notes, width=look.width, glyphs=look.glyphs), has_colour=look.has_colour)

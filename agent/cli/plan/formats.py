"""A plan for machines: ``-o json``, ``csv``, and ``patch`` for kubectl. Face, pure.

Every name carries its unit. What is not there is null or an empty cell; never 0.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from agent.cli.text.csv_text import csv_table
from agent.cli.text.spans import harmless
from agent.cli.words.advice import SIDES
from agent.cli.words.plan import KEPT_WORDS, changes_words, kept_words, share_of, step_words
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.plan import ContainerPlan, Plan, PlanStep, PodPlan, Share
from agent.core.resize.patch import patch_of
from agent.node.files.documents import PLAN

_UNITS: Final = {"cpu": "millicores", "memory": "bytes"}
_FIGURES: Final = ("base", "peak", "spike", "headroom", "final", "request", "applied", "limit", "limit_applied")
_REASONS: Final = ("kept", "limit_kept", "withheld")
CSV_HEADER: Final[tuple[str, ...]] = (
    "taken_unix_seconds",
    "node",
    "namespace",
    "pod",
    "pod_uid",
    "workload_kind",
    "workload_name",
    "mode",
    "ranking",
    "reserved",
    "is_evicted",
    "pod_cpu_counted_millicores",
    "pod_memory_counted_bytes",
    "container",
    "container_kind",
    *(
        name
        for side in SIDES
        for name in (
            *(f"{side.resource}_{figure}_{_UNITS[side.resource]}" for figure in _FIGURES),
            *(f"{side.resource}_{reason}" for reason in _REASONS),
        )
    ),
    "reason",
)


def json_text(plan: Plan) -> str:
    """Return the document that the socket gives, indented; ASCII, so no name can steer a terminal."""
    return json.dumps(PLAN.to_json(plan), indent=2, allow_nan=False) + "\n"


def csv_text(plan: Plan) -> str:
    """Return a line per container under a line of names.

    A pod's own budget has a line with an empty container name; a pod of which nothing but its sum is known, one without
    a name.
    """
    return csv_table(
        CSV_HEADER,
        (
            _cells(plan, pod, container)
            for pod in plan.pods
            for container in (*(() if pod.budget is None else (pod.budget,)), *pod.containers) or (None,)
        ),
    )


def _cells(plan: Plan, pod: PodPlan, container: ContainerPlan | None) -> list[object]:
    row: list[object] = [plan.taken_unix_seconds, plan.node, pod.ref.namespace, pod.ref.name, pod.ref.uid]
    row += [pod.workload.kind, pod.workload.name, pod.mode, pod.ranking, pod.reserved, pod.is_evicted]
    row += [pod.cpu_counted_millicores, pod.memory_counted_bytes]
    row += [None, None] if container is None else [container.name, container.kind if container.name else None]
    for side in SIDES:
        row += _share_cells(None if container is None else share_of(side, container))
    row.append("" if container is None else kept_words(container))
    return row


def _share_cells(share: Share | None) -> list[object]:
    return [None if share is None else getattr(share, name) for name in (*_FIGURES, *_REASONS)]


# kubectl


def patch_text(plan: Plan) -> str:
    """Return a shell script: for each step, in order, a comment with both values, and the kubectl command."""
    moment = datetime.fromtimestamp(plan.taken_unix_seconds, tz=UTC)
    lines = [f"# plan of {harmless(plan.node)}, {moment:%Y-%m-%dT%H:%M:%SZ}; kubectl 1.32 or newer"]
    if plan.steps:
        lines.append("# in this order; before a step that grows, wait until the kubelet has those that shrink in force")
    for number, step in enumerate(plan.steps, 1):
        words = f"{number}. {step_words(step)} {step.ref}: {changes_words(step.changes, 'to')} ({step.reason})"
        lines += [f"# {harmless(words)}", command_of(step)]
    for pod, reason in _waiting(plan):
        lines.append(f"# {harmless(str(pod.ref))} waits: {KEPT_WORDS[reason]}")
    if not plan.steps:
        lines.append("# nothing to resize")
    return "\n".join(lines) + "\n"


def _waiting(plan: Plan) -> Iterator[tuple[PodPlan, KeptReason]]:
    """Return the pods that have to wait for the kubelet's answer to an earlier resize."""
    for pod in plan.pods:
        containers = pod.containers if pod.budget is None else (*pod.containers, pod.budget)
        shares = [share for container in containers for share in (container.cpu, container.memory) if share is not None]
        reasons = {reason for share in shares for reason in (share.kept, share.limit_kept)}
        for reason in (KeptReason.DEFERRED, KeptReason.IN_FLIGHT):
            if reason in reasons:
                yield pod, reason


def command_of(step: PlanStep) -> str:
    """Return the command line of one step, quoted for a shell; it names the pod's uid, so no successor is touched."""
    patch = json.dumps(patch_of(step), separators=(",", ":"))
    words = ("kubectl", "patch", "pod", step.ref.name, "--namespace", step.ref.namespace, "--subresource", "resize")
    return shlex.join((*words, "--type", "strategic", "--patch", patch))


def left_out_line(plan: Plan) -> str | None:
    """Return what a script of patches does not do; None = it does all of the plan."""
    if not plan.evictions:
        return None
    names = ", ".join(harmless(str(eviction.ref)) for eviction in plan.evictions[:5])
    more = len(plan.evictions) - 5
    return f"left out, proposed evictions: {names}" + (f" and {more} more" if more > 0 else "")

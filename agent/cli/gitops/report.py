"""What was changed and why: lines for a terminal, and Markdown for a merge request. Face, pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from agent.cli.gitops.amounts import advice_of
from agent.cli.gitops.manifests import Instance
from agent.cli.gitops.proposal import AmountChange, LeftAlone, ManifestProposal
from agent.cli.gitops.resource_cells import ResourceCell
from agent.cli.text.figures import age_text, bytes_text, counted, millicores_text
from agent.cli.text.markdown import plain_text, table_lines
from agent.cli.text.spans import Line, Span, Tone, harmless
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.plan.pod_change import Setting
from agent.webhook.queries.workload_bodies import WorkloadBody

Bodies = Callable[[Instance], WorkloadBody | None]
_TOTALS: Final = tuple(ResourceCell(Setting.REQUEST, resource) for resource in Resource)


def lines_of(proposal: ManifestProposal, left: Sequence[LeftAlone], *, is_check: bool) -> Iterator[Line]:
    """Return a line for each amount that changes, and for whatever is left and why."""
    for change in proposal.changes:
        yield (
            Span(harmless(f"{change.workload} {change.container}")),
            Span(f"  {change.cell} {change.before or 'none'} -> {change.after or 'none'}", Tone.ACCENT),
            Span(f"  {harmless(change.place)}", Tone.DIM),
        )
    for omission in left:
        yield (Span("left "), Span(harmless(str(omission)), Tone.NOTE))
    known = counted(len(proposal.sized), "workload")
    done = "would change" if is_check else "changed"
    if proposal.changes:
        amounts, files = counted(len(proposal.changes), "amount"), counted(len(proposal.files), "file")
        yield (Span(f"{known} known here: {amounts} {done} in {files}", Tone.TITLE),)
    else:
        yield (Span(f"{known} known here: nothing to change", Tone.TITLE),)


def markdown(
    proposal: ManifestProposal, left: Sequence[LeftAlone], bodies: Bodies, *, min_change_percent: float
) -> str:
    """Return the description of a merge request."""
    return "\n".join(_markdown(proposal, left, bodies, min_change_percent)) + "\n"


def _markdown(
    proposal: ManifestProposal, left: Sequence[LeftAlone], bodies: Bodies, min_change_percent: float
) -> Iterator[str]:
    yield "# Requests and limits, as Plimsoll measured them"
    yield ""
    if not proposal.changes:
        yield f"Nothing to change: no amount differs by {min_change_percent:g} % or more."
    else:
        yield from table_lines(
            ("workload", "container", "amount", "before", "after", "file"),
            (
                (
                    change.workload,
                    change.container,
                    str(change.cell),
                    change.before or "none",
                    (change.after or "none") + _percent(change),
                    change.place,
                )
                for change in proposal.changes
            ),
        )
        yield ""
        yield from _totals(proposal, bodies)
        yield f"Amounts that differ by less than {min_change_percent:g} % are left as they are."
        yield ""
        yield "## Why"
        yield ""
        yield from _reasons(proposal, bodies)
    if left:
        yield ""
        yield "## Left as they are"
        yield ""
        for omission in left:
            yield f"- {plain_text(str(omission))}"


def _percent(change: AmountChange) -> str:
    if not change.before_nanos or change.after_nanos is None:
        return ""
    return f" ({(change.after_nanos - change.before_nanos) / change.before_nanos:+.0%})"


def _totals(proposal: ManifestProposal, bodies: Bodies) -> Iterator[str]:
    """Return what the requests of all pods that run now come to; of workloads whose pods were counted."""
    before = dict.fromkeys(_TOTALS, 0)
    after, pods = dict(before), 0
    changed = {change.workload for change in proposal.changes}
    for workload in proposal.sized:
        body = bodies(workload.instance)
        replicas = None if body is None else body.applies.replicas
        if str(workload.instance) not in changed or not replicas:
            continue
        pods += replicas
        changed.discard(str(workload.instance))  # it may be stated twice
        changes_by_cell = {
            (change.container, change.cell): change
            for change in proposal.changes
            if change.workload == str(workload.instance) and change.cell in before
        }
        for change in changes_by_cell.values():
            before[change.cell] += replicas * (change.before_nanos or 0)
            after[change.cell] += replicas * (change.after_nanos or 0)
    if not pods:
        return
    cpu, memory = _TOTALS
    was = f"CPU {_cpu(before[cpu])} and memory {_memory(before[memory])}"
    becomes = f"CPU {_cpu(after[cpu])} and memory {_memory(after[memory])}"
    yield f"The requests that change, of the {counted(pods, 'pod')} that run now: {was} before, {becomes} after."
    yield ""


def _cpu(nanos: int) -> str:
    return millicores_text(nanos // NANOS_PER_MILLI)


def _memory(nanos: int) -> str:
    return bytes_text(nanos // NANOS_PER_UNIT)


def _reasons(proposal: ManifestProposal, bodies: Bodies) -> Iterator[str]:
    listed_names: set[str] = set()
    for workload in proposal.sized:
        name = str(workload.instance)
        names = {change.container for change in proposal.changes if change.workload == name}
        body = bodies(workload.instance)
        if name in listed_names or not names or body is None:
            continue
        listed_names.add(name)
        yield f"- {plain_text(name)}: `plimsoll workloads {name}` shows the figures behind it"
        for container in workload.amounts:
            advice = advice_of(body, container.name)
            if container.name not in names or advice is None:
                continue
            parts = [
                f"policy {advice.policy}",
                f"{counted(advice.pods or 0, 'pod')}, {age_text(advice.history_seconds)} of history",
                f"newest {age_text(advice.newest_age_seconds)} ago",
                f"seven-day maximum {millicores_text(advice.cpu_max_millicores)} and "
                f"{bytes_text(advice.memory_max_bytes)}",
            ]
            if advice.oom_memory_bytes is not None:
                parts.append(f"killed out of memory at {bytes_text(advice.oom_memory_bytes)}")
            yield f"  - {plain_text(container.name)}: {plain_text('; '.join((*parts, *container.notes)))}"

"""The sums of a plan in a terminal: what the node has, what is planned, whether it fits. Face, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agent.cli.text.figures import counted
from agent.cli.text.paragraphs import Page, hanging
from agent.cli.text.spans import Line, Span, Tone, line_text, pad
from agent.cli.text.table import Cell, Column, render_table
from agent.cli.words.plan import SIDE_OF, amount, headroom_words, share_of
from agent.core.cluster.resource import Resource
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.plan import Plan, ResourcePlan
from agent.core.recommender.recommendation import Withheld

NOT_YET: Final = (ReservedReason.NO_DATA, ReservedReason.TOO_YOUNG, ReservedReason.NOT_RUNNING)
"""Why a pod is left alone for a while only."""
_NOT_PREDICTED_YET: Final = (Withheld.NO_DATA, Withheld.TOO_YOUNG, Withheld.GAPS, Withheld.STALE)
_RESOURCES: Final = (Resource.MEMORY, Resource.CPU)
"""In the order in which they are planned."""


def sum_lines(plan: Plan, page: Page) -> list[Line]:
    """Return what the node has, what is planned, and below whether it fits."""
    columns = [
        Column(key="what", title="", min_width=6, is_text=True),
        Column(key="allocatable", title="ALLOCATABLE", priority=20),
        Column(key="reserved", title="- RESERVED", priority=21),
        Column(key="available", title="= AVAILABLE"),
        Column(key="base", title="BASES", priority=11),
        Column(key="headroom", title="+ HEADROOM", priority=10),
        Column(key="final", title="= PLANNED", priority=5),
        Column(key="applied", title="AFTER", priority=30),
    ]
    cells: list[list[Cell]] = []
    verdicts: list[Line] = []
    for resource in _RESOURCES:
        sums = plan.resource(resource)
        figures = [sums.allocatable, sums.reserved, sums.available, sums.base_total]
        figures += [sums.headroom, sums.final_total, sums.applied_total]
        cells.append([Cell(SIDE_OF[resource].title), *(Cell(amount(resource, figure)) for figure in figures)])
        verdict, tone = verdict_of(sums, waiting=_waiting(plan, resource))
        verdicts += hanging((Span(pad(SIDE_OF[resource].title, 6, to_right=False)), Span(" ")), verdict, page, tone)
        words = headroom_words(sums)
        if words is not None:
            verdicts += hanging((Span(" " * 7),), words, page)
    table = render_table(columns, cells, width=page.width, glyphs=page.glyphs, marks=False)
    if "- RESERVED" not in line_text(table.titles):  # a sum that lacks a term is none
        columns = [replace(column, title=column.title.lstrip("-+= ")) for column in columns]
        table = render_table(columns, cells, width=page.width, glyphs=page.glyphs, marks=False)
    return [table.titles, *table.rows, *verdicts]


def _waiting(plan: Plan, resource: Resource) -> int:
    """Count the pods of which nothing is predicted so far, and which may hold more than they need."""
    return sum(
        pod.reserved in NOT_YET
        or (
            pod.reserved is None
            and any(
                share is not None and share.withheld in _NOT_PREDICTED_YET
                for container in pod.containers
                for share in (share_of(SIDE_OF[resource], container),)
            )
        )
        for pod in plan.pods
    )


def verdict_of(sums: ResourcePlan, *, waiting: int = 0) -> tuple[str, Tone]:
    """Return whether a node fits, and by how much; of ``waiting`` pods nothing is predicted so far."""
    aside = "" if sums.is_applied else ", only looked at"
    if not sums.is_infeasible:
        return f"fits, {amount(sums.resource, max(0, sums.available - sums.final_total))} left{aside}", Tone.GAIN
    short = sums.base_total + sums.spike_largest - sums.available
    text = f"does not fit: {amount(sums.resource, short)} short" if short > 0 else "does not fit"
    yet = f" yet: {counted(waiting, 'pod')} {'have' if waiting > 1 else 'has'} no prediction so far" if waiting else ""
    return f"{text}; nothing is written for it{aside}{yet}", Tone.HOT

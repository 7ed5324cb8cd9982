"""What keys do to the view of ``top``: each gives the next view state.

Face. Pure: the clock is an argument; ``screen`` knows which key stands for which of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.cli.top.view import SortKey, TopRow, ViewState, Zoom

OLDEST_SECONDS: Final = 24 * 3600.0
"""As far back as the minutes reach that an agent has of each container."""
_ASKING_SECONDS: Final = 60.0
"""By so much a moment may age until the agent has been asked for it."""


def sorted_by(state: ViewState, sort: SortKey) -> ViewState:
    """Order by this; the same again turns the order round."""
    return replace(state, sort=sort, is_reversed=not state.is_reversed if sort is state.sort else False)


def next_sort(state: ViewState) -> ViewState:
    """Order by the next key of the cycle."""
    cycle = list(SortKey)
    return replace(state, sort=cycle[(cycle.index(state.sort) + 1) % len(cycle)], is_reversed=False)


def moved(state: ViewState, rows: Sequence[TopRow], by: int) -> ViewState:
    """Move the selection by so many rows, kept inside the table."""
    if not rows:
        return replace(state, selected=None)
    index = min(max(selected_index(state, rows) + by, 0), len(rows) - 1)
    return replace(state, selected=rows[index].key)


def selected_index(state: ViewState, rows: Sequence[TopRow]) -> int:
    """Return where the selected row is now; the first if it is gone or none was chosen."""
    return next((index for index, row in enumerate(rows) if row.key == state.selected), 0)


def scrolled(state: ViewState, rows: Sequence[TopRow], visible: int) -> ViewState:
    """Return the state whose first visible row keeps the selection in sight."""
    index = selected_index(state, rows)
    first = min(state.first_visible, index, max(0, len(rows) - visible))
    return replace(state, first_visible=max(0, first, index - visible + 1))


def zoomed_in(state: ViewState, rows: Sequence[TopRow]) -> ViewState:
    """Open the selected row: node -> pod -> container."""
    if state.zoom is Zoom.UNIT or not rows:
        return state
    row = rows[selected_index(state, rows)]
    if row.unit_path is None:
        return replace(state, zoom=Zoom.POD, pod=row.key, selected=None, first_visible=0)
    return replace(state, zoom=Zoom.UNIT, unit_path=row.unit_path, selected=row.key, first_visible=0)


def zoomed_out(state: ViewState) -> ViewState:
    """Step back one zoom; the selection stays on what was looked at. In the node view, take the filter away."""
    if state.zoom is Zoom.UNIT:
        back = Zoom.NODE if state.pod is None else Zoom.POD
        return replace(state, zoom=back, unit_path=None, first_visible=0)
    if state.zoom is Zoom.POD:
        return replace(state, zoom=Zoom.NODE, selected=state.pod, pod=None, first_visible=0)
    return replace(state, filter_text="")


def paused(state: ViewState, now_seconds: float) -> ViewState:
    """Stop the picture at this moment, or let it go on."""
    return replace(state, moment_seconds=None if state.is_paused else now_seconds)


def stepped(state: ViewState, seconds: float, now_seconds: float) -> ViewState:
    """Step back (negative) or forward in time; stops the picture first, and stays within what an agent has."""
    moment = now_seconds if state.moment_seconds is None else state.moment_seconds
    oldest = now_seconds - OLDEST_SECONDS + _ASKING_SECONDS
    return replace(state, moment_seconds=max(oldest, min(now_seconds, moment + seconds)))

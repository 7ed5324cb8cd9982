"""Growth on contention in a simulation: who is short of CPU gets what it uses, a reaction time later.

Core, pure. A row with more usage than request begins a **shortage**. The reaction time after that row's beginning the
request becomes the largest usage seen since, in whole millicores, if that is more than it is by then; until then the
container is short. A reaction that is under way ends even if the usage has fallen meanwhile: what is seen is answered.
So rows that are longer than the reaction are short for the reaction alone, and a second of too much use in a recording
of seconds is over before an answer of two seconds comes. Memory has no such growth: it is not given back.
"""

from __future__ import annotations

import math

import numpy as np

from agent.core.numbers.arrays import Bools, Floats


class UrgentGrowth:
    """Follows ``n`` containers row by row; at most one reaction of each is under way.

    Growth ends at ``most_millicores``. All growths of a row come at one moment of it, as all shortages begin with rows.
    """

    def __init__(self, rows: int, *, reaction_seconds: float, row_seconds: float, most_millicores: float) -> None:
        self._whole_rows = max(math.ceil(reaction_seconds / row_seconds) - 1, 0)
        self.grown_share = 1.0 - (reaction_seconds / row_seconds - self._whole_rows)
        """Part of a row, 0..1, that is left when its growths have come."""
        self._most_millicores = most_millicores
        self._waited_rows = np.full(rows, -1, dtype=np.int64)
        """Rows since the one that began the shortage; -1 = no reaction is under way."""
        self._height = np.zeros(rows)

    def live(self, usage: Floats, has_usage: Bools, request: Floats, has_request: Bools) -> Floats:
        """Live through one row, shape ``(n,)`` each; return the requests at its end, the same array where none grew."""
        waits = self._waited_rows >= 0
        begins = ~waits & has_usage & has_request & (usage > request)
        if not (begins.any() or waits.any()):
            return request
        waited = np.where(waits, self._waited_rows + 1, np.where(begins, 0, -1))
        self._height = np.where(begins, usage, np.where(has_usage, np.maximum(self._height, usage), self._height))
        lands = waited == self._whole_rows
        self._waited_rows = np.where(lands, -1, waited)
        if not lands.any():
            return request
        answer = np.minimum(np.ceil(self._height), self._most_millicores)
        return np.where(lands, np.maximum(request, answer), request)

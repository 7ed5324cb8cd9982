"""Notes: what is degraded on this node, one sentence each; ``plimsoll doctor`` tells how to mend it. Node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from agent.core.window.ring_rows import Has, Status
from agent.node.history.learner import Learner
from agent.node.sampling.parts import SamplingParts
from agent.sensing.discovery import UnitScope

HISTORY_UNREAD: Final = "the history is not read, or not yet: recommendations do not know it and lower nothing"
_MACHINE_NOTES: Final = {
    False: "nothing runs in a pod here: these are the machine's own services, sessions and containers",
    True: "no cgroups with processes here: the machine is watched as one",
}
"""By whether the root is all there is to watch."""


class Notes:
    """Collects the notes; any thread may ask."""

    def __init__(self, sampling: SamplingParts, learner: Learner, *, interval_seconds: float) -> None:
        self._sampling, self._learner, self._interval_seconds = sampling, learner, interval_seconds
        self.further: Final[list[Callable[[], Iterable[str]]]] = []
        """Other parts that have notes, in order; appended to before anybody asks."""

    def sentences(self) -> list[str]:
        """Return all notes of this moment."""
        notes = [*self._of_sampling(), *self._of_history()]
        rings = self._sampling.rings
        if rings.set_aside_reason is not None:
            notes.append(f"the state file was set aside ({rings.set_aside_reason}): {rings.set_aside}")
        for further in self.further:
            notes.extend(further())
        return notes

    def _of_sampling(self) -> Iterator[str]:
        sampling = self._sampling
        discovery, loop, units, tally = sampling.discovery, sampling.loop, sampling.units, sampling.tally
        has = signals(sampling) if loop.heartbeat.sweeps else None
        if has is not None and len(units):
            if not has & Has.PRESSURE:
                yield "no PSI here: waiting is not known"
            if not has & Has.MEMORY:
                yield "no memory controller on cgroup v2 here: no memory figures"
            if not has & Has.THROTTLED:
                yield "no cpu controller on cgroup v2 here: no throttling figures"
        if discovery.is_root_gone:
            yield "the cgroup root is gone: nothing is watched until it is back"
        elif discovery.scope_in_force is UnitScope.MACHINE:
            yield _MACHINE_NOTES[len(units) == 1 and units.get("/") is not None]
        if discovery.no_watches_reason is not None:
            yield f"new containers are seen late: {discovery.no_watches_reason}"
        if discovery.dropped:
            yield f"{discovery.dropped} cgroups over sampling.maxContainers are not watched"
        if loop.refused:
            yield f"{loop.refused} cgroups cannot be watched for now: {tally.newest_refusal}"
        if tally.loop_failures:
            yield f"{tally.loop_failures} turns failed and were left out: {tally.newest_failure}"
        if sampling.sampler.name != "native":
            yield "the plain-Python sampler is in use: more CPU, same figures"
        if loop.heartbeat.interval_seconds > self._interval_seconds:
            yield f"sweeps overrun: one each {loop.heartbeat.interval_seconds:g} s for now"

    def _of_history(self) -> Iterator[str]:
        history, ahead = self._learner.history, self._learner.clock.ahead_minutes
        if not self._learner.is_restored:
            yield HISTORY_UNREAD
        if ahead:
            direction = "ahead of" if ahead > 0 else "behind"
            yield f"the clock was set: the history's hours of the day are {abs(ahead)} min {direction} it"
        if history.damage is not None:
            yield history.damage
        if history.trouble is not None:
            yield history.trouble
        if history.set_aside_reason is not None:
            yield f"the history was set aside ({history.set_aside_reason}): {history.set_aside}"


def signals(sampling: SamplingParts) -> Has:
    """Return the signals that any watched cgroup has."""
    slots = [unit.slot for unit in sampling.units.all()]
    has = 0
    for rows in (sampling.rings.newest_rows(slots), sampling.rings.newest_memory_rows(slots)):
        has |= int(np.bitwise_or.reduce(rows["has"][rows["status"] == Status.OK], initial=0))
    return Has(has)

"""What the sampling thread tells, as metrics and log lines; and what of it is left for notes.

Node; on the sampling thread. Quick, and never raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from agent.core.cluster.unit import UnitKind
from agent.core.window.sweep_pace import SkipReason
from agent.metrics.agent_series import Metrics
from agent.sensing.cgroup_path import PathKind, parse_cgroup_path
from agent.sensing.discovery import Changes
from agent.sensing.memory_events import OomKill
from agent.sensing.sampler_contract import SweepResult

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Tally:
    """What the sampling thread has seen, for notes and gauges."""

    loop_failures: int = 0
    newest_failure: str | None = None
    newest_refusal: str | None = None
    """Why the cgroup that was refused last cannot be watched."""


class Listener:
    """Turns what the sampling thread tells into metrics and log lines; quick, and never raises."""

    def __init__(
        self,
        metrics: Metrics,
        tally: Tally,
        on_kill: Callable[[OomKill], bool],
        on_sweep: Callable[[], None] = lambda: None,
        on_contention: Callable[[], None] = lambda: None,
    ) -> None:
        self._metrics, self._tally, self._on_kill, self._on_sweep = metrics, tally, on_kill, on_sweep
        self._turns = metrics.loops.begin("sampling")
        self._on_contention = on_contention
        self._refusal_kind: str | None = None

    def swept(self, result: SweepResult, *, lateness_seconds: float | None) -> None:
        """Count it."""
        self._metrics.observe_sweep(
            duration_seconds=(result.finished_ns - result.started_ns) / 1e9,
            lateness_seconds=lateness_seconds,
            samples=result.sampled,
        )
        self._turns.done()
        self._on_sweep()

    def skipped(self, reason: SkipReason, count: int) -> None:
        """Count them."""
        self._metrics.count_skipped_sweeps(reason, count)

    def changed(self, changes: Changes) -> None:
        """Count containers that came and went, and log it; a change of scope for people, the rest for debugging."""
        if changes.scope_changed:
            log.info("kubepods found: watching pods from now on")
        if changes.trigger != "start":
            self._metrics.count_cgroups(
                "container",
                created=sum(unit.identity.kind is UnitKind.CONTAINER for unit in changes.appeared),
                removed=sum(parse_cgroup_path(path).kind is PathKind.CONTAINER for path in changes.vanished),
            )
        log.debug(
            "cgroups changed",
            extra={"appeared": len(changes.appeared), "vanished": len(changes.vanished), "trigger": changes.trigger},
        )

    def killed(self, kill: OomKill) -> None:
        """Count it, log it, and hand it on to those who size."""
        is_blamed = self._on_kill(kill)
        self._metrics.count_oom_kills(kill.kills, resized_recently=is_blamed)
        log.warning(
            "out-of-memory kill", extra={"cgroup": kill.path, "kills": kill.kills, "resized_recently": is_blamed}
        )

    def contention(self, lanes: tuple[str, ...]) -> None:
        """Log it for debugging, and hand it on; the sweep that it starts is counted as every other."""
        self._on_contention()
        log.debug("contention: swept early", extra={"lanes": ", ".join(lanes)})

    def refused(self, path: str, error: Exception) -> None:
        """Log the first of its kind; the note has the number."""
        kind = type(error).__name__
        if kind != self._refusal_kind:  # each names its cgroup: hundreds of them are one news, and a note with a number
            log.warning("a cgroup cannot be watched for now", extra={"cgroup": path, "cause": str(error)})
        self._refusal_kind = kind
        self._tally.newest_refusal = str(error)

    def failed(self, error: Exception) -> None:
        """Log it when it is another than the one before."""
        self._tally.loop_failures += 1
        self._turns.failed()
        text = f"{type(error).__name__}: {error}"
        if text != self._tally.newest_failure:  # once per change of state, not once a turn
            log.error("sampling failed", extra={"cause": text}, exc_info=error)
        self._tally.newest_failure = text

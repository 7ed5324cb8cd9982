"""Whether this node is overloaded, and its taint: read every quarter of a minute, written when the state changes.

Node. The rule is ``core.overload``'s, the patch ``kube.calls.taints``'; here are the readings, the state and when to
try again. Where there is a webhook it is asked whether one more node may be tainted. While the API server is away the
state is kept and the taint waits. One thread drives it.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from agent.core.cluster.node import Node
from agent.core.orders.plan_options import OverloadOptions
from agent.core.resize.decision import Action, Outcome
from agent.core.window.overload import (
    OVERLOAD_TAINT_EFFECT,
    OVERLOAD_TAINT_KEY,
    LoadReading,
    judge_overload,
    pods_waiting_ratio,
)
from agent.core.window.pressure import psi_waiting_rate
from agent.kube.calls.taints import TaintChange, set_taint
from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.taint_permission import GRANTED, TaintPermission
from agent.sensing.cgroup_text import parse_some_usec

log = logging.getLogger(__name__)

READ_SECONDS: Final = 15.0
"""Between two readings: the load average moves no faster."""
LONGEST_GAP_SECONDS: Final = 2.5 * READ_SECONDS
"""One reading may be lost, or be late for a slow API server, without the window being begun anew."""
RETRY_SECONDS: Final = 15.0
LONGEST_RETRY_SECONDS: Final = 300.0
EXIT_SECONDS: Final = 4.0
"""For each of the two calls at the end, most of what is waited for both: the pod has ten seconds to end."""
NODE_PRESSURE: Final = Path("/proc/pressure/cpu")


def machine_load_per_cpu(cpus: int) -> float | None:
    """Return the load average of one minute per logical CPU; None = the kernel does not tell."""
    try:
        return os.getloadavg()[0] / cpus
    except OSError:
        return None


class PodsPressure:
    """How much of the time between two calls some pod waited for CPU that others had."""

    def __init__(
        self,
        mount: Path,
        # Path of ``kubepods`` relative to the mount, as discovery has it; None = there are no pods, then
        # the machine's own pressure counts
        kubepods_root: Callable[[], str | None],
        # PSI some of every container lately with throttling taken out, as the observer has it; empty =
        # waits at a container's own cpu.max are not told apart
        container_ratios: Callable[[], Sequence[float | None]] = tuple,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        node_pressure: Path = NODE_PRESSURE,
    ) -> None:
        self._mount, self._kubepods_root, self._container_ratios = mount, kubepods_root, container_ratios
        self._clock_ns, self._node_pressure = clock_ns, node_pressure
        self._before: tuple[Path, int, int] | None = None

    def __call__(self) -> float | None:
        """Return the share since the call before, 0..1; None = no signal, or no call before."""
        root = self._kubepods_root()
        path = self._node_pressure if root is None else Path(f"{self._mount}/{root.strip('/')}", "cpu.pressure")
        before, self._before = self._before, None
        try:
            some_usec = parse_some_usec(path.read_bytes())
        except OSError:
            return None
        if some_usec is None:
            return None
        self._before = (path, self._clock_ns(), some_usec)
        if before is None or before[0] != path:
            return None
        ratio = psi_waiting_rate(before[1] / 1e9, before[2], self._before[1] / 1e9, some_usec)
        return pods_waiting_ratio(ratio, self._container_ratios())


class OverloadKeeper:
    """The node's overload state and its taint."""

    def __init__(
        self,
        *,
        api: Api,
        node_name: str,
        options: OverloadOptions,
        node: Callable[[], Node | None],  # The node object as last seen; None = not known
        load_per_cpu: Callable[[], float | None],  # None = not known
        waiting_ratio: Callable[[], float | None],  # Pressure of the pods since the reading before; None = no signal
        # Why nothing may be written now (paused, a stale watch, a missing right); None = it may
        terms: KeeperTerms,
        permission: Callable[[], TaintPermission] = lambda: GRANTED,
    ) -> None:
        self._api, self._node_name, self._options, self._node = api, node_name, options, node
        self._load_per_cpu, self._waiting_ratio, self._permission = load_per_cpu, waiting_ratio, permission
        self._may_write, self._tell, self._unix_seconds = terms.may_write, terms.tell, terms.unix_seconds
        self._readings: deque[LoadReading] = deque()
        self._due_seconds: float | None = None
        self._retry_at_seconds: float | None = None
        self._retry_seconds = RETRY_SECONDS
        self._complaint: str | None = None
        self._stands_over: str | None = None
        """The resourceVersion of the seen node that our own newest write is newer than; None = none is."""
        self._is_adopted = False
        self.is_overloaded = False
        self.is_tainted: bool | None = None
        """Whether our taint is on the node; None = the node has not been seen."""

    def tick(self, now_seconds: float) -> None:
        """Read, judge and write as far as it is due; cheap when nothing is."""
        if self._due_seconds is not None and now_seconds < self._due_seconds:
            return
        self._due_seconds = now_seconds + READ_SECONDS
        self._read(now_seconds)
        self._look()
        verdict = judge_overload(
            self._readings,
            self._options,
            now_seconds=now_seconds,
            was_overloaded=self.is_overloaded,
            longest_gap_seconds=LONGEST_GAP_SECONDS,
        )
        if verdict.is_overloaded != self.is_overloaded:
            self.is_overloaded = verdict.is_overloaded
            self._retry_at_seconds, self._retry_seconds = None, RETRY_SECONDS
            log.log(
                logging.WARNING if self.is_overloaded else logging.INFO,
                "the node is overloaded" if self.is_overloaded else "the node is not overloaded any more",
                extra={"detail": verdict.text},
            )
        wanted = self._options.taint and self.is_overloaded
        if wanted == bool(self.is_tainted):
            self._complaint = None
        elif self._retry_at_seconds is None or now_seconds >= self._retry_at_seconds:
            reason = "overloaded" if wanted else "recovered" if self._options.taint else "switched off"
            if self._is_withheld(wanted=wanted, detail=verdict.text) or (wanted and not self._is_permitted()):
                return
            if not self._write(wanted=wanted, reason=reason, detail=verdict.text):
                self._retry_at_seconds = now_seconds + self._retry_seconds
                self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)

    def remove_at_exit(self, timeout_seconds: float = EXIT_SECONDS) -> None:
        """Remove the taint at the end, if it is there and writing is allowed; never raises.

        Where that fails the next agent takes it away, unless the node is overloaded then.
        """
        self._look()
        detail = "the agent ends"
        if self.is_tainted and not self._is_withheld(wanted=False, detail=detail):
            self._write(wanted=False, reason="exit", detail=detail, timeout_seconds=timeout_seconds)

    def _read(self, now_seconds: float) -> None:
        waiting_ratio = self._waiting_ratio()  # asked always: it is the share since the question before
        load = self._load_per_cpu()
        if load is not None:
            self._readings.append(LoadReading(seconds=now_seconds, load_per_cpu=load, waiting_ratio=waiting_ratio))
        while self._readings and self._readings[0].seconds <= now_seconds - self._options.window_seconds:
            self._readings.popleft()

    def _look(self) -> None:
        """See whether the taint is there; the first look says what the state was before this agent."""
        node = self._node()
        if node is None or (self._stands_over is not None and node.resource_version == self._stands_over):
            return
        self._stands_over = None
        self.is_tainted = any(taint.key == OVERLOAD_TAINT_KEY for taint in node.taints)
        if not self._is_adopted:
            self._is_adopted = True
            self.is_overloaded = self.is_overloaded or self.is_tainted

    def _is_withheld(self, *, wanted: bool, detail: str) -> bool:
        withheld = self._may_write()
        if withheld is not None:
            self._complain(_action(wanted=wanted), Outcome.WITHHELD, withheld, detail)
        return withheld is not None

    def _is_permitted(self) -> bool:
        """Return whether this node may be tainted beside those that are; an answer that is yet to come is no."""
        permission = self._permission()
        if not permission.is_granted and permission.reason is not None:
            self._complain(Action.TAINT, Outcome.WITHHELD, permission.reason, permission.detail)
        return permission.is_granted

    def _write(self, *, wanted: bool, reason: str, detail: str, timeout_seconds: float | None = None) -> bool:
        """Write the taint; say whether it is as wanted now."""
        action = _action(wanted=wanted)
        seen = self._node()
        try:
            result = set_taint(
                self._api,
                self._node_name,
                key=OVERLOAD_TAINT_KEY,
                effect=OVERLOAD_TAINT_EFFECT,
                wanted=wanted,
                timeout_seconds=timeout_seconds,
            )
        except KubeError as error:
            self._complain(action, Outcome.ERROR, reason, str(error))
            return False
        self.is_tainted = wanted
        self._complaint, self._retry_at_seconds, self._retry_seconds = None, None, RETRY_SECONDS
        self._stands_over = None if seen is None else seen.resource_version
        if result.change is not TaintChange.NONE:
            log.info("taint changed", extra={"change": result.change, "reason": reason, "detail": detail})
            self._tell(
                unix_seconds=self._unix_seconds(), action=action, outcome=Outcome.DONE, reason=reason, detail=detail
            )
        return True

    def _complain(self, action: Action, outcome: Outcome, reason: str, detail: str) -> None:
        """Record why the taint is not as it should be; the same is said once."""
        complaint = f"{action} {outcome} {reason}"
        if complaint == self._complaint:
            return
        self._complaint = complaint
        log.warning(
            "taint not changed", extra={"action": action, "outcome": outcome, "reason": reason, "detail": detail}
        )
        self._tell(unix_seconds=self._unix_seconds(), action=action, outcome=outcome, reason=reason, detail=detail)


def _action(*, wanted: bool) -> Action:
    return Action.TAINT if wanted else Action.UNTAINT

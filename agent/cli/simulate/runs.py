"""Several policies over one trace at a time, each in a process of its own where there is more than one CPU. Face.

The processes are forks: they share the trace's pages with this one, and nobody writes to those.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import TYPE_CHECKING, Final

from agent.core.recommender.simulation.level_steps import DemandSteps, demand_steps
from agent.core.recommender.simulation.replay import ReplayRules, simulate

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from agent.core.orders.policy_options import PolicyName
    from agent.core.recommender.simulation.figures import SimulatedOutcome
    from agent.core.recommender.simulation.trace import TraceSet
    from agent.settings import Settings

    _Message = int | SimulatedOutcome
    """Minutes done, or what came of them at last."""

_LOOK_SECONDS: Final = 0.2


class SimulationError(Exception):
    """A policy's process ended without an outcome; the message is one line."""


def simulate_policies(
    trace: TraceSet,
    policies: Sequence[PolicyName],
    settings: Settings,
    rules: ReplayRules,
    *,
    on_progress: Callable[[float], None],
) -> list[SimulatedOutcome]:
    """Replay a trace through policies, and return the outcomes in their order.

    Progress is the share of all work that is done, 0..1.

    Raises:
        SimulationError: A process ended without an outcome (killed, for instance).
    """
    steps = demand_steps(trace)
    works = [_Work(trace, name, settings, rules, steps) for name in policies]
    workers = min(len(works), len(os.sched_getaffinity(0)))
    if workers == 1:
        return _one_after_another(works, trace.minutes, on_progress)
    return _side_by_side(works, workers, trace.minutes, on_progress)


class _Work:
    """One policy over the trace."""

    def __init__(
        self, trace: TraceSet, name: PolicyName, settings: Settings, rules: ReplayRules, steps: DemandSteps
    ) -> None:
        self.name = name
        self._trace = trace
        self._settings = settings
        self._rules = rules
        self._steps = steps

    def do(self, on_progress: Callable[[int], None]) -> SimulatedOutcome:
        from agent.core.recommender.registry import make

        policy = make(self.name, self._settings, len(self._trace.containers), requests_only=True)
        return simulate(
            self._trace, policy, self._settings.bounds, self._rules, steps=self._steps, on_progress=on_progress
        )


def _one_after_another(
    works: Sequence[_Work], minutes: int, on_progress: Callable[[float], None]
) -> list[SimulatedOutcome]:
    outcomes: list[SimulatedOutcome] = []
    for work in works:

        def tell(done: int) -> None:
            on_progress((len(outcomes) + done / minutes) / len(works))

        outcomes.append(work.do(tell))
    return outcomes


def _side_by_side(
    works: Sequence[_Work], workers: int, minutes: int, on_progress: Callable[[float], None]
) -> list[SimulatedOutcome]:
    waiting = list(enumerate(works))[::-1]
    running: dict[Connection[_Message, _Message], tuple[int, ForkProcess]] = {}
    done = [0] * len(works)
    outcomes: dict[int, SimulatedOutcome] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                index, work = waiting.pop()
                connection, process = _start(work)
                running[connection] = (index, process)
            speaking = wait(list(running), timeout=_LOOK_SECONDS)
            for ready in [connection for connection in running if connection in speaking]:
                index, process = running[ready]
                try:
                    message = ready.recv()
                except (EOFError, OSError):  # before a message, or in the middle of one
                    process.join()
                    name, code = works[index].name, process.exitcode
                    msg = f"the process of policy {name} ended with code {code} and no outcome"
                    raise SimulationError(msg) from None
                if isinstance(message, int):
                    done[index] = message
                    continue
                outcomes[index] = message
                done[index] = minutes
                ready.close()
                process.join()
                del running[ready]
            on_progress(sum(done) / minutes / len(works))
    finally:
        for connection, (_, process) in running.items():
            process.terminate()
            process.join()
            connection.close()
    return [outcomes[index] for index in range(len(works))]


def _start(work: _Work) -> tuple[Connection[_Message, _Message], ForkProcess]:
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_live, args=(work, there, os.getpid()), daemon=True)
    sys.stdout.flush()  # or the fork would write what is held once more
    # The fork inherits the mask: Ctrl-C must not end it with a traceback before it ignores that in ``_live``.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _quiet_fork():
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    there.close()
    return here, process


@contextmanager
def _quiet_fork() -> Iterator[None]:
    """Silence Python 3.12's word of caution: threads of numpy's BLAS do not matter, as nothing here multiplies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _live(work: _Work, connection: Connection[_Message, _Message], parent: int) -> None:
    """Do the work in the process of its own; end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it as well, and ends this process

    def tell(done: int) -> None:
        if os.getppid() != parent:
            os._exit(1)  # nobody waits for the outcome
        connection.send(done)

    connection.send(work.do(tell))
    connection.close()

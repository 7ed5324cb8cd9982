"""Policies side by side in forks and one after another: the same outcomes, and no process left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import struct
from typing import Any

import numpy as np
import pytest

from agent.cli.simulate import runs
from agent.cli.simulate.runs import SimulationError, simulate_policies
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender import registry
from agent.core.recommender.simulation.figures import SimulatedOutcome, total
from agent.core.recommender.simulation.replay import ReplayRules
from agent.settings import Settings
from tests.traces import MIB, FixedPolicy, trace_of

TRACE = trace_of(cpu=[[100 + minute % 7 for minute in range(90)]] * 2, memory=[[50 * MIB] * 90] * 2)
THREE = (PolicyName.VPA, PolicyName.CRUISE, PolicyName.CRANE)


def with_cpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))


def run(policies: Any = THREE) -> tuple[list[SimulatedOutcome], list[float]]:
    progress: list[float] = []
    return simulate_policies(TRACE, policies, Settings(), ReplayRules(), on_progress=progress.append), progress


@pytest.mark.parametrize("cpus", [1, 2, 8])
def test_outcomes_come_in_the_order_asked_for(monkeypatch: pytest.MonkeyPatch, cpus: int) -> None:
    with_cpus(monkeypatch, cpus)
    outcomes, progress = run()
    assert [outcome.policy for outcome in outcomes] == ["vpa", "cruise", "crane"]
    assert progress[-1] == 1.0
    assert progress == sorted(progress)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_side_by_side_and_one_after_another_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cpus(monkeypatch, 1)
    alone, _ = run()
    with_cpus(monkeypatch, 2)
    beside, _ = run()
    assert [total((outcome,)) for outcome in alone] == [total((outcome,)) for outcome in beside]
    assert np.array_equal(alone[0].course.cpu_request_millicores, beside[0].course.cpu_request_millicores)


class _Killed(FixedPolicy):
    """Stands for a process that the kernel ends."""

    def fold(self, minutes: Any) -> None:
        os._exit(9)


def test_process_that_ends_without_an_outcome_is_told_and_the_others_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_cpus(monkeypatch, 2)
    monkeypatch.setattr(
        registry, "make", lambda name, _, rows, **__: (_Killed if name is PolicyName.CRUISE else FixedPolicy)(rows)
    )
    with pytest.raises(SimulationError, match="the process of policy cruise ended with code 9 and no outcome"):
        run()
    assert multiprocessing.active_children() == []


def test_process_that_is_killed_while_it_tells_its_outcome_is_told_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cpus(monkeypatch, 2)

    live = runs._live

    def cut_short(work: Any, connection: Any, parent: int) -> None:
        if work.name is not PolicyName.VPA:
            return live(work, connection, parent)
        os.write(connection.fileno(), struct.pack("!i", 1000) + b"the first bytes of a thousand")
        os._exit(9)

    monkeypatch.setattr(runs, "_live", cut_short)
    with pytest.raises(SimulationError, match="the process of policy vpa ended with code 9 and no outcome"):
        run((PolicyName.VPA, PolicyName.CRUISE))
    assert multiprocessing.active_children() == []


def test_ctrl_c_in_the_first_moment_of_a_process_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cpus(monkeypatch, 2)
    live = runs._live

    def interrupted(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # before it has come to ignore it
        live(*arguments)

    monkeypatch.setattr(runs, "_live", interrupted)
    outcomes, _ = run()
    assert [outcome.policy for outcome in outcomes] == ["vpa", "cruise", "crane"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())

"""Pressure triggers on real cgroups. Real memory.events need a memory controller: tests/guest has one."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from agent.sensing.memory_events import MemoryEvents, WatchResult
from agent.sensing.psi_trigger import PsiTrigger, TriggerRefused, TriggerState
from tests.kernel.cgroups import CgroupTree

pytestmark = pytest.mark.kernel

WAIT_SECONDS = 20.0
"""A window of 2 s fires within a few; this only bounds a failure."""


def trigger_on(tree: CgroupTree, path: str) -> PsiTrigger:
    try:
        return PsiTrigger(tree.absolute(path) / "cpu.pressure")
    except TriggerRefused as refusal:
        pytest.skip(str(refusal))


def test_psi_trigger_fires_when_processes_wait_for_the_cpu(tree: CgroupTree) -> None:
    tree.make("crowded")
    with trigger_on(tree, "crowded") as trigger:
        assert trigger.wait() is TriggerState.QUIET
        # Three busy loops on one CPU: two wait all the time, far over 150 ms in 2 s.
        cpu = str(min(os.sched_getaffinity(0)))
        for _ in range(3):
            tree.spawn("crowded", ["taskset", "-c", cpu, "sh", "-c", "ulimit -t 60; while :; do :; done"])
        epoll = select.epoll()
        try:
            epoll.register(trigger.fileno(), select.EPOLLPRI)
            ((_, mask),) = epoll.poll(WAIT_SECONDS)
        finally:
            epoll.close()
        assert TriggerState.of(mask) is TriggerState.FIRED
        assert trigger.wait(WAIT_SECONDS) is TriggerState.FIRED  # the next window's


def test_psi_trigger_says_that_its_cgroup_is_gone(tree: CgroupTree) -> None:
    tree.make("short")
    with trigger_on(tree, "short") as trigger:
        tree.remove("short")
        assert trigger.wait(WAIT_SECONDS) is TriggerState.GONE


def test_psi_trigger_refused_window_is_one_line_and_leaves_nothing_open(tree: CgroupTree) -> None:
    tree.make("a")
    pressure = tree.absolute("a") / "cpu.pressure"
    if not pressure.exists():
        pytest.skip("no PSI on this machine")
    open_files = len(os.listdir("/proc/self/fd"))
    # Longer than the kernel's 10 s.
    with pytest.raises(TriggerRefused, match=r"trigger of 150000 us in 99000000 us refused: Invalid argument"):
        PsiTrigger(pressure, window_usec=99_000_000)
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_memory_events_without_a_memory_controller_is_absent(tree: CgroupTree) -> None:
    tree.make("a")
    if (tree.absolute("a") / "memory.events").exists():
        pytest.skip("this machine has a memory controller")
    events = MemoryEvents(Path(tree.mount))
    try:
        assert events.add(f"/{tree.relative('a')}") is WatchResult.ABSENT
        assert events.add(f"/{tree.relative('none')}") is WatchResult.GONE
        assert events.drain() == []
    finally:
        events.close()

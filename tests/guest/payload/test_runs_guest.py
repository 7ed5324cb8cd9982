"""Runs of seconds and of less, in real cgroups: the peak that the kernel kept is there when the container has gone."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.metrics.agent_series import Metrics
from agent.node.sampling.listener import Listener, Tally
from agent.node.sampling.loop import SamplingLoop, SamplingPolicy
from agent.node.sampling.run_ends import EndedContainer, RunEnds
from agent.node.sampling.short_lives import ShortLife
from agent.node.sampling.unit_table import UnitTable
from agent.node.sampling.watched_cgroups import WatchedCgroups
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path
from agent.sensing.discovery import Discovery, UnitScope
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler
from agent.sensing.state_file import RingGeometry
from tests.guest.kubelet_tree import MOUNT, make, remove
from tests.guest.waiting import wait_for
from tests.kubepods import kubepods_root_path

pytestmark = pytest.mark.guest

POD_UID = "66666666-ffff-4000-8000-00000000000{}"
MIB = 1 << 20
PEAK_MIB = 48
RUNS = 5
ALLOWED_MIB = 4
"""Beside what is asked for: the shell, and the program itself."""


def path_of(number: int) -> Path:
    path = container_cgroup_path(
        driver=Driver.CGROUPFS,
        runtime=Runtime.CONTAINERD,
        qos=QosClass.BURSTABLE,
        pod_uid=POD_UID.format(number),
        container_id=f"{number}e" * 32,
    )
    return MOUNT / path.lstrip("/")


class LateNames:
    """Names containers only when a test has it do so: a kubelet tells of those of a second after their end."""

    def __init__(self) -> None:
        self.is_told = False

    def refresh(self) -> bool:
        return self.is_told

    def name(self, identity: UnitIdentity) -> tuple[UnitIdentity, UnitResources]:
        if self.is_told:
            identity = replace(identity, kind=UnitKind.CONTAINER, pod=identity.pod_uid, container="app")
        return identity, UnitResources()


class Sampled:
    """A sampling thread at work."""

    def __init__(self, ends: RunEnds, names: LateNames, loop: SamplingLoop) -> None:
        self.ends, self._names, self._loop = ends, names, loop

    def tell_names(self) -> None:
        self._names.is_told = True
        self._loop.renew_names()


@pytest.fixture
def sampled() -> Iterator[Sampled]:
    """A sampling thread on a tree of pods that have no container yet."""
    for number in range(RUNS):
        make(f"/{path_of(number).parent.relative_to(MOUNT)}")
    rings = RingFile.open(None, RingGeometry(max_slots=8), boot_id="boot")
    ends = RunEnds(mount=MOUNT, rings=rings)
    names = LateNames()
    metrics = Metrics(version="0", commit="0", sampler="compiled")
    loop = SamplingLoop(
        watched=WatchedCgroups(
            sampler=open_sampler(MOUNT, rings, fd_budget=200, max_lanes=4),
            discovery=Discovery(MOUNT, scope=UnitScope.KUBERNETES),
            units=UnitTable(),
            names=names,
            on_refused=lambda _path, _error: None,
            ends=ends,
        ),
        policy=SamplingPolicy(
            interval_seconds=1.0,
            slow_interval_seconds=10.0,
            fast_lane_hz=4.0,
            relist_seconds=30.0,
            retry_absent_seconds=60.0,
            sweep_budget_seconds=0.5,
        ),
        listener=Listener(metrics, Tally(), lambda _kill: False),
    )
    loop.start()
    thread = threading.Thread(target=loop.turns.run, name="sampling under test")
    thread.start()
    yield Sampled(ends, names, loop)
    loop.stop()
    thread.join()
    loop.close()
    rings.close()
    remove(kubepods_root_path(driver=Driver.CGROUPFS))


def run(number: int, *, seconds: float = 0.0) -> None:
    """One container from its beginning to its end: it fills its memory at once."""
    directory = path_of(number)
    make(f"/{directory.relative_to(MOUNT)}")
    program = f"x = bytearray({PEAK_MIB * MIB}); import time; time.sleep({seconds})"
    command = f"echo $$ >{directory}/cgroup.procs && exec {sys.executable} -I -S -c '{program}'"
    subprocess.run(["sh", "-c", command], check=True)

    def is_removed() -> bool:
        try:
            directory.rmdir()
        except OSError:  # the last task's exit may be under way
            return False
        return True

    wait_for(is_removed, f"the end of {directory}")


def test_the_peak_of_a_run_outlives_it_however_short_it_was(sampled: Sampled) -> None:
    ends, ended, lives = sampled.ends, list[EndedContainer](), list[ShortLife]()

    def all_of(count: int) -> bool:
        ended.extend(ends.take())
        return len(ended) >= count

    for number in range(RUNS - 1):
        run(number)
    run(RUNS - 1, seconds=2.5)
    wait_for(lambda: all_of(RUNS), "all runs have ended")
    for container in ended:
        assert container.is_from_beginning
        assert container.pod_memory_peak_bytes is not None
        assert PEAK_MIB * MIB <= container.pod_memory_peak_bytes <= (PEAK_MIB + 4 * ALLOWED_MIB) * MIB
        assert container.pod_usage_usec
        # Its own, too, though none but the last was looked at after it had filled its memory.
        assert container.memory_peak_bytes is not None
        assert PEAK_MIB * MIB <= container.memory_peak_bytes <= container.pod_memory_peak_bytes
    # One that lasts longer than a second was read itself, too, after it had filled its memory.
    last = ended[-1]
    assert last.memory_peak_bytes is not None
    assert last.pod_memory_peak_bytes is not None
    assert PEAK_MIB * MIB <= last.memory_peak_bytes <= last.pod_memory_peak_bytes
    # And it counts for its container, though nobody knew whose it was before its end.
    assert ends.lives.take_until(time.monotonic_ns()) == []
    sampled.tell_names()

    def of_last() -> list[ShortLife]:
        lives.extend(ends.lives.take_until(time.monotonic_ns()))
        return [life for life in lives if life.unit.identity.cgroup_path == last.identity.cgroup_path]

    wait_for(lambda: bool(of_last()), "the last short life is named")
    [longest] = of_last()
    assert longest.is_named
    assert PEAK_MIB * MIB <= longest.working_set_bytes <= last.memory_peak_bytes

"""Kills of which only statuses tell: learnt once, over restarts too, and told where they come from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.pod import Pod
from agent.core.cluster.pod_index import Belonging, PodIndex, belonging
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.numbers.units import MIB
from agent.core.orders.policy_options import PolicyName
from agent.core.resize.decision import Action, Outcome
from agent.node.history.clock import HistoryClock
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner
from agent.node.history.reported_kills import REASON, ToldKills
from agent.settings import Settings
from tests.pods import container, make_pod
from tests.policy_rows import make_minutes

BOOT_UNIX_SECONDS = 1_800_000_000.0


class World:
    """A node whose agent may be begun anew; its history stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uptime_seconds = 10_000.0
        self.pods: list[Pod] = []
        self.told: list[str] = []
        self.helped: list[tuple[str | None, int | None]] = []
        self.reported: list[tuple[str | None, int | None, float]] = []
        self.reported_until: float | None = None
        self.begin()

    def begin(self) -> None:
        history = HistoryFile.open(self.path, max_rows=64)
        self.learner = Learner(
            history=history,
            policy=PolicyName.CRUISE,
            options=Settings(),
            pods=self,
            clock=HistoryClock(
                newest_unix_minute=history.newest_unix_minute,
                wall=self.wall,
                monotonic_ns=lambda: int(self.uptime_seconds * 1e9),
            ),
        )
        self.kills = ToldKills(
            learner=self.learner,
            pods=lambda: self.pods,
            tell=self.tell,
            help_now=lambda identity, memory_bytes: self.helped.append((identity.container, memory_bytes)),
            report=lambda identity, memory_bytes, age_seconds: self.reported.append(
                (identity.container, memory_bytes, age_seconds)
            ),
            reported_until_unix_seconds=self.reported_until,
        )

    def restart(self, *, after_seconds: float) -> None:
        self.learner.history.close()
        self.uptime_seconds += after_seconds
        self.begin()

    def wall(self) -> float:
        return BOOT_UNIX_SECONDS + self.uptime_seconds

    def belonging(self, identity: UnitIdentity) -> Belonging:
        return belonging(identity, PodIndex(self.pods))

    def tell(self, *, action: Action, outcome: Outcome, reason: str, detail: str = "", **_: Any) -> None:
        assert (action, outcome, reason) == (Action.NOTICE, Outcome.DONE, REASON)
        self.told.append(detail)

    def kill(
        self, *, ago_seconds: float, uid: str = "uid-web", limit: str | None = "64Mi", generation: int = 1
    ) -> None:
        """Have the status tell of a kill."""
        moment = datetime.fromtimestamp(self.wall() - ago_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": moment}}
        app = container("app", {"memory": "32Mi"}, None if limit is None else {"memory": limit})
        status = {"containerStatuses": [{"name": "app", "lastState": killed}]}
        self.pods = [make_pod(app, metadata={"uid": uid, "generation": generation}, status=status)]

    def measure(self, *, ago_minutes: int) -> None:
        """Have a minute in the history: an agent looked in it."""
        identity = UnitIdentity(cgroup_path="/other", kind=UnitKind.OTHER)
        assert self.learner.place_of(identity).row == 0
        assert self.learner.history.append(make_minutes(int(self.learner.clock.now() // 60) - ago_minutes, [100.0]))

    def learnt(self) -> list[OutOfMemory]:
        return [kill for _, kill in self.learner.history.kills()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "history")


def test_a_kill_before_the_start_is_learnt_with_its_limit_and_told_and_helped(world: World) -> None:
    world.kill(ago_seconds=30)
    world.kills.look()
    (kill,) = world.learnt()
    assert (kill.usage_bytes, kill.limit_bytes, kill.request_bytes) == (64 * MIB, 64 * MIB, 32 * MIB)
    assert kill.is_told_by_status
    assert kill.unix_seconds == pytest.approx(world.learner.clock.now() - 30, abs=1)
    (detail,) = world.told
    assert "while no agent looked, says the pod's status; its limit, 64MiB, is taken for what it used" in detail
    assert world.helped == [("app", 64 * MIB)]
    assert world.reported == [("app", 64 * MIB, 30.0)]


def test_it_is_learnt_once_by_this_agent_and_by_none_after_it(world: World) -> None:
    world.kill(ago_seconds=30)
    for _ in range(3):
        world.kills.look()
    for seconds in (1.0, 30.0, 7200.0):
        world.restart(after_seconds=seconds)
        world.kills.look()
    assert len(world.learnt()) == len(world.told) == len(world.helped) == 1


def test_what_the_agents_before_looked_on_is_not_learnt(world: World) -> None:
    world.kill(ago_seconds=400)
    world.measure(ago_minutes=1)
    world.restart(after_seconds=1)
    world.kills.look()
    assert (world.learnt(), world.told) == ([], [])


def test_what_happened_since_the_agent_before_ended_is_learnt(world: World) -> None:
    world.measure(ago_minutes=10)
    world.kill(ago_seconds=100)
    world.restart(after_seconds=1)
    world.kills.look()
    assert len(world.learnt()) == len(world.told) == 1


def test_a_kill_that_the_kernel_tells_of_is_not_told_again(world: World) -> None:
    world.uptime_seconds += 100
    world.kill(ago_seconds=1)
    world.kills.look()
    assert world.learnt() == []  # the kernel's counter knows more, and comes
    identity = UnitIdentity(cgroup_path="/x", kind=UnitKind.CONTAINER, pod_uid="uid-web", container="app")
    world.kills.seen(identity, world.learner.clock.now())
    world.uptime_seconds += 60
    world.kills.look()
    assert (world.learnt(), world.told) == ([], [])


@pytest.mark.parametrize(
    ("reported_seconds_ago", "expected"), [(300.0, [("app", 70 * MIB, 130)]), (100.0, []), (None, [])]
)
def test_what_the_agent_before_learnt_from_the_kernel_and_did_not_report_is_reported_and_not_learnt_again(
    world: World, reported_seconds_ago: float | None, expected: list[tuple[str, int, int]]
) -> None:
    world.kill(ago_seconds=130, limit="128Mi")  # a limit that was raised since
    world.measure(ago_minutes=1)
    identity = UnitIdentity(
        cgroup_path="/x",
        kind=UnitKind.CONTAINER,
        pod_uid="uid-web",
        namespace=world.pods[0].namespace,
        pod=world.pods[0].name,
        container="app",
    )
    other = OutOfMemory(unix_seconds=world.learner.clock.now() - 180, usage_bytes=50 * MIB)
    for kill in (other, OutOfMemory(unix_seconds=world.learner.clock.now() - 125, usage_bytes=70 * MIB)):
        world.learner.killed(identity, kill)
    world.learner.learn_kills()
    if reported_seconds_ago is not None:
        world.reported_until = world.learner.clock.now() - reported_seconds_ago
    world.restart(after_seconds=5)
    for _ in range(2):
        world.kills.look()
    assert [(name, size, round(age)) for name, size, age in world.reported] == expected
    assert (len(world.learnt()), world.told, world.helped) == (2, [], [])


def test_a_kill_while_it_looked_that_the_kernel_does_not_tell_of_is_learnt_a_little_later(world: World) -> None:
    world.uptime_seconds += 100
    world.kill(ago_seconds=1)
    world.kills.look()
    assert world.learnt() == []
    world.uptime_seconds += 30
    world.kills.look()
    assert len(world.learnt()) == 1


def test_an_old_kill_is_learnt_and_nothing_is_done_in_haste(world: World) -> None:
    world.kill(ago_seconds=5000)
    world.kills.look()
    assert (len(world.learnt()), world.helped) == (1, [])
    assert world.reported == [("app", 64 * MIB, 5000.0)]


def test_what_a_resized_pod_was_killed_at_is_not_known_to_an_agent_without_history(world: World) -> None:
    world.kill(ago_seconds=30, limit="128Mi", generation=2)
    world.kills.look()
    (kill,) = world.learnt()
    assert (kill.usage_bytes, kill.limit_bytes, kill.request_bytes) == (None, None, None)
    assert world.helped == [("app", None)]
    assert world.reported == [("app", None, 30.0)]
    assert "how much it used is not known: the pod was changed since it was made" in world.told[0]


def test_what_a_resized_pod_was_killed_at_is_known_where_an_agent_looked_before(world: World) -> None:
    world.measure(ago_minutes=10)
    world.kill(ago_seconds=100, generation=2)
    world.restart(after_seconds=1)
    world.kills.look()
    (kill,) = world.learnt()
    assert (kill.usage_bytes, kill.limit_bytes, kill.request_bytes) == (64 * MIB, 64 * MIB, 32 * MIB)


def test_a_kill_without_a_limit_is_learnt_with_what_is_known(world: World) -> None:
    world.kill(ago_seconds=30, limit=None)
    world.kills.look()
    (kill,) = world.learnt()
    assert (kill.usage_bytes, kill.limit_bytes, kill.request_bytes) == (None, None, 32 * MIB)
    assert "how much it used is not known" in world.told[0]


def test_pods_that_are_gone_are_forgotten(world: World) -> None:
    world.kill(ago_seconds=30)
    world.kills.look()
    gone = UnitIdentity(cgroup_path="/x", kind=UnitKind.CONTAINER, pod_uid="uid-gone", container="app")
    world.kills.seen(gone, 1.0)
    world.kills.seen(UnitIdentity(cgroup_path="/y", kind=UnitKind.OTHER), 1.0)
    world.pods = []
    world.kills.look()
    assert (world.kills._done, world.kills._seen) == ({}, {})

"""Minutes and kills into history and policy, and back after a restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.core.cluster.pod_index import Belonging
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import Workload
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import PolicyName
from agent.core.window.ring_rows import MINUTE_ROW, Has
from agent.node.history.clock import HistoryClock, newest_minute
from agent.node.history.file import HistoryFile
from agent.node.history.images import RowImages
from agent.node.history.learner import FEW_PLACES, Learner, Row, to_minutes, widened
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from agent.settings import Settings
from tests.policy_rows import make_minutes, make_present

BOOT_UNIX_SECONDS = 1_800_000_000
"""When this machine booted, as far as these tests go; a whole minute."""
FIRST_MINUTE = 100
MIB = 1 << 20


class Clocks:
    def __init__(self) -> None:
        self.monotonic_seconds = FIRST_MINUTE * 60.0 + 65
        self.boot_unix_seconds = float(BOOT_UNIX_SECONDS)

    def history(
        self, newest_unix_minute: int | None = None, newest_monotonic_minute: int | None = None
    ) -> HistoryClock:
        return HistoryClock(
            newest_unix_minute=newest_unix_minute,
            newest_monotonic_minute=newest_monotonic_minute,
            wall=lambda: self.boot_unix_seconds + self.monotonic_seconds,
            monotonic_ns=lambda: int(self.monotonic_seconds * 1e9),
        )


class Pods:
    """Every named container belongs to the workload of its namespace."""

    def __init__(self) -> None:
        self.images: dict[str, tuple[int, float]] = {}
        """Image and creation by the name of the pod."""

    def belonging(self, identity: UnitIdentity) -> Belonging:
        if identity.namespace is None:
            return Belonging()
        image_hash, created = self.images.get(identity.pod or "", (None, None))
        return Belonging(
            workload=Workload(namespace=identity.namespace, kind="Deployment", name="web"),
            image_hash=image_hash,
            pod_created_unix_seconds=created,
        )


def unit(name: str, namespace: str | None = None, kind: UnitKind = UnitKind.CONTAINER) -> UnitIdentity:
    return UnitIdentity(
        cgroup_path=f"/kubepods/{name}",
        kind=kind,
        pod_uid=name,
        container_id="c",
        namespace=namespace,
        pod=name,
        container="app",
    )


def row(minute: int, *, cpu: float | None = 100.0, peak: float | None = None, memory_mib: int | None = None) -> Row:
    minute_row = np.zeros(1, dtype=MINUTE_ROW)
    minute_row["monotonic_minute"] = minute
    if cpu is not None:
        minute_row["coverage_255"] = 255
        minute_row["cpu_mean_millicores"] = cpu
        minute_row["cpu_peak_millicores"] = cpu if peak is None else peak
    if memory_mib is not None:
        minute_row["has"] = int(Has.MEMORY_STAT)
        minute_row["working_set_peak_kib"] = memory_mib * 1024
    return minute_row


def learner(
    history: HistoryFile,
    clocks: Clocks | None = None,
    policy: PolicyName = PolicyName.PLIMSOLL,
    pods: Pods | None = None,
    **settings: object,
) -> Learner:
    return Learner(
        history=history,
        policy=policy,
        options=Settings(**settings),  # type: ignore[arg-type]
        pods=pods or Pods(),
        clock=(clocks or Clocks()).history(history.newest_unix_minute),
    )


def request_millicores(node_learner: Learner, identity: UnitIdentity, now: float) -> float | None:
    """Ask the policy for one unit whose window shows 50 m and 1 MiB."""
    place = node_learner.place_of(identity)
    answer = node_learner.policy.recommend(
        np.array([place.row], dtype=np.intp), make_present([50.0], [1.0 * MIB]), now_unix_seconds=now
    )
    return float(answer.cpu_request_millicores[0]) if answer.has_cpu[0] else None


@pytest.fixture
def memory_history() -> HistoryFile:
    return HistoryFile.open(None, max_rows=64)


NOW = BOOT_UNIX_SECONDS + FIRST_MINUTE * 60.0 + 65


def test_learn_a_minute_reaches_policy_and_history(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    node_learner.learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0, peak=250.0, memory_mib=64))])
    # The largest demand of the last hour is the peak: cruise recommends it.
    assert request_millicores(node_learner, unit("a"), NOW) == 250.0
    minutes = memory_history.minutes(node_learner.place_of(unit("a")).row)
    assert minutes.unix_minutes.tolist() == [BOOT_UNIX_SECONDS // 60 + FIRST_MINUTE]
    assert (minutes.cpu_usage_millicores[0], minutes.working_set_bytes[0]) == (100.0, 64 * MIB)


def test_learn_replicas_of_one_workload_count_by_their_maximum(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    replica, other = unit("a", "shop"), unit("b", "shop")
    node_learner.learn([(replica, row(FIRST_MINUTE, cpu=100.0)), (other, row(FIRST_MINUTE, cpu=300.0))])
    assert node_learner.place_of(replica).row == node_learner.place_of(other).row
    assert request_millicores(node_learner, replica, NOW) == 300.0


def test_learn_leaves_pause_containers_out(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    node_learner.learn([(unit("pause", kind=UnitKind.SANDBOX), row(FIRST_MINUTE))])
    assert not memory_history.keys()


def test_learn_minutes_made_up_for_come_in_order_whatever_unit_is_first(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    node_learner.learn(
        [
            (unit("a"), row(FIRST_MINUTE)),
            (unit("a"), row(FIRST_MINUTE + 1)),
            (unit("b"), row(FIRST_MINUTE)),
            (unit("b"), row(FIRST_MINUTE + 1)),
        ]
    )
    for name in ("a", "b"):
        assert memory_history.minutes(node_learner.place_of(unit(name)).row).unix_minutes.size == 2
    assert memory_history.refused_minutes == 0


def test_learn_the_same_minute_twice_is_learnt_once(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    node_learner.learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
    node_learner.learn([(unit("a"), row(FIRST_MINUTE, cpu=900.0))])
    assert memory_history.refused_minutes == 1
    assert request_millicores(node_learner, unit("a"), NOW) == 100.0


def test_learn_a_full_history_sizes_newcomers_by_their_window_alone() -> None:
    history = HistoryFile.open(None, max_rows=64)
    node_learner = learner(history)
    node_learner.learn([(unit(str(number)), row(FIRST_MINUTE)) for number in range(64)])
    late = unit("late")
    node_learner.learn(
        [*((unit(str(number)), row(FIRST_MINUTE + 1)) for number in range(64)), (late, row(FIRST_MINUTE + 1))]
    )
    assert node_learner.place_of(late).row == history.rows
    assert request_millicores(node_learner, late, NOW) == 50.0


def test_learn_a_row_that_goes_to_another_forgets_its_former_owner() -> None:
    history = HistoryFile.open(None, max_rows=64)
    node_learner = learner(history)
    node_learner.learn([(unit("old"), row(FIRST_MINUTE, cpu=4000.0))])
    node_learner.learn([(unit(str(number)), row(FIRST_MINUTE + 1, cpu=10.0)) for number in range(63)])
    node_learner.learn([(unit("new"), row(FIRST_MINUTE + 2, cpu=20.0))])
    assert request_millicores(node_learner, unit("new"), NOW + 120) == 50.0
    # The former owner, should it come back, is as new: it asks for a row again.
    assert node_learner.place_of(unit("old")).row != node_learner.place_of(unit("new")).row


def test_learn_a_unit_that_comes_back_as_its_row_goes_to_another_leaves_nothing_in_it() -> None:
    history = HistoryFile.open(None, max_rows=64)
    node_learner = learner(history)
    node_learner.learn([(unit("old"), row(FIRST_MINUTE, cpu=10.0))])
    others = [unit(str(number)) for number in range(63)]
    node_learner.learn([(other, row(FIRST_MINUTE + 1, cpu=10.0)) for other in others])
    # Of all rows, that of the unit which just comes back is idle for longest.
    both = [(unit("old"), row(FIRST_MINUTE + 2, cpu=4000.0)), (unit("new"), row(FIRST_MINUTE + 2, cpu=20.0))]
    node_learner.learn([*((other, row(FIRST_MINUTE + 2, cpu=10.0)) for other in others), *both])
    assert request_millicores(node_learner, unit("new"), NOW + 120) == 50.0


def test_learn_remembers_no_units_that_have_gone_but_a_few(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    for number in range(500):
        node_learner.learn([(unit(f"restart-{number}", "shop"), row(FIRST_MINUTE + number))])
    assert len(node_learner._places) <= FEW_PLACES + 3
    assert len(memory_history.keys()) == 1


def test_restore_gives_no_row_away_whose_minutes_are_still_to_come() -> None:
    history = HistoryFile.open(None, max_rows=64)
    before = learner(history)
    before.learn([(unit("old"), row(FIRST_MINUTE, cpu=4000.0))])
    before.learn([(unit(str(number)), row(FIRST_MINUTE + 1, cpu=10.0)) for number in range(63)])
    after = learner(history)
    asked: list[int] = []

    def ask() -> bool:
        """Ask as the serving thread may, between two minutes."""
        asked.append(after.place_of(unit("new")).row)
        return False

    after.restore(ask)
    assert asked == [history.rows] * 2
    assert request_millicores(after, unit("new"), NOW + 120) == 50.0


def test_a_kill_is_learnt_and_kept(memory_history: HistoryFile) -> None:
    node_learner = learner(memory_history)
    node_learner.killed(unit("a"), OutOfMemory(unix_seconds=NOW, usage_bytes=512 * MIB))
    node_learner.learn([(unit("a"), row(FIRST_MINUTE, memory_mib=64))])
    node_learner.learn_kills()
    (kill,) = memory_history.kills()
    assert kill == (node_learner.place_of(unit("a")).row, OutOfMemory(unix_seconds=NOW, usage_bytes=512 * MIB))
    answer = node_learner.policy.recommend(
        np.array([kill[0]], dtype=np.intp), make_present([50.0], [1.0 * MIB]), now_unix_seconds=NOW
    )
    assert answer.memory_request_bytes[0] == 512 * MIB


def test_a_kill_of_a_unit_without_a_row_is_dropped() -> None:
    history = HistoryFile.open(None, max_rows=64)
    node_learner = learner(history)
    node_learner.learn([(unit(str(number)), row(FIRST_MINUTE)) for number in range(64)])
    node_learner.killed(unit("late"), OutOfMemory(unix_seconds=NOW, usage_bytes=1))
    node_learner.learn_kills()
    assert history.kills() == ()


@pytest.mark.parametrize("policy", [PolicyName.CRUISE, PolicyName.VPA, PolicyName.CRANE, PolicyName.PLIMSOLL])
def test_restore_gives_the_answers_of_before_the_restart(tmp_path: Path, policy: PolicyName) -> None:
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        before = learner(history, policy=policy)
        before.restore(lambda: False)
        for minute in range(30):
            before.learn([(unit("a"), row(FIRST_MINUTE + minute, cpu=100.0 + minute, memory_mib=64))])
        before.killed(unit("a"), OutOfMemory(unix_seconds=NOW + 600, usage_bytes=300 * MIB, request_bytes=200 * MIB))
        before.learn_kills()
        before.save()
        moment = NOW + 30 * 60
        asked = before.policy.recommend(
            np.array([0], dtype=np.intp), make_present([50.0], [1.0 * MIB]), now_unix_seconds=moment
        )
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        after = learner(history, policy=policy)
        after.restore(lambda: False)
        assert after.is_restored
        again = after.policy.recommend(
            np.array([0], dtype=np.intp), make_present([50.0], [1.0 * MIB]), now_unix_seconds=moment
        )
    assert again.cpu_request_millicores.tolist() == asked.cpu_request_millicores.tolist()
    assert again.memory_request_bytes.tolist() == asked.memory_request_bytes.tolist()


@pytest.mark.parametrize("policy", [PolicyName.CRUISE, PolicyName.VPA, PolicyName.CRANE, PolicyName.PLIMSOLL])
@pytest.mark.parametrize("is_saved", [False, True])
def test_a_kill_learnt_before_its_minute_is_what_it_is_after_a_restart(
    tmp_path: Path, policy: PolicyName, is_saved: bool
) -> None:
    def asked(of: Learner) -> float:
        answer = of.policy.recommend(
            np.array([0], dtype=np.intp), make_present([50.0], [1.0 * MIB]), now_unix_seconds=NOW + 60
        )
        return float(answer.memory_request_bytes[0])

    moment = BOOT_UNIX_SECONDS + FIRST_MINUTE * 60 + 30.0
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        before = learner(history, policy=policy)
        before.restore(lambda: False)
        before.killed(unit("a"), OutOfMemory(unix_seconds=moment, usage_bytes=500 * MIB, request_bytes=100 * MIB))
        before.learn_kills()
        if is_saved:
            before.save()
        before.learn([(unit("a"), row(FIRST_MINUTE, memory_mib=500))])
        live = asked(before)
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        after = learner(history, policy=policy)
        after.restore(lambda: False)
        assert asked(after) == live
    if policy is PolicyName.VPA:
        # 500 MiB were used, of which a fifth more is 600 MiB; not 100 MiB more than the request.
        assert live >= 600 * MIB


def test_restore_of_a_state_learnt_under_other_options_begins_with_the_minutes(tmp_path: Path) -> None:
    from agent.core.orders.policy_options import VpaOptions

    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        before = learner(history, policy=PolicyName.VPA)
        before.restore(lambda: False)
        before.learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
        before.save()
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        changed = VpaOptions(recommendation_margin_fraction=1.0)
        after = learner(history, policy=PolicyName.VPA, vpa=changed)
        after.restore(lambda: False)
        # 0.1 core lies in the bucket that ends at 110 m; a margin of 100 % doubles it.
        assert request_millicores(after, unit("a"), NOW) == 220.0


@pytest.mark.parametrize("lost", ["learnt", "last_kill_unix_seconds"])
def test_restore_of_a_state_that_lacks_something_begins_with_the_minutes(
    tmp_path: Path, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        before = learner(history, policy=PolicyName.VPA)
        before.restore(lambda: False)
        before.learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
        save = history.save_state
        monkeypatch.setattr(
            history,
            "save_state",
            lambda name, arrays: save(name, {key: array for key, array in arrays.items() if key != lost}),
        )
        before.save()
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        after = learner(history, policy=PolicyName.VPA)
        after.restore(lambda: False)
        assert after.is_restored
        # 0.1 core lies in the bucket that ends at 110 m; 15 % margin, truncated.
        assert request_millicores(after, unit("a"), NOW) == 126.0


def test_restore_ends_when_the_agent_does(memory_history: HistoryFile) -> None:
    before = learner(memory_history)
    before.learn([(unit("a"), row(FIRST_MINUTE))])
    after = learner(memory_history)
    after.restore(lambda: True)
    assert not after.is_restored


def test_a_history_for_reading_only_is_learnt_from_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with HistoryFile.open(path, max_rows=64) as history:
        learner(history).learn([(unit("a"), row(FIRST_MINUTE, cpu=400.0))])
    content = path.read_bytes()
    with HistoryFile.open_readonly(path) as history:
        node_learner = learner(history, policy=PolicyName.CRUISE)
        node_learner.restore(lambda: False)
        node_learner.save()
        assert request_millicores(node_learner, unit("a"), NOW) == 400.0
        assert request_millicores(node_learner, unit("nobody"), NOW) == 50.0
    assert path.read_bytes() == content


def test_clock_a_step_that_lasts_is_followed_forwards_only() -> None:
    clocks = Clocks()
    clock = clocks.history()
    first = clock.unix_minute(FIRST_MINUTE)
    clocks.boot_unix_seconds += 3600
    clock.observe()
    assert (clock.unix_minute(FIRST_MINUTE), clock.ahead_minutes) == (first, -60)
    clocks.monotonic_seconds += 20 * 60
    clock.observe()
    assert (clock.unix_minute(FIRST_MINUTE), clock.ahead_minutes) == (first + 60, 0)
    assert clock.now() == clocks.boot_unix_seconds + clocks.monotonic_seconds
    clocks.boot_unix_seconds -= 7200
    clock.observe()
    assert (clock.unix_minute(FIRST_MINUTE), clock.ahead_minutes) == (first + 60, 120)


def test_learn_goes_on_after_the_clock_was_set_back(memory_history: HistoryFile) -> None:
    clocks = Clocks()
    node_learner = learner(memory_history, clocks)
    node_learner.learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
    clocks.boot_unix_seconds -= 7200
    node_learner.learn([(unit("a"), row(FIRST_MINUTE + 1, cpu=900.0))])
    assert memory_history.refused_minutes == 0
    assert request_millicores(node_learner, unit("a"), node_learner.clock.now()) == 900.0


def test_learn_a_restart_under_a_wrong_clock_goes_on_where_the_history_ended(memory_history: HistoryFile) -> None:
    learner(memory_history).learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
    clocks = Clocks()
    clocks.boot_unix_seconds = 0.0  # 1970
    clocks.monotonic_seconds = 3000.0
    after = learner(memory_history, clocks)
    after.restore(lambda: False)
    after.learn([(unit("a"), row(50, cpu=300.0))])
    assert memory_history.refused_minutes == 0
    assert request_millicores(after, unit("a"), after.clock.now()) == 300.0


@pytest.mark.parametrize("clock_set_back_seconds", [0.0, 7200.0])
def test_clock_of_a_restart_within_the_boot_is_that_of_before(
    memory_history: HistoryFile, clock_set_back_seconds: float
) -> None:
    clocks = Clocks()
    learner(memory_history, clocks).learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
    before = clocks.history()
    clocks.boot_unix_seconds -= clock_set_back_seconds
    clocks.monotonic_seconds += 60.0 * 3  # down for three minutes, which are made up for
    after = clocks.history(memory_history.newest_unix_minute, newest_monotonic_minute=FIRST_MINUTE)
    assert after.unix_minute(FIRST_MINUTE + 1) == before.unix_minute(FIRST_MINUTE + 1)
    assert after.ahead_minutes == clock_set_back_seconds / 60


def test_clock_of_a_restart_that_has_lost_the_minutes_of_this_boot_is_that_of_before(
    memory_history: HistoryFile,
) -> None:
    clocks = Clocks()
    learner(memory_history, clocks).learn([(unit("a"), row(FIRST_MINUTE, cpu=100.0))])
    assert clocks.history(memory_history.newest_unix_minute).ahead_minutes == 0


def test_newest_minute_is_that_of_any_slot() -> None:
    with RingFile.open(None, RingGeometry(max_slots=2), boot_id="b") as rings:
        slots = [rings.attach(path, inode, now_monotonic_ns=1) for inode, path in enumerate(("a", "b"), 1)]
        assert newest_minute(rings, slots) is None
        rings.append_minute(slots[1], row(7))
        assert newest_minute(rings, slots) == 7


def test_learn_what_is_learnt_is_what_the_history_gives_back(memory_history: HistoryFile) -> None:
    live = learner(memory_history)
    live.learn([(unit("a"), row(FIRST_MINUTE, cpu=5000.3))])
    again = learner(memory_history)
    again.restore(lambda: False)
    # The history keeps three and a half digits: a policy must not know more before a restart than after.
    assert request_millicores(live, unit("a"), NOW) == request_millicores(again, unit("a"), NOW) != 5000.3


def test_to_minutes_of_nothing_is_all_unknown() -> None:
    minutes = to_minutes(7, [], rows=3)
    assert not minutes.has_cpu.any()
    assert minutes.has_memory.tolist() == [False, False, False]


def test_to_minutes_keeps_cpu_and_memory_apart() -> None:
    minutes = to_minutes(7, [(0, row(1, cpu=None, memory_mib=2)), (2, row(1, cpu=5.0))], rows=3)
    assert minutes.has_cpu.tolist() == [False, False, True]
    assert minutes.has_memory.tolist() == [True, False, False]
    assert minutes.working_set_bytes[0] == 2 * MIB


def test_widened_adds_rows_that_know_nothing() -> None:
    minutes = make_minutes(7, [1.0, None])
    assert widened(minutes, 2) is minutes
    wide = widened(minutes, 4)
    assert wide.has_cpu.tolist() == [True, False, False, False]
    assert wide.cpu_usage_millicores[0] == 1.0


# Images


@pytest.mark.slow
def test_hours_of_another_image_count_less_also_after_a_restart(tmp_path: Path) -> None:
    """For two days 400m, with the new image 100m for twelve hours: only who knows of the image has let go."""
    clocks, pods = Clocks(), Pods()
    hours, changed = 60, 48
    clocks.monotonic_seconds = (FIRST_MINUTE + hours * 60 + 1) * 60.0
    changed_unix_seconds = BOOT_UNIX_SECONDS + (FIRST_MINUTE + changed * 60) * 60.0
    path = tmp_path / "history"
    with HistoryFile.open(path, max_rows=64) as history:
        taught = learner(history, clocks, pods=pods)
        minutes = [(number, 400.0 if number < changed * 60 else 100.0) for number in range(hours * 60)]
        pods.images["old"] = (1, changed_unix_seconds - 86_400)
        taught.learn([(unit("old", "shop"), row(FIRST_MINUTE + number, cpu=cpu)) for number, cpu in minutes])
        now = clocks.boot_unix_seconds + clocks.monotonic_seconds
        assert request_millicores(taught, unit("old", "shop"), now) == pytest.approx(400.0, rel=0.01)
        pods.images["new"] = (2, changed_unix_seconds)
        known = request_millicores(taught, unit("new", "shop"), now)
        assert known == pytest.approx(100.0, rel=0.01)
        # An older pod that is seen again changes nothing, and neither does another one of the same image.
        pods.images |= {"older": (1, changed_unix_seconds - 60), "newest": (2, changed_unix_seconds + 3600)}
        for name in ("older", "newest"):
            assert request_millicores(taught, unit(name, "shop"), now) == known
        taught.save()
    with HistoryFile.open(path, max_rows=64) as history:
        restarted = learner(history, clocks)
        restarted.restore(lambda: False)
        assert request_millicores(restarted, unit("new", "shop"), now) == known


def test_a_row_that_is_given_to_another_forgets_its_image() -> None:
    with HistoryFile.open(None, max_rows=64) as history:
        images = RowImages(history)
        images.take_rows(2, np.zeros(0, dtype=np.intp))
        assert [images.see(1, image, created) for image, created in ((7, 10.0), (8, 20.0))] == [False, True]
        assert list(images.changes()) == [(1, 20.0)]
        images.take_rows(2, np.array([1], dtype=np.intp))
        assert list(images.changes()) == []
        assert not images.see(1, 9, 5.0), "the first of a row is no change"


@pytest.mark.parametrize("arrays", [{}, {"image_hash": 1, "since_unix_seconds": 2, "is_changed": 3}])
def test_images_of_another_version_are_left(tmp_path: Path, arrays: dict[str, int]) -> None:
    with HistoryFile.open(tmp_path / "history", max_rows=64) as history:
        taught = learner(history)
        taught.learn([(unit("a", "shop"), row(FIRST_MINUTE))])
        history.save_state("images", {name: np.zeros((0, value), dtype=np.int64) for name, value in arrays.items()})
        assert list(RowImages(history).changes()) == []

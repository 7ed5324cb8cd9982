"""The keeper of the overload taint: when it writes, when it does not, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent.core.cluster.node import Node, Taint
from agent.core.orders.plan_options import OverloadOptions
from agent.core.resize.decision import Action, Outcome
from agent.core.window.overload import OVERLOAD_TAINT_EFFECT, OVERLOAD_TAINT_KEY
from agent.kube.client.errors import ApiError, Unreachable
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.overload_taint import READ_SECONDS, OverloadKeeper, PodsPressure, machine_load_per_cpu
from agent.node.keepers.taint_permission import ASKED, GRANTED, TaintPermission
from tests.fake_api import Call, FakeApi

OURS = {"key": OVERLOAD_TAINT_KEY, "effect": OVERLOAD_TAINT_EFFECT}
TURNS_OF_A_WINDOW = 8
"""120 s of 15 s each."""


class Server(FakeApi):
    """One node, with what goes wrong on demand."""

    def __init__(self, *taints: Mapping[str, str]) -> None:
        super().__init__()
        self.taints = [dict(taint) for taint in taints]
        self.version = 1
        self.fault: Exception | None = None
        self.reads = self.writes = 0

    def answer(self, call: Call) -> object:
        if self.fault is not None:
            self.reads += 1
            raise self.fault
        if call.method == "GET":
            self.reads += 1
        else:
            self.writes += 1
            self.taints = call.body["spec"]["taints"]
            self.version += 1
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": {"taints": list(self.taints)}}

    @property
    def node(self) -> Node:
        return Node(
            name="n",
            resource_version=str(self.version),
            taints=tuple(Taint(key=taint["key"], effect=taint["effect"]) for taint in self.taints),
        )


class Scene:
    """A keeper, its server, and a clock."""

    def __init__(self, *taints: Mapping[str, str], options: OverloadOptions | None = None) -> None:
        self.server = Server(*taints)
        self.load: float | None = 2.0
        self.waiting: float | None = 0.5
        self.withheld: str | None = None
        self.permission = GRANTED
        self.view: Callable[[], Node | None] = lambda: self.server.node
        self.told: list[tuple[Action, Outcome, str]] = []
        self.now = 0.0
        self.keeper = self.new_keeper(options or OverloadOptions(taint=True))

    def new_keeper(self, options: OverloadOptions) -> OverloadKeeper:
        return OverloadKeeper(
            api=self.server,
            node_name="n",
            options=options,
            node=lambda: self.view(),
            load_per_cpu=lambda: self.load,
            waiting_ratio=lambda: self.waiting,
            terms=KeeperTerms(may_write=lambda: self.withheld, tell=self.tell, unix_seconds=lambda: self.now),
            permission=lambda: self.permission,
        )

    def tell(self, *, action: Action, outcome: Outcome, reason: str, **_: object) -> None:
        self.told.append((action, outcome, reason))

    def turns(self, number: int = TURNS_OF_A_WINDOW) -> None:
        for _ in range(number):
            self.keeper.tick(self.now)
            self.now += READ_SECONDS


def test_a_whole_window_above_puts_the_taint_once() -> None:
    scene = Scene({"key": "theirs", "effect": "NoSchedule"})

    scene.turns(5)
    assert scene.server.writes == 0
    scene.turns(20)

    assert scene.server.taints == [{"key": "theirs", "effect": "NoSchedule"}, OURS]
    assert (scene.server.reads, scene.server.writes) == (1, 1)
    assert scene.keeper.is_overloaded
    assert scene.keeper.is_tainted is True
    assert scene.told == [(Action.TAINT, Outcome.DONE, "overloaded")]


def test_without_permission_there_is_no_taint_and_it_is_said_once() -> None:
    scene = Scene()
    scene.permission = ASKED
    scene.turns()
    assert scene.told == [], "an answer that is yet to come is nothing to tell"
    scene.permission = TaintPermission(reason="taint_cap", detail="2 of 20 nodes")
    scene.turns()
    assert scene.told == [(Action.TAINT, Outcome.WITHHELD, "taint_cap")]
    assert (scene.server.reads, scene.server.writes) == (0, 0)
    scene.permission = GRANTED
    scene.turns(1)
    assert scene.server.taints == [OURS]


def test_taking_the_taint_away_needs_no_permission() -> None:
    scene = Scene()
    scene.turns()
    scene.permission, scene.load = TaintPermission(reason="webhook_away"), 0.5
    scene.turns(1)
    assert scene.server.taints == []


def test_recovery_takes_it_away_at_the_first_low_reading() -> None:
    scene = Scene()
    scene.turns()
    scene.load = 0.7

    scene.turns(1)

    assert scene.server.taints == []
    assert not scene.keeper.is_overloaded
    assert scene.told[-1] == (Action.UNTAINT, Outcome.DONE, "recovered")


def test_readings_are_taken_a_quarter_of_a_minute_apart_however_often_it_is_driven() -> None:
    scene = Scene()
    asked: list[float] = []
    scene.keeper = OverloadKeeper(
        api=scene.server, node_name="n", options=OverloadOptions(), node=lambda: None,
        load_per_cpu=lambda: asked.append(0.0) or 1.0, waiting_ratio=lambda: None,  # type: ignore[func-returns-value]
        terms=KeeperTerms(may_write=lambda: None, tell=scene.tell),
    )  # fmt: skip

    for tenths in range(600):
        scene.keeper.tick(tenths / 10)

    assert len(asked) == 4


def test_without_the_option_nothing_is_asked_or_written() -> None:
    scene = Scene(options=OverloadOptions())

    scene.turns(20)

    assert scene.keeper.is_overloaded
    assert (scene.server.reads, scene.server.writes, scene.told) == (0, 0, [])


def test_what_may_not_be_written_is_withheld_said_once_and_done_as_soon_as_it_may() -> None:
    scene = Scene()
    scene.withheld = "paused"
    scene.turns(20)

    assert (scene.server.reads, scene.server.writes) == (0, 0)
    assert scene.told == [(Action.TAINT, Outcome.WITHHELD, "paused")]

    scene.withheld = None
    scene.turns(1)
    assert scene.server.taints == [OURS]


@pytest.mark.parametrize("load", [0.2, 0.8])
def test_a_taint_left_over_by_an_agent_before_goes_when_the_node_is_not_overloaded(load: float) -> None:
    scene = Scene(OURS)
    scene.load = load

    scene.turns(1)

    assert scene.server.taints == []
    assert scene.told == [(Action.UNTAINT, Outcome.DONE, "recovered")]


@pytest.mark.parametrize("load", [2.0, 0.9, None])
def test_it_stays_while_the_node_is_overloaded_and_while_nothing_is_known(load: float | None) -> None:
    scene = Scene(OURS)
    scene.load = load

    scene.turns(20)

    assert scene.server.taints == [OURS]
    assert scene.server.writes == 0
    assert scene.keeper.is_overloaded


def test_a_left_over_taint_goes_at_once_where_the_option_is_off() -> None:
    scene = Scene(OURS, options=OverloadOptions())

    scene.turns(1)

    assert scene.server.taints == []
    assert scene.told == [(Action.UNTAINT, Outcome.DONE, "switched off")]


def test_a_node_that_is_not_seen_is_tainted_all_the_same_and_then_seen() -> None:
    scene = Scene()
    scene.view = lambda: None
    assert scene.keeper.is_tainted is None

    scene.turns(20)

    assert scene.server.taints == [OURS]
    assert scene.server.writes == 1


def test_while_the_view_lags_behind_the_own_write_counts() -> None:
    scene = Scene()
    stale = scene.server.node
    scene.view = lambda: stale

    scene.turns(20)

    assert (scene.server.reads, scene.server.writes) == (1, 1)
    assert scene.keeper.is_tainted is True


def test_a_taint_that_somebody_takes_away_comes_back_while_the_node_is_overloaded() -> None:
    scene = Scene()
    scene.turns()
    scene.server.taints, scene.server.version = [], 9

    scene.turns(1)

    assert scene.server.taints == [OURS]


def test_while_the_server_is_away_the_state_is_kept_and_tries_grow_rare() -> None:
    scene = Scene()
    scene.server.fault = Unreachable("GET /api/v1/nodes/n: no answer")
    scene.turns(100)

    assert scene.keeper.is_overloaded
    assert scene.keeper.is_tainted is False
    # 15, 30, 60, ... up to 300 s apart: about 9 in 25 minutes, where each turn would make 94.
    assert 6 <= scene.server.reads <= 10
    assert scene.told == [(Action.TAINT, Outcome.ERROR, "overloaded")]

    scene.server.fault = None
    scene.turns(21)
    assert scene.server.taints == [OURS]
    assert scene.told[-1] == (Action.TAINT, Outcome.DONE, "overloaded")


def test_a_change_of_state_is_tried_at_once_whatever_came_before() -> None:
    scene = Scene()
    scene.turns()
    scene.server.fault = ApiError("PATCH", status=500)
    scene.load = 0.5
    scene.turns(40)
    scene.server.fault = None
    scene.load = 2.0
    scene.turns(TURNS_OF_A_WINDOW + 1)  # overloaded again: as it is tainted, nothing is to be done
    assert scene.server.taints == [OURS]

    scene.load = 0.5
    scene.turns(1)

    assert scene.server.taints == []


def test_at_the_exit_the_taint_goes_and_only_then_is_anything_asked() -> None:
    scene = Scene()
    scene.keeper.remove_at_exit()
    assert scene.server.reads == 0

    scene.turns()
    scene.keeper.remove_at_exit()

    assert scene.server.taints == []
    assert scene.told[-1] == (Action.UNTAINT, Outcome.DONE, "exit")


def test_at_the_exit_a_pause_and_a_fault_leave_it() -> None:
    scene = Scene()
    scene.turns()
    scene.withheld = "paused"
    scene.keeper.remove_at_exit()
    scene.withheld = None
    scene.server.fault = Unreachable("gone")
    scene.keeper.remove_at_exit()

    assert scene.server.taints == [OURS]
    assert [outcome for _, outcome, _ in scene.told[1:]] == [Outcome.WITHHELD, Outcome.ERROR]


# -- signals -----------------------------------------------------------------------------------------------------------


CUT = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12"


def write_total(path: Path, total_usec: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_usec}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )


def test_the_pods_pressure_is_the_share_since_the_call_before(tmp_path: Path) -> None:
    now_ns = [0]
    file = tmp_path / "kubepods.slice" / "cpu.pressure"
    write_total(file, 1_000_000)
    pressure = PodsPressure(tmp_path, lambda: "/kubepods.slice", clock_ns=lambda: now_ns[0])

    assert pressure() is None
    now_ns[0] += 10_000_000_000
    write_total(file, 4_000_000)  # 3 of 10 s

    assert pressure() == pytest.approx(0.3)


def test_waits_at_own_limits_are_discounted(tmp_path: Path) -> None:
    now_ns = [0]
    file = tmp_path / "kubepods" / "cpu.pressure"
    write_total(file, 0)
    pressure = PodsPressure(tmp_path, lambda: "kubepods", lambda: [0.1, 0.0], clock_ns=lambda: now_ns[0])
    pressure()
    now_ns[0] += 10_000_000_000
    write_total(file, 9_000_000)

    assert pressure() == pytest.approx(0.1)


def test_without_pods_the_machine_counts_and_a_change_between_the_two_is_no_rate(tmp_path: Path) -> None:
    now_ns = [0]
    roots: list[str | None] = [None]
    machine = tmp_path / "proc" / "cpu"
    write_total(machine, 0)
    pressure = PodsPressure(tmp_path, lambda: roots[0], clock_ns=lambda: now_ns[0], node_pressure=machine)
    pressure()
    now_ns[0] += 1_000_000_000
    write_total(machine, 500_000)
    assert pressure() == pytest.approx(0.5)

    roots[0] = "kubepods"
    write_total(tmp_path / "kubepods" / "cpu.pressure", 0)
    now_ns[0] += 1_000_000_000
    assert pressure() is None


@pytest.mark.parametrize("text", [None, "", "nonsense", "some avg10=x avg60=0 avg300=0 total=1\n", CUT])
def test_no_signal_is_none(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "cpu"
    if text is not None:
        file.write_text(text)
    pressure = PodsPressure(tmp_path, lambda: None, node_pressure=file)

    assert pressure() is None
    assert pressure() is None


def test_a_counter_that_fell_is_another_cgroup(tmp_path: Path) -> None:
    now_ns = [0]
    file = tmp_path / "cpu"
    write_total(file, 10)
    pressure = PodsPressure(tmp_path, lambda: None, clock_ns=lambda: now_ns[0], node_pressure=file)
    pressure()
    now_ns[0] += 1_000_000_000
    write_total(file, 5)

    assert pressure() is None


def test_the_load_is_per_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (6.0, 5.0, 4.0))

    assert machine_load_per_cpu(4) == 1.5


def test_a_kernel_that_tells_no_load_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr("os.getloadavg", none)

    assert machine_load_per_cpu(4) is None

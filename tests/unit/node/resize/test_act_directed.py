"""Turns of the acting thread by what the webhook told: left alone, frozen, only upward, paused, ruled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.workload import Workload
from agent.core.orders.order import OrderSource, Ranking
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.metrics.acting_series import Trigger
from agent.node.orders.holds import Holds
from tests.directives import directive
from tests.turns import MI, NOW, Turns, uid_of
from tests.unit.node.reports.test_directives_file import answer, same

HPA = "HorizontalPodAutoscaler shop/a"
HOUR = 3600.0


def node(directory: Path | None = None, **fields: Any) -> Turns:
    """Two pods that need less than they request; the webhook has not answered yet."""
    turns = Turns(directory, has_webhook=True, **fields)
    for name in ("a", "b"):
        turns.server.add(name, cpu=500, memory=256, limit=512)
        turns.need(name, 200, 100)
    return turns


def of(name: str, **fields: Any) -> Any:
    return directive(Workload(namespace="shop", kind="Deployment", name=name), **fields)


def told(*directives: Any, **fields: Any) -> Turns:
    turns = node()
    turns.directions.take(answer(*directives, **fields))
    return turns


def kept(turns: Turns, name: str = "a") -> tuple[KeptReason | None, KeptReason | None]:
    planned = turns.plans[-1][1].plan
    (pod,) = [planned_pod for planned_pod in planned.pods if planned_pod.ref.uid == uid_of(name)]
    (app,) = pod.containers
    assert app.cpu is not None
    assert app.memory is not None
    return app.cpu.kept, app.memory.kept


def test_nothing_is_written_before_the_webhook_has_told_whom_autoscalers_size() -> None:
    turns = node()
    turns.turn()
    assert turns.server.writes == []
    assert turns.log() == [("resize", "withheld", "directives", "")]
    turns.directions.take(same("other"))  # it has not read the cluster yet
    turns.turn(after=1.0)
    assert turns.server.writes == []
    turns.directions.take(answer())
    turns.turn(after=1.0)
    assert turns.server.writes == ["resize a", "resize b"]


def test_what_was_told_before_a_restart_is_enough(tmp_path: Path) -> None:
    turns = node(tmp_path)
    turns.directions.take(answer(of("a", left_alone_for="VerticalPodAutoscaler shop/a")))
    turns.start()
    turns.turn(after=1.0)
    assert turns.server.writes == ["resize b"]


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [
        ({"left_alone_for": "VerticalPodAutoscaler shop/a"}, ReservedReason.VPA),
        ({"cpu_frozen_for": HPA, "memory_frozen_for": HPA}, ReservedReason.HPA),
    ],
)
def test_a_pod_that_an_autoscaler_sizes_is_left_alone(fields: dict[str, str], reserved: ReservedReason) -> None:
    turns = told(of("a", **fields))
    turns.turn()
    assert turns.server.writes == ["resize b"]
    assert turns.plans[-1][1].demands[uid_of("a")].reserved is reserved


def test_a_frozen_axis_stays_and_the_other_moves() -> None:
    turns = told(of("a", cpu_frozen_for=HPA))
    turns.turn()
    assert (turns.server.cpu("a"), turns.server.requests("a")["memory"]) == ("500m", str(100 * MI))
    assert kept(turns)[0] is KeptReason.HPA


def test_a_frozen_axis_does_not_grow_for_a_pod_that_starves() -> None:
    turns = told(of("a", cpu_frozen_for=HPA))
    turns.need("a", 500, 256)
    turns.need("b", 500, 256)
    turns.starve("a", cpu_millicores=900)
    turns.starve("b", cpu_millicores=900)
    turns.turn(Trigger.PRESSURE)
    assert turns.server.writes == ["resize b"]


def test_what_is_told_between_plan_and_write_counts_at_the_write() -> None:
    turns = told()

    def news(*_: object) -> None:
        turns.directions.take(
            answer(of("a", cpu_frozen_for=HPA), of("b", left_alone_for="VerticalPodAutoscaler shop/b"), etag="two")
        )

    turns.actor.followers.append(news)
    turns.turn()
    assert turns.server.writes == []


def test_a_pause_between_plan_and_write_counts_at_the_write() -> None:
    turns = told()
    turns.actor.followers.append(lambda _: turns.directions.take(answer(pause="upgrade", etag="two")))
    turns.turn()
    assert turns.server.writes == []


def test_after_a_kill_elsewhere_a_workload_only_grows_until_its_time_is_up() -> None:
    turns = told(of("a", stop_shrinking_seconds=HOUR))
    turns.turn()
    assert turns.server.writes == ["resize b"]
    assert kept(turns) == (KeptReason.UPWARD_ONLY, KeptReason.UPWARD_ONLY)
    turns.need("a", 800, 256)
    turns.turn(after=1.0)
    assert turns.server.cpu("a") == "800m"
    turns.server.actuate("a")
    turns.need("a", 200, 256)
    turns.turn(after=HOUR / 2)
    turns.turn(after=HOUR / 2 - 2.0)
    assert turns.server.cpu("a") == "800m"
    turns.turn(after=2.0)
    assert turns.server.cpu("a") == "200m"


def test_a_pause_of_the_cluster_stops_every_write_until_the_webhook_says_otherwise() -> None:
    turns = told(pause="upgrade of the nodes")
    turns.turn()
    assert turns.server.writes == []
    assert turns.barriers.may_write() == "paused"
    assert turns.figure("paused") == 1
    assert turns.log() == [("resize", "withheld", "paused", "")]
    assert "upgrade of the nodes" in turns.newest().detail
    assert turns.holds.resume(now_unix_seconds=turns.wall) is None  # nobody here can end it
    turns.turn(after=48 * HOUR)
    assert turns.server.writes == []  # nor does time
    turns.directions.take(answer(etag="two"))
    turns.turn(after=1.0)
    assert turns.server.writes == ["resize a", "resize b"]


def test_a_rule_of_the_cluster_enforces_and_lapses_when_it_is_not_said_again_for_a_day() -> None:
    turns = node(act=ActOptions())  # recommend, where nobody says otherwise
    turns.directions.take(answer(of("a", mode="enforce", replicas=1)))
    turns.turn()
    assert turns.server.writes == ["resize a"]
    orders = turns.plans[-1][1].demands[uid_of("a")].orders
    assert (orders.mode_source, orders.ranking) == (OrderSource.CLUSTER, Ranking.MEDIUM)
    turns.server.actuate("a")
    turns.turn(after=HOUR)
    turns.need("a", 400, 200)
    turns.turn(after=24 * HOUR)
    assert turns.server.cpu("a") == "200m"
    turns.directions.take(same())
    turns.turn(after=1.0)
    assert turns.server.cpu("a") == "400m"


# Holds


def test_the_node_s_own_pause_is_told_before_the_cluster_s_and_both_end_apart() -> None:
    reason: list[str | None] = ["upgrade"]
    holds = Holds(None, now_unix_seconds=NOW, of_cluster=lambda: reason[0])
    pause = holds.paused(NOW)
    assert pause is not None
    assert pause.reason == "the whole cluster is, by its ConfigMap: upgrade"
    assert holds.notes(NOW) == ("paused, nothing is written: the whole cluster is, by its ConfigMap: upgrade",)
    assert holds.pause(NOW + 60.0, now_unix_seconds=NOW) is None  # it takes the place of no pause of its own
    own = holds.paused(NOW)
    assert own is not None
    assert own.until_unix_seconds == NOW + 60.0
    assert holds.expire(now_unix_seconds=NOW + 61.0)[0] == own
    assert holds.is_paused(NOW + 61.0)
    reason[0] = None
    assert not holds.is_paused(NOW + 61.0)

"""Credit for seconds from turn to turn: who has it, what is asked for, when it falls, and what a restart remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions
from agent.core.plan.needs.demand import KeptReason
from agent.core.plan.needs.demands import Measurements
from agent.core.plan.plan import Share
from agent.core.recommender.credit import CPU_FULL_PRICE, CPU_IN_PLACE, Credit
from agent.metrics.acting_series import Trigger
from tests.turns import Turns, uid_of

HOUR: Final = 3600.0
KEY: Final = uid_of("web"), "app"


def need(turns: Turns, *, full: int, in_place: int) -> None:
    """The pod's policy knows two prices; what was recommended last was at the full one."""
    turns.need("web", cpu=full)
    item = turns.recommended["web"]
    extra = {CPU_FULL_PRICE: float(full), CPU_IN_PLACE: float(in_place)}
    turns.recommended["web"] = replace(item, cpu_millicores=replace(item.cpu_millicores, base=100.0, extra=extra))


def one_pod(directory: Path | None = None, act: ActOptions | None = None) -> Turns:
    """Return a node with a pod that requests 1000m, needs 600 m at the full price and 300 with credit."""
    turns = Turns(directory, act=act)
    turns.server.add("web", cpu=1000)
    turns.measured = Measurements(cpu_pressure=frozenset({KEY}))
    need(turns, full=600, in_place=300)
    return turns


def share(turns: Turns) -> Share:
    assert turns.actor.planned is not None
    cpu_share = turns.actor.planned.plan.pods[0].containers[0].cpu
    assert cpu_share is not None
    return cpu_share


def credit(turns: Turns) -> Credit:
    assert turns.actor.planned is not None
    return turns.actor.planned.credits[KEY]


def settled(turns: Turns, *, after: float = 60.0) -> str:
    """Take a turn, have the kubelet actuate, let the agent see it; give the request."""
    turns.turn(after=after)
    turns.server.actuate("web")
    turns.turn(after=1.0)
    return turns.server.cpu("web")


def next_hour(turns: Turns) -> float:
    """Return the seconds to a minute after the next hour of the clock."""
    return HOUR - turns.wall % HOUR + 60.0


def test_with_credit_the_lower_price_is_asked_for_and_told() -> None:
    turns = one_pod()
    assert settled(turns) == "300m"
    assert (credit(turns), share(turns).has_credit) == (Credit.GRANTED, True)
    assert turns.figure("credit_containers", reason="granted") == 1
    assert turns.figure("credit_saved_cpu_cores") == 0.3


def test_mode_recommend_overload_and_unread_pressure_ask_for_the_full_price() -> None:
    turns = one_pod(act=ActOptions(mode=Mode.RECOMMEND))
    turns.turn()
    assert credit(turns) is Credit.NOT_ENFORCED
    assert turns.figure("credit_containers", reason="not_enforced") == 1
    turns = one_pod()
    turns.planner.heed_overload(True)
    assert settled(turns) == "600m"
    assert (credit(turns), share(turns).has_credit) == (Credit.NODE_PRESSED, False)
    turns = one_pod()
    turns.measured = Measurements()
    assert settled(turns) == "600m"
    assert credit(turns) is Credit.NO_PRESSURE


def test_credit_is_lost_at_the_next_turn_and_the_full_price_asked_for_at_once() -> None:
    turns = one_pod()
    assert settled(turns) == "300m"
    turns.planner.heed_overload(True)
    assert settled(turns) == "600m"


def test_a_pause_takes_credit_away_and_moves_nothing_before_or_after_it() -> None:
    turns = one_pod()
    assert settled(turns) == "300m"
    turns.holds.pause(None, now_unix_seconds=turns.wall)
    turns.turn(after=60.0)
    assert credit(turns) is Credit.PAUSED
    turns.holds.resume(now_unix_seconds=turns.wall)
    # The first plan after it knows at once that there is credit again: nobody grows for a moment.
    assert settled(turns) == "300m"
    assert credit(turns) is Credit.GRANTED


def test_falls_wait_for_the_next_hour_and_for_their_size() -> None:
    turns = one_pod()
    turns.sleep(next_hour(turns))
    assert settled(turns) == "300m"
    fell = turns.wall
    need(turns, full=600, in_place=150)
    assert settled(turns, after=400.0) == "300m"
    assert share(turns).kept is KeptReason.CALM
    waits_until = share(turns).waits_until_unix_seconds
    assert waits_until == fell - fell % HOUR + HOUR
    turns.sleep(waits_until - turns.wall)
    need(turns, full=600, in_place=250)
    assert settled(turns) == "300m"
    assert (share(turns).kept, share(turns).waits_until_unix_seconds) == (KeptReason.SMALL_FALL, None)
    need(turns, full=600, in_place=150)
    assert settled(turns) == "150m"


def test_without_credit_falls_come_as_ever() -> None:
    turns = one_pod()
    turns.measured = Measurements()
    assert settled(turns) == "600m"
    need(turns, full=500, in_place=150)
    assert settled(turns, after=301.0) == "500m"


def test_after_starvation_a_fall_waits_three_hours_over_a_restart_too(tmp_path: Path) -> None:
    turns = one_pod(tmp_path)
    assert settled(turns) == "300m"
    turns.starve("web", cpu_millicores=900, cpu_waiting_ratio=0.5)
    turns.turn(Trigger.PRESSURE, after=1.0)
    assert turns.server.cpu("web") == "900m"
    turns.server.actuate("web")
    turns.turn(after=1.0)
    grown = turns.wall
    turns.sleep(2 * HOUR)
    turns.start()
    assert settled(turns) == "900m"
    assert share(turns).waits_until_unix_seconds == grown + 3 * HOUR
    turns.sleep(grown + 3 * HOUR - turns.wall)
    assert settled(turns) == "300m"


def test_a_fall_that_is_held_gives_way_where_others_need_its_room() -> None:
    turns = one_pod()
    assert settled(turns) == "300m"
    turns.starve("web", cpu_millicores=3000, cpu_waiting_ratio=0.5)
    turns.turn(Trigger.PRESSURE, after=1.0)
    turns.server.actuate("web")
    turns.turn(after=1.0)
    turns.turn(after=2 * HOUR)
    assert (turns.server.cpu("web"), share(turns).kept) == ("3000m", KeptReason.CALM)
    turns.server.add("other", cpu=900)
    turns.need("other", cpu=2000)
    turns.turn(after=60.0)
    assert turns.server.cpu("web") == "300m"

from __future__ import annotations

from agent.core.oom_cool_down import OomCoolDown
from agent.core.recommendation import Workload

WEB = Workload(namespace="shop", kind="Deployment", name="web")
API = Workload(namespace="shop", kind="Deployment", name="api")


def test_an_action_is_allowed_again_at_exactly_five_minutes() -> None:
    cool_down = OomCoolDown()
    assert cool_down.take(WEB, "app", 1000.0)
    assert not cool_down.take(WEB, "app", 1299.9)
    # What was refused did not count: five minutes from the action, not from the last kill.
    assert cool_down.take(WEB, "app", 1300.0)


def test_containers_and_workloads_cool_down_apart() -> None:
    cool_down = OomCoolDown()
    assert cool_down.take(WEB, "app", 0.0)
    assert cool_down.take(WEB, "proxy", 0.0)
    assert cool_down.take(API, "app", 0.0)


def test_it_goes_on_over_a_restart_and_forgets_what_is_over() -> None:
    cool_down = OomCoolDown({(WEB, "app"): 100.0, (API, "app"): 350.0})
    assert not cool_down.take(API, "app", 400.0)
    assert cool_down.acted_seconds == {(API, "app"): 350.0}


def test_a_clock_that_was_put_far_back_does_not_bar_for_ever() -> None:
    cool_down = OomCoolDown({(WEB, "app"): 10_000.0})
    assert not OomCoolDown({(WEB, "app"): 1100.0}).take(WEB, "app", 1000.0)  # by a little: still the same kill
    assert cool_down.take(WEB, "app", 1000.0)


def test_a_kill_after_an_action_of_foresight_is_answered_at_once_and_only_once() -> None:
    cool_down = OomCoolDown()
    assert cool_down.take(WEB, "app", 1000.0)
    assert cool_down.is_cooling(WEB, "app", 1010.0)
    cool_down.killed(WEB, "app", 1010.0)
    assert not cool_down.is_cooling(WEB, "app", 1010.0)
    assert cool_down.take(WEB, "app", 1011.0)
    cool_down.killed(WEB, "app", 1020.0)  # that action was the answer to a kill: the next one waits
    assert cool_down.is_cooling(WEB, "app", 1020.0)
    assert cool_down.take(WEB, "app", 1311.0)


def test_an_old_kill_is_no_reason_to_act_twice() -> None:
    cool_down = OomCoolDown()
    cool_down.killed(WEB, "app", 0.0)
    cool_down.killed(API, "app", 400.0)  # by now the first is forgotten
    assert cool_down.take(WEB, "app", 1000.0)
    assert cool_down.is_cooling(WEB, "app", 1000.0)

from __future__ import annotations

import time

from agent.node.files.steady_clock import BootClock, BootMoment, SteadyClock, boot_seconds


def test_a_ledger_goes_on_from_its_start_by_the_time_since_boot_alone() -> None:
    since_boot = 50.0
    clock = SteadyClock(1_700_000_000.0, since_boot=lambda: since_boot)
    assert clock.now() == 1_700_000_000.0
    since_boot = 80.5
    assert clock.now() == 1_700_000_030.5


def test_on_a_machine_it_never_goes_back_and_keeps_to_its_start() -> None:
    clock = SteadyClock(1000.0)
    first = clock.now()
    second = clock.now()
    assert 1000.0 <= first <= second
    monotonic_seconds = time.monotonic()
    assert boot_seconds() >= monotonic_seconds  # suspension counts too


def test_moments_are_ahead_until_they_come_and_those_of_other_boots_never() -> None:
    since_boot = 100.0
    clock = BootClock("this", lambda: since_boot)
    moment = clock.ahead(60.0)
    assert moment == BootMoment(boot_id="this", boot_seconds=160.0)
    assert clock.is_ahead(moment)
    assert not clock.is_ahead(BootMoment(boot_id="other", boot_seconds=160.0))
    since_boot = 160.0
    assert not clock.is_ahead(moment)


def test_how_long_ago_is_known_of_this_boot_alone() -> None:
    since_boot = 100.0
    clock = BootClock("this", lambda: since_boot)
    moment = clock.ahead(-20.0)
    assert clock.seconds_since(moment) == 20.0
    assert clock.seconds_since(clock.ahead(5.0)) == -5.0
    assert clock.seconds_since(BootMoment(boot_id="other", boot_seconds=80.0)) is None
    since_boot = 160.0
    assert clock.seconds_since(moment) == 80.0
    assert clock.uptime_seconds() == 160.0


def test_the_machine_has_a_boot_of_its_own() -> None:
    moment = BootClock.of_machine().ahead(3600.0)
    assert BootClock.of_machine().is_ahead(moment)
    assert not BootClock("other", boot_seconds).is_ahead(moment)

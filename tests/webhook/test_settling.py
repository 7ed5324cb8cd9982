"""What stays is put aside from the collector of cycles: at first, when it has grown, and each hour with its garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from agent.webhook.collector_pause import GROWTH_ENTRIES, WHOLE_SECONDS, Settling
from tests.fakes import FakeClock


class Thing:
    other: Thing


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Leave the process as it was."""
    frozen = gc.get_freeze_count()
    yield
    if not frozen:
        gc.unfreeze()


def cycle() -> tuple[Thing, weakref.ref[Thing]]:
    one, two = Thing(), Thing()
    one.other, two.other = two, one
    return one, weakref.ref(one)


def test_it_is_frozen_again_when_it_has_grown_and_not_before() -> None:
    entries, clock = [0], FakeClock()
    settling = Settling(lambda: entries[0], lambda: None, clock=lambda: clock.seconds)
    settling.settle()
    things = [Thing() for _ in range(5000)]
    entries[0] = GROWTH_ENTRIES - 1
    before = gc.get_freeze_count()
    assert not settling.look()
    assert gc.get_freeze_count() <= before
    entries[0] = GROWTH_ENTRIES
    assert not settling.look()
    assert gc.get_freeze_count() >= before + len(things)


def test_garbage_among_it_goes_within_the_hour() -> None:
    clock = FakeClock()
    settling = Settling(lambda: 0, lambda: None, clock=lambda: clock.seconds)
    held, seen = cycle()
    settling.settle()
    del held
    gc.collect()
    assert seen() is not None, "what is frozen is not looked through"
    clock.advance(WHOLE_SECONDS - 1)
    settling.look()
    assert seen() is not None
    clock.advance(1)
    settling.look()
    assert seen() is None
    assert gc.get_freeze_count() > 0


def test_memory_is_given_back_when_the_garbage_has_gone_and_not_otherwise() -> None:
    held, seen = cycle()
    given_back: list[bool] = []
    settling = Settling(lambda: 0, lambda: given_back.append(seen() is None), clock=lambda: FakeClock().seconds)
    del held
    settling.settle()
    settling.look()
    assert given_back == [True]

"""What a starving container was seen to need: fresh it is demand, later a peak, at last nothing."""

from __future__ import annotations

from agent.core.plan.needs.demand import Urgent
from agent.core.plan.needs.urgent_needs import PEAK_SECONDS, UrgentNeeds, larger
from agent.core.window.memory_shortage import MemoryShort

FRESH = 300.0


def test_what_is_fresh_is_demand_and_the_largest_of_it_counts() -> None:
    memory = UrgentNeeds()
    assert memory.at(0.0, FRESH) is None
    memory.add(Urgent(cpu_millicores=300, cpu_waiting_ratio=0.5), 0.0)
    memory.add(Urgent(cpu_millicores=200, cpu_waiting_ratio=0.6), 100.0)
    assert memory.at(299.0, FRESH) == Urgent(cpu_millicores=300, cpu_waiting_ratio=0.6)
    # One spike is not demand for as long as smaller ones follow it.
    assert memory.at(399.0, FRESH) == Urgent(cpu_millicores=200, cpu_waiting_ratio=0.6)


def test_what_is_not_fresh_is_a_peak_for_an_hour_each() -> None:
    memory = UrgentNeeds()
    memory.add(Urgent(cpu_millicores=300), 0.0)
    memory.add(Urgent(cpu_millicores=200), 1000.0)
    memory.add(Urgent(cpu_millicores=100), 2000.0)
    past = memory.at(2400.0, FRESH)
    assert past is not None
    assert (past.cpu_millicores, past.is_past) == (300, True)
    later = memory.at(PEAK_SECONDS + 1.0, FRESH)
    assert later is not None
    assert later.cpu_millicores == 200
    assert memory.at(2000.0 + PEAK_SECONDS, FRESH) is None


def test_a_limit_is_raised_while_it_is_fresh_only() -> None:
    memory = UrgentNeeds()
    memory.add(Urgent(memory_bytes=60, memory_limit_bytes=120), 0.0)
    assert memory.at(0.0, FRESH) == Urgent(memory_bytes=60, memory_limit_bytes=120)
    assert memory.at(FRESH, FRESH) == Urgent(memory_bytes=60, is_past=True)


def test_a_fresh_need_does_not_hide_a_larger_peak_once_it_is_past() -> None:
    memory = UrgentNeeds()
    memory.add(Urgent(cpu_millicores=500), 0.0)
    assert memory.at(FRESH, FRESH) == Urgent(cpu_millicores=500, is_past=True)
    memory.add(Urgent(cpu_millicores=100), 1000.0)
    assert memory.at(1000.0, FRESH) == Urgent(cpu_millicores=100)
    assert memory.at(1000.0 + FRESH, FRESH) == Urgent(cpu_millicores=500, is_past=True)


def test_what_showed_that_memory_is_short_is_told_while_it_is_fresh() -> None:
    memory = UrgentNeeds()
    memory.add(Urgent(memory_bytes=60, memory_short=MemoryShort.HELD), 0.0)
    memory.add(Urgent(memory_bytes=50), 1.0)
    fresh = memory.at(1.0, FRESH)
    assert fresh == Urgent(memory_bytes=60, memory_short=MemoryShort.HELD)
    assert memory.at(FRESH + 1.0, FRESH) == Urgent(memory_bytes=60, is_past=True)


def test_waiting_for_memory_is_told_once_and_is_no_demand() -> None:
    memory = UrgentNeeds()
    memory.add(Urgent(memory_waiting_ratio=0.4), 0.0)
    assert memory.at(0.0, FRESH) == Urgent(is_past=True)  # kept until it is taken
    assert memory.take_pressed()
    assert not memory.take_pressed()
    assert memory.at(0.0, FRESH) is None


def test_larger_takes_each_figure_by_itself() -> None:
    need, other = Urgent(cpu_millicores=1, memory_bytes=9), Urgent(cpu_millicores=5)
    assert larger(need, other) == Urgent(cpu_millicores=5, memory_bytes=9)

"""Who was killed, by the counters of memory.events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.sensing.kill_counts import KillLedger


def ledger(pod: int | None = 0, **containers: int) -> KillLedger:
    kill_ledger = KillLedger()
    for path, count in containers.items():
        kill_ledger.add_container(path, count)
    if pod is not None:
        kill_ledger.add_pod(pod)
    return kill_ledger


def test_ledger_counts_a_kill_in_pod_and_container_once_under_the_container() -> None:
    assert ledger(a=0).observe(1, {"a": 1}) == (0, {"a": 1})


def test_ledger_gives_the_pod_the_kill_of_a_container_that_is_gone() -> None:
    assert ledger(a=0).observe(1, {}) == (1, {})


def test_ledger_splits_what_pod_and_containers_show() -> None:
    # The pod rose by 5; containers account for 1 + 2; the remaining 2 are of a container that is not read.
    assert ledger(10, a=3, b=0).observe(15, {"a": 4, "b": 2}) == (2, {"a": 1, "b": 2})


def test_ledger_tells_nothing_twice_when_the_pod_shows_it_later() -> None:
    seen = ledger(a=0)
    # Read between the kernel's two steps: the container first, then the pod.
    assert seen.observe(0, {"a": 1}) == (0, {"a": 1})
    assert seen.observe(1, {"a": 1}) == (0, {})
    assert seen.observe(2, {"a": 1}) == (1, {})


def test_ledger_takes_what_was_there_before_for_the_baseline() -> None:
    assert ledger(9, a=4).observe(9, {"a": 4}) == (0, {})


def test_ledger_gives_a_new_container_the_kill_before_its_first_reading() -> None:
    seen = ledger(0)
    seen.add_container("a", 1)
    assert seen.observe(1, {"a": 1}) == (0, {"a": 1})
    assert seen.observe(1, {"a": 1}) == (0, {})


def test_ledger_gives_a_new_container_no_kill_that_was_told_before() -> None:
    seen = ledger(0)
    assert seen.observe(1, {}) == (1, {})
    seen.add_container("a", 1)
    assert seen.observe(1, {"a": 1}) == (0, {})


def test_ledger_takes_a_fallen_counter_for_a_new_baseline() -> None:
    seen = ledger(5, a=5)
    assert seen.observe(0, {"a": 0}) == (0, {})
    assert seen.observe(1, {"a": 1}) == (0, {"a": 1})


def test_ledger_without_a_pod_counts_containers() -> None:
    assert ledger(None, a=1).observe(None, {"a": 3}) == (0, {"a": 2})


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "pod"]), st.booleans(), st.booleans()), max_size=30
    )  # who is killed, is it read afterwards, does the pod's counter lag
)
def test_ledger_tells_every_kill_exactly_once(steps: list[tuple[str, bool, bool]]) -> None:
    seen = ledger(0, a=0, b=0)
    true = {"a": 0, "b": 0, "pod": 0}
    kills = 0
    for who, is_read, lags in steps:
        before = sum(true.values())
        true[who] += 1
        if is_read:
            # Only a kill in a container can be ahead of the pod: the pod is read first.
            pod = before if lags and who != "pod" else before + 1
            of_pod, of_containers = seen.observe(pod, {"a": true["a"], "b": true["b"]})
            kills += of_pod + sum(of_containers.values())
    of_pod, of_containers = seen.observe(sum(true.values()), {"a": true["a"], "b": true["b"]})
    assert kills + of_pod + sum(of_containers.values()) == sum(true.values())

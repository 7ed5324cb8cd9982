from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.unit import UnitResources
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.recommendation import Recommendation, Withheld
from agent.core.recommender.recommender import recommend
from agent.core.recommender.subject import Conditions, Subject
from agent.core.recommender.totals import ResourceTotal, totals
from tests.subjects import MI, TimesPolicy, cpu_window, identity, memory_window, subject


def answers(*subjects: Subject) -> list[Recommendation]:
    """Recommend what is present, by the millicore and byte."""
    return recommend(
        subjects,
        TimesPolicy(1.0),
        now_unix_seconds=1e9,
        conditions=Conditions(min_span_seconds=600.0, max_age_seconds=60.0),
        options=BoundsOptions(
            min_memory_bytes=0,
            round_memory_bytes=1,
            smallest_cpu_change_millicores=0,
            smallest_memory_change_bytes=0,
            smallest_change_ratio=0.0,
        ),
    )


def one(namespace: str | None, request_millicores: int | None, used_millicores: float | None) -> Subject:
    return subject(
        identity=identity(namespace=namespace),
        resources=UnitResources(cpu_request_millicores=request_millicores, memory_request_bytes=100 * MI),
        cpu=cpu_window(used_millicores),
        memory=memory_window(100 * MI),
    )


def test_total_tells_what_to_free_apart_from_what_to_add() -> None:
    sums = totals(answers(one("shop", 500, 200.0), one("shop", 100, 150.0), one("shop", None, 70.0)))

    (shop,) = sums.namespaces
    assert (shop.namespace, shop.containers) == ("shop", 3)
    # 600 now; 300 to free; 50 and the unset 70 to add: 600 - 300 + 120.
    assert shop.cpu_millicores == ResourceTotal(current=600, recommended=420, to_free=300, to_add=120)
    assert shop.memory_bytes == ResourceTotal(current=300 * MI, recommended=300 * MI)
    assert sums.node.cpu_millicores == shop.cpu_millicores


def test_withheld_container_keeps_its_request_and_is_counted_by_reason() -> None:
    sums = totals(answers(one("shop", 500, None), one("shop", 100, 100.0)))

    assert sums.node.cpu_millicores == ResourceTotal(current=600, recommended=600, withheld={Withheld.NO_SIGNAL: 1})


def test_namespaces_come_by_name_and_what_has_none_comes_last() -> None:
    sums = totals(answers(one("web", 1, 1.0), one(None, 1, 1.0), one("api", 1, 1.0), one("web", 1, 1.0)))

    assert [(total.namespace, total.containers) for total in sums.namespaces] == [("api", 1), ("web", 2), (None, 1)]
    assert sums.node.containers == 4


def test_nothing_adds_up_to_zeros() -> None:
    sums = totals([])

    assert sums.namespaces == ()
    assert sums.node.cpu_millicores == ResourceTotal()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(1, 999), st.floats(1, 999))))
def test_namespaces_add_up_to_the_node(rows: list[tuple[str, int | None, float]]) -> None:
    sums = totals(answers(*(one(*row) for row in rows)))

    for name in ("current", "recommended", "to_free", "to_add"):
        parts = [getattr(total.cpu_millicores, name) for total in sums.namespaces]
        assert sum(parts) == getattr(sums.node.cpu_millicores, name)
    node = sums.node.cpu_millicores
    assert node.recommended == node.current - node.to_free + node.to_add

from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.pod_count import PODS_KEPT, Pods, PodSums, pack_numbers, pod_number, unpack_numbers

rows = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=30).map(lambda pod: pod_number(f"uid-{pod}")),
        st.builds(
            PodSums,
            *(st.integers(min_value=0, max_value=5) for _ in range(4)),
        ),
    ),
    max_size=60,
)


def pods_of(added: list[tuple[int, PodSums]]) -> Pods:
    pods = Pods()
    for number, sums in added:
        pods.add(number, sums)
    return pods


@given(rows, st.integers(min_value=0, max_value=60), st.randoms(use_true_random=False))
def test_neither_order_nor_who_counted_matters(added: list[tuple[int, PodSums]], cut: int, random: object) -> None:
    shuffled = list(added)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = pods_of(shuffled[:cut]), pods_of(shuffled[cut:])
    two.merge(one)
    assert two == pods_of(added)


@given(rows)
def test_those_kept_have_all_their_samples_and_few_are_counted_exactly(added: list[tuple[int, PodSums]]) -> None:
    pods = pods_of(added)
    distinct = {number for number, _ in added}
    assert sorted(pods.sums) == sorted(distinct)[:PODS_KEPT]
    for number, sums in pods.sums.items():
        assert sums.cpu_microcores == sum(one.cpu_microcores for of, one in added if of == number)
        assert sums.memory_bytes == sum(one.memory_bytes for of, one in added if of == number)
    if len(distinct) <= PODS_KEPT:
        assert pods.count == len(distinct)
    else:
        assert pods.count > PODS_KEPT


def test_many_pods_are_estimated() -> None:
    for number, tolerance in ((100, 0.12), (1000, 0.25)):
        pods = pods_of([(pod_number(f"pod-{index}"), PodSums()) for index in range(number)])
        assert abs(pods.count - number) <= tolerance * number


def test_with_every_bit_set_the_estimate_stays_finite() -> None:
    pods = Pods(sums={}, bits=(1 << 256) - 1, has_more=True)
    assert pods.count == 1420  # 256 ln 256: what one free bit would mean


def test_spread_is_over_the_means_of_pods() -> None:
    # Pod 1: 300 millicores over 2 samples; pod 2: 900 over 3, and 100 bytes over 2 samples of memory.
    pods = pods_of([(1, PodSums(2, 300_000)), (2, PodSums(3, 900_000, 2, 100))])
    assert pods.cpu_spread_millicores() == (150.0, 300.0)
    assert pods.memory_spread_bytes() == (50.0, 50.0)
    assert Pods().cpu_spread_millicores() is None
    assert Pods().memory_spread_bytes() is None


@given(rows)
def test_packed_numbers_keep_who_there_was(added: list[tuple[int, PodSums]]) -> None:
    pods = pods_of(added)
    back = unpack_numbers(pack_numbers(pods))
    assert (sorted(back.sums), back.bits, back.has_more) == (sorted(pods.sums), pods.bits, pods.has_more)
    assert len(pack_numbers(pods)) <= 4 * PODS_KEPT + 32

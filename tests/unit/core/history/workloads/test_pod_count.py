import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.workloads.pod_count import (
    PODS_KEPT,
    Pods,
    PodSums,
    pack_numbers,
    packed_count,
    pod_number,
    unpack_numbers,
    with_number,
)

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
        assert sums.cpu_microcores == sum(addend.cpu_microcores for of, addend in added if of == number)
        assert sums.memory_bytes == sum(addend.memory_bytes for of, addend in added if of == number)
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


def test_the_samples_of_one_pod_add_up() -> None:
    pods = pods_of([(7, PodSums(1, 2, 3, 4)), (7, PodSums(10, 20, 30, 40))])
    assert pods.sums == {7: PodSums(11, 22, 33, 44)}
    assert (pods.count, pods.has_more) == (1, False)


def test_of_nine_pods_the_eight_smallest_hashes_are_kept_and_the_ninth_is_not_forgotten() -> None:
    pods = pods_of([(number, PodSums()) for number in range(PODS_KEPT)])
    other = pods_of([(PODS_KEPT, PodSums())])
    pods.merge(other)
    assert sorted(pods.sums) == list(range(PODS_KEPT))
    assert pods.has_more
    assert pods.count == PODS_KEPT + 1
    assert pods.bits.bit_count() == PODS_KEPT + 1


@pytest.mark.parametrize("count", [0, 3, PODS_KEPT, PODS_KEPT + 1, 40])
def test_who_there_was_is_packed_and_read_back(count: int) -> None:
    pods = pods_of([(pod_number(f"uid-{pod}"), PodSums(cpu_count=pod)) for pod in range(count)])
    packed = pack_numbers(pods)
    assert len(packed) == 4 * min(count, PODS_KEPT) + (32 if count > PODS_KEPT else 0)
    assert packed_count(packed) == pods.count
    read = unpack_numbers(packed)
    assert (sorted(read.sums), read.bits, read.has_more) == (sorted(pods.sums), pods.bits, pods.has_more)
    assert set(read.sums.values()) <= {PodSums()}


@pytest.mark.parametrize("count", [0, 3, PODS_KEPT - 1, PODS_KEPT, 40])
def test_a_pod_that_is_packed_already_changes_nothing_and_a_newcomer_is_one_more(count: int) -> None:
    packed = pack_numbers(pods_of([(number, PodSums()) for number in range(10, 10 + count)]))
    more = unpack_numbers(with_number(packed, 9))
    assert 9 in more.sums
    assert more.has_more == (count >= PODS_KEPT)
    for number in unpack_numbers(packed).sums:
        assert with_number(packed, number) is packed


@given(rows, st.data())
def test_a_pod_more_is_packed_as_if_it_had_been_added(added: list[tuple[int, PodSums]], data: st.DataObject) -> None:
    pods = pods_of(added)
    number = data.draw(st.sampled_from(sorted(pods.sums)) if pods.sums else st.just(7)) + data.draw(st.integers(0, 1))
    packed = with_number(pack_numbers(pods), number)
    pods.add(number, PodSums())
    assert packed == pack_numbers(pods)


@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=9, max_size=80))
def test_many_pods_are_packed_one_after_the_other_as_if_they_had_been_added(numbers: list[int]) -> None:
    pods, packed = Pods(), b""
    for number in [*numbers, *numbers]:
        pods.add(number, PodSums())
        packed = with_number(packed, number)
        assert packed == pack_numbers(pods)


def test_of_many_pods_one_more_sets_a_bit_or_was_there() -> None:
    pods = pods_of([(number, PodSums()) for number in range(10, 10 + PODS_KEPT + 1)])
    packed = with_number(pack_numbers(pods), 1000)
    pods.add(1000, PodSums())
    assert packed == pack_numbers(pods)
    assert with_number(packed, 1000) == packed


def test_the_end_of_one_hash_and_the_beginning_of_the_next_are_no_pod() -> None:
    packed = with_number(with_number(b"", 0x00000001), 0x02000000)
    assert packed_count(with_number(packed, 0x00000102)) == 3


def test_spreads_are_the_least_and_the_largest_mean_of_a_pod() -> None:
    pods = pods_of([(1, PodSums(2, 400_000, 0, 0)), (2, PodSums(1, 300_000, 4, 400)), (3, PodSums())])
    # 400,000 microcores over two samples are 200 millicores; the second pod's one sample is 300.
    assert pods.cpu_spread_millicores() == (200.0, 300.0)
    assert pods.memory_spread_bytes() == (100.0, 100.0)
    assert Pods().cpu_spread_millicores() is None
    assert Pods().memory_spread_bytes() is None

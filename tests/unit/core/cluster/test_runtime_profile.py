from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile

MI = 1 << 20
FIXED = RuntimeProfile(runtime=LanguageRuntime.JAVA, heap_bytes=1000)
SHARE = RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25)


def test_a_fixed_heap_needs_a_quarter_more_or_what_was_used_beside_it() -> None:
    assert FIXED.limit_floor_bytes == 1250
    assert FIXED.request_floor_bytes(300.5) == 1250
    assert FIXED.request_floor_bytes(1500.0) == 1500  # 500 of them cannot be heap
    assert FIXED.least_limit_bytes(9000) == 1250
    assert not FIXED.reads_limit_at_start


def test_a_quarter_is_rounded_up() -> None:
    assert RuntimeProfile(runtime=LanguageRuntime.NODE, heap_bytes=5).limit_floor_bytes == 7


def test_go_s_limit_counts_more_than_a_heap_so_a_ninth_is_left_beside_it() -> None:
    # What nine tenths of a limit are needs no larger limit.
    go = RuntimeProfile(runtime=LanguageRuntime.GO, heap_bytes=900 * MI)

    assert go.limit_floor_bytes == go.request_floor_bytes(1.0) == 1000 * MI


def test_a_share_needs_a_limit_whose_share_holds_all_that_was_used() -> None:
    assert SHARE.limit_floor_bytes == SHARE.request_floor_bytes(300.0) == 0
    assert SHARE.least_limit_bytes(300) == 1200
    assert SHARE.reads_limit_at_start


@pytest.mark.parametrize(
    ("profile", "limit", "seen", "is_unfilled"),
    [
        (FIXED, 2000, 1900, True),  # 95 %
        (FIXED, 2000, 1901, False),
        (FIXED, 1249, 100, False),  # the heap and a quarter do not fit
        (SHARE, 2000, 1900, True),
        (replace(FIXED, heap_bytes=None, hidden="JAVA_OPTS"), 2000, 10, True),
        (RuntimeProfile(runtime=LanguageRuntime.PYTHON), 2000, 10, False),
    ],
)
def test_a_limit_that_was_never_nearly_reached_is_left_unfilled(
    profile: RuntimeProfile, limit: int, seen: int, is_unfilled: bool
) -> None:
    assert profile.leaves_unfilled(limit, seen) is is_unfilled


JAVA = RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25, small_heap_bytes=126 * MI)
NODE = RuntimeProfile(
    runtime=LanguageRuntime.NODE, limit_share_ratio=0.5, small_heap_bytes=256 * MI, most_heap_bytes=2048 * MI
)


@pytest.mark.parametrize(
    ("profile", "limit_mib", "heap_mib"),
    [
        # As OpenJDK 17 and Node 20 took it: -XX:MaxRAM=200m gave 100 MiB, 300m 126, 4g 1024.
        (JAVA, 200, 100),
        (JAVA, 300, 126),
        (JAVA, 4096, 1024),
        (replace(JAVA, limit_share_ratio=0.7), 200, 100),
        (replace(JAVA, limit_share_ratio=0.7), 400, 280),
        (replace(JAVA, initial_heap_bytes=3000 * MI), 4096, 3000),
        (replace(JAVA, initial_heap_bytes=150 * MI), 200, 150),
        (NODE, 1024, 512),
        (NODE, 8192, 2048),
        (FIXED, 4096, 1000 / MI),
        (replace(JAVA, hidden="JAVA_OPTS"), 4096, None),
        (replace(JAVA, fault="-Xmx"), 4096, None),
    ],
)
def test_a_heap_by_its_limit(profile: RuntimeProfile, limit_mib: int, heap_mib: float | None) -> None:
    assert profile.heap_within(limit_mib * MI) == (None if heap_mib is None else heap_mib * MI)


@pytest.mark.parametrize(
    ("profile", "used_mib", "limit_mib"),
    [
        (JAVA, 100, 200),  # half of it is heap, as it is small
        (JAVA, 126, 252),
        (JAVA, 200, 800),
        (replace(JAVA, limit_share_ratio=0.8), 150, 252),  # 187.5 would give 93 only
        (replace(JAVA, initial_heap_bytes=1024 * MI), 100, 1280),
        (NODE, 600, 1200),
        (NODE, 3000, 4096),  # no larger one gives it more heap
    ],
)
def test_the_least_limit_gives_a_heap_that_holds_what_was_used(
    profile: RuntimeProfile, used_mib: int, limit_mib: int
) -> None:
    least = profile.least_limit_bytes(used_mib * MI)

    assert least == limit_mib * MI
    assert (profile.heap_within(least) or 0) >= min(used_mib, 2048) * MI


def test_flags_that_nobody_can_read_may_go_by_the_limit() -> None:
    assert RuntimeProfile(runtime=LanguageRuntime.GO, hidden="GOMEMLIMIT").reads_limit_at_start


def test_who_states_nothing_needs_nothing() -> None:
    plain = RuntimeProfile(runtime=LanguageRuntime.PYTHON)

    assert (plain.limit_floor_bytes, plain.request_floor_bytes(9.0), plain.least_limit_bytes(9)) == (0, 0, 0)

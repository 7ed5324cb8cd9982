from __future__ import annotations

from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile

FIXED = RuntimeProfile(runtime=LanguageRuntime.JAVA, heap_bytes=1000)
SHARE = RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25)


def test_a_fixed_heap_needs_a_quarter_more_or_what_was_used_beside_it() -> None:
    assert FIXED.limit_floor_bytes == 1250
    assert FIXED.request_floor_bytes(300.5) == 1250
    assert FIXED.request_floor_bytes(1500.0) == 1500  # 500 of them cannot be heap
    assert FIXED.least_limit_bytes(9000) == 1250
    assert not FIXED.reads_limit_at_start


def test_a_quarter_is_rounded_up() -> None:
    assert RuntimeProfile(runtime=LanguageRuntime.GO, heap_bytes=5).limit_floor_bytes == 7


def test_a_share_needs_a_limit_whose_share_holds_all_that_was_used() -> None:
    assert SHARE.limit_floor_bytes == SHARE.request_floor_bytes(300.0) == 0
    assert SHARE.least_limit_bytes(300) == 1200
    assert SHARE.reads_limit_at_start


def test_who_states_nothing_needs_nothing() -> None:
    plain = RuntimeProfile(runtime=LanguageRuntime.NODE)

    assert (plain.limit_floor_bytes, plain.request_floor_bytes(9.0), plain.least_limit_bytes(9)) == (0, 0, 0)

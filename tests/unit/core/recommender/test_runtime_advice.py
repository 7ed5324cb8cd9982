from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.cluster.unit import UnitResources
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.policy import LimitRule
from agent.core.recommender.recommendation import Bound
from agent.core.recommender.recommender import explain
from agent.core.recommender.runtime_advice import runtime_advice, runtime_words
from agent.core.recommender.subject import Conditions
from tests.recommendations import advice
from tests.subjects import MI, TimesPolicy, bools, floats, subject

JAVA, GO, NODE, PYTHON = (LanguageRuntime(name) for name in ("java", "go", "node", "python"))
GI = 1 << 30
XMX = "-Xmx in the command line"


def java(share: float | None = None, heap_bytes: int | None = None) -> RuntimeProfile:
    source = XMX if heap_bytes else ""
    return RuntimeProfile(runtime=JAVA, limit_share_ratio=share, heap_bytes=heap_bytes, heap_source=source)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (java(heap_bytes=GI), f"java, fixed heap 1GiB ({XMX})"),
        (
            java(0.25),
            "java, heap 25% of the limit that it read at start (its default; flags of its image are not seen)",
        ),
        (
            replace(java(0.25), initial_heap_bytes=GI, heap_source="JDK_JAVA_OPTIONS"),
            "java, heap 25% of the limit that it read at start (JDK_JAVA_OPTIONS), at least 1GiB (-Xms)",
        ),
        (
            replace(java(heap_bytes=GI), hidden="JAVA_OPTS"),
            "java, heap not known: flags may stand in JAVA_OPTS, and cannot be read from here",
        ),
        (
            RuntimeProfile(runtime=GO, limit_share_ratio=1.0, heap_source="GOMEMLIMIT"),
            "go, heap 100% of the limit that it read at start (GOMEMLIMIT)",
        ),
        (RuntimeProfile(runtime=NODE), "node, no heap size is stated"),
        (RuntimeProfile(runtime=JAVA, fault="-Xmx is not understood"), "java, heap not known: -Xmx is not understood"),
    ],
)
def test_what_is_known_of_a_runtime(profile: RuntimeProfile, words: str) -> None:
    assert runtime_words(profile) == words


@pytest.mark.parametrize(
    ("profile", "limit_bytes", "sentences"),
    [
        # 1 GiB / 0.7 is 1,462.9 MiB.
        (java(0.25), 4 * GI, ["heap 1GiB of 4GiB limit: -XX:MaxRAMPercentage=70 would fit in 1463MiB"]),
        (java(0.7), 4 * GI, []),
        (
            java(0.9),
            1000 * MI,
            ["a heap of 900MiB leaves 100MiB of the limit of 1000MiB for all else, less than a quarter of the heap"],
        ),
        (
            java(heap_bytes=2 * GI),
            GI,
            [
                "a heap of 2GiB leaves 0B of the limit of 1GiB for all else, less than a quarter of the heap",
                f"{XMX}: 2GiB of heap, 128MiB in use in all: a smaller one needs less than 2560MiB",
            ],
        ),
        (java(heap_bytes=200 * MI), GI, []),
        (
            java(heap_bytes=800 * MI),
            GI,
            [f"{XMX}: 800MiB of heap, 128MiB in use in all: a smaller one needs less than 1000MiB"],
        ),
        (java(heap_bytes=GI), None, []),
        (
            RuntimeProfile(runtime=GO, limit_share_ratio=1.0, heap_source="GOMEMLIMIT"),
            GI,
            ["GOMEMLIMIT is 1GiB of a limit of 1GiB: nine tenths would leave room for what go does not count"],
        ),
        (RuntimeProfile(runtime=GO, heap_bytes=220 * MI), 250 * MI, []),
        (
            RuntimeProfile(runtime=GO),
            1000 * MI,
            ["go knows no limit: GOMEMLIMIT=900MiB would have it collect before the kernel kills it"],
        ),
        (
            RuntimeProfile(runtime=NODE, limit_share_ratio=0.5, small_heap_bytes=256 * MI),
            1000 * MI,
            ["node takes 500MiB of 1000MiB by itself: --max-old-space-size=750 would use three quarters of it"],
        ),
        (RuntimeProfile(runtime=NODE, limit_share_ratio=0.3, heap_source="its flag"), 1000 * MI, []),
        (RuntimeProfile(runtime=NODE), 1000 * MI, []),
        (RuntimeProfile(runtime=GO, hidden="GOMEMLIMIT"), 1000 * MI, []),
        (replace(java(0.25), hidden="JAVA_OPTS"), 4 * GI, []),
        # 126 MiB, as it is small: 180 MiB would be less than the 252 below which 70 % are not heeded.
        (replace(java(0.25), small_heap_bytes=126 * MI), 300 * MI, []),
        (
            replace(java(0.25), small_heap_bytes=126 * MI),
            800 * MI,
            ["heap 200MiB of 800MiB limit: -XX:MaxRAMPercentage=70 would fit in 286MiB"],
        ),
        (RuntimeProfile(runtime=PYTHON), 1000 * MI, []),
        (RuntimeProfile(runtime=GO, fault="GOMEMLIMIT is not understood"), 1000 * MI, []),
    ],
)
def test_flags_that_waste_are_told_and_what_would_be_better(
    profile: RuntimeProfile, limit_bytes: int | None, sentences: list[str]
) -> None:
    assert list(runtime_advice(profile, limit_bytes, advice(128 * MI))) == sentences


def test_a_heap_of_which_no_use_is_known_is_not_called_idle() -> None:
    assert runtime_advice(java(heap_bytes=800 * MI), GI, advice(None)) == ()


def test_what_becomes_of_a_limit_that_was_read_at_start_is_told() -> None:
    held = advice(128 * MI, bounds=(Bound.READ_AT_START,))
    risen = advice(128 * MI, limit=2 * GI)
    fallen = advice(128 * MI, limit=GI // 2)

    assert runtime_advice(java(0.7), GI, held) == ("the limit is not lowered: java reads its limit at start",)
    assert runtime_advice(java(0.7), GI, risen) == (
        "a limit of 2GiB is used after a restart: java reads its limit at start",
    )
    assert runtime_advice(java(0.7), GI, fallen) == ()


def test_a_limit_that_is_not_raised_as_nothing_would_use_it_is_told() -> None:
    held = advice(128 * MI, bounds=(Bound.LIMIT_UNFILLED,))

    assert runtime_advice(java(0.7), GI, held) == (
        "the limit is not raised: java would only size a larger heap by it at its next start, and this one was never "
        "nearly reached",
    )
    assert runtime_advice(java(heap_bytes=200 * MI), GI, held) == (
        "the limit is not raised: its heap is fixed, and this one was never nearly reached",
    )


def test_a_recommendation_and_its_explanation_tell_of_the_runtime() -> None:
    stated = UnitResources(memory_request_bytes=2 * GI, memory_limit_bytes=2 * GI)

    def told(profile: RuntimeProfile, limit_mib: float) -> tuple[tuple[Bound, ...], tuple[str, ...], list[str]]:
        limit = floats(limit_mib * MI)
        policy = TimesPolicy(rule=LimitRule.RAISE, memory_limit_bytes=limit, has_memory_limit=bools(True))
        reasoned = explain(
            subject(resources=stated, runtime=profile),
            policy,
            now_unix_seconds=1e9,
            conditions=Conditions(min_span_seconds=600.0, max_age_seconds=60.0),
            options=BoundsOptions(),
        )
        answer = reasoned.recommendation
        assert answer.runtime is profile
        marks = ("heap", "read at start", "of any use")
        memory = [sentence for sentence in reasoned.changes if any(mark in sentence for mark in marks)]
        return answer.memory_bytes.bounds, answer.runtime_advice, memory

    bounds, sentences, changes = told(java(0.7), 400)
    assert Bound.READ_AT_START in bounds
    assert "the limit is not lowered: java reads its limit at start" in sentences
    assert changes == ["Memory: if its limit, which it is too, had not been read at start, it would be 400MiB."]

    bounds, sentences, changes = told(java(heap_bytes=800 * MI), 400)
    assert Bound.HEAP in bounds
    assert changes == ["Memory: with a smaller heap, which its own flags fix, it could be 400MiB."]

    bounds, sentences, changes = told(java(0.7), 4096)
    assert Bound.LIMIT_UNFILLED in bounds
    assert sentences[0].startswith("the limit is not raised: java would only size a larger heap by it")
    assert changes == ["Memory: if a raise of its limit were of any use it would be 4GiB."]

from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitResources
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.recommender.policy import LimitRule
from agent.core.recommender.recommender import explain
from agent.core.recommender.subject import Conditions, Subject
from agent.core.window.snapshot import Missing
from tests.subjects import MI, TimesPolicy, bools, cpu_window, floats, identity, memory_window, subject


def changes(container: Subject, *, policy: TimesPolicy | None = None, **options: Any) -> tuple[str, ...]:
    return explain(
        container,
        policy or TimesPolicy(),
        now_unix_seconds=1e9,
        conditions=Conditions(min_span_seconds=600.0, max_age_seconds=60.0),
        options=BoundsOptions(**options),
    ).changes


def about(resource: str, sentences: tuple[str, ...]) -> list[str]:
    start = f"{resource}: "
    return [sentence.removeprefix(start) for sentence in sentences if sentence.startswith(start)]


def turns(when: str, *, up: str | None = None, down: str | None = None) -> str:
    """Return the sentence about answers that would move the request again."""
    parts = [f"rises when the policy asks for {up} or more"] if up is not None else []
    parts += [f"falls when the policy asks for {down} or less"] if down is not None else []
    return f"{when}, the request {', and '.join(parts)}."


@pytest.mark.parametrize(
    ("fields", "resource", "sentence"),
    [
        (
            {"sample_age_seconds": 75.0},
            "CPU",
            "there is an answer again with a reading no older than 60 s (recommend.maxAgeSeconds); "
            "the newest is 75 s old.",
        ),
        (
            {"history_span_seconds": 100.0, "memory": memory_window(span_seconds=180.5)},
            "Memory",
            "there is an answer after another 420 s of measuring, 600 s in all (recommend.minSpanSeconds).",
        ),
        (
            {"history_span_seconds": 100.0, "cpu": cpu_window(span_seconds=50.0)},
            "CPU",
            "there is an answer after another 500 s of measuring, 600 s in all (recommend.minSpanSeconds).",
        ),
        (
            {"memory": memory_window(None)},
            "Memory",
            "there is an answer once the kernel gives figures here: its controller is off, or its file absent.",
        ),
        (
            {"cpu": cpu_window(None, coverage_ratio=0.61, missing={"usage_p75_millicores": Missing.GAPS})},
            "CPU",
            "there is an answer when less of its window is gap (windows.maxGapRatio); readings cover 61% of it now.",
        ),
        (
            {"memory": memory_window(None, missing={"working_set_p75_bytes": Missing.GAPS})},
            "Memory",
            "there is an answer when less of its window is gap (windows.maxGapRatio).",
        ),
        ({"sample_age_seconds": None}, "CPU", "there is an answer once the policy has something to answer from."),
    ],
)
def test_withheld_answer_says_when_there_will_be_one(fields: dict[str, Any], resource: str, sentence: str) -> None:
    assert about(resource, changes(subject(**fields))) == [sentence]


def test_resource_left_out_names_the_setting() -> None:
    sentences = changes(subject(), controlled_resources=ControlledResources.CPU)

    assert about("Memory", sentences) == ["bounds.controlledResources would have to name it; it is cpu."]


def steady(cpu: float, memory: float = 200.0 * MI, **fields: Any) -> TimesPolicy:
    """Answer these figures; base and peak are the same."""
    known = {
        "cpu_request_millicores": floats(cpu),
        "cpu_base_millicores": floats(cpu),
        "cpu_peak_millicores": floats(cpu),
        "memory_request_bytes": floats(memory),
        "memory_base_bytes": floats(memory),
        "memory_peak_bytes": floats(memory),
    }
    return TimesPolicy(**{**known, **fields})


def stating(**fields: int) -> Subject:
    return subject(resources=UnitResources(**fields))


@pytest.mark.parametrize(
    ("one", "policy", "options", "resource", "sentence"),
    [
        (
            stating(),
            steady(400),
            {"max_cpu_millicores": 300},
            "CPU",
            "without bounds.maxCpuMillicores it would be 400m.",
        ),
        (
            stating(),
            steady(4),
            {"min_cpu_millicores": 30},
            "CPU",
            "without bounds.minCpuMillicores it would be 4m.",
        ),
        (
            stating(),
            steady(4, 300.5 * MI),
            {"max_memory_bytes": 200 * MI},
            "Memory",
            "without bounds.maxMemoryBytes it would be 301MiB.",
        ),
        # 100Mi are in use, 50Mi proposed
        (stating(), steady(4, 50 * MI), {}, "Memory", "with less memory in use it could be 50MiB."),
        (
            stating(cpu_request_millicores=500),
            steady(200, cpu_upward_only=bools(True)),
            {},
            "CPU",
            "once there is a prediction it may fall; by the demand of now it would be 200m.",
        ),
        (
            stating(cpu_request_millicores=100, cpu_limit_millicores=300),
            steady(400),
            {},
            "CPU",
            "with a limit that is no longer in the way it would be 400m.",
        ),
        (
            stating(cpu_request_millicores=395),
            steady(400),
            {},
            "CPU",
            "without a smallest change (bounds.smallestCpuChangeMillicores, bounds.smallestChangeRatio) "
            "it would be 400m.",
        ),
        # The policy's limit of 600Mi becomes the request where both are equal.
        (
            stating(memory_request_bytes=500 * MI, memory_limit_bytes=500 * MI),
            steady(4, memory_limit_bytes=floats(600 * MI), has_memory_limit=bools(True)),
            {},
            "Memory",
            "if it did not have to keep the QoS class it would be 200MiB.",
        ),
    ],
)
def test_each_bound_says_what_there_would_be_without_it(
    one: Subject, policy: TimesPolicy, options: dict[str, Any], resource: str, sentence: str
) -> None:
    assert about(resource, changes(one, policy=policy, **options))[0] == sentence


def test_bound_without_which_nothing_changes_is_not_told() -> None:
    # A limit of 300m would hold it where the most allowed does.
    held = stating(cpu_request_millicores=300, cpu_limit_millicores=300)
    # The class moves the limit along and leaves the request.
    container = subject(
        identity=identity(qos=QosClass.GUARANTEED),
        resources=UnitResources(cpu_request_millicores=500, cpu_limit_millicores=500),
    )

    assert about("CPU", changes(held, policy=steady(400), max_cpu_millicores=300)) == [
        turns("at 300m as now", down="285m")
    ]
    assert about("CPU", changes(container, policy=steady(300))) == [turns("once set to 300m", up="315m", down="285m")]


def test_peak_over_base_says_what_is_left_when_it_is_forgotten() -> None:
    # Base 200m, peak and answer 400m: TimesPolicy doubles.
    sentences = about("CPU", changes(subject()))

    assert sentences[0] == (
        "it rests on a peak of 400m; when that no longer counts and demand stays at its base of 200m, it would be 200m."
    )


def test_peak_that_the_least_allowed_hides_is_not_told() -> None:
    sentences = about("CPU", changes(subject(resources=UnitResources()), min_cpu_millicores=1000))

    assert sentences == ["without bounds.minCpuMillicores it would be 400m."]


@pytest.mark.parametrize(
    ("one", "policy", "options", "sentences"),
    [
        # 5 % of 400 is 20, more than the 10 of the smallest change
        (
            stating(cpu_request_millicores=500),
            steady(400),
            {},
            [turns("once set to 400m", up="420m", down="380m")],
        ),
        # held by the limit: nothing raises it any more
        (
            stating(cpu_request_millicores=301, cpu_limit_millicores=301),
            steady(301),
            {},
            [turns("at 301m as now", down="285m")],
        ),
        # without a prediction nothing lowers it
        (
            stating(cpu_request_millicores=300),
            steady(400, cpu_upward_only=bools(True)),
            {},
            [turns("once set to 400m", up="420m")],
        ),
        # at the least and at the most at once: nothing moves it
        (
            stating(cpu_request_millicores=400),
            steady(400),
            {"min_cpu_millicores": 400, "max_cpu_millicores": 400},
            [],
        ),
        # a resize cannot give a first request
        (stating(), steady(400), {}, []),
        # the limit follows: 800m at 400m
        (
            stating(cpu_request_millicores=500, cpu_limit_millicores=1000),
            steady(400, limit_rule=LimitRule.PROPORTIONAL),
            {},
            [turns("once set to 400m", up="420m", down="380m")],
        ),
    ],
)
def test_answers_that_would_move_the_request_again_are_computed(
    one: Subject, policy: TimesPolicy, options: dict[str, Any], sentences: list[str]
) -> None:
    assert about("CPU", changes(one, policy=policy, **options)) == sentences


def test_memory_is_told_in_mib() -> None:
    resources = UnitResources(memory_request_bytes=512 * MI, memory_limit_bytes=1024 * MI)
    policy = steady(4, 256 * MI, limit_rule=LimitRule.PROPORTIONAL)

    # Whole MiB, and 16 MiB at least: an answer a byte over 271 MiB is 272 MiB; 240 MiB are 16 less than 256.
    assert about("Memory", changes(subject(resources=resources), policy=policy)) == [
        turns("once set to 256MiB", up="271MiB", down="240MiB")
    ]

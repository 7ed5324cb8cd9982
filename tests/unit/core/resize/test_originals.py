from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.orders.annotations import ORIGINAL_RESOURCES
from agent.core.plan.plan import Phase
from agent.core.plan.pod_change import Setting
from agent.core.resize.answer import AnswerKind, is_passing
from agent.core.resize.originals import (
    OriginalAmounts,
    OriginalError,
    annotated_original,
    annotation_text,
    original_of,
    restore_changes,
    restore_steps,
    steps_left,
    with_added,
)
from tests.pods import container, make_pod, sidecar

MI = 1 << 20


def pod(cpu: str = "500m", memory: str = "256Mi", limit: str = "512Mi", **fields: Any) -> Pod:
    return make_pod(container("app", {"cpu": cpu, "memory": memory}, {"memory": limit}), **fields)


def texts(changes: Any) -> list[tuple[str, str, str, int, int]]:
    return [(change.container, change.resource, change.setting, change.before, change.after) for change in changes]


def test_original_of_takes_down_everything_that_can_be_resized() -> None:
    whole = make_pod(
        container("app", {"cpu": "100m"}, {"cpu": "1"}),
        initContainers=[container("setup", {"memory": "1Mi"}), sidecar("proxy", {"cpu": "20m"})],
        resources={"requests": {"cpu": "300m"}, "limits": {"memory": "1Gi"}},
    )
    original = original_of(whole, kept_unix_seconds=7.0)
    assert (str(original.ref), original.ref.uid, original.kept_unix_seconds) == ("shop/web", "uid-web", 7.0)
    assert original.amounts == (
        OriginalAmounts(container="setup", memory_request_bytes=MI),
        OriginalAmounts(container="proxy", cpu_request_millicores=20),
        OriginalAmounts(container="app", cpu_request_millicores=100, cpu_limit_millicores=1000),
        OriginalAmounts(container="", cpu_request_millicores=300, memory_limit_bytes=1 << 30),
    )


def test_nothing_to_restore_where_nothing_differs() -> None:
    assert restore_steps(pod(), original_of(pod(), kept_unix_seconds=0.0)) == ()


def test_restore_puts_back_what_both_state() -> None:
    original = original_of(
        make_pod(container("app", {"cpu": "500m", "memory": "256Mi"}), container("gone", {"cpu": "1"})),
        kept_unix_seconds=0.0,
    )
    now = make_pod(container("app", {"cpu": "200m"}, {"cpu": "1"}), container("new", {"cpu": "1"}))
    assert texts(restore_changes(now, original)) == [("app", "cpu", "request", 200, 500)]


def test_an_original_of_0_is_none() -> None:
    now = make_pod(container("app", {"cpu": "200m", "memory": "64Mi"}))
    original = original_of(make_pod(container("app", {"cpu": "0", "memory": "32Mi"})), kept_unix_seconds=0.0)
    assert texts(restore_changes(now, original)) == [("app", "memory", "request", 64 << 20, 32 << 20)]


def test_of_later_originals_only_what_is_new_is_added() -> None:
    first = original_of(make_pod(container("app", {"cpu": "500m"})), kept_unix_seconds=0.0)
    later = original_of(make_pod(container("app", {"cpu": "1"}), container("new", {"cpu": "2"})), kept_unix_seconds=9.0)
    merged = with_added(first, later)
    assert [(part.container, part.cpu_request_millicores) for part in merged.amounts] == [("app", 500), ("new", 2000)]
    assert merged.kept_unix_seconds == 0.0


def test_requests_go_first_and_memory_limits_that_fall_last_by_themselves() -> None:
    original = original_of(pod("500m", "256Mi", "512Mi"), kept_unix_seconds=0.0)
    grow, down = restore_steps(pod("200m", "300Mi", "1Gi"), original)
    assert grow.phase is Phase.GROW
    assert texts(grow.changes) == [
        ("app", "cpu", "request", 200, 500),
        ("app", "memory", "request", 300 * MI, 256 * MI),
    ]
    assert down.phase is Phase.LIMIT_DOWN
    assert texts(down.changes) == [("app", "memory", "limit", 1 << 30, 512 * MI)]


def test_requests_that_only_fall_are_a_shrink() -> None:
    original = original_of(pod("100m"), kept_unix_seconds=0.0)
    (shrink,) = restore_steps(pod("200m"), original)
    assert shrink.phase is Phase.SHRINK


def test_a_guaranteed_pod_has_one_step_as_its_requests_must_equal_its_limits() -> None:
    def guaranteed(cpu: str, memory: str) -> Pod:
        amounts = {"cpu": cpu, "memory": memory}
        return make_pod(container("app", amounts, amounts), status={"qosClass": "Guaranteed"})

    original = original_of(guaranteed("1", "128Mi"), kept_unix_seconds=0.0)
    (step,) = restore_steps(guaranteed("2", "256Mi"), original)
    assert len(step.changes) == 4


def test_the_pods_own_budget_and_sidecars_are_named_as_a_resize_names_them() -> None:
    def whole(cpu: str) -> Pod:
        return make_pod(
            container("app"), initContainers=[sidecar("proxy", {"cpu": cpu})], resources={"requests": {"cpu": cpu}}
        )

    changes = restore_changes(whole("2"), original_of(whole("1"), kept_unix_seconds=0.0))
    assert [(change.container, change.kind) for change in changes] == [("proxy", ContainerKind.SIDECAR), ("", None)]


def test_a_pod_without_the_budget_it_had_gets_none() -> None:
    had = make_pod(container("app"), resources={"requests": {"cpu": "1"}})
    assert restore_changes(make_pod(container("app")), original_of(had, kept_unix_seconds=0.0)) == ()


# The annotation


def annotated(text: str) -> Pod:
    return pod("200m", metadata={"annotations": {ORIGINAL_RESOURCES: text}})


def test_no_annotation_is_no_original() -> None:
    assert annotated_original(pod()) is None


def test_annotation_is_read() -> None:
    original = annotated_original(
        annotated(
            '{"containers": {"app": {"requests": {"cpu": "0.5", "memory": "256Mi"}}}, "pod": {"limits": {"cpu": "2"}}}'
        )
    )
    assert original is not None
    assert original.kept_unix_seconds is None
    assert original.amounts == (
        OriginalAmounts(container="app", cpu_request_millicores=500, memory_request_bytes=256 * MI),
        OriginalAmounts(container="", cpu_limit_millicores=2000),
    )


amounts = st.none() | st.integers(0, 10**15)
names = st.text("abcdefghij-", min_size=1, max_size=9)


@given(st.dictionaries(names | st.just(""), st.tuples(amounts, amounts, amounts, amounts), max_size=4))
def test_annotation_gives_back_what_was_written(parts: dict[str, tuple[int | None, ...]]) -> None:
    named = [
        OriginalAmounts(
            container=name,
            cpu_request_millicores=values[0],
            cpu_limit_millicores=values[1],
            memory_request_bytes=values[2],
            memory_limit_bytes=values[3],
        )
        for name, values in sorted(parts.items(), reverse=True)  # the pod's own budget last
    ]
    original = original_of(pod(), kept_unix_seconds=0.0)
    whole = type(original)(ref=original.ref, kept_unix_seconds=None, amounts=tuple(named))
    assert annotated_original(annotated(annotation_text(whole))) == whole


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "'[]' is no object"),
        ('{"container": {}}', "'container' is not known; allowed: containers, pod"),
        ('{"containers": []}', "containers: '[]' is no object"),
        ('{"containers": {"app": 3}}', "containers.app: '3' is no object"),
        ('{"pod": {"requests": {"cpu": "much"}}}', "pod.requests.cpu: 'much' is not a quantity"),
        ('{"pod": {"requests": {"cpu": null}}}', "pod.requests.cpu: 'None' is not a quantity"),
        ('{"pod": {"requests": {"cpu": "-1"}}}', "pod.requests.cpu: '-1' is out of range"),
        (json.dumps({"pod": {"limits": {"cpu": "9" * 5000}}}), "is out of range"),
        (json.dumps({"a" * 5000: {}}), "aaa' is not known; allowed: containers, pod"),
        (json.dumps({"containers": {"a" * 5000: 3}}), "aaa: '3' is no object"),
        (json.dumps({"pod": {"limits": {"a" * 5000: "much"}}}), "aaa: 'much' is not a quantity"),
        (json.dumps({"pod": {"limits": {"a" * 5000: "-1"}}}), "aaa: '-1' is out of range"),
    ],
)
def test_an_annotation_that_is_not_understood_is_one_line(text: str, told: str) -> None:
    with pytest.raises(OriginalError) as caught:
        annotated_original(annotated(text))
    line = str(caught.value)
    assert line.startswith(ORIGINAL_RESOURCES)
    assert told in line
    assert "\n" not in line
    assert len(line) < 300


def test_setting_and_resource_cover_all_four_numbers() -> None:
    was = original_of(
        make_pod(container("app", {"cpu": "1", "memory": "1"}, {"cpu": "2", "memory": "2"})), kept_unix_seconds=0
    )
    now = make_pod(container("app", {"cpu": "3", "memory": "3"}, {"cpu": "4", "memory": "4"}))
    changes = {(change.resource, change.setting, change.before, change.after) for change in restore_changes(now, was)}
    assert changes == {
        (Resource.CPU, Setting.REQUEST, 3000, 1000),
        (Resource.CPU, Setting.LIMIT, 4000, 2000),
        (Resource.MEMORY, Setting.REQUEST, 3, 1),
        (Resource.MEMORY, Setting.LIMIT, 4, 2),
    }


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        *((kind, 1) for kind in (AnswerKind.ACCEPTED, AnswerKind.NO_CHANGE)),
        *((kind, 2) for kind in AnswerKind if is_passing(kind)),
        (AnswerKind.INFEASIBLE, 0),
        (AnswerKind.FEATURE_MISSING, 0),
        (AnswerKind.FORBIDDEN, 0),
        (AnswerKind.REJECTED, 0),
        (AnswerKind.INVALID, 0),
        (AnswerKind.GONE, 0),
    ],
)
def test_what_an_answer_leaves_of_a_promised_restore(kind: AnswerKind, left: int) -> None:
    assert steps_left(2, kind) == left


def test_four_answers_say_nothing_of_the_wish() -> None:
    passing = {AnswerKind.CONFLICT, AnswerKind.THROTTLED, AnswerKind.UNAVAILABLE, AnswerKind.UNKNOWN}
    assert {kind for kind in AnswerKind if is_passing(kind)} == passing

"""What a pod uses in none of its containers counts in the recommendation of one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.pod_itself import bearers
from agent.core.recommender.recommender import ReasonedRecommendation, explain, recommend
from agent.core.recommender.subject import Conditions
from agent.core.window.pod_itself import PodItself
from tests.subjects import MI, TimesPolicy, bools, cpu_window, floats, identity, memory_window, subject

ITSELF = PodItself(
    cpu_usage_millicores=30.0,
    working_set_bytes=90 * MI,
    held_working_set_bytes=64 * MI,
    held_current_bytes=80 * MI,
)
CONDITIONS = Conditions(min_span_seconds=600.0, max_age_seconds=15.0)
EXACT = BoundsOptions(min_memory_bytes=MI, smallest_memory_change_bytes=0, smallest_change_ratio=0.0)


def told(itself: PodItself | None, policy: TimesPolicy | None = None, **fields: Any) -> ReasonedRecommendation:
    container = subject(pod_itself=itself, **fields)
    asked = {"now_unix_seconds": 1e9, "conditions": CONDITIONS, "options": EXACT}
    reasoned = explain(container, policy or TimesPolicy(1.0), **asked)  # type: ignore[arg-type]
    (item,) = recommend([container], policy or TimesPolicy(1.0), **asked)  # type: ignore[arg-type]
    assert reasoned.recommendation == item
    return reasoned


def test_request_counts_what_the_pod_holds_all_the_time_and_says_so() -> None:
    answer = told(ITSELF)
    cpu, memory = answer.recommendation.cpu_millicores, answer.recommendation.memory_bytes

    # 200m and 100 MiB of its own, 30m and 64 MiB of the pod's; 90 MiB are there only at the moment.
    assert (cpu.request, cpu.base, cpu.peak) == (230, 230.0, 230.0)
    assert (memory.request, memory.base, memory.peak) == (164 * MI, 164.0 * MI, 164.0 * MI)
    words = "used by the pod in none of its containers"
    assert {(step.resource, step.value) for step in answer.steps if step.what == words} == {
        ("cpu", 30.0),
        ("memory", 64.0 * MI),
    }


def test_a_limit_counts_it_and_is_not_lowered_below_what_both_use_together() -> None:
    # The policy names 120 MiB as the limit. In use are 100 MiB, with the pod's 80 MiB of page cache and all 180 MiB.
    resources = UnitResources(memory_request_bytes=100 * MI, memory_limit_bytes=1000 * MI)
    policy = TimesPolicy(1.0, memory_limit_bytes=floats(120.0 * MI), has_memory_limit=bools(True))

    alone, both = (told(itself, policy, resources=resources).recommendation.memory_bytes for itself in (None, ITSELF))

    assert (alone.limit, both.limit) == (120 * MI, 184 * MI)
    held = replace(ITSELF, held_working_set_bytes=0)  # page cache alone: what is in use holds the limit
    assert told(held, policy, resources=resources).recommendation.memory_bytes.limit == 180 * MI


def test_what_is_not_known_counts_as_nothing_and_is_not_told() -> None:
    nothing = told(PodItself())
    assert nothing.recommendation == told(None).recommendation
    assert not any("none of its containers" in step.what for step in nothing.steps)


def test_a_resource_that_is_withheld_is_not_told_of() -> None:
    answer = told(ITSELF, cpu=cpu_window(None), memory=memory_window(None))
    assert not any("none of its containers" in step.what for step in answer.steps)


def test_others_of_the_same_node_are_left_as_they_are() -> None:
    subjects = [subject(), subject(pod_itself=ITSELF)]
    first, second = recommend(subjects, TimesPolicy(1.0), now_unix_seconds=1e9, conditions=CONDITIONS, options=EXACT)
    assert (first.memory_bytes.request, second.memory_bytes.request) == (100 * MI, 164 * MI)


def named(name: str | None, path: str, **fields: object) -> UnitIdentity:
    return replace(identity(name), cgroup_path=path, **fields)  # type: ignore[arg-type]


def test_the_container_that_requests_most_memory_asks_for_it() -> None:
    containers = [
        (named("app", "/pod/a"), UnitResources(memory_request_bytes=64 * MI)),
        (named("proxy", "/pod/b"), UnitResources(cpu_request_millicores=900)),
        (named(None, "/pod/pause", kind=UnitKind.SANDBOX), UnitResources(memory_request_bytes=999 * MI)),
        (named(None, "/pod/nameless"), UnitResources(memory_request_bytes=999 * MI)),
        (named("app", "/elsewhere/a"), UnitResources(memory_request_bytes=999 * MI)),
    ]
    assert bearers(containers, {"/pod": ITSELF, "/empty": ITSELF}) == {"/pod/a": ITSELF}
    assert bearers(reversed(containers), {"/pod": ITSELF}) == {"/pod/a": ITSELF}

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.orders.policy_options import BoundsOptions, ControlledResources, CruiseOptions
from agent.core.recommender.cruise.policy import CruisePolicy
from agent.core.recommender.policy import LimitRule
from agent.core.recommender.recommendation import Bound, Recommendation, RequestSeverity, Withheld
from agent.core.recommender.recommender import explain, in_spec_order, recommend
from agent.core.recommender.subject import Conditions, Subject
from agent.core.window.snapshot import Missing
from tests.directives import peaks
from tests.subjects import (
    MI,
    TimesPolicy,
    bools,
    cpu_window,
    floats,
    identity,
    memory_window,
    subject,
)

CONDITIONS = Conditions(min_span_seconds=600.0, max_age_seconds=60.0)


def ask(*subjects: Subject, policy: TimesPolicy | None = None, **options: Any) -> list[Recommendation]:
    return recommend(
        subjects,
        policy or TimesPolicy(),
        now_unix_seconds=1e9,
        conditions=CONDITIONS,
        options=BoundsOptions(**options),
    )


def test_nobody_asked_about_gets_nothing_and_the_policy_is_not_bothered() -> None:
    policy = TimesPolicy()

    assert ask(policy=policy) == []
    assert policy.asked == []


def test_containers_of_a_pod_are_put_in_the_order_of_its_spec_and_pods_stay_where_they_begin() -> None:
    containers = [("b", "web"), ("only", "api"), ("debug", "web"), ("a", "web"), (None, None), (None, None)]
    answers = ask(
        *(
            subject(identity=identity(name, pod=pod, pod_uid=pod and f"uid-{pod}", cgroup_path=f"/{number}"))
            for number, (name, pod) in enumerate(containers)
        )
    )
    places = {"a": 0, "b": 1, "only": 0}
    ordered = in_spec_order(answers, lambda unit: places.get(unit.container or ""))
    assert [item.identity.container for item in ordered] == ["a", "b", "debug", "only", None, None]
    assert [item.identity.cgroup_path for item in ordered[4:]] == ["/4", "/5"]


def test_recommendation_holds_figures_limits_and_basis() -> None:
    container = subject(
        3,
        resources=UnitResources(
            cpu_request_millicores=500,
            cpu_limit_millicores=1000,
            memory_request_bytes=100 * MI,
            memory_limit_bytes=200 * MI,
        ),
        container_kind=ContainerKind.REGULAR,
        oom_kills=2,
    )
    policy = TimesPolicy(
        2.5,
        rule=LimitRule.PROPORTIONAL,
        extra={"cpu_lower_bound_millicores": floats(5.0), "memory_lower_bound_bytes": floats(6.0)},
    )

    (answer,) = ask(container, policy=policy)

    assert policy.asked == [3]
    assert answer.policy == "times"
    assert (answer.identity, answer.workload, answer.resources) == (
        container.identity,
        container.workload,
        container.resources,
    )
    assert answer.container_kind is ContainerKind.REGULAR
    # 2.5 x 200m is the present request; 2.5 x 100Mi is 2.5 x the request, and so the limit: 2.5 x 200Mi.
    assert (answer.cpu_millicores.request, answer.cpu_millicores.limit) == (500, None)
    assert answer.cpu_millicores.severity is RequestSeverity.GOOD
    assert (answer.memory_bytes.request, answer.memory_bytes.limit) == (250 * MI, 500 * MI)
    assert answer.memory_bytes.severity is RequestSeverity.VERY_SHORT
    assert (answer.cpu_millicores.base, answer.cpu_millicores.peak, answer.cpu_millicores.proposed) == (200, 500, 500)
    assert answer.cpu_millicores.extra == {"cpu_lower_bound_millicores": 5.0}
    assert answer.memory_bytes.extra == {"memory_lower_bound_bytes": 6.0}
    assert (answer.basis.cpu_readings, answer.basis.memory_readings, answer.basis.oom_kills) == (600, 180, 2)
    assert (answer.basis.cpu_span_seconds, answer.basis.memory_span_seconds) == (600.0, 1800.0)
    assert (answer.basis.history_minutes, answer.basis.history_span_seconds) == (60, 3600.0)
    assert answer.basis.sample_age_seconds == 1.0


def test_answers_come_in_the_order_of_the_subjects() -> None:
    subjects = [subject(row, cpu=cpu_window(100.0 * (row + 1))) for row in (2, 0, 1)]

    assert [answer.cpu_millicores.request for answer in ask(*subjects)] == [600, 200, 400]


def test_bounds_that_changed_the_answer_are_named() -> None:
    (answer,) = ask(subject(), max_cpu_millicores=300)

    assert answer.cpu_millicores.request == 300
    assert answer.cpu_millicores.proposed == 400
    assert answer.cpu_millicores.bounds == (Bound.MAX,)
    assert answer.cpu_millicores.severity is RequestSeverity.SAVING


def test_upward_only_is_told() -> None:
    (answer,) = ask(subject(), policy=TimesPolicy(cpu_upward_only=bools(True)))

    assert answer.cpu_millicores.is_upward_only
    assert answer.cpu_millicores.request == 500
    assert not answer.memory_bytes.is_upward_only


def test_without_the_past_an_answer_may_raise_and_not_lower() -> None:
    conditions = replace(CONDITIONS, is_history_known=False)

    def answer(times: float) -> Recommendation:
        container, policy = subject(), TimesPolicy(times)
        reasoned = explain(container, policy, now_unix_seconds=1e9, conditions=conditions, options=BoundsOptions())
        (item,) = recommend([container], policy, now_unix_seconds=1e9, conditions=conditions, options=BoundsOptions())
        assert reasoned.recommendation == item
        return item

    # The request is 500m; half of 200m would be 100m, and 4 x 200m are 800m.
    assert answer(0.5).cpu_millicores.request == 500
    assert answer(0.5).cpu_millicores.bounds == (Bound.UPWARD_ONLY,)
    assert answer(0.5).memory_bytes.is_upward_only
    assert answer(4.0).cpu_millicores.request == 800


def gapped(name: str) -> dict[str, Any]:
    return {"missing": {name: Missing.GAPS}}


@pytest.mark.parametrize(
    ("fields", "cpu", "memory"),
    [
        ({}, None, None),
        ({"sample_age_seconds": None}, Withheld.NO_DATA, Withheld.NO_DATA),
        ({"sample_age_seconds": 60.0}, None, None),
        ({"sample_age_seconds": 60.1}, Withheld.STALE, Withheld.STALE),
        ({"memory": memory_window(None)}, None, Withheld.NO_SIGNAL),
        ({"cpu": cpu_window(None)}, Withheld.NO_SIGNAL, None),
        ({"cpu": cpu_window(None, **gapped("usage_p75_millicores"))}, Withheld.GAPS, None),
        ({"memory": memory_window(None, **gapped("working_set_p75_bytes"))}, None, Withheld.GAPS),
        (
            {"cpu": cpu_window(None, missing={"usage_p75_millicores": Missing.TOO_FEW_SAMPLES})},
            Withheld.NO_DATA,
            None,
        ),
        # No history: 600 s of CPU suffice, and of memory 590 s do not.
        (
            {"history_span_seconds": 0.0, "memory": memory_window(span_seconds=590.0)},
            None,
            Withheld.TOO_YOUNG,
        ),
        # A restarted agent has a history and young windows.
        ({"history_span_seconds": 600.0, "memory": memory_window(span_seconds=10.0)}, None, None),
    ],
)
def test_each_resource_is_withheld_for_its_own_reason(
    fields: dict[str, Any], cpu: Withheld | None, memory: Withheld | None
) -> None:
    (answer,) = ask(subject(**fields))

    assert (answer.cpu_millicores.withheld, answer.memory_bytes.withheld) == (cpu, memory)
    for advice in (answer.cpu_millicores, answer.memory_bytes):
        assert (advice.request is None) is (advice.withheld is not None)
        assert (advice.severity is RequestSeverity.UNKNOWN) is (advice.withheld is not None)


def test_policy_that_answers_from_history_does_not_mind_gaps_now() -> None:
    container = subject(cpu=cpu_window(None, **gapped("usage_p75_millicores")))

    (answer,) = ask(container, policy=TimesPolicy(has_cpu=bools(True), cpu_request_millicores=floats(321)))

    assert (answer.cpu_millicores.request, answer.cpu_millicores.withheld) == (321, None)


def test_withheld_answer_states_no_limit_and_no_bounds_and_keeps_the_figures() -> None:
    resources = UnitResources(cpu_request_millicores=100, cpu_limit_millicores=200)
    container = subject(resources=resources, sample_age_seconds=100.0)

    (answer,) = ask(container, policy=TimesPolicy(rule=LimitRule.RAISE), max_cpu_millicores=300)

    advice = answer.cpu_millicores
    assert (advice.request, advice.limit, advice.bounds) == (None, None, ())
    assert (advice.base, advice.peak, advice.proposed) == (200, 400, 400)


@pytest.mark.parametrize(
    ("controlled", "cpu", "memory"),
    [
        (ControlledResources.CPU, None, Withheld.NOT_CONTROLLED),
        (ControlledResources.MEMORY, Withheld.NOT_CONTROLLED, None),
    ],
)
def test_resource_that_is_not_controlled_is_withheld_whatever_else_holds(
    controlled: ControlledResources, cpu: Withheld | None, memory: Withheld | None
) -> None:
    (answer,) = ask(subject(), controlled_resources=controlled)

    assert (answer.cpu_millicores.withheld, answer.memory_bytes.withheld) == (cpu, memory)


def test_nonsense_of_a_policy_is_withheld_and_told_nowhere() -> None:
    (answer,) = ask(subject(), policy=TimesPolicy(cpu_request_millicores=floats(float("inf"))))

    assert answer.cpu_millicores.withheld is Withheld.NO_DATA
    assert answer.cpu_millicores.proposed is None


def test_service_without_requests_gets_a_figure() -> None:
    service = UnitIdentity(cgroup_path="/system.slice/ssh.service", kind=UnitKind.SERVICE)

    (answer,) = ask(subject(identity=service, workload=None, resources=UnitResources()))

    assert answer.cpu_millicores.request == 400
    assert answer.cpu_millicores.severity is answer.memory_bytes.severity is RequestSeverity.UNSET


def test_memory_at_a_kill_elsewhere_is_the_least_that_any_policy_answers_told_as_a_step() -> None:
    container = subject(elsewhere=peaks(oom_memory_bytes=400 * MI))
    arguments: dict[str, Any] = {"now_unix_seconds": 1e9, "conditions": CONDITIONS, "options": BoundsOptions()}

    reasoned = explain(container, TimesPolicy(), **arguments)

    assert reasoned.recommendation == recommend([container], TimesPolicy(), **arguments)[0]
    assert reasoned.recommendation.memory_bytes.request == 400 * MI
    (alone,) = ask(subject())
    own = reasoned.recommendation.memory_bytes.extra
    assert own["memory_own_base"] == alone.memory_bytes.base
    assert own["memory_own_peak"] == alone.memory_bytes.peak
    assert own["memory_own_limit"] == (alone.memory_bytes.limit or 0)
    (same,) = ask(subject(elsewhere=peaks(oom_memory_bytes=1)))
    assert same == alone
    assert reasoned.recommendation.cpu_millicores == ask(subject())[0].cpu_millicores
    assert [step.value for step in reasoned.steps if "kill elsewhere" in step.what] == [400.0 * MI]


def test_peaks_of_other_nodes_are_in_every_answer_alike() -> None:
    hours = dict.fromkeys(range(24), (900, 200 * MI))
    container = subject(elsewhere=peaks(hours=hours, memory_peak_bytes=210 * MI))
    arguments: dict[str, Any] = {"now_unix_seconds": 1e9, "conditions": CONDITIONS, "options": BoundsOptions()}
    policy = CruisePolicy(CruiseOptions(), 1)

    reasoned = explain(container, policy, **arguments)

    assert reasoned.recommendation == recommend([container], policy, **arguments)[0]
    cpu, memory = reasoned.recommendation.cpu_millicores, reasoned.recommendation.memory_bytes
    assert (cpu.base, cpu.peak, cpu.request, cpu.is_upward_only) == (200.0, 900.0, 900, False)
    assert (memory.peak, memory.is_upward_only) == (200.0 * MI, False)
    assert "other nodes" in " ".join(step.what for step in reasoned.steps)


def test_explanation_is_the_same_answer_with_its_steps() -> None:
    container = subject(resources=replace(subject().resources, cpu_limit_millicores=1000, memory_request_bytes=None))
    policy = TimesPolicy(7.0, rule=LimitRule.RAISE)
    arguments: dict[str, Any] = {
        "now_unix_seconds": 1e9,
        "conditions": CONDITIONS,
        "options": BoundsOptions(controlled_resources=ControlledResources.CPU),
    }

    reasoned = explain(container, policy, **arguments)

    assert reasoned.recommendation == recommend([container], policy, **arguments)[0]
    assert [(step.resource, step.what, step.value, step.before, step.note) for step in reasoned.steps] == [
        ("cpu", "times", 1400.0, None, ""),
        ("cpu", "limit raised to the request", 1401.0, 1000.0, ""),
        ("cpu", "recommended request", 1400, None, "the request is 500m now"),
        ("cpu", "recommended limit", 1401, None, "the limit is 1000m now"),
        ("memory", "recommended request", None, None, "withheld: not controlled; there is no request now"),
    ]
    assert reasoned.changes[-1].startswith("Memory: bounds.controlledResources")


def test_identities_of_one_pod_stay_apart() -> None:
    answers = ask(*(subject(row, identity=identity(name)) for row, name in enumerate(("app", "proxy"))))

    assert [answer.identity.container for answer in answers] == ["app", "proxy"]

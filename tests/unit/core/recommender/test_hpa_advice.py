from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.unit import UnitResources
from agent.core.cluster.workload import Workload
from agent.core.recommender.hpa_advice import RequestChange, hpa_advice, with_hpa_advice
from agent.core.recommender.recommendation import Recommendation
from agent.core.recommender.subject import Subject
from tests.recommendations import recommendation
from tests.subjects import subject

HPA = "HorizontalPodAutoscaler shop/web"
WEB = Workload(namespace="shop", kind="Deployment", name="web")
CPU = UtilizationTarget(holder=HPA, resource=Resource.CPU, percent=70)
OF_APP = replace(CPU, container="app")
MI = 1 << 20


def change(container: str, stated: int | None, recommended: int | None) -> RequestChange:
    return RequestChange(container=container, stated=stated, recommended=recommended)


APP, PROXY = change("app", 500, 300), change("proxy", 100, None)


@pytest.mark.parametrize(
    ("target", "containers", "sentence"),
    [
        # 70 x 500 / 300 = 116.67
        (CPU, [APP], "70 % of 500m CPU is 350m; at 300m the equal target is 117 %"),
        (CPU, [change("app", 300, 500)], "70 % of 300m CPU is 210m; at 500m the equal target is 42 %"),
        # Of a pod the sum counts: 70 x 600 / 400 = 105.
        (CPU, [APP, PROXY], "70 % of 600m CPU of 2 containers is 420m; at 400m the equal target is 105 %"),
        (OF_APP, [APP, PROXY], "70 % of 500m CPU of app is 350m; at 300m the equal target is 117 %"),
    ],
)
def test_a_target_is_told_before_and_after_the_change(
    target: UtilizationTarget, containers: list[RequestChange], sentence: str
) -> None:
    assert hpa_advice([target], Resource.CPU, containers) == (f"{HPA}: {sentence}",)


def test_memory_is_told_in_its_own_unit() -> None:
    target = replace(CPU, resource=Resource.MEMORY, percent=80)
    sentences = hpa_advice([CPU, target], Resource.MEMORY, [change("app", 512 * MI, 256 * MI)])
    assert sentences == (f"{HPA}: 80 % of 512MiB memory is 409.6MiB; at 256MiB the equal target is 160 %",)


@pytest.mark.parametrize(
    ("target", "containers"),
    [
        (CPU, [APP, change("proxy", None, 50)]),  # the autoscaler cannot divide either
        (OF_APP, [PROXY]),
        (CPU, [change("app", 500, 500)]),
        (CPU, [change("app", 500, None)]),
        (CPU, [change("app", 0, 100)]),
        (CPU, [change("app", 100, 60), change("proxy", 60, 100)]),
        (CPU, []),
    ],
)
def test_nothing_is_told_where_nothing_changes_or_nothing_is_known(
    target: UtilizationTarget, containers: list[RequestChange]
) -> None:
    assert hpa_advice([target], Resource.CPU, containers) == ()


def of_pod(name: str, cpu: int, should: int, **fields: Any) -> tuple[Subject, Recommendation]:
    answer = recommendation("web-0", name, cpu=should)
    resources = UnitResources(cpu_request_millicores=cpu)
    asked = {"workload": WEB, "pod_containers": 2, "container_kind": ContainerKind.REGULAR, **fields}
    return replace(subject(), identity=answer.identity, resources=resources, **asked), answer


def told(*containers: tuple[Subject, Recommendation], targets: tuple[UtilizationTarget, ...] = (CPU,)) -> list[int]:
    subjects, answers = zip(*containers, strict=True)
    advised_answers = with_hpa_advice(answers, subjects, lambda workload: targets if workload == WEB else ())
    return [len(answer.hpa_advice) for answer in advised_answers]


def test_every_container_of_a_pod_is_told_of_its_sum_and_one_of_its_own() -> None:
    app, proxy = of_pod("app", 500, 300), of_pod("proxy", 100, 100, container_kind=ContainerKind.SIDECAR)
    assert told(app, proxy) == [1, 1]
    assert told(app, proxy, targets=(CPU, OF_APP)) == [2, 1]
    init = of_pod("setup", 900, 100, container_kind=ContainerKind.INIT)
    assert told(app, init, proxy) == [1, 0, 1]
    answers = with_hpa_advice([app[1], proxy[1]], [app[0], proxy[0]], lambda _: (CPU,))
    assert answers[0].hpa_advice == (
        f"{HPA}: 70 % of 600m CPU of 2 containers is 420m; at 400m the equal target is 105 %",
    )


def test_of_half_a_pod_or_of_one_with_requests_of_its_own_only_a_containers_target_is_told() -> None:
    app, proxy = of_pod("app", 500, 300), of_pod("proxy", 100, 100)
    assert told(app) == [0]
    assert told(app, targets=(CPU, OF_APP)) == [1]
    whole = [replace(container, has_pod_level_requests=True) for container, _ in (app, proxy)]
    assert told((whole[0], app[1]), (whole[1], proxy[1]), targets=(CPU, OF_APP)) == [1, 0]


def test_what_has_no_pod_or_no_workload_is_passed_over() -> None:
    app = of_pod("app", 500, 300, pod_containers=1)
    assert told(app) == [1]
    for identity in (replace(app[0].identity, pod_uid=None), replace(app[0].identity, container=None)):
        assert told((replace(app[0], identity=identity), app[1])) == [0]
    assert told((replace(app[0], workload=None), app[1])) == [0]

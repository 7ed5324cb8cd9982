from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.admission.answer import Admission, AdmissionFacts
from agent.core.admission.estimate import NoEstimate
from agent.core.autoscalers.vpa_orders import VpaSurroundings, vpa_orders
from agent.core.autoscalers.vpa_status import (
    CONFIG_UNSUPPORTED,
    LOW_CONFIDENCE,
    NO_PODS_MATCHED,
    RECOMMENDATION_PROVIDED,
    SIZED_BY_PLIMSOLL,
    VpaView,
    is_worth_writing,
    status_of,
)
from agent.core.autoscalers.written_pod import first_of_share, to_recommend, written_pod
from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import VpaCondition, VpaObject, VpaStatus
from agent.core.orders.enforce_share import LAST_TICKET, TakenBack
from agent.core.orders.order import Mode
from agent.kube.objects.pod_json import pod_from_json
from tests.admissions import DAY_SECONDS, MB, NOW_UNIX_SECONDS, admitted, estimate, new_pod
from tests.pods import container
from tests.vpas import vpa

KNOWN = estimate(cpu_base_millicores=150, cpu_max_millicores=420, memory_base_bytes=120 * MB, memory_max_bytes=260 * MB)
APP = container("app", {"cpu": "500m", "memory": "300M"}, {"memory": "600M"})
ALONE = VpaSurroundings()


def viewed(
    autoscaler: VpaObject | None = None,
    known: Any = KNOWN,
    *,
    mode: str | None = None,
    orders: dict[str, str] | None = None,
    surroundings: VpaSurroundings = ALONE,
    namespace: Namespace | None = None,
    pod: Any = None,
    cluster: dict[str, Any] | None = None,
    **fields: Any,
) -> VpaView:
    """What the webhook knows of an object with one pod; ``cluster`` is what else it knows of the workload."""
    ordered = vpa_orders(autoscaler if autoscaler is not None else vpa("InPlace"), surroundings)
    document = pod if pod is not None else new_pod(APP, mode=mode, orders=orders)
    read = written_pod(pod_from_json(document))
    facts = AdmissionFacts(
        namespace=namespace or Namespace(name="shop"),
        autoscaler=ordered.at_admission,
        share_ticket=LAST_TICKET,
        **(cluster or {}),
    )

    def asked(variant: Pod, facts: AdmissionFacts) -> Admission:
        metadata = {**document["metadata"], "annotations": dict(variant.annotations)}
        return admitted({**document, "metadata": metadata}, known, facts=facts)

    standing = asked(first_of_share(read, unix_seconds=NOW_UNIX_SECONDS), facts)
    assert standing.orders is not None
    admission = asked(to_recommend(read, standing.orders.mode), replace(facts, left_alone_for=None))
    return VpaView(**{"orders": ordered, "pod": read, "admission": admission, "standing": standing, **fields})


def status(*arguments: Any, **more: Any) -> VpaStatus:
    return status_of(viewed(*arguments, **more), now_unix_seconds=NOW_UNIX_SECONDS + 0.7)


def told(vpa_status: VpaStatus) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in vpa_status.conditions}


def words(vpa_status: VpaStatus, kind: str) -> str:
    return next(condition.message for condition in vpa_status.conditions if condition.type == kind)


def test_the_target_is_what_a_new_pod_requests_between_base_and_peak() -> None:
    vpa_status = status()
    (app,) = vpa_status.containers
    assert app.target == {Resource.CPU: 300, Resource.MEMORY: 200 * MB}
    assert app.lower_bound == {Resource.CPU: 150, Resource.MEMORY: 120 * MB}
    assert app.upper_bound == {Resource.CPU: 420, Resource.MEMORY: 260 * MB}
    assert app.uncapped_target == app.target
    assert vpa_status.observed_generation == 3
    assert told(vpa_status) == {
        RECOMMENDATION_PROVIDED: ("True", "Recommended"),
        SIZED_BY_PLIMSOLL: ("True", "ModeEnforce"),
    }
    assert words(vpa_status, SIZED_BY_PLIMSOLL) == "mode enforce by VPA shop/web"
    # Whole seconds, as the API keeps them.
    assert {condition.last_transition_unix_seconds for condition in vpa_status.conditions} == {NOW_UNIX_SECONDS}


def test_bounds_hold_for_target_and_bounds_and_not_for_the_uncapped_target() -> None:
    policy = {
        "containerPolicies": [{"containerName": "app", "minAllowed": {"cpu": "350m"}, "maxAllowed": {"cpu": "400m"}}]
    }
    (app,) = status(vpa("InPlace", resourcePolicy=policy)).containers
    (cpu, lower, upper) = (amounts[Resource.CPU] for amounts in (app.target, app.lower_bound, app.upper_bound))
    assert (cpu, lower, upper, app.uncapped_target[Resource.CPU]) == (350, 350, 400, 300)


def test_a_resource_or_container_that_is_not_controlled_has_no_figure() -> None:
    cpu_alone = {"containerPolicies": [{"containerName": "*", "controlledResources": ["cpu"]}]}
    (app,) = status(vpa("InPlace", resourcePolicy=cpu_alone)).containers
    assert app.target.keys() == app.upper_bound.keys() == {Resource.CPU}
    off = status(vpa("InPlace", resourcePolicy={"containerPolicies": [{"containerName": "app", "mode": "Off"}]}))
    assert off.containers == ()
    assert told(off)[RECOMMENDATION_PROVIDED] == ("False", "NoHistory")
    assert words(off, RECOMMENDATION_PROVIDED) == "no container of its pods is sized"


def test_without_bounds_known_the_target_stands_for_them_and_a_small_change_keeps_the_request() -> None:
    bare = container("app", {"cpu": "500m", "memory": "208M"})
    (app,) = status(known=estimate(), pod=new_pod(bare, mode=None)).containers
    assert app.target == app.lower_bound == app.upper_bound == {Resource.CPU: 300, Resource.MEMORY: 208 * MB}
    assert app.uncapped_target == {Resource.CPU: 300, Resource.MEMORY: 200 * MB}
    without_cpu = container("app", {"memory": "300M"})
    (app,) = status(pod=new_pod(without_cpu, mode=None)).containers
    assert app.target.keys() == {Resource.MEMORY}


def test_a_mode_that_only_advises_has_a_recommendation_and_says_that_nobody_acts() -> None:
    vpa_status = status(vpa("Off"))
    assert vpa_status.containers
    assert told(vpa_status)[SIZED_BY_PLIMSOLL] == ("False", "ModeRecommend")
    assert told(status(vpa("Initial")))[SIZED_BY_PLIMSOLL] == ("True", "AtAdmission")


def test_an_annotation_wins_and_is_named() -> None:
    off = status(mode="off")
    assert told(off) == {RECOMMENDATION_PROVIDED: ("False", "NotSized"), SIZED_BY_PLIMSOLL: ("False", "ModeOff")}
    assert words(off, SIZED_BY_PLIMSOLL) == "mode off by the pod annotation"
    by_namespace = status(vpa("Off"), namespace=Namespace(name="shop", annotations={"plimsoll.dev/mode": "enforce"}))
    assert words(by_namespace, SIZED_BY_PLIMSOLL) == "mode enforce by the namespace annotation"
    odd = status(orders={"plimsoll.dev/min-cpu": "x"})
    assert told(odd)[SIZED_BY_PLIMSOLL] == ("False", "NotUnderstood")


def test_what_is_not_honoured_is_told_and_left_to_whom() -> None:
    assert told(status(vpa("Recreate")))[CONFIG_UNSUPPORTED] == ("True", "NotHonoured")
    left = status(vpa("InPlace"), surroundings=VpaSurroundings(has_their_admission=True))
    assert told(left)[SIZED_BY_PLIMSOLL] == ("False", "LeftToVpa")
    assert left.containers, "they go by it"
    other = status(held_by=vpa(name="older"), admission=None)
    assert told(other) == {RECOMMENDATION_PROVIDED: ("False", "NotAsked"), SIZED_BY_PLIMSOLL: ("False", "OtherObject")}
    assert words(other, SIZED_BY_PLIMSOLL) == "VPA shop/older is for the same Deployment web, and older"


GUARANTEED = container("app", {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"})
BOTH = FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web", memory_for="HorizontalPodAutoscaler shop/web")


@pytest.mark.parametrize("share", [None, "10%", "100%"])
@pytest.mark.parametrize(
    ("pod", "cluster", "why"),
    [
        (GUARANTEED, {}, "of class Guaranteed, and not asked for (plimsoll.dev/guaranteed)"),
        (APP, {"left_alone_for": "VPA shop/theirs"}, "VPA shop/theirs sets its requests"),
        (APP, {"frozen": BOTH}, "HorizontalPodAutoscaler shop/web scales on its requests"),
    ],
)
def test_a_workload_that_is_left_whatever_its_mode_is_told(
    pod: Any, cluster: dict[str, Any], why: str, share: str | None
) -> None:
    orders = {} if share is None else {"plimsoll.dev/enforce-share": share}
    vpa_status = status(pod=new_pod(pod, mode=None, orders=orders), cluster=cluster)
    assert told(vpa_status)[SIZED_BY_PLIMSOLL] == ("False", "NotSized")
    assert words(vpa_status, SIZED_BY_PLIMSOLL) == why
    # What somebody else sets is recommended all the same.
    is_recommended = told(vpa_status)[RECOMMENDATION_PROVIDED] == ("True", "Recommended")
    assert is_recommended == bool(vpa_status.containers) == ("left_alone_for" in cluster)


@pytest.mark.parametrize(
    ("share", "taken_back", "acting"),
    [
        ("10%", None, ("True", "ModeEnforce", "mode enforce by VPA shop/web")),
        ("0%", None, ("False", "NotSized", "not in the enforced share of 0 % by the pod annotation")),
        ("10%", "restarts", ("False", "NotSized", "the enforced share of 10 % is taken back: restarts")),
    ],
)
def test_under_a_share_the_target_is_that_of_a_pod_in_it(
    share: str, taken_back: str | None, acting: tuple[str, str, str]
) -> None:
    cluster = {} if taken_back is None else {"share_taken_back": TakenBack(share=share, reason=taken_back)}
    vpa_status = status(orders={"plimsoll.dev/enforce-share": share}, cluster=cluster)
    assert vpa_status.containers == status().containers != ()
    assert (*told(vpa_status)[SIZED_BY_PLIMSOLL], words(vpa_status, SIZED_BY_PLIMSOLL)) == acting


def test_without_pods_or_history_the_reason_is_told() -> None:
    nobody = status_of(VpaView(orders=vpa_orders(vpa("InPlace"), ALONE)), now_unix_seconds=1.0)
    assert told(nobody) == {
        RECOMMENDATION_PROVIDED: ("False", "NoPods"),
        NO_PODS_MATCHED: ("True", "NoPods"),
        SIZED_BY_PLIMSOLL: ("False", "NoPods"),
    }
    unknown = status(known=NoEstimate.UNKNOWN_WORKLOAD)
    assert told(unknown)[RECOMMENDATION_PROVIDED] == ("False", "NoHistory")
    assert words(unknown, RECOMMENDATION_PROVIDED) == "app: unknown workload"
    young = status(known=replace(KNOWN, history_seconds=DAY_SECONDS / 2))
    assert told(young)[LOW_CONFIDENCE] == ("True", "ShortHistory")
    doubted = viewed()
    assert doubted.admission is not None
    error = replace(doubted.admission, outcome=type(doubted.admission.outcome).ERROR, why="left as it came: a quota")
    vpa_status = status_of(replace(doubted, admission=error), now_unix_seconds=1.0)
    assert told(vpa_status)[RECOMMENDATION_PROVIDED] == ("False", "LeftAsItCame")


def test_times_of_transition_and_conditions_of_others_stay_and_long_words_are_cut() -> None:
    theirs = VpaCondition(type="FetchingHistory", status="False", last_transition_unix_seconds=5.0)
    before = VpaCondition(type=RECOMMENDATION_PROVIDED, status="True", last_transition_unix_seconds=7.0)
    changed = VpaCondition(type=SIZED_BY_PLIMSOLL, status="False", last_transition_unix_seconds=7.0)
    autoscaler = replace(
        vpa("InPlace"), status=VpaStatus(conditions=(theirs, before, changed)), unsupported=("x" * 3000,)
    )
    by_type = {each.type: each for each in status(autoscaler).conditions}
    assert by_type["FetchingHistory"] == theirs
    assert by_type[RECOMMENDATION_PROVIDED].last_transition_unix_seconds == 7.0
    assert by_type[SIZED_BY_PLIMSOLL].last_transition_unix_seconds == NOW_UNIX_SECONDS
    assert len(by_type[CONFIG_UNSUPPORTED].message) == 2048


def test_a_status_is_written_when_an_amount_moved_by_a_twentieth_or_a_condition_changed() -> None:
    written = status()
    assert is_worth_writing(VpaStatus(), written)
    assert not is_worth_writing(written, written)
    # 5 % of 300m is 15m.
    assert not is_worth_writing(written, status(known=replace(KNOWN, cpu_request_millicores=314)))
    assert is_worth_writing(written, status(known=replace(KNOWN, cpu_request_millicores=315)))
    assert is_worth_writing(written, replace(written, observed_generation=4))
    assert is_worth_writing(written, status(vpa("Initial")))
    assert not is_worth_writing(written, replace(written, containers=())), "what was recommended stays"
    (app,) = written.containers
    assert is_worth_writing(written, replace(written, containers=(replace(app, container="other"),)))
    assert is_worth_writing(written, replace(written, containers=(replace(app, lower_bound={}),)))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_pod_is_asked_about_as_enforced_unless_it_is_off_and_without_a_boost(mode: Mode) -> None:
    annotations = to_recommend(pod_from_json(new_pod(APP, mode=str(mode))), mode).annotations
    assert annotations["plimsoll.dev/startup-boost"] == "off"
    assert annotations["plimsoll.dev/mode"] == ("off" if mode is Mode.OFF else "enforce")
    assert annotations.get("plimsoll.dev/enforce-share") == (None if mode is Mode.OFF else "100%")


def test_a_pod_that_admission_sized_is_taken_back_to_what_was_written() -> None:
    original = '{"containers": {"app": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}}}'
    annotations = {
        "plimsoll.dev/original-resources": original,
        "plimsoll.dev/admission": "{}",
        "plimsoll.dev/max-cpu": "2",
    }
    sized = container("app", {"cpu": "300m", "memory": "1G", "example.com/gpu": "1"})
    document = new_pod(
        sized, container("late"), orders=annotations, mode=None, resources={"requests": {"cpu": "1"}}, nodeName="n"
    )
    pod = written_pod(pod_from_json(document))
    app = pod.containers[0].resources
    assert (app.cpu_request_millicores, app.memory_request_bytes, app.cpu_limit_millicores) == (500, None, 1000)
    assert "example.com/gpu" in app.requests
    assert (dict(pod.annotations), pod.node_name, pod.resources) == ({"plimsoll.dev/max-cpu": "2"}, None, None)
    pod_original = '{"containers": {}, "pod": {"requests": {"cpu": "2"}}}'
    of_its_own = pod_from_json(
        new_pod(sized, orders={"plimsoll.dev/original-resources": pod_original}, resources={"requests": {"cpu": "1"}})
    )
    resources = written_pod(of_its_own).resources
    assert resources is not None
    assert resources.cpu_request_millicores == 2000
    odd = pod_from_json(new_pod(sized, orders={"plimsoll.dev/original-resources": "x"}))
    assert written_pod(odd).containers == odd.containers

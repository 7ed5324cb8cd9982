"""New pods that have more CPU while they start."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.core.admission.answer import AdmissionFacts, AdmissionOutcome
from agent.core.admission.boost import BoostGrounds, Starts, with_boost
from agent.core.admission.estimate import NoEstimate
from agent.core.admission.fit import Draft
from agent.core.admission.options import AdmissionSettings
from agent.core.admission.pod_admission import no_starts
from agent.core.admission.sizes import sides_of
from agent.core.cluster.facts import FrozenAxes, LimitRangeItem, NodeAmounts, Quota
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders import annotations as names
from agent.core.orders.container_policies import ContainerPolicies
from agent.core.orders.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.orders.startup_boost import parse_startup_boost
from agent.core.plan.needs.given_boost import boost_from
from agent.core.resize.originals import annotated_original
from tests.admissions import (
    NOW_UNIX_SECONDS,
    PROPORTIONAL_RULES,
    SHOP,
    admitted,
    estimate,
    new_pod,
    patched,
    pod_of,
    resources,
)
from tests.pods import container, make_pod, sidecar

CPU, MEMORY = "cpu", "memory"
NOTHING = NoEstimate.UNKNOWN_WORKLOAD
FACTOR = "factor 3 for 60s after ready"
WITHOUT_LIMIT = "request: keep raises the CPU limit alone, and there is none (CPU weight follows the request)"
NANOS_PER_CORE = 1_000_000_000
RESTARTS = [{"resourceName": CPU, "restartPolicy": "RestartContainer"}]


def app(request: str | None = "500m", limit: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {MEMORY: "300M"} | ({} if request is None else {CPU: request})
    return container("app", requests, {MEMORY: "600M"} | ({} if limit is None else {CPU: limit}), **more)


def used(millicores: int, name: str = "app") -> Starts:
    """Return that two starts of a container used so much."""
    known = {name: LearntStart(cpu_millicores=millicores, starts=2)}
    return lambda container: known.get(container)


def boosted(order: str, *containers: dict[str, Any], known: Any = NOTHING, **more: Any) -> Any:
    """Return the admission, and request and limit of container ``app`` after it."""
    kind, mode = more.pop("kind", "Deployment"), more.pop("mode", "enforce")
    orders = {names.STARTUP_BOOST: order, **more.pop("orders", {})}
    document = new_pod(*(containers or (app(),)), kind=kind, mode=mode, orders=orders, **more.pop("spec", {}))
    admission = admitted(document, known, **more)
    done = patched(document, admission)
    assert computed_qos_class(pod_of(done)) is computed_qos_class(pod_of(document))
    # Applied and asked about again, as an API server does once another webhook has changed the pod: nothing more.
    twice = admitted(done, known, **more)
    assert twice.moves == ()
    assert patched(done, twice) == done
    stated = resources(done)
    return admission, tuple(_millicores(stated[key].get(CPU)) for key in ("requests", "limits"))


def _millicores(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


@pytest.mark.parametrize(
    ("order", "given", "limit", "cpu"),
    [
        ("factor 3", "500m", None, (1500, None)),
        ("factor 1.15", "100m", None, (115, None)),
        ("factor 1.5", "333m", None, (499, None)),  # 499.5, cut
        ("add 250m", "500m", None, (750, None)),
        ("factor 3; at most 1", "500m", None, (1000, None)),
        ("factor 3; at most 400m", "500m", None, (500, None)),  # never less than without
        ("factor 3", "500m", "1", (1500, 3000)),  # the ratio of two is kept
        ("factor 3; limit: keep", "500m", "1", (999, 1000)),  # a millicore below it, or the class would change
        ("factor 1.5; limit: keep", "500m", "1", (750, 1000)),
        ("factor 3; limit: keep", "999m", "1", (999, 1000)),
        ("factor 3; request: keep", "500m", "1", (500, 3000)),
        ("factor 3; request: keep", "500m", None, (500, None)),
        ("factor 3; containers: other", "500m", "1", (500, 1000)),
        ("off", "500m", "1", (500, 1000)),
    ],
)
def test_a_pod_without_a_history_is_boosted_from_what_it_states(
    order: str, given: str, limit: str | None, cpu: tuple[int, int | None]
) -> None:
    assert boosted(order, app(given, limit))[1] == cpu


@pytest.mark.parametrize(
    ("order", "given", "limit", "why"),
    [
        ("factor 3; request: keep", "500m", None, WITHOUT_LIMIT),
        ("factor 3; at most 400m", "500m", "1", "it would be no more than what is requested"),
        ("factor 3; limit: keep", "999m", "1", "it would be no more than what is requested"),
        ("factor 3", None, "1", "no container states CPU that may be boosted"),
    ],
)
def test_what_boosts_nothing_says_why(order: str, given: str | None, limit: str | None, why: str) -> None:
    assert boosted(order, app(given, limit))[0].startup_boost == f"start not boosted: {why}"


def test_who_creates_a_pod_that_its_order_can_never_boost_is_warned() -> None:
    """A weight alone would have to be written behind the kubelet's back, and falls at its next resize."""
    warning = f"plimsoll.dev/startup-boost: start not boosted: {WITHOUT_LIMIT}"
    assert boosted("factor 3; request: keep", app("500m", None))[0].warnings == (warning,)
    assert boosted("factor 3; request: keep", app("500m", "1"))[0].warnings == ()
    assert boosted("factor 3; at most 400m", app("500m", "1"))[0].warnings == ()
    # With a history the limit goes, and with it what could be raised.
    sized = boosted("factor 3; request: keep", app("500m", "1"), known=estimate(cpu=300))
    assert (sized[0].warnings, sized[1]) == ((warning,), (300, None))


def test_the_boost_comes_on_top_of_what_the_history_asks_for() -> None:
    # 300 millicores by the history, three times that; the CPU limit is taken off, as without a boost.
    admission, cpu = boosted(FACTOR, app("500m", "1"), known=estimate(cpu=300))
    assert cpu == (900, None)
    assert admission.why.endswith("; start boosted, until 60 s after ready: app: cpu 300m -> 900m")


def test_the_pod_tells_what_was_boosted_and_keeps_what_it_came_with() -> None:
    document = new_pod(app("500m", "1"), orders={names.STARTUP_BOOST: FACTOR})
    done = pod_of(patched(document, admitted(document, NOTHING)))
    assert json.loads(done.annotations[names.STARTUP_BOOSTED]) == {
        "unixSeconds": int(NOW_UNIX_SECONDS),
        "afterReadySeconds": 60.0,
        "timeoutSeconds": 600.0,
        "containers": {"app": {"requestMillicores": [500, 1500], "limitMillicores": [1000, 3000]}},
    }
    original = annotated_original(done)
    assert original is not None
    assert (original.amounts[0].cpu_request_millicores, original.amounts[0].cpu_limit_millicores) == (500, 1000)


def test_asked_again_after_another_webhook_the_original_and_the_base_are_the_first() -> None:
    document = new_pod(app(), orders={names.STARTUP_BOOST: FACTOR})
    done = patched(document, admitted(document, NOTHING))
    done["spec"]["containers"].append(container("late", {CPU: "100m"}))
    later = patched(done, admitted(done, NOTHING))
    assert [resources(later, name)["requests"][CPU] for name in ("app", "late")] == ["1500m", "300m"]
    original = annotated_original(pod_of(later))
    assert original is not None
    assert [amounts.cpu_request_millicores for amounts in original.amounts] == [500, 100]
    boost = boost_from(pod_of(later))
    assert boost is not None
    assert [(change.container, change.before, change.after) for change in boost.changes] == [
        ("app", 500, 1500),
        ("late", 100, 300),
    ]


def test_a_boost_that_no_longer_fits_when_asked_again_is_taken_off() -> None:
    document = new_pod(app(), orders={names.STARTUP_BOOST: FACTOR})
    done = patched(document, admitted(document, NOTHING))
    small = replace(SHOP, room=NodeAmounts(cpu_millicores=1000, memory_bytes=1 << 30))
    assert resources(patched(done, admitted(done, NOTHING, facts=small)))["requests"][CPU] == "500m"


@pytest.mark.parametrize("mode", ["off", "recommend"])
def test_nothing_is_boosted_where_nothing_may_be_written(mode: str) -> None:
    admission, cpu = boosted(FACTOR, mode=mode)
    assert (admission.outcome, cpu) == (AdmissionOutcome.EXCLUDED, (500, None))
    paused = replace(SHOP, pause_reason="upgrade")
    assert boosted(FACTOR, facts=paused)[1] == (500, None)


def test_a_guaranteed_pod_is_boosted_as_a_pair_and_stays_guaranteed() -> None:
    pair = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "500m", MEMORY: "300M"})
    asked = {names.GUARANTEED: "true"}
    assert boosted(FACTOR, pair, orders=asked)[1] == (1500, 1500)
    admission, cpu = boosted("factor 3; request: keep", pair, orders=asked)
    assert cpu == (500, 500)
    assert admission.why.endswith("start not boosted: the QoS class would change from Guaranteed to Burstable")
    assert boosted("factor 3; limit: keep", pair, orders=asked)[1] == (500, 500)


@pytest.mark.parametrize(
    ("order", "given", "cpu", "burstable"),
    [
        ("factor 2", "500m", 999, 1000),  # a static CPU manager would give it a CPU of its own, and keep it
        ("factor 4", "500m", 1999, 2000),
        ("add 1m", "999m", 999, 1000),
        ("factor 3", "500m", 1500, 1500),
    ],
)
def test_a_guaranteed_pod_is_not_boosted_to_whole_cores(order: str, given: str, cpu: int, burstable: int) -> None:
    pair = container("app", {CPU: given, MEMORY: "300M"}, {CPU: given, MEMORY: "300M"})
    assert boosted(order, pair, orders={names.GUARANTEED: "true"})[1] == (cpu, cpu)
    assert boosted(order, app(given))[1] == (burstable, None)


def test_nothing_is_boosted_where_nobody_could_take_it_back() -> None:
    admission, cpu = boosted(FACTOR, facts=replace(SHOP, resizes_in_place=False))
    assert cpu == (500, None)
    assert admission.why.endswith("start not boosted: the cluster does not resize pods in place (1.33)")
    assert boosted(FACTOR, facts=replace(SHOP, resizes_in_place=True))[1] == (1500, None)


@pytest.mark.parametrize("age_seconds", [0, 120, 86_400])
def test_a_boost_that_the_pods_author_writes_himself_gives_him_no_more_than_he_could_order(age_seconds: int) -> None:
    """He says that what he states is boosted already, or that much more is steady: the pod is never made larger."""
    for steady, stated in ((1, 500), (500, 100_000), (100_000, 500)):
        document = new_pod(app(), orders={names.STARTUP_BOOST: FACTOR})
        done = patched(document, admitted(document, NOTHING))
        forged = new_pod(app(), orders={names.STARTUP_BOOST: FACTOR})
        written = json.dumps(
            {
                "unixSeconds": int(NOW_UNIX_SECONDS) - age_seconds,
                "afterReadySeconds": 3600,
                "timeoutSeconds": 3600,
                "containers": {"app": {"requestMillicores": [steady, stated]}},
            }
        )
        annotations = forged["metadata"]["annotations"]
        annotations[names.STARTUP_BOOSTED] = written
        annotations[names.ADMISSION] = json.dumps({"unixSeconds": int(NOW_UNIX_SECONDS) - age_seconds})
        annotations[names.ORIGINAL_RESOURCES] = done["metadata"]["annotations"][names.ORIGINAL_RESOURCES]
        got = _millicores(resources(patched(forged, admitted(forged, NOTHING)))["requests"][CPU])
        assert got is not None
        assert got <= 1500  # three times what he states


def test_containers_that_end_state_nothing_or_would_restart_are_left() -> None:
    spec = {"initContainers": [container("init", {CPU: "100m"}), sidecar("side", {CPU: "200m"})]}
    again = container("again", {CPU: "100m"}, resizePolicy=RESTARTS)
    document = new_pod(app(None), again, orders={names.STARTUP_BOOST: FACTOR})
    document["spec"] |= spec
    done = patched(document, admitted(document, NOTHING))
    cpu_requests = [resources(done, name)["requests"].get(CPU) for name in ("init", "side", "app", "again")]
    assert cpu_requests == ["100m", "600m", None, "100m"]
    # A restart that is allowed would still end the very start that the boost was for.
    orders = {names.STARTUP_BOOST: FACTOR, names.ALLOW_RESTART: "true"}
    allowed = new_pod(app("100m", resizePolicy=RESTARTS), orders=orders)
    assert resources(patched(allowed, admitted(allowed, NOTHING)))["requests"][CPU] == "100m"
    nothing = boosted(FACTOR, app(None))[0]
    assert nothing.why.endswith("start not boosted: no container states CPU that may be boosted")


def test_where_no_node_holds_the_request_the_limit_alone_is_boosted() -> None:
    small = replace(SHOP, room=NodeAmounts(cpu_millicores=1000, memory_bytes=1 << 30))
    admission, cpu = boosted(FACTOR, app("500m", "1"), facts=small)
    assert cpu == (500, 3000)
    assert admission.why.endswith(
        "app: cpu limit 1000m -> 3000m; requests kept: no node can allocate the cpu that it would request"
    )
    admission, cpu = boosted(FACTOR, facts=small)
    assert cpu == (500, None)
    assert admission.why.endswith("start not boosted: no node can allocate the cpu that it would request")


def test_ranges_and_quotas_hold_boosts_too() -> None:
    ranges = (LimitRangeItem(name="range", type="Container", max={CPU: NANOS_PER_CORE}),)
    assert boosted(FACTOR, app("500m", "1"), facts=replace(SHOP, limit_ranges=ranges))[1] == (500, 1000)
    quota = Quota(name="quota", hard={"requests.cpu": 6 * NANOS_PER_CORE}, used={})
    admission, cpu = boosted(FACTOR, facts=replace(SHOP, quotas=(quota,)))  # 1.5 and ten more of 0.5 are 6.5
    assert cpu == (500, None)
    assert "start not boosted: held by a ResourceQuota (ResourceQuota quota, where" in admission.why
    roomy = Quota(name="quota", hard={"requests.cpu": 7 * NANOS_PER_CORE}, used={})
    assert boosted(FACTOR, facts=replace(SHOP, quotas=(roomy,)))[1] == (1500, None)


def test_a_request_that_an_hpa_divides_by_stays_and_its_limit_may_rise() -> None:
    frozen = replace(SHOP, frozen=FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web"))
    assert boosted(FACTOR, app("500m", "1"), facts=frozen)[1] == (500, 3000)
    admission, cpu = boosted("factor 3; limit: keep", app("500m", "1"), facts=frozen)
    assert cpu == (500, 1000)
    assert admission.why.endswith("start not boosted: an HPA scales on it (HorizontalPodAutoscaler shop/web)")
    of_one = replace(frozen, frozen=replace(frozen.frozen, cpu_containers=("app",)))
    assert boosted("factor 3; limit: keep", app("500m", "1"), facts=of_one)[0].why == admission.why


def test_cpu_that_is_not_controlled_and_pods_with_a_budget_are_not_boosted() -> None:
    memory_alone = AdmissionSettings(bounds=BoundsOptions(controlled_resources=ControlledResources.MEMORY))
    admission, cpu = boosted(FACTOR, settings=memory_alone)
    assert cpu == (500, None)
    assert admission.why.endswith("start not boosted: left out by the configuration")
    own = {"resources": {"requests": {CPU: "2"}, "limits": {CPU: "2"}}}
    admission, cpu = boosted(FACTOR, spec=own)
    assert cpu == (500, None)
    assert admission.why.endswith("start not boosted: held by the pod's own resources")
    knowing = AdmissionFacts(namespace=SHOP.namespace, knows_pod_level_resources=True)
    budget = {names.POD_LIMITS: '{"limits": {"cpu": "3", "memory": "3Gi"}}'}
    admission, cpu = boosted(FACTOR, orders=budget, facts=knowing)
    assert (cpu, admission.boost) == ((500, None), None)
    assert admission.startup_boost == ""


def test_requests_of_a_daemon_set_rise_only_where_they_may_grow() -> None:
    assert boosted(FACTOR, app("500m", "1"), kind="DaemonSet")[1] == (1500, 3000)
    stays = AdmissionSettings(plan=PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER))
    assert boosted(FACTOR, app("500m", "1"), kind="DaemonSet", settings=stays)[1] == (500, 3000)


def test_pods_that_end_by_themselves_are_not_boosted() -> None:
    admission, (request, _) = boosted(FACTOR, kind="Job")
    assert request == 500
    assert "its pods end by themselves" in admission.startup_boost


def test_auto_boosts_by_what_earlier_starts_used() -> None:
    admission, cpu = boosted("auto", app("500m", "1"), starts=used(1300))
    assert cpu == (1300, 2600)
    assert admission.boost is not None
    assert (admission.boost.is_learnt, admission.boost.after_ready_seconds) == (True, 60.0)
    assert admission.why.endswith(
        "start boosted, until 60 s after ready: app: cpu 500m -> 1300m; app: cpu limit 1000m -> 2600m"
    ) or admission.why.endswith("app: cpu 500m -> 1300m, cpu limit 1000m -> 2600m")
    assert boosted("auto; at most 1", starts=used(1300))[1] == (1000, None)
    # On top of what the history asks for: 1300 is more than half as much again as 800, and not as 900.
    assert boosted("auto", known=estimate(cpu=800), starts=used(1300))[1] == (1300, None)
    assert boosted("auto", known=estimate(cpu=900), starts=used(1300))[1] == (900, None)


@pytest.mark.parametrize(
    ("starts", "why"),
    [
        (no_starts, "start not boosted: fewer than 2 starts are known"),
        (used(1300, "other"), "start not boosted: fewer than 2 starts are known"),
        (used(700), "start not boosted: its starts used less than 1.5 times the request"),
    ],
)
def test_auto_that_boosts_nothing_has_the_start_learnt(starts: Starts, why: str) -> None:
    admission, cpu = boosted("auto", starts=starts)
    assert (cpu, admission.outcome) == ((500, None), AdmissionOutcome.PATCHED)
    assert admission.why.endswith(why)
    document = new_pod(app(), orders={names.STARTUP_BOOST: "auto"})
    done = patched(document, admitted(document, NOTHING, starts=starts))
    assert json.loads(done["metadata"]["annotations"][names.STARTUP_BOOSTED]) == {
        "unixSeconds": int(NOW_UNIX_SECONDS),
        "afterReadySeconds": 60.0,
        "timeoutSeconds": 600.0,
        "containers": {},
        "learnt": True,
    }


def test_auto_learns_what_does_not_fit_and_nothing_of_what_cannot_be_boosted_at_all() -> None:
    small = replace(SHOP, room=NodeAmounts(cpu_millicores=1000, memory_bytes=1 << 30))
    admission, cpu = boosted("auto", facts=small, starts=used(1300))
    assert (cpu, names.STARTUP_BOOSTED in admission.annotations) == ((500, None), True)
    assert admission.why.endswith("start not boosted: no node can allocate the cpu that it would request")
    unstated = boosted("auto", app(None), starts=used(1300))[0]
    assert unstated.why.endswith("start not boosted: no container states CPU that may be boosted")
    old = boosted("auto", facts=replace(SHOP, resizes_in_place=False), starts=used(1300))[0]
    assert old.boost is None
    assert boosted("auto", mode="recommend", starts=used(1300))[0].annotations == {}


@pytest.mark.parametrize(
    ("came", "steady", "boosted_limit"),
    [
        ((300, 1000), (2, 6), 20),  # 1000 x 6 / 300; of the steady limit, already rounded down, it would be 18
        ((300, 1000), (2, 5), 15),  # brought lower by somebody: the ratio is that of now
        ((None, 1000), (2, 6), 18),
        ((300, None), (2, 6), 18),
    ],
)
def test_a_limit_that_moved_with_the_request_is_rounded_down_once(
    came: tuple[int | None, int | None], steady: tuple[int, int], boosted_limit: int
) -> None:
    requests, limits = ({} if amount is None else {CPU: f"{amount}m"} for amount in came)
    pod = make_pod(container("app", requests, limits))
    (shown,) = pod.containers
    sides = sides_of(shown)
    sides[Resource.CPU].request, sides[Resource.CPU].limit = steady
    outcome = with_boost(
        pod,
        [Draft(container=shown, index=0, sides=sides, estimate=None)],
        parse_startup_boost("factor 3"),
        BoostGrounds(facts=SHOP, rules=PROPORTIONAL_RULES, starts=no_starts, policies=ContainerPolicies()),
        now_unix_seconds=NOW_UNIX_SECONDS,
    )
    assert outcome.drafts[0].sides[Resource.CPU].limit == boosted_limit

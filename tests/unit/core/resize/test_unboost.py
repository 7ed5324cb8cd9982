from __future__ import annotations

from dataclasses import replace

from agent.core.cluster.pod import Pod
from agent.core.history.workloads.job_run import RunFigures
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode, OrderSource
from agent.core.orders.startup_boost import StartupBoost
from agent.core.plan.needs.given_boost import BoostEnd, given_boost, without_boost
from agent.core.plan.plan import Phase
from agent.core.resize.originals import original_of
from agent.core.resize.unboost import unboost_step
from agent.core.resize.why import startup_boost_words
from tests.planning import orders
from tests.pods import container, make_pod
from tests.unit.core.plan.needs.test_given_boost import BORN, boost_of, pod

LEFT_OUT = "; CPU of the start is left out of what is recommended"
THRICE = StartupBoost(factor=3.0, after_ready_seconds=60.0)


def test_a_step_lowers_cpu_alone_and_says_why() -> None:
    boosted = pod(ready=10)
    step = unboost_step(boosted, boost_of(boosted), BoostEnd.READY)
    assert step is not None
    assert (step.phase, step.reason) == (Phase.SHRINK, "the start is over: the pod is ready")
    assert [(change.setting, change.before, change.after) for change in step.changes] == [
        ("request", 1500, 500),
        ("limit", 3000, 1000),
    ]
    assert unboost_step(without_boost(boosted, boost_of(boosted)), boost_of(boosted), BoostEnd.READY) is None


def test_what_a_pod_has_more_while_it_starts_is_no_original() -> None:
    first = original_of(pod(), kept_unix_seconds=BORN).amounts[0]
    assert (first.cpu_request_millicores, first.cpu_limit_millicores) == (500, 1000)


def test_why_tells_of_a_boost_that_stands_that_is_over_and_that_was_taken_back() -> None:
    def words(seconds: float, **more: object) -> str | None:
        return startup_boost_words(pod(**more), "app", orders(), now_unix_seconds=BORN + seconds)  # type: ignore[arg-type]

    what = "app: cpu 500m -> 1500m, cpu limit 1000m -> 3000m"
    assert words(10) == f"boosted while it starts: {what}; until 60 s after ready, or its CPU is quiet{LEFT_OUT}"
    assert words(700) == f"boosted while it starts: {what}; over: the pod did not get ready in time{LEFT_OUT}"
    taken = words(700, request="500m", limit="1")
    assert taken == f"boosted while it started, and taken back: {what}{LEFT_OUT}"
    assert startup_boost_words(pod(), "log", orders(), now_unix_seconds=BORN) is None


def test_why_tells_what_would_be_where_nothing_may_be_written() -> None:
    plain = make_pod(container("app", {"cpu": "500m"}))
    assert given_boost(plain) is None

    def words(boost: StartupBoost | None, mode: Mode = Mode.ENFORCE, name: str = "app") -> str | None:
        ordered = orders(mode=mode, startup_boost=boost, startup_boost_source=OrderSource.POD)
        return startup_boost_words(plain, name, ordered, now_unix_seconds=BORN)

    boost_text = "factor 3 for 60s after ready (pod annotation)"
    assert words(THRICE) == f"a new pod's start is to be boosted to 1500m: {boost_text}"
    assert words(THRICE, Mode.RECOMMEND) == (
        f"a new pod's start is to be boosted to 1500m: {boost_text}; not in mode recommend"
    )
    limit_boost = StartupBoost(factor=2.0, is_request_kept=True)
    boost_text = "factor 2; request: keep (pod annotation)"
    assert words(limit_boost) == (
        "a new pod's start is not boosted: request: keep raises the CPU limit alone, and there is none (CPU weight "
        f"follows the request): {boost_text}"
    )
    plain = make_pod(container("app", {"cpu": "500m"}, {"cpu": "1"}))
    assert words(limit_boost) == f"a new pod's start is to be boosted: {boost_text}"
    learnt = StartupBoost(is_learnt=True, after_ready_seconds=60.0)
    assert words(learnt) == "a new pod's start is to be boosted by what earlier ones used: auto (pod annotation)"
    assert words(None) is None
    assert words(THRICE, name="gone") is None
    assert words(StartupBoost(factor=2.0, containers=("log",))) is None
    assert names.STARTUP_BOOSTED not in plain.annotations


def test_why_tells_of_a_start_that_is_learnt() -> None:
    learnt = pod(request="500m", learnt=True, containers={})
    ordered = orders(startup_boost=StartupBoost(is_learnt=True, after_ready_seconds=60.0))
    used = RunFigures(duration_seconds=72.4, cpu_largest_millicores=1800.2)

    def words(starting: Pod, used: RunFigures | None) -> str | None:
        return startup_boost_words(starting, "app", ordered, now_unix_seconds=BORN, used=used)

    by = "a new pod's start is to be boosted by what earlier ones used: auto (configuration)"
    assert words(learnt, None) == f"{by}; this one was not boosted{LEFT_OUT}"
    assert words(learnt, used) == f"{by}; this one was not boosted; used at most 1800m in 5 s of 72 s{LEFT_OUT}"
    assert words(make_pod(container("app")), None) == by
    ordered = replace(ordered, startup_boost=StartupBoost(is_learnt=True, is_request_kept=True))
    app = learnt.containers[0]
    unlimited = replace(app, resources=replace(app.resources, limits={}))
    sentence = words(replace(learnt, containers=(unlimited, *learnt.containers[1:])), used)
    assert sentence is not None
    assert sentence.startswith("a new pod's start is not boosted: request: keep raises the CPU limit alone")
    assert sentence.endswith(f"; this one was not boosted; used at most 1800m in 5 s of 72 s{LEFT_OUT}")
    ordered = orders(startup_boost=StartupBoost(is_learnt=True, after_ready_seconds=60.0))
    boosted = words(pod(learnt=True, request="500m", limit="1"), replace(used, cpu_largest_millicores=None))
    assert boosted is not None
    assert boosted.endswith(f"cpu limit 1000m -> 3000m{LEFT_OUT}")

"""What ``why`` tells of orders, plan and deeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.cli.recommender.why_actions import acted_lines
from agent.cli.text.paragraphs import Page
from agent.cli.text.spans import ASCII, UNICODE, line_text
from agent.core.machine.oom_score import OomScore
from agent.core.orders.enforce_share import EnforceShare
from agent.core.orders.order import Fault, Mode, Orders, OrderSource, Ranking
from agent.core.orders.policy_options import PolicyName
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import JointSpike
from agent.core.recommender.recommendation import Withheld
from agent.core.resize.decision import Outcome
from agent.core.resize.why import Acted, Whys
from agent.node.files.documents import WHYS
from tests.explanations import explanation
from tests.plans import container, decision, share, sums

PAGE = Page(width=120, glyphs=UNICODE)
ORDERS = Orders(
    mode=Mode.ENFORCE,
    mode_source=OrderSource.NAMESPACE,
    policy=PolicyName.CRUISE,
    policy_source=OrderSource.CONFIGURATION,
    ranking=Ranking.MEDIUM,
    ranking_source=OrderSource.RULE,
)


def acted(**fields: Any) -> Acted:
    known: dict[str, Any] = {
        "orders": ORDERS,
        "reserved": None,
        "planned": None,
        "is_evicted": False,
        "decisions": (),
    }
    return Acted(**{**known, **fields})


def texts(actions: Acted | None, page: Page = PAGE) -> list[str]:
    return [line_text(line).rstrip() for line in acted_lines(replace(explanation(), acted=actions), page)]


def test_without_a_plan_there_is_no_section() -> None:
    assert texts(None) == []


def test_orders_and_why_a_pod_is_left_alone() -> None:
    assert texts(acted(reserved=ReservedReason.TOO_YOUNG, planned=container())) == [
        "PLAN  mode enforce (namespace annotation), ranking medium",
        "  left as it is: too young",
    ]
    own = replace(ORDERS, policy=PolicyName.VPA, policy_source=OrderSource.POD)
    assert texts(acted(orders=own))[0].endswith("ranking medium, policy vpa (pod annotation)")


def test_what_the_webhook_told_stands_with_the_orders() -> None:
    sentences = ("CPU requests kept: HorizontalPodAutoscaler shop/web scales by them",)
    assert texts(acted(told=sentences))[1] == (
        "  by the webhook: CPU requests kept: HorizontalPodAutoscaler shop/web scales by them"
    )


def test_what_becomes_of_the_start_is_told() -> None:
    words = "boosted while it starts: app: cpu 500m -> 1500m; until 60 s after ready, or its CPU is quiet"
    assert texts(acted(startup_boost=words))[1] == f"  start: {words}"


def test_the_last_runs_of_a_job_here_are_shown() -> None:
    run = "report-1, ended 3 min ago: took 3 s, memory 300MiB"
    shown = texts(acted(reserved=ReservedReason.JOB, runs=(run,)))
    assert shown[1:] == ["  left as it is: job, it ends", f"  run here: {run}"]


def test_the_share_is_told_with_what_comes_of_it() -> None:
    planned = container(
        cpu=share(100, 300, 500, 200, headroom=100, final=200, limit=1000, limit_applied=4000),
        memory=share(64 << 20, 64 << 20, 64 << 20, 64 << 20, headroom=0, final=64 << 20),
    )
    lines = texts(acted(planned=planned, is_evicted=True))
    assert lines[1] == "  the node does not fit: its eviction is proposed (plimsoll plan)"
    assert lines[2] == (
        "  CPU: base 100m + 100m of the node's spike headroom = 200m; request 500m → 200m; limit 1000m → 4000m"
    )
    assert lines[3].endswith("= 64.0MiB; as requested")
    part = container(cpu=share(500, 800, 100, 300, final=500, kept=KeptReason.EVICTION_PENDING))
    assert texts(acted(planned=part, is_evicted=True), Page(width=200, glyphs=UNICODE))[2].endswith(
        "request 100m → 300m, as it shares what is free until the proposed evictions"
    )


def test_what_the_headroom_is_made_of_is_told_with_the_share() -> None:
    cpu = sums(headroom=900, spike_total=1500, joint=JointSpike(amount=900, seen_unix_seconds=1_700_000_000.0))
    lines = texts(acted(planned=container(), cpu=cpu), Page(width=200, glyphs=UNICODE))
    assert lines[-1] == (
        "  the node's CPU: headroom 900m: the containers were seen 900m above their bases together at 22:13 UTC on "
        "Tue 14 Nov; the largest single spike is 500m"
    )
    assert "the node's CPU" not in "".join(texts(acted(planned=container(), cpu=sums())))


def test_a_resize_is_told_once_with_the_reason_why_it_was_made() -> None:
    log = (
        decision(2, reason="applied"),
        decision(1, 14.0, outcome=Outcome.ACCEPTED, reason="it is short now", seconds=None),
    )
    _, title, row = texts(acted(decisions=log))
    assert title.startswith("DONE LATELY")
    assert row.endswith("applied app CPU 500m → 200m: it is short now")


def test_a_score_of_before_a_resize_is_told() -> None:
    (_, line) = texts(acted(oom_score=OomScore(found=500, after_restart=875)))
    assert line == (
        "  oom_score_adj: 500 by the request of its start; a restart gives 875 (the higher, the sooner killed)"
    )


def test_a_fall_that_waits_says_until_when() -> None:
    cpu_share = share(100, 100, 200, 200, kept=KeptReason.CALM, waits_until_unix_seconds=11 * 3600.0)
    _, cpu, _ = texts(acted(planned=container(cpu=cpu_share)), Page(width=200, glyphs=UNICODE))
    assert cpu.endswith("request of 200m kept: falls are asked for calmly, waits until 11:00 UTC")


def test_what_is_kept_has_its_reason() -> None:
    cpu_share = share(
        100, 100, 105, 105, kept=KeptReason.SMALL_CHANGE, limit=200, limit_applied=200, limit_kept=KeptReason.TOO_OLD
    )
    unknown = share(100, 100, 100, 100, withheld=Withheld.GAPS)
    _, *lines = texts(acted(planned=container(cpu=cpu_share, memory=unknown)), Page(width=200, glyphs=UNICODE))
    cpu, memory = lines
    assert cpu.endswith("request of 105m kept: change too small; limit of 200m kept: API server or kubelet too old")
    assert "no prediction: the request of" in memory


def test_mode_protect_says_what_it_holds_and_what_would_be_possible() -> None:
    cpu_share = share(500, 500, 500, 500, kept=KeptReason.PROTECT, possible=150)
    actions = acted(orders=replace(ORDERS, mode=Mode.PROTECT), planned=container(cpu=cpu_share))
    _, held, cpu, _ = texts(actions, Page(width=200, glyphs=UNICODE))
    assert held.startswith("  protect: it is given more when it is short")
    assert cpu.endswith("request of 500m kept, 150m would be possible: mode protect")


def test_windows_say_what_waits_and_what_is_never_held() -> None:
    words = "shrink waits until 2026-11-23 22:00 CET, Europe/Berlin; evict may be now; restart may be now"
    cpu_share = share(100, 100, 500, 500, kept=KeptReason.WINDOW, waits_until_unix_seconds=86_400.0 + 21 * 3600)
    _, cpu, _, note = texts(acted(windows=words, planned=container(cpu=cpu_share)), Page(width=300, glyphs=UNICODE))
    assert cpu.endswith("request of 500m kept: outside its windows, waits until 1970-01-02 21:00 UTC")
    assert note == f"  windows: {words}; what it is short of is given at any time (configuration)"


def test_faults_and_deeds_are_told() -> None:
    fault = Fault(
        key="plimsoll.dev/mode", value="on", allowed="off, recommend, protect, enforce", source=OrderSource.POD
    )
    lines = texts(
        acted(
            orders=replace(ORDERS, mode=Mode.OFF, faults=(fault,)),
            reserved=ReservedReason.FAULTY_ANNOTATION,
            decisions=(decision(1, outcome=Outcome.DEFERRED, detail="not enough cpu now", repeats=3),),
        ),
        Page(width=120, glyphs=ASCII),
    )
    assert lines[2] == "  pod annotation plimsoll.dev/mode: 'on' is not allowed (off, recommend, protect, enforce)"
    assert lines[3] == "DONE LATELY  newest first (plimsoll events)"
    assert " deferred " in lines[4]
    assert " x3: not enough cpu now" in lines[4]


def test_what_was_acted_goes_through_the_socket_unchanged() -> None:
    whys = Whys(items=(replace(explanation(), acted=acted(planned=container(), decisions=(decision(),))),))
    assert WHYS.from_json(WHYS.to_json(whys)) == whys


def test_a_pod_outside_the_enforced_share_is_told_of_that_share() -> None:
    orders = replace(ORDERS, enforce_share=EnforceShare(1000), enforce_share_source=OrderSource.POD)
    assert texts(acted(orders=orders, reserved=ReservedReason.NOT_IN_SHARE)) == [
        "PLAN  mode enforce (namespace annotation), ranking medium, enforced share 10 % (pod annotation)",
        "  left as it is: not in the enforced share of 10 %",
    ]
    assert texts(acted(orders=orders, reserved=ReservedReason.SHARE_TAKEN_BACK))[1].endswith("share of 10 % taken back")

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.plan.sums import verdict_of
from agent.cli.plan.view import PlanLook, page_lines, rows_of
from agent.cli.text.spans import ASCII, UNICODE, Line, Tone, display_width, harmless, line_text
from agent.cli.words.plan import KEPT_WORDS, RESERVED_WORDS, headroom_words, kept_words
from agent.core.cluster.resource import Resource
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import Invariant, JointSpike, Plan, PodPlan
from agent.core.recommender.recommendation import Withheld
from tests.plans import MI, container, left_alone, mixed_plan, plan, pod, share, step, sums
from tests.snapshots import TAKEN_UNIX_SECONDS

LOOK = PlanLook(source="from the agent", now_unix_seconds=TAKEN_UNIX_SECONDS + 4)


def lines_of(answer: Plan, width: int = 240, look: PlanLook = LOOK, shown: Plan | None = None) -> list[Line]:
    return page_lines(answer, look, width=width, glyphs=UNICODE, shown=shown)


def text_of(answer: Plan, width: int = 240, look: PlanLook = LOOK, shown: Plan | None = None) -> str:
    return "\n".join(line_text(line) for line in lines_of(answer, width, look, shown))


def line_with(text: str, words: str) -> str:
    (line,) = (line for line in text.splitlines() if words in line)
    return line


# Head


def test_head_says_whose_plan_of_when_and_how_many_pods() -> None:
    head = text_of(mixed_plan()).splitlines()
    assert head[0].startswith("plimsoll worker-7  plan  from the agent, ")
    assert head[0].endswith("4.0s ago")
    assert head[1].split() == ["pods", "8:", "4", "enforced,", "1", "recommend", "only,", "3", "left", "alone"]
    assert head[2].split() == ["left", "alone", "2", "excluded", "namespace,", "1", "static", "pod"]
    assert head[3] == "note the API server was last heard 70 s ago: nothing is written"


def test_a_clock_behind_the_agents_shows_no_negative_age() -> None:
    look = PlanLook(source="from the agent", now_unix_seconds=TAKEN_UNIX_SECONDS - 100)
    assert "0.0s ago" in text_of(plan(), look=look)


def test_nothing_enforced_names_what_if_and_the_annotation() -> None:
    advised = plan(left_alone("a", ReservedReason.RECOMMEND))
    text = text_of(advised)
    assert "--what-if" in text
    assert "plimsoll.dev/mode: enforce" in text
    assert "no steps: no pod may be resized" in text
    what_if = PlanLook(source="from the agent", now_unix_seconds=TAKEN_UNIX_SECONDS, is_what_if=True)
    assert "--what-if" not in text_of(advised, look=what_if)
    assert "as if every pod in mode recommend were enforced" in text_of(advised, look=what_if)
    assert "--what-if" not in text_of(plan(pod("a", container()), left_alone("b", ReservedReason.RECOMMEND)))
    assert "--what-if" not in text_of(plan(left_alone("b", ReservedReason.STATIC)))


# Sums


def test_sums_are_laid_out_as_they_come_about() -> None:
    text = text_of(plan())
    head = "ALLOCATABLE - RESERVED = AVAILABLE   BASES + HEADROOM = PLANNED   AFTER"
    assert head in line_with(text, "ALLOCATABLE")
    assert head in line_with(text_of(plan(), 80), "ALLOCATABLE")  # the usual terminal
    figures = ["4000m", "1000m", "3000m", "1000m", "500m", "1500m", "2000m"]
    assert line_with(text, " 4000m ").split() == ["CPU", *figures]
    assert line_with(text, " 8.00GiB ").split()[:4] == ["memory", "8.00GiB", "2.00GiB", "6.00GiB"]


def test_a_sum_that_lacks_a_term_has_no_signs() -> None:
    for width in range(20, 100):
        title = next(line for line in text_of(plan(), width).splitlines() if "AVAILABLE" in line)
        is_whole = all(word in title for word in ("ALLOCATABLE - RESERVED = ", "BASES + HEADROOM = PLANNED"))
        assert is_whole or not set("-+=") & set(title)


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ((pod("a", container()), left_alone("b", ReservedReason.STATIC)), "nothing is written for it"),
        ((left_alone("a", ReservedReason.TOO_YOUNG),), "nothing is written for it yet: 1 pod has no prediction so far"),
        (
            (
                left_alone("a", ReservedReason.NO_DATA),
                pod("b", container(), container("c", cpu=share(1, 1, 1, withheld=Withheld.TOO_YOUNG))),
            ),
            "nothing is written for it yet: 2 pods have no prediction so far",
        ),
        ((pod("b", container(memory=share(1, 1, 1, withheld=Withheld.GAPS))),), "nothing is written for it"),
    ],
)
def test_a_node_that_does_not_fit_says_who_is_not_predicted_so_far(pods: tuple[PodPlan, ...], told: str) -> None:
    short = sums(is_infeasible=True, base_total=2800, spike_largest=500)
    assert line_with(text_of(plan(*pods, cpu=short)), "300m short").endswith(told)


def test_enforced_pods_that_nothing_is_known_of_yet_are_not_called_not_enforced() -> None:
    young = left_alone("b", ReservedReason.TOO_YOUNG, mode=Mode.ENFORCE)
    waits = plan(
        left_alone("a", ReservedReason.NO_DATA, mode=Mode.ENFORCE), young, left_alone("c", ReservedReason.RECOMMEND)
    )
    text = text_of(waits)
    assert "nothing yet" in text
    assert "2 pods of mode protect or enforce cannot be planned so far: 1 nothing measured, 1 too young" in text
    assert "nothing enforced" not in text
    assert "nothing yet" not in text_of(plan(young, pod("a", container())))


@pytest.mark.parametrize(
    ("fields", "told", "tone"),
    [
        ({}, "fits, 1500m left", Tone.GAIN),
        ({"final_total": 3100}, "fits, 0m left", Tone.GAIN),
        ({"is_applied": False}, "fits, 1500m left, only looked at", Tone.GAIN),
        (
            {"is_infeasible": True, "base_total": 2800, "spike_largest": 500},
            "does not fit: 300m short; nothing is written for it",
            Tone.HOT,
        ),
        ({"is_infeasible": True}, "does not fit; nothing is written for it", Tone.HOT),
    ],
)
def test_verdict(fields: dict[str, Any], told: str, tone: Tone) -> None:
    assert verdict_of(sums(**fields)) == (told, tone)


SEEN = JointSpike(amount=900, seen_unix_seconds=1_700_000_000.0)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, None),
        ({"joint": SEEN, "is_infeasible": True}, None),
        ({"joint": SEEN, "headroom": 900, "spike_total": 1500}, "the largest single spike is 500m"),
        (
            {"joint": SEEN, "headroom": 800, "spike_total": 800},
            "the largest single spike is 500m, and all spikes in sum are 800m, beyond which nobody asks",
        ),
        (
            {"joint": SEEN, "headroom": 600, "spike_total": 1500},
            "the largest single spike is 500m; 300m of it do not fit, for which nobody has to go",
        ),
        ({"joint": JointSpike(amount=100, seen_unix_seconds=0.0), "headroom": 500}, "the largest single spike is 500m"),
    ],
)
def test_a_plan_tells_what_its_headroom_is_made_of(fields: dict[str, Any], told: str | None) -> None:
    words = headroom_words(sums(**{"spike_total": 1000, **fields}))
    text = text_of(plan(cpu=sums(**{"spike_total": 1000, **fields})))
    if told is None:
        assert words is None
        assert "above their bases together" not in text
    else:
        assert words is not None
        assert words.endswith(told)
        assert words in text


def test_an_available_amount_below_zero_keeps_its_sign() -> None:
    assert "-500MiB" in text_of(plan(memory=sums(Resource.MEMORY, available=-500 * MI)))


# Containers


def test_a_row_tells_how_the_request_comes_about() -> None:
    row = line_with(text_of(plan(pod("web", container(cpu=share(100, 300, 500))))), "web  ")
    # base 100, spike 200, half of it as its share: final 200; 500 requested, 200 after all steps
    assert row.split()[1:8] == ["app", "100m", "200m", "100m", "200m", "500m", "200m"]


def test_a_limit_that_moves_shows_both() -> None:
    assert "512MiB→400MiB" in text_of(mixed_plan())


def test_the_pods_own_budget_comes_before_its_containers() -> None:
    assert [row.name for row in rows_of(mixed_plan()) if row.pod.ref.name == "budget-1"] == ["(pod)", "a", "b"]


def test_pods_that_are_left_alone_are_no_rows_and_tell_what_they_hold() -> None:
    text = text_of(mixed_plan())
    row = line_with(text, "kube-system/etcd-worker-7")
    assert row.split()[-4:] == ["static", "pod", "500m", "100MiB"]
    assert text.index("NOT OPTIMISED") < text.index("kube-system/coredns-5")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, ""),
        ({"cpu": share(1, 1, 1, kept=KeptReason.SMALL_CHANGE)}, "CPU: change too small"),
        (
            {"cpu": share(1, 1, 1, kept=KeptReason.COOL_DOWN), "memory": share(1, 1, 1, kept=KeptReason.COOL_DOWN)},
            "cool-down after its last resize",
        ),
        (
            {"cpu": share(1, 1, 1, kept=KeptReason.QOS), "memory": share(1, 1, 1, limit_kept=KeptReason.QOS)},
            "CPU and memory limit: QoS class kept",
        ),
        (
            {
                "cpu": share(1, 1, 1, withheld=Withheld.GAPS, kept=KeptReason.GAPS),
                "memory": share(1, 1, 1, limit_kept=KeptReason.IN_USE),
            },
            "CPU: no prediction (gaps); memory limit: too little over memory in use",
        ),
        ({"cpu": None, "memory": None}, ""),
        (
            {"cpu": share(1, 1, 1, kept=KeptReason.CALM, waits_until_unix_seconds=7.5 * 3600)},
            "CPU: falls are asked for calmly, waits until 07:30 UTC",
        ),
        (
            {"cpu": share(1, 1, 1, kept=KeptReason.SMALL_FALL)},
            "CPU: too small a fall while starvation is answered in seconds",
        ),
    ],
)
def test_kept_words(fields: dict[str, Any], told: str) -> None:
    assert kept_words(container(**fields)) == told


def test_how_many_have_credit_is_told_where_some_have() -> None:
    assert "credit" not in text_of(mixed_plan())
    credited = container(cpu=share(100, 300, 500, has_credit=True))
    text = text_of(plan(pods=(pod("web", containers=(credited, container("proxy"))),)))
    assert "1 container asked for at the lower price of being short" in line_with(text, "credit")


def test_mode_protect_is_counted_and_what_it_holds_is_told() -> None:
    fat = share(500, 500, 500, kept=KeptReason.PROTECT, possible=150)
    protected = pod("a", container(cpu=fat), mode=Mode.PROTECT)
    text = text_of(plan(protected, pod("b", container())))
    assert "2: 1 enforced, 1 protected, 0 recommend only, 0 left alone" in text
    assert "1 pod only given more; 350m of CPU could be saved, which protect does not touch" in text
    assert "none of them requests too much" in text_of(plan(pod("a", container(), mode=Mode.PROTECT)))


def test_every_reason_has_words() -> None:
    assert set(KEPT_WORDS) == set(KeptReason)
    assert set(RESERVED_WORDS) == set(ReservedReason)


# Evictions, steps, invariants


def test_evictions_and_steps_are_numbered_in_order_with_their_reason() -> None:
    text = text_of(mixed_plan())
    assert "  1. shop/gone-1  ranking low, memory spike 40.0MiB: the node does not fit" in text
    assert "  1. shrink       shop/web-7d9c5b8f4-x2x9k: app CPU 500m → 200m (share of the node's spike)" in text
    assert "  2. grow, urgent shop/cache-0: redis CPU 200m → 600m (waiting for CPU)" in text
    assert "  3. shrink       team/budget-1: (pod) CPU 400m → 150m" in text
    assert "  4. limit down   shop/web-7d9c5b8f4-x2x9k: app memory limit 512MiB → 400MiB" in text


def test_steps_of_some_pods_keep_their_numbers() -> None:
    whole = mixed_plan()
    shown = plan(*(pod_plan for pod_plan in whole.pods if pod_plan.ref.namespace == "team"), steps=whole.steps[2:3])
    text = text_of(whole, shown=shown)
    assert "  3. shrink" in text
    assert "  1. shrink" not in text
    assert "pods             8: 4 enforced" in text  # the sums stay the node's
    assert "no steps: none of these pods has one" in text_of(whole, shown=plan())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (plan(pod("a", container())), "no steps: every request is as planned"),
        (plan(invariants=(Invariant(name="x", holds=False),)), "no steps: an invariant does not hold"),
        (plan(left_alone("a", ReservedReason.OFF)), "no steps: no pod may be resized"),
    ],
)
def test_no_steps_says_why(answer: Plan, told: str) -> None:
    assert told in text_of(answer)


def test_invariants_are_one_line_when_all_hold() -> None:
    text = text_of(plan())
    assert "2 invariants hold\n" in text
    assert "base <= final" not in text
    assert "--invariants tells each" in text
    each = text_of(plan(), look=PlanLook(source="x", now_unix_seconds=TAKEN_UNIX_SECONDS, with_invariants=True))
    assert "  holds  base <= final <= peak: 4 shares" in each
    assert "  holds  at most one eviction per pod" in each
    assert "1 invariant holds" in text_of(plan(invariants=(Invariant(name="x", holds=True),)))
    assert "no invariants were checked" in text_of(plan(invariants=()))


def test_a_broken_invariant_is_told_unasked_and_red() -> None:
    broken = plan(invariants=(Invariant(name="a", holds=True), Invariant(name="b", holds=False, detail="x > y")))
    assert "1 of 2 invariants do not hold: this plan is never carried out" in text_of(broken)
    assert "  BROKEN b: x > y" in text_of(broken)
    assert "  holds  a" not in text_of(broken)
    assert any(span.tone is Tone.HOT and "BROKEN" in span.text for line in lines_of(broken) for span in line)


# Widths and strange names


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 160, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for glyphs in (UNICODE, ASCII):
        for line in page_lines(mixed_plan(), LOOK, width=width, glyphs=glyphs):
            assert display_width(line_text(line)) <= width


def test_eighty_columns_keep_what_counts() -> None:
    text = text_of(mixed_plan(), 80)
    for word in ("= AVAILABLE", "FINAL", "REQ", "AFTER", "does not fit: 300MiB short", "2 invariants hold"):
        assert word in text


@given(st.text(max_size=30))
def test_names_cannot_steer_a_terminal(name: str) -> None:
    strange = plan(
        pod(name, container(name)), left_alone(name, ReservedReason.OFF), steps=(step(name),), notes=(name,), node=name
    )
    for line in lines_of(strange):
        assert harmless(line_text(line)) == line_text(line)

from __future__ import annotations

import pytest

from agent.cli.text.figures import bytes_text
from agent.cli.text.spans import ASCII, UNICODE, Glyphs, Tone, display_width
from agent.cli.words.advice import (
    BOUND_TEXTS,
    CPU,
    MEMORY,
    SEVERITY_TEXTS,
    SEVERITY_TONES,
    URGENCY,
    WITHHELD_WORDS,
    change_text,
    cpu_text,
    limit_text,
    reason,
    reasons,
    severity_sign,
    withheld_by,
    withheld_reason,
    withheld_text,
    worst,
)
from agent.core.cluster.unit import UnitResources
from agent.core.recommender.recommendation import Bound, RequestSeverity, Withheld
from tests.recommendations import KEEP, MI, node, recommendation, service, young

LIMITED = UnitResources(cpu_request_millicores=500, memory_request_bytes=256 * MI, memory_limit_bytes=512 * MI)


def test_every_severity_bound_and_reason_has_its_words() -> None:
    assert set(SEVERITY_TEXTS) == set(URGENCY) == set(SEVERITY_TONES) == set(RequestSeverity)
    assert set(BOUND_TEXTS) == set(Bound)
    assert set(WITHHELD_WORDS) == set(Withheld)
    for why in Withheld:
        assert withheld_by(why, node())


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_severities_are_told_apart_without_colour(glyphs: Glyphs) -> None:
    signs = [severity_sign(severity, glyphs) for severity in RequestSeverity]
    assert len(set(signs)) == len(signs)
    assert max(display_width(sign) for sign in signs) == 2


def test_danger_is_more_urgent_than_any_saving_and_only_it_is_red() -> None:
    order = [severity for severity, _ in sorted(URGENCY.items(), key=lambda pair: pair[1])]
    assert order[:3] == [RequestSeverity.VERY_SHORT, RequestSeverity.SHORT, RequestSeverity.UNSET]
    assert {severity for severity, tone in SEVERITY_TONES.items() if tone is Tone.HOT} == {RequestSeverity.VERY_SHORT}
    for saving in (RequestSeverity.SAVING, RequestSeverity.LARGE_SAVING):
        assert SEVERITY_TONES[saving] is Tone.GAIN


def test_worst_is_the_more_urgent_of_both_resources() -> None:
    assert worst(recommendation(cpu=40, memory=300 * MI)) is RequestSeverity.SHORT
    assert worst(recommendation(cpu=40, memory=Withheld.GAPS)) is RequestSeverity.LARGE_SAVING


@pytest.mark.parametrize(
    ("now", "should", "text"),
    [(500, 750, "add 250m"), (500, 440, "free 60m"), (500, 500, "keep"), (None, 20, "add 20m"), (500, None, "-")],
)
def test_change_says_what_to_do_and_never_has_a_minus(now: int | None, should: int | None, text: str) -> None:
    assert change_text(now, should, cpu_text) == text


def test_amounts_keep_what_counts() -> None:
    assert [cpu_text(value) for value in (None, 5, 1500, 12_500)] == ["-", "5m", "1500m", "12.5"]
    assert change_text(256 * MI, 64 * MI, bytes_text) == "free 192MiB"


def test_limit_is_shown_with_what_it_becomes_only_where_it_changes() -> None:
    raised = recommendation(memory=300 * MI, memory_fields={"limit": 600 * MI}, resources=LIMITED)
    assert limit_text(MEMORY, raised, UNICODE) == "512MiB→600MiB"
    assert limit_text(MEMORY, raised, ASCII) == "512MiB->600MiB"
    assert limit_text(MEMORY, recommendation(resources=LIMITED), UNICODE) == "512MiB"
    assert limit_text(CPU, raised, UNICODE) == "-"


def test_withheld_says_what_it_waits_for() -> None:
    assert withheld_reason(CPU, young(seconds=45.0), node()) == "too young: 45s of 10m00s"
    stale = recommendation(cpu=Withheld.STALE, basis={"sample_age_seconds": 300.0})
    assert withheld_reason(CPU, stale, node()) == "stale: newest reading 5m00s old, 1m00s at most"
    assert withheld_reason(MEMORY, stale, node()) is None
    assert withheld_text(Withheld.STALE, measured_seconds=1.0, min_span_seconds=2.0) == "stale: waits for a new reading"
    assert withheld_by(Withheld.TOO_YOUNG, node()) == "too young: less than 10m00s of readings"


def test_reason_gives_base_and_peak_and_the_bounds_that_changed_the_answer() -> None:
    item = recommendation(cpu=250, cpu_fields={"bounds": (Bound.ROUNDED, Bound.QOS), "base": 120.4, "peak": 249.6})
    assert reason(CPU, item, node()) == "base 120m, peak 250m, QoS class kept"


def test_reason_of_a_policy_without_peaks_gives_its_answer_where_a_bound_changed_it() -> None:
    same = {"base": 80.0, "peak": 80.0, "proposed": 80.0}
    advice = recommendation(cpu=KEEP, cpu_fields={**same, "bounds": (Bound.UPWARD_ONLY,)})
    assert reason(CPU, advice, node()) == "policy says 80m, no prediction yet to lower it"
    assert reason(CPU, recommendation(cpu=80, cpu_fields=same), node()) == "as the policy says"


def test_reasons_say_once_what_holds_for_both_and_leave_out_what_nobody_can_wait_for() -> None:
    assert reasons(young(), node()) == "too young: 45s of 10m00s"
    assert reasons(service(), node()) == "CPU base 6m, peak 12m"  # the kernel gives no memory figures, as the cell says
    both = recommendation(cpu=Withheld.NOT_CONTROLLED, memory=Withheld.NO_SIGNAL)
    assert reasons(both, node()) == ("CPU left out by bounds.controlledResources; memory no signal from this kernel")
    assert reasons(recommendation(cpu=250, memory=Withheld.GAPS), node()) == (
        "CPU base 125m, peak 250m; memory gaps: too few readings in its window"
    )

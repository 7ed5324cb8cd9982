from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.recommender.why_view import page_lines
from agent.cli.text.paragraphs import Page
from agent.cli.text.spans import ASCII, UNICODE, Tone, display_width, line_text
from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.minute.quality import to_windows
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.recommender.policy import LimitRule
from agent.core.recommender.recommendation import Withheld
from agent.core.resize.why import Why
from agent.core.window.snapshot import Gap, Missing
from tests.explanations import HOUR, NOW, explanation
from tests.qualities import told, two_hours
from tests.snapshots import cpu_window, memory_window
from tests.subjects import MI, TimesPolicy, identity, subject

WIDE = Page(width=120, glyphs=UNICODE)


def texts(item: Why, page: Page = WIDE, *, with_chart: bool = False) -> list[str]:
    return [line_text(line) for line in page_lines(item, page, with_chart=with_chart)]


def line(start: str, lines: list[str]) -> str:
    return next(each for each in lines if each.startswith(start))


def section(title: str, lines: list[str]) -> list[str]:
    begin = next(index for index, each in enumerate(lines) if each.startswith(title))
    rest = lines[begin:]
    return rest[: rest.index("")] if "" in rest else rest


def test_head_tells_who_it_is_which_policy_and_when() -> None:
    lines = texts(explanation())
    assert lines[:3] == [
        "shop/web/app",
        "workload Deployment shop/web   policy times   QoS Burstable   as of 2026-11-21 10:00:00 UTC   source agent",
        "cgroup /kubepods/web/app",
    ]


def test_requests_and_limits_stand_beside_what_they_should_be() -> None:
    resources = UnitResources(
        cpu_request_millicores=200, cpu_limit_millicores=400, memory_request_bytes=300 * MI, memory_limit_bytes=400 * MI
    )
    container = subject(resources=resources, cpu=cpu_window(), memory=memory_window())
    lines = texts(explanation(container, policy=TimesPolicy(rule=LimitRule.RAISE)))
    # Twice the adjusted P75 of 325m is 650m, and the limit has to be a unit more; twice 100 MiB is less than now.
    assert line("CPU  ", lines).split() == [
        "CPU",
        "200m",
        "650m",
        "add",
        "450m",
        "400m",
        "651m",
        "much",
        "too",
        "small",
    ]
    assert line("Memory ", lines).split()[:7] == ["Memory", "300MiB", "200MiB", "free", "100MiB", "400MiB", "keep"]


def test_what_is_withheld_is_a_dash_with_its_reason_and_what_it_waits_for() -> None:
    container = subject(cpu=cpu_window(), memory=memory_window(None), history_span_seconds=100.0)
    lines = texts(explanation(replace(container, cpu=cpu_window(span_seconds=50.0))))
    assert line("CPU  ", lines).endswith("-      -            -  withheld: too young")
    assert line("CPU: ", lines) == (
        "CPU: there is an answer after another 500 s of measuring, 600 s in all (recommend.minSpanSeconds)."
    )
    assert not any(each.startswith("WHAT WOULD CHANGE IT") for each in lines)


@pytest.mark.parametrize("reason", list(Withheld))
def test_every_reason_to_withhold_has_words(reason: Withheld) -> None:
    item = explanation()
    advice = replace(item.recommendation.cpu_millicores, withheld=reason, request=None)
    lines = texts(replace(item, recommendation=replace(item.recommendation, cpu_millicores=advice)))
    assert "withheld: " in line("CPU  ", lines)


def test_data_tell_readings_span_coverage_gaps_by_reason_and_age() -> None:
    window = cpu_window(gaps={Gap.COUNTER_RESET: 2, Gap.CLOCK: 0, Gap.TOO_FAR_APART: 1}, coverage_ratio=0.5)
    rows = section("DATA", texts(explanation(subject(cpu=window, memory=memory_window()))))
    covered = "601 readings over 10m00s; 50% of the window covered; gaps: 2 x counter reset, 1 x too far apart"
    known = "60 minutes known of 7 days, the oldest 1h00m ago; of this container in Deployment web:"
    assert rows[1:] == [
        f"CPU window       {covered}",
        "memory window    180 readings over 29m50s",
        "newest reading   1.0s old",
        f"history          {known} of its replicas",
        "                 on this node the largest",
    ]


def test_data_that_are_not_there_say_so() -> None:
    container = subject(sample_age_seconds=None, history_minutes=0, history_span_seconds=0.0)
    rows = section("DATA", texts(explanation(container)))
    assert line("newest reading", rows).endswith("there is none")
    assert line("history", rows).endswith("no whole minute yet")
    bare = subject(workload=Workload(namespace="shop", kind="Pod", name="web"))
    assert line("history", section("DATA", texts(explanation(bare)))).endswith("ago; of this container")
    alone = section("DATA", texts(explanation(subject(workload=None, history_minutes=1))))
    assert "1 minute known of 7 days, the oldest 1h00m ago; of this cgroup alone" in line("history", alone)


def test_cpu_is_told_as_measured_and_adjusted_with_waiting_and_throttling() -> None:
    rows = section("CPU   ", texts(explanation())[6:])
    assert [each.split() for each in rows[1:5]] == [
        ["P75", "of", "the", "window", "300m", "325m"],
        ["peak", "500m", "550m"],
        ["burst,", "one", "tick", "750m"],
        ["now", "250m"],
    ]
    assert rows[5].split()[:6] == ["waiting", "2.0%", "mean,", "3.1%", "now", "taken"]
    assert rows[6].split()[:6] == ["throttled", "0.1%", "mean,", "0%", "now", "taken"]


def test_figures_that_are_missing_have_their_reason() -> None:
    reasons = {
        "adjusted_p75_millicores": Missing.NO_SIGNAL,
        "waiting_ratio": Missing.NO_SIGNAL,
        "burst_millicores": Missing.TOO_FEW_SAMPLES,
    }
    absent: dict[str, Any] = dict.fromkeys((*reasons, "throttled_ratio", "throttled_periods_ratio"))
    container = subject(cpu=cpu_window(**absent, missing=reasons), memory=memory_window(None, pressure_some_ratio=None))
    lines = texts(explanation(container))
    rows = section("CPU   ", lines[6:])
    assert line("P75", rows).split()[4:] == ["300m", "-", "no", "signal", "from", "this", "kernel"]
    assert line("burst", rows).endswith("-  too few readings yet")
    assert line("waiting", rows).endswith("-  no signal from this kernel")
    assert line("throttled", rows).endswith("-  no reason given")
    assert not any(each.startswith("CFS") for each in rows)
    memory = section("MEMORY", lines)
    assert line("working set", memory).endswith("-  no signal from this kernel")
    assert line("waiting", memory).endswith("-  no reason given")


def test_memory_without_any_signal_is_one_line() -> None:
    fields = ("current", "working_set", "working_set_p75", "working_set_peak", "lifetime_peak")
    missing = {f"{field}_bytes": Missing.NO_SIGNAL for field in fields}
    container = subject(cpu=cpu_window(), memory=memory_window(None, missing=missing))
    assert [each.split()[0] for each in section("MEMORY", texts(explanation(container)))] == [
        "MEMORY",
        "all",
        "waiting",
        "all",
        "disk",
    ]


def test_hours_are_rows_of_days_and_those_that_count_are_marked() -> None:
    rows = section("PEAKS BY HOUR", texts(explanation()))
    # 400m at 09:00 of the day before, which counts; 200m of the largest 400m at 09:00 of today.
    assert rows[3][:46] == "Fri 11-20            " + "█" + " " * 14 + "      400m"
    assert rows[4][:46] == "Sat 11-21            " + "▅" + " " * 14 + "      200m"
    assert rows[4].rstrip().endswith("64.0MiB")
    assert rows[5] == "counts               ↑"
    assert rows[3].rstrip().endswith("-")


def test_hours_of_a_policy_that_takes_none_apart_are_not_marked() -> None:
    rows = section("PEAKS BY HOUR", texts(explanation(hours_counted=())))
    assert not any("↑" in each or each.startswith("counts") for each in rows)


def test_hours_in_a_narrow_terminal_stand_below_each_other_and_before_the_first_there_are_none() -> None:
    rows = section("PEAKS BY HOUR", texts(explanation(), Page(width=70, glyphs=ASCII)))
    assert [index for index, each in enumerate(rows) if "max" in each] == [2, 7]
    assert texts(explanation(hours=()))
    assert "  no hour measured yet" in line("PEAKS BY HOUR", texts(explanation(hours=())))


def test_hours_scattered_by_a_wrong_clock_are_drawn_for_the_newest_eight_days() -> None:
    hours = tuple(
        HourPeak(hour_unix_seconds=NOW - days * 24 * HOUR, cpu_millicores=0.0, working_set_bytes=None)
        for days in (3000, 1, 0)
    )
    rows = section("PEAKS BY HOUR", texts(explanation(hours=hours, hours_counted=())))
    assert len(rows) == 1 + 2 + 8 + 1
    assert rows[9].split() == ["Fri", "11-20", "▁", "0m"]


def test_kills_are_told_with_age_and_memory() -> None:
    rows = section("OUT-OF-MEMORY KILLS", texts(explanation()))
    assert rows[2].split() == ["2026-11-21", "08:00", "2h00m", "-", "300MiB", "-", "use", "not", "known"]
    assert line("OUT-OF-MEMORY", texts(explanation(kills=()))) == "OUT-OF-MEMORY KILLS  none remembered"


def test_a_kill_that_only_the_pods_status_told_of_says_so() -> None:
    kill = OutOfMemory(unix_seconds=NOW - 60, usage_bytes=64 * MI, limit_bytes=64 * MI, is_told_by_status=True)
    rows = section("OUT-OF-MEMORY KILLS", texts(explanation(kills=(kill,))))
    assert rows[2].endswith("  told by the pod's status: no agent looked")


def test_steps_come_in_order_and_bounds_say_from_what_to_what() -> None:
    resources = UnitResources(memory_request_bytes=198 * MI)
    lines = texts(explanation(subject(resources=resources, cpu=cpu_window(), memory=memory_window())))
    assert [each.split()[0] for each in section("STEPS, CPU", lines)[1:]] == ["times", "recommended"]
    assert [each.split() for each in section("STEPS, Memory", lines)[1:]] == [
        ["request", "kept:", "the", "change", "is", "too", "small", "to", "be", "worth", "making"],
        ["198MiB", "200MiB", "→", "198MiB"],
        ["recommended", "request", "198MiB", "the", "request", "is", "198MiB", "now"],
    ]


def test_without_steps_there_is_no_section_of_them() -> None:
    assert not any(each.startswith("STEPS") for each in texts(explanation(steps=())))


def test_changes_are_told_for_what_is_recommended() -> None:
    rows = section("WHAT WOULD CHANGE IT", texts(explanation()))
    assert rows[1].startswith("  CPU: it rests on a peak of 650m; when that no longer counts")


def test_notes_are_told() -> None:
    assert "note no PSI here" in texts(explanation(notes=("no PSI here",)))


def test_chart_is_drawn_when_it_is_asked_for_and_says_when_there_is_nothing_to_draw() -> None:
    assert not any("usage, mean" in each for each in texts(explanation()))
    assert any("usage, mean" in each for each in texts(explanation(), with_chart=True))
    assert texts(explanation(trail=None), with_chart=True)[-1] == "no minute measured in this time: nothing to draw"


def test_a_service_is_called_by_its_path() -> None:
    service = UnitIdentity(cgroup_path="/system.slice/nginx.service", kind=UnitKind.SERVICE)
    lines = texts(explanation(subject(identity=service, workload=None)))
    assert lines[0] == "/system.slice/nginx.service"
    assert lines[1].startswith("policy times   kind service")
    assert not any(each.startswith("cgroup ") for each in lines)


def test_a_large_danger_is_hot() -> None:
    container = subject(resources=UnitResources(cpu_request_millicores=100), cpu=cpu_window(), memory=memory_window())
    hot = [
        span.text.strip()
        for each in page_lines(explanation(container), WIDE, with_chart=False)
        for span in each
        if span.tone is Tone.HOT
    ]
    assert hot == ["650m", "add 550m", "much too small"]


@pytest.mark.slow
@given(width=st.integers(60, 200), name=st.text(max_size=40))
def test_no_line_is_wider_than_the_terminal_and_no_name_steers_it(width: int, name: str) -> None:
    container = subject(identity=identity(name or "app", cgroup_path=f"/kubepods/{name}"))
    lines = texts(explanation(container), Page(width=width, glyphs=UNICODE), with_chart=True)
    assert max(map(display_width, lines)) <= width
    assert not any("\x1b" in each or "\n" in each for each in lines)


def test_quality_tells_what_was_above_missing_and_in_excess() -> None:
    """600m used where 500m stood: 6 CPU-seconds missing a minute; 1 GiB where 2 GiB stood."""
    ledger = two_hours(NOW // 60, rows=1)
    quality = to_windows(ledger.windows(NOW // 60 + 129)[0])
    lines = section("QUALITY", texts(explanation(quality=quality)))
    assert lines[1].split() == ["1h", "1d", "7d"]
    assert line("CPU, recommended request: minutes above", lines).split()[-3:] == ["100%"] * 3
    assert lines[3].split() == ["missing", "360", "CPU-s", "780", "CPU-s", "780", "CPU-s"]
    assert lines[4].split() == ["in", "excess", "0", "CPU-s", "0", "CPU-s", "0", "CPU-s"]
    assert line("CPU, applied request: minutes above", lines).split()[-3:] == ["0%"] * 3
    assert line("CPU, predicted peak: too large by", lines).split()[-3:] == ["0%"] * 3
    assert lines[9].split() == ["too", "small", "by", "17%", "17%", "17%"]
    assert line("memory, applied request: minutes above", lines).split()[-3:] == ["100%"] * 3


def test_quality_that_nobody_judged_is_said_and_not_0() -> None:
    """Nothing at all, and one of the two requests."""
    assert section("QUALITY", texts(explanation())) == ["QUALITY  no minute was judged yet"]
    quality = to_windows(told())
    lines = section("QUALITY", texts(explanation(quality=quality)))
    assert line("CPU, applied request:", lines).endswith("none was applied in a judged minute")
    assert line("memory, predicted peak: too large by", lines).split()[-3:] == ["-", "-", "-"]


def test_a_runtime_and_what_its_flags_waste_stand_in_a_section_of_their_own() -> None:
    resources = UnitResources(memory_request_bytes=300 * MI, memory_limit_bytes=400 * MI)
    java = RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25)
    lines = texts(explanation(subject(resources=resources, memory=memory_window(), runtime=java)))

    # A quarter of 400 MiB is 100 MiB; / 0.7 is 142.9 MiB.
    assert section("RUNTIME", lines) == [
        "RUNTIME  java, heap 25% of the limit that it read at start (its default; flags of its image are not seen)",
        "  heap 100MiB of 400MiB limit: -XX:MaxRAMPercentage=70 would fit in 143MiB",
    ]
    assert not [each for each in texts(explanation()) if each.startswith("RUNTIME")]


def test_what_an_hpas_target_means_after_the_change_stands_in_a_section_of_its_own() -> None:
    why = explanation()
    sentence = "HorizontalPodAutoscaler shop/web: 70 % of 500m CPU is 350m; at 400m the equal target is 88 %"
    lines = texts(replace(why, recommendation=replace(why.recommendation, hpa_advice=(sentence,))))
    assert section("HPA", lines) == ["HPA", f"  {sentence}"]
    assert "HPA" not in texts(why)

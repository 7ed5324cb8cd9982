from __future__ import annotations

from dataclasses import replace

import pytest

from agent.cli.options.unit_filter import FilterError
from agent.cli.top.navigation import (
    OLDEST_SECONDS,
    moved,
    next_sort,
    paused,
    scrolled,
    selected_index,
    sorted_by,
    stepped,
    zoomed_in,
    zoomed_out,
)
from agent.cli.top.page import find_unit
from agent.cli.top.view import (
    Alarm,
    Exactness,
    Figure,
    SortKey,
    Thresholds,
    ViewState,
    Zoom,
    alarms,
    build_rows,
    pod_row,
    select_units,
    sort_rows,
    unit_row,
)
from agent.cli.words.units import unit_name
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.recommender.recommendation import Withheld
from agent.core.window.snapshot import Missing
from tests.snapshots import (
    MIB,
    advised,
    busy_node,
    container,
    cpu_window,
    memory_window,
    service,
    snapshot,
    tier,
    whole,
)

LIMITED = UnitResources(cpu_request_millicores=200, memory_request_bytes=MIB, memory_limit_bytes=100 * MIB)


# Pods


def test_pod_now_is_the_sum_p75_an_estimate_and_peak_an_upper_bound() -> None:
    row = pod_row([container(name="a", cpu=cpu_window(100.0)), container(name="b", cpu=cpu_window(50.0))])
    assert row.cpu_now == Figure(150.0)  # 100 + 50
    assert row.cpu_p75 == Figure(180.0, Exactness.ESTIMATE)  # 120 + 60: percentiles do not add up
    assert row.cpu_peak == Figure(300.0, Exactness.AT_MOST)  # 200 + 100: not at one time, perhaps
    assert row.working_set == Figure(200 * MIB)
    assert row.memory_peak == Figure(400 * MIB, Exactness.AT_MOST)


def test_pod_of_one_container_has_exact_figures() -> None:
    row = pod_row([container(cpu=cpu_window(100.0))])
    assert (row.cpu_p75, row.cpu_peak) == (Figure(120.0), Figure(200.0))


def test_pod_with_a_missing_part_says_at_least_and_never_counts_it_as_zero() -> None:
    row = pod_row([container(name="a", cpu=cpu_window(100.0)), container(name="young", cpu=cpu_window(None))])
    assert row.cpu_now == Figure(100.0, Exactness.AT_LEAST)
    assert row.cpu_peak == Figure(200.0, Exactness.ESTIMATE)  # neither bound holds any more


def test_pod_without_any_figure_has_none() -> None:
    row = pod_row([container(cpu=cpu_window(None, last_waiting_ratio=None), memory=memory_window(None))])
    assert (row.cpu_now, row.waiting, row.working_set) == (Figure(None), Figure(None), Figure(None))


def test_pod_waiting_and_throttled_are_those_of_the_worst_container() -> None:
    row = pod_row(
        [
            container(name="a", cpu=cpu_window(1.0, last_waiting_ratio=0.5, last_throttled_ratio=None)),
            container(name="b", cpu=cpu_window(1.0, last_waiting_ratio=0.1, last_throttled_ratio=0.2)),
        ]
    )
    assert (row.waiting, row.throttled) == (Figure(0.5), Figure(0.2))


def test_pod_limit_is_there_only_if_every_container_has_one_requests_add_up() -> None:
    limited, unlimited = container(name="a", resources=LIMITED), container(name="b", resources=UnitResources())
    assert pod_row([limited, replace(limited)]).memory_limit == Figure(200 * MIB)
    assert pod_row([limited, unlimited]).memory_limit == Figure(None)
    assert pod_row([limited, unlimited]).cpu_request == Figure(200)
    assert pod_row([unlimited]).cpu_request == Figure(None)


def test_pause_container_neither_counts_nor_makes_a_pod_unlimited() -> None:
    pause = container(name="pause", resources=UnitResources())
    pause = replace(pause, identity=replace(pause.identity, kind=UnitKind.SANDBOX))
    row = pod_row([container(name="a", resources=LIMITED), pause])
    assert (row.memory_limit, row.containers) == (Figure(100 * MIB), 1)


def test_the_kernels_limit_goes_before_the_stated_one() -> None:
    assert unit_row(container(resources=LIMITED, memory_max_bytes=50 * MIB)).memory_limit == Figure(50 * MIB)


# Alarms


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"cpu": cpu_window(last_waiting_ratio=0.2)}, {Alarm.WAITING}),
        ({"cpu": cpu_window(last_waiting_ratio=0.19)}, set()),
        ({"cpu": cpu_window(last_waiting_ratio=None, last_throttled_ratio=None)}, set()),
        ({"cpu": cpu_window(last_throttled_ratio=0.2)}, {Alarm.THROTTLED}),
        ({"memory": memory_window(90 * MIB)}, {Alarm.MEMORY}),  # 90 of 100 MiB
        ({"memory": memory_window(90 * MIB - 1)}, set()),
        ({"memory": memory_window(90 * MIB), "resources": UnitResources()}, set()),  # no limit, no alarm
        ({"memory": memory_window(1, oom_kills=1)}, {Alarm.OOM}),
        ({"sample_age_seconds": 5.0}, {Alarm.AGE}),
        ({"sample_age_seconds": None}, set()),
    ],
)
def test_alarms_of_a_container(changes: dict[str, object], expected: set[Alarm]) -> None:
    given = {"resources": LIMITED, "memory": memory_window(1), **changes}
    unit = replace(container(), **given)  # type: ignore[arg-type]  # a table of changes
    assert alarms(unit, Thresholds()) == expected


def test_a_pod_has_the_alarms_of_its_containers_even_where_its_sum_hides_them() -> None:
    full = container(name="a", memory=memory_window(99 * MIB), resources=LIMITED)
    assert pod_row([full, container(name="b", memory=memory_window(0), resources=LIMITED)]).alarms == {Alarm.MEMORY}


# Names


def test_without_a_pod_source_ids_stand_in_for_names() -> None:
    bare = container()
    bare = replace(bare, identity=replace(bare.identity, namespace=None, pod=None, container=None))
    assert unit_name(bare.identity) == "app-01234567"  # the first twelve of the container id
    assert pod_row([bare]).name == "uid-default-web-1"


def test_a_cgroup_outside_of_pods_goes_by_its_path() -> None:
    assert unit_name(service().identity) == "system.slice/ssh.service"
    assert unit_name(UnitIdentity(cgroup_path="/", kind=UnitKind.OTHER)) == "/"


def test_names_cannot_steer_the_terminal() -> None:
    evil = container("web\x1b[2J", "app\nx", namespace="n\u202es")
    row = pod_row([evil])
    assert (row.name, row.namespace, unit_row(evil).name) == ("web\\x1b[2J", "n\\u202es", "app\\x0ax")


# What is recommended


def test_pod_should_request_the_sum_and_at_least_that_with_a_part_withheld() -> None:
    one, two = advised(container(name="a"), 100, 64 * MIB), advised(container(name="b"), 50, 32 * MIB)
    row = pod_row([one, two])
    assert (row.cpu_should, row.memory_should) == (Figure(150), Figure(96 * MIB))
    assert (row.cpu_withheld, row.memory_withheld) == (None, None)
    row = pod_row([one, advised(container(name="b"), "gaps", "gaps")])
    assert row.cpu_should == Figure(100, Exactness.AT_LEAST)
    row = pod_row([advised(container(name=name), why, "no_signal") for name, why in (("a", "gaps"), ("b", "gaps"))])
    assert (row.cpu_should, row.cpu_withheld, row.memory_withheld) == (Figure(None), Withheld.GAPS, Withheld.NO_SIGNAL)


def test_a_unit_that_nothing_is_said_of_has_no_reason_either() -> None:
    row = pod_row([container()])
    assert (row.cpu_should, row.cpu_withheld) == (Figure(None), None)


def test_what_had_no_data_at_the_evaluation_is_young_once_it_has_some() -> None:
    def reason(seconds: float) -> Withheld | None:
        cpu, memory = cpu_window(span_seconds=seconds), memory_window(span_seconds=0.0)
        return unit_row(advised(container(cpu=cpu, memory=memory), "no_data", measured_seconds=0.0)).cpu_withheld

    assert (reason(0.0), reason(12.0), reason(600.0)) == (Withheld.NO_DATA, Withheld.TOO_YOUNG, Withheld.NO_DATA)


def test_only_a_request_that_is_much_too_small_is_an_alarm() -> None:
    def raised(cpu: int, memory: int) -> frozenset[Alarm]:  # of 500m and 256 MiB
        return alarms(advised(container(), cpu, memory), Thresholds())

    # 250m more is half of 500m, and so is 128 MiB of 256: as much as a large change is
    assert raised(750, 384 * MIB) == {Alarm.CPU_REQUEST, Alarm.MEMORY_REQUEST}
    assert raised(600, 300 * MIB) == frozenset()
    assert raised(50, 16 * MIB) == frozenset()  # a saving never is


# Filters


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", {"app", "redis", "system.slice/ssh.service"}),
        ("ns=data", {"redis"}),
        ("ns=da", set()),
        ("ns=da*", {"redis"}),
        ("namespace=DATA", {"redis"}),
        ("pod=web-1", {"app"}),
        ("pod=uid-default-web-1", {"app"}),
        ("container=redis", {"redis"}),
        ("kind=service", {"system.slice/ssh.service"}),
        ("qos=burstable", {"app", "redis"}),
        ("runtime=containerd ns=data", {"redis"}),
        ("path=/system.slice/*", {"system.slice/ssh.service"}),
        ("SSH", {"system.slice/ssh.service"}),
        ("cache  red", {"redis"}),
        ("cache app", set()),
    ],
)
def test_filter_words_must_all_hold(text: str, names: set[str]) -> None:
    node = snapshot(container(), container("cache-0", "redis", namespace="data"), service())
    assert {unit_name(unit.identity) for unit in select_units(node, text)} == names


@pytest.mark.parametrize("text", ["color=red", "ns=", "=x", "pod=a nam=b"])
def test_a_filter_with_an_unknown_key_or_no_value_is_refused_on_one_line(text: str) -> None:
    with pytest.raises(FilterError, match=r"allowed: .*ns=.*path=") as caught:
        select_units(snapshot(), text)
    assert "\n" not in str(caught.value)


# Rows


def names(state: ViewState) -> list[str]:
    node = snapshot(
        container("web-1", "app", cpu=cpu_window(100.0)),
        container("web-1", "proxy", cpu=cpu_window(300.0)),
        container("cache-0", "redis", namespace="data", cpu=cpu_window(None)),
        service(),  # 12m
    )
    return [row.name for row in build_rows(node, state)]


SSH = "system.slice/ssh.service"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ViewState(), ["web-1", SSH, "cache-0"]),  # 400m, 12m, not known
        (ViewState(is_reversed=True), [SSH, "web-1", "cache-0"]),  # what is not known stays last
        (ViewState(sort=SortKey.NAME), [SSH, "cache-0", "web-1"]),  # no namespace, data, default
        (ViewState(is_expanded=True), ["web-1", "proxy", "app", SSH, "cache-0:redis"]),
        (ViewState(is_expanded=True, filter_text="app"), ["web-1", "app"]),
        (ViewState(filter_text="app"), ["web-1"]),
        (ViewState(zoom=Zoom.POD, pod="pod:uid-default-web-1"), ["proxy", "app"]),
        (ViewState(zoom=Zoom.POD, pod="pod:gone"), []),
    ],
)
def test_rows_of_each_view(state: ViewState, expected: list[str]) -> None:
    assert names(state) == expected


def test_a_filtered_pod_keeps_the_figures_of_the_whole_pod() -> None:
    node = snapshot(container(name="app", cpu=cpu_window(100.0)), container(name="proxy", cpu=cpu_window(300.0)))
    assert build_rows(node, ViewState(filter_text="app"))[0].cpu_now == Figure(400.0)


@pytest.mark.parametrize("sort", list(SortKey))
def test_every_sort_key_orders_all_rows(sort: SortKey) -> None:
    rows = build_rows(busy_node(), ViewState())
    assert {row.key for row in sort_rows(rows, sort, is_reversed=False)} == {row.key for row in rows}


# Keys


def test_the_selection_stays_with_its_row_when_the_order_changes() -> None:
    rows = build_rows(busy_node(), ViewState())
    state = moved(ViewState(), rows, 3)
    other = build_rows(busy_node(), sorted_by(state, SortKey.NAME))
    assert other[selected_index(state, other)].key == rows[3].key


def test_moving_stays_inside_and_an_empty_table_selects_nothing() -> None:
    rows = build_rows(busy_node(), ViewState())
    assert selected_index(moved(ViewState(), rows, 10**6), rows) == len(rows) - 1
    assert selected_index(moved(ViewState(), rows, -5), rows) == 0
    assert moved(ViewState(selected="x"), [], 1).selected is None


def test_scrolling_keeps_the_selection_in_sight() -> None:
    rows = build_rows(busy_node(), ViewState())
    down = scrolled(moved(ViewState(), rows, 10), rows, visible=4)
    assert down.first_visible == 7  # rows 7, 8, 9, 10
    assert scrolled(moved(down, rows, -10), rows, visible=4).first_visible == 0
    assert scrolled(replace(down, first_visible=10**6), rows, visible=4).first_visible <= 10


def test_zoom_goes_node_pod_container_and_back_to_the_same_rows() -> None:
    node = snapshot(container(name="app"), container(name="proxy"), service())
    state = ViewState()
    pod = zoomed_in(state, build_rows(node, state))
    assert (pod.zoom, pod.pod) == (Zoom.POD, "pod:uid-default-web-1")
    unit = zoomed_in(pod, build_rows(node, pod))
    assert (unit.zoom, unit.unit_path) == (Zoom.UNIT, "/kubepods/burstable/poduid-default-web-1/app")
    assert zoomed_in(unit, []) == unit
    back = zoomed_out(unit)
    assert (back.zoom, back.selected) == (Zoom.POD, "unit:/kubepods/burstable/poduid-default-web-1/app")
    node_view = zoomed_out(back)
    assert (node_view.zoom, node_view.selected) == (Zoom.NODE, "pod:uid-default-web-1")


def test_a_service_zooms_straight_to_its_page_and_back_to_the_node() -> None:
    rows = build_rows(snapshot(service()), ViewState())
    unit = zoomed_in(ViewState(), rows)
    assert (unit.zoom, zoomed_out(unit).zoom) == (Zoom.UNIT, Zoom.NODE)


def test_zooming_out_of_the_node_takes_the_filter_away() -> None:
    assert zoomed_out(ViewState(filter_text="x")) == ViewState()


def test_sort_keys_turn_round_when_pressed_twice_and_cycle() -> None:
    once = sorted_by(ViewState(), SortKey.WAITING)
    assert (once.sort, once.is_reversed) == (SortKey.WAITING, False)
    assert sorted_by(once, SortKey.WAITING).is_reversed
    state = ViewState()
    for _ in SortKey:
        state = next_sort(state)
    assert state == ViewState()


def test_pausing_fixes_the_moment_and_stepping_moves_it_never_past_now() -> None:
    state = paused(ViewState(), 100.0)
    assert state.at_age_seconds(130.0) == 30.0  # the moment stays, its age grows
    back = stepped(state, -10.0, 130.0)
    assert back.at_age_seconds(130.0) == 40.0
    assert stepped(back, 600.0, 130.0).at_age_seconds(130.0) == 0.0
    assert stepped(ViewState(), -10.0, 50.0).at_age_seconds(50.0) == 10.0  # stepping pauses
    assert paused(back, 131.0) == ViewState()
    assert ViewState().at_age_seconds(7.0) == 0.0


def test_stepping_stays_within_what_an_agent_has_also_from_a_moment_that_was_left_behind() -> None:
    now = 1_000_000.0
    oldest = stepped(ViewState(), -200_000.0, now)
    assert oldest.at_age_seconds(now + 30.0) <= OLDEST_SECONDS  # the agent is asked a little later
    assert oldest.at_age_seconds(now) >= OLDEST_SECONDS - 60.0
    left_behind = paused(ViewState(), now - 90_000.0)
    assert left_behind.at_age_seconds(now) == 90_000.0  # its picture stays, and is as old as that
    for seconds in (-10.0, 10.0):
        assert stepped(left_behind, seconds, now) == oldest
    assert stepped(oldest, 600.0, now).at_age_seconds(now) == oldest.at_age_seconds(now) - 600.0


def test_missing_reason_enum_is_known_to_the_header() -> None:
    from agent.cli.top.detail import _REASONS
    from agent.cli.top.page import _CAUSES

    assert set(_CAUSES) == set(_REASONS) == set(Missing)


# Whole pods and tiers


def test_pod_has_the_figures_of_its_own_cgroup_and_the_newest_second_of_its_containers() -> None:
    units = [container(name=name, cpu=cpu_window(100.0)) for name in "ab"]
    measured = whole(
        cpu=cpu_window(150.0, waiting_ratio=0.4, throttled_ratio=0.3),
        memory=memory_window(300 * MIB, oom_kills=1),
        memory_max_bytes=301 * MIB,
    )

    row = pod_row(units, pod=measured)

    assert row.cpu_now == Figure(200.0)
    # 150 x 1.2 and 150 x 2, measured: neither an estimate nor a bound.
    assert (row.cpu_p75, row.cpu_peak) == (Figure(180.0), Figure(300.0))
    assert (row.waiting_mean, row.throttled_mean) == (Figure(0.4), Figure(0.3))
    assert (row.working_set, row.memory_peak) == (Figure(300 * MIB), Figure(600 * MIB))
    assert (row.memory_limit, row.oom_kills) == (Figure(301 * MIB), Figure(1))
    assert row.alarms >= {Alarm.MEMORY, Alarm.OOM}
    assert Alarm.AGE not in row.alarms
    assert row.age == Figure(0.4)


def test_pod_whose_own_cgroup_says_nothing_keeps_what_was_added_up() -> None:
    units = [container(name=name, cpu=cpu_window(100.0)) for name in "ab"]
    silent = whole(cpu=cpu_window(None, waiting_ratio=None, throttled_ratio=None), memory=memory_window(None))
    added_up, row = pod_row(units), pod_row(units, pod=silent)
    assert (row.cpu_p75, row.working_set, row.throttled_mean) == (
        added_up.cpu_p75,
        added_up.working_set,
        added_up.throttled_mean,
    )


def test_tiers_come_first_whatever_the_order_and_only_where_the_filter_lets_them() -> None:
    node = snapshot(container(), tiers=(tier("/kubepods"), tier()))
    for sort in SortKey:
        names = [row.name for row in build_rows(node, ViewState(sort=sort))]
        assert names == ["kubepods", "kubepods/burstable", "web-1"]
    assert [row.kind for row in build_rows(node, ViewState(filter_text="kind=tier"))] == ["tier", "tier"]
    assert [row.name for row in build_rows(node, ViewState(filter_text="pod=web-1"))] == ["web-1"]
    assert not any(Alarm.AGE in row.alarms for row in build_rows(node, ViewState()))


def test_what_is_in_no_container_is_a_row_beneath_its_pod_and_the_last_within_it() -> None:
    units = [container(name=name) for name in "ab"]
    node = snapshot(*units, pods=(whole(),))

    expanded = build_rows(node, ViewState(is_expanded=True))
    inside = build_rows(node, ViewState(zoom=Zoom.POD, pod="pod:uid-default-web-1"))

    assert [row.name for row in expanded] == ["web-1", "a", "b", "pod itself"]
    assert [row.name for row in inside] == ["a", "b", "pod itself"]
    for row in (expanded[-1], inside[-1]):
        assert row.kind == "itself"
        assert row.cpu_now == Figure(25.0, Exactness.ESTIMATE)
        assert row.working_set == Figure(7 * MIB)
        assert (row.cpu_p75, row.memory_limit, row.alarms) == (Figure(None), Figure(None), frozenset())
    assert expanded[-1].depth == 1
    assert build_rows(snapshot(*units, pods=(whole(itself=None),)), ViewState(is_expanded=True))[-1].name == "b"
    assert build_rows(snapshot(pods=(whole(),)), ViewState(zoom=Zoom.POD, pod="pod:uid-default-web-1")) == []


def test_pods_and_tiers_are_looked_into_as_containers_are() -> None:
    node = snapshot(container(), tiers=(tier(),), pods=(whole(),))
    for path in ("/kubepods/burstable", "/kubepods/burstable/poduid-default-web-1"):
        unit = find_unit(node, path)
        assert unit is not None
        assert unit.identity.cgroup_path == path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/kubepods.slice/kubepods-besteffort.slice", "kubepods/besteffort"),
        ("/kubelet.slice/kubelet-kubepods.slice", "kubepods"),
        ("/kubelet/kubepods/system/burstable", "kubepods/system/burstable"),
        ("/elsewhere", "elsewhere"),
    ],
)
def test_a_tier_goes_by_its_name_under_both_drivers(path: str, name: str) -> None:
    assert unit_name(UnitIdentity(cgroup_path=path, kind=UnitKind.TIER)) == name


def test_a_whole_pod_goes_by_its_name_its_uid_or_its_path() -> None:
    known = UnitIdentity(cgroup_path="/kubepods/podu", kind=UnitKind.POD)
    assert unit_name(known) == "/kubepods/podu"
    assert unit_name(replace(known, pod_uid="u")) == "u"
    assert unit_name(replace(known, pod_uid="u", pod="web")) == "web"

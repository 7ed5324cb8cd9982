from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.recommender.recommend_view import Order, ordered, page_lines
from agent.cli.text.spans import ASCII, UNICODE, Line, Tone, display_width, line_text
from agent.core.recommender.recommendation import Recommendation, Recommendations, RequestSeverity, Withheld
from tests.recommendations import KEEP, MI, mixed_node, node, recommendation, service, young


def lines_of(answer: Recommendations, width: int = 240, *, has_colour: bool = True) -> list[Line]:
    shown = replace(answer, items=ordered(answer.items, Order.SEVERITY))
    return page_lines(shown, width=width, glyphs=UNICODE if has_colour else ASCII, has_colour=has_colour)


def text_of(answer: Recommendations, width: int = 240, *, has_colour: bool = True) -> str:
    return "\n".join(line_text(line) for line in lines_of(answer, width, has_colour=has_colour))


def names(items: tuple[Recommendation, ...]) -> list[str | None]:
    return [item.identity.pod for item in items]


# Order


def test_danger_comes_first_and_a_workload_stays_together() -> None:
    items = ordered(
        [
            recommendation("saves", workload=("Deployment", "a"), cpu=40),
            recommendation("web-2", cpu=KEEP, memory=KEEP),
            recommendation("danger-elsewhere", namespace="other", workload=None, cpu=5000),
            recommendation("short", workload=("Deployment", "b"), cpu=510),
            young(),
            recommendation("web-1", cpu=900),
        ],
        Order.SEVERITY,
    )
    # shop is behind other, whose first one lacks more of its request: 4500 of 500 against 400 of 500
    assert names(items) == ["danger-elsewhere", "web-1", "web-2", "young-5", "short", "saves"]


def test_other_orders_keep_namespaces_together() -> None:
    items = [
        recommendation("b", namespace="y", workload=None, cpu=400, memory=100 * MI),
        recommendation("a", namespace="x", workload=None, cpu=Withheld.GAPS, memory=200 * MI),
        recommendation("c", namespace="x", workload=None, cpu=1000, memory=Withheld.GAPS),
        recommendation("d", namespace="x", workload=None, cpu=100, memory=KEEP),
    ]
    assert names(ordered(items, Order.NAME)) == ["a", "c", "d", "b"]
    assert names(ordered(items, Order.CPU)) == ["c", "d", "a", "b"]  # changes by 500, 400 and none; 100
    assert names(ordered(items, Order.MEMORY)) == ["b", "a", "d", "c"]  # by 156 MiB; 56, 0, none
    assert names(ordered(items, Order.NAMESPACE)) == ["c", "d", "a", "b"]
    assert names(ordered(items, Order.NAME, is_reversed=True)) == ["b", "d", "c", "a"]


@given(st.permutations(range(8)), st.sampled_from(Order))
def test_order_does_not_depend_on_how_items_came(shuffled: list[int], order: Order) -> None:
    items = mixed_node().items
    assert ordered([items[index] for index in shuffled], order) == ordered(items, order)


# Page


def test_page_says_node_policy_source_and_moment() -> None:
    title = text_of(mixed_node()).splitlines()[0]
    assert title.startswith("plimsoll worker-7  requests by policy cruise  from the agent, 2026-11-2")
    assert "from the state files" in text_of(node(young(), source="state"))
    assert "note no memory controller on /system.slice" in text_of(mixed_node())


def test_a_row_tells_request_recommendation_change_limit_data_and_reason() -> None:
    (row,) = (line for line in text_of(mixed_node(), 260).splitlines() if "cache-0" in line)
    assert " ".join(row.split()) == (
        "!! cache-0 redis StatefulSet/cache 200m 200m keep 500m 128MiB 300MiB add 172MiB 256MiB→600MiB 2 "
        "2d00h 10m00s 29m50s 0.4s 601+180 cruise "
        "CPU base 100m, peak 200m; memory base 150MiB, peak 300MiB, limit raised with it"
    )


def test_withheld_stands_in_place_of_the_amount_and_says_why() -> None:
    text = text_of(mixed_node())
    (row,) = (line for line in text.splitlines() if "young-5" in line)
    assert row.split()[:8] == ["?", "young-5", "app", "Job/young", "500m", "young", "-", "-"]
    assert row.endswith("too young: 45s of 10m00s")


def test_namespaces_are_headed_only_where_there_are_several() -> None:
    text = text_of(mixed_node())
    for heading in ("shop  4 containers", "jobs  3 containers", "(no namespace)  1 container"):
        assert heading in text.splitlines()
    assert "shop  1 container" not in text_of(node(recommendation()))


def test_savings_are_green_and_never_red_nor_minus() -> None:
    answer = node(recommendation("saves", cpu=40, memory=64 * MI))
    tones = {span.text.strip(): span.tone for line in lines_of(answer)[:5] for span in line}
    for text in ("↓↓", "40m", "free 460m", "64.0MiB", "free 192MiB"):
        assert tones[text] is Tone.GAIN
    assert Tone.HOT not in tones.values()
    assert "-4" not in text_of(answer)


def test_without_colour_danger_is_marked_at_the_amount_itself() -> None:
    text = text_of(mixed_node(), has_colour=False)
    for part in ("!!300MiB", "!650m", "vv "):
        assert part in text
    assert text.isascii()


def test_totals_tell_what_to_add_and_to_free_apart_and_why_the_rest_is_withheld() -> None:
    lines = text_of(mixed_node()).splitlines()
    shop = next(line for line in lines if line.startswith("shop") and "containers" not in line)
    # CPU: 500 + 500 + 500 + 200 requested; 650 - 500 to add, 500 - 40 to free
    assert " ".join(shop.split()) == "shop 4 1700m 1390m 150m 460m 896MiB 876MiB 172MiB 192MiB none"
    (total,) = (line for line in lines if line.startswith("node"))
    assert total.endswith("CPU 1 stale, 1 young; memory 1 gaps, 1 no signal, 1 young")


def test_totals_have_no_amount_where_everything_is_withheld() -> None:
    text = text_of(node(young()))
    (total,) = (line for line in text.splitlines() if line.startswith("node"))
    assert total.split() == ["node", "1", "500m", "-", "-", "-", "256MiB", "-", "-", "-", "1", "young"]
    assert "recommendations begin after 10m00s of readings" in text


def test_the_legend_explains_the_signs_that_are_there_and_no_others() -> None:
    legend = text_of(node(young(), recommendation(cpu=KEEP, memory=KEEP))).splitlines()[-2]
    assert legend.split("   ") == ["= fits", "? withheld"]


def test_nothing_to_show_says_why() -> None:
    assert text_of(node()).splitlines()[-1] == "nothing is watched yet"


def test_hostile_names_cannot_steer_the_terminal() -> None:
    item = recommendation("web\x1b[2J", "a\nb", namespace="n\x07", workload=("De\x1bp", "w\nx"))
    text = text_of(node(item, young(), policy="x\x1b", node="n\x1b", notes=("a\x1bb",)))
    assert not set(text) & {"\x1b", "\x07"}
    assert "web\\x1b[2J" in text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160, 250])
@pytest.mark.parametrize("has_colour", [True, False])
def test_no_line_is_wider_than_asked(width: int, has_colour: bool) -> None:
    for line in text_of(mixed_node(), width, has_colour=has_colour).splitlines():
        assert display_width(line) <= width


def test_at_80_columns_request_recommendation_and_reason_are_there() -> None:
    titles = next(line for line in text_of(mixed_node(), 80).splitlines() if "NAME" in line)
    assert titles.split() == ["NAME", "CONTAINER", "REQ", "SHOULD", "REQ", "SHOULD", "WHY"]


def test_machine_without_pods_has_no_container_column_and_keeps_the_end_of_paths() -> None:
    text = text_of(node(service("/system.slice/a-service-with-a-long-name.service")), 60)
    assert "CONTAINER" not in text.splitlines()[3]
    assert "long-name.service" in text


def test_every_severity_has_a_row_in_the_mixed_node() -> None:
    signs = {line.split()[0] for line in text_of(mixed_node(), has_colour=False).splitlines() if line}
    assert {"!!", "!", "+", "vv", "=", "?"} <= signs
    assert RequestSeverity.SAVING not in {item.cpu_millicores.severity for item in mixed_node().items}


@pytest.mark.parametrize(("told", "shown"), [(0, 0), (1, 1), (5, 5), (7, 6)])
def test_advice_to_runtimes_stands_below_the_table_as_far_as_there_is_room(told: int, shown: int) -> None:
    items = [recommendation(f"web-{index}", runtime_advice=(f"sentence {index}",)) for index in range(told)]
    lines = [line_text(line) for line in lines_of(node(recommendation("idle"), *items))]
    advice = [line for line in lines if line.startswith("runtime ")]

    assert len(advice) == shown
    if told:
        assert advice[0] == "runtime shop/web-0/app: sentence 0"
    if told > shown:
        assert advice[-1] == "runtime 2 more: plimsoll why NAME/CONTAINER"


@pytest.mark.parametrize(("told", "shown"), [(0, 0), (1, 1), (7, 6)])
def test_what_an_hpa_means_stands_below_the_table_once_for_all_replicas(told: int, shown: int) -> None:
    items = [
        recommendation(f"web-{index}-{replica}", hpa_advice=(f"HPA {index}: 70 % of 500m",))
        for index in range(told)
        for replica in range(2)
    ]
    lines = [line_text(line) for line in lines_of(node(recommendation("idle"), *items))]
    advice = [line for line in lines if line.startswith("HPA ")]
    assert len(advice) == shown
    if told:
        assert advice[0] == "HPA HPA 0: 70 % of 500m"
    if told > shown:
        assert advice[-1] == "HPA 2 more: plimsoll why NAME/CONTAINER"

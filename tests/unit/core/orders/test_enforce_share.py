from __future__ import annotations

import pytest

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import WorkloadDirective
from agent.core.orders import annotations as names
from agent.core.orders.annotations import ValueNotAllowed, enforce_share_from
from agent.core.orders.cluster_rules import read_rules, rule_of
from agent.core.orders.enforce_share import TICKETS, EnforceShare, TakenBack, counted_ticket, hashed_ticket
from agent.core.orders.order import Mode, OrderSource
from agent.core.plan.needs.directives import NodeDirectives
from tests.unit.core.orders.test_resolution import orders

WEB = Workload(namespace="shop", kind="Deployment", name="web")


@pytest.mark.parametrize(
    ("text", "tickets", "shown"),
    [
        ("10%", 1000, "10 %"),
        (" 2.5 % ", 250, "2.5 %"),
        ("0.01%", 1, "0.01 %"),
        ("0%", 0, "0 %"),
        ("100%", 10_000, "100 %"),
    ],
)
def test_a_share_is_read_to_hundredths_and_shown(text: str, tickets: int, shown: str) -> None:
    share = enforce_share_from(text)
    assert (share, str(share)) == (EnforceShare(tickets), shown)


@pytest.mark.parametrize("text", ["10", "0.1", "101%", "100.01%", "-1%", "10.125%", "ten%", "", "1000%"])
def test_what_is_no_share_is_said_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueNotAllowed, match="0% to 100%"):
        enforce_share_from(text)


def test_of_any_twenty_pods_in_a_row_two_are_in_ten_percent() -> None:
    share = EnforceShare(1000)
    for first in range(TICKETS):
        assert sum(share.holds(counted_ticket(first + number)) for number in range(20)) == 2


def test_a_share_is_met_to_less_than_two_pods_and_a_larger_one_holds_all_of_a_smaller() -> None:
    tickets = [counted_ticket(number) for number in range(2 * TICKETS)]
    assert sorted(tickets[:TICKETS]) == list(range(TICKETS)), "each once"
    for hundredths in (250, 2000, 2500, 3300, 5000, 7500):
        inside = [EnforceShare(hundredths).holds(ticket) for ticket in tickets]
        for length in (3, 10, 50, 200):
            for first in range(0, TICKETS, 7):
                assert abs(sum(inside[first : first + length]) - length * hundredths / TICKETS) < 2
    assert not EnforceShare(0).holds(0)
    assert EnforceShare(TICKETS).holds(TICKETS - 1)


def test_a_hash_is_the_same_everywhere_and_spread_evenly() -> None:
    assert hashed_ticket("8d4c4a7e-2b1f-4a53-9f0b-0f5c8c1f6a11") == 9418
    tickets = [hashed_ticket(str(number)) for number in range(10_000)]
    assert 900 < sum(ticket < 1000 for ticket in tickets) < 1100, "a tenth of ten thousand, four standard errors of 30"


def test_a_share_stands_where_other_orders_do_and_counts_in_mode_enforce_alone() -> None:
    rule = {names.ENFORCE_SHARE: "25%", names.MODE: "enforce"}
    ruled, own = orders(rule=rule), orders({names.ENFORCE_SHARE: "10%"}, rule=rule)
    assert (ruled.enforce_share, ruled.enforce_share_source) == (EnforceShare(2500), OrderSource.CLUSTER)
    assert (own.share_in_force, own.enforce_share_source) == (EnforceShare(1000), OrderSource.POD)
    advised = orders({names.MODE: "recommend"}, rule=rule)
    assert (advised.enforce_share, advised.share_in_force) == (EnforceShare(2500), None)
    assert orders().enforce_share is None


def test_a_share_that_is_not_understood_enforces_nobody() -> None:
    pod_orders = orders({names.MODE: "enforce", names.ENFORCE_SHARE: "a few"})
    assert (pod_orders.mode, pod_orders.share_in_force) == (Mode.OFF, None)
    assert str(pod_orders.faults[0]).startswith(
        "pod annotation plimsoll.dev/enforce-share: 'a few' is not allowed (0% to"
    )


def test_the_clusters_rules_may_order_a_share() -> None:
    rules = read_rules({"rules": "- {namespace: shop, enforceShare: 10%}"}, last_good=None)
    assert rules.rules == (ClusterRule(namespace="shop", enforce_share="10%"),)
    assert rule_of(rules, WEB) == {names.ENFORCE_SHARE: "10%"}
    faulty = read_rules({"rules": "- {enforceShare: 10}"}, last_good=ClusterRules())
    assert faulty.fault == "rules[0].enforceShare: 10 is not allowed (a text that is not empty)"
    faulty = read_rules({"rules": "- {enforceShare: '10'}"}, last_good=ClusterRules())
    assert faulty.fault is not None
    assert faulty.fault.startswith("rules[0].enforceShare: '10' is not allowed (0% to 100%")


def test_what_the_webhook_tells_of_a_share_is_read_as_a_rule() -> None:
    directives = NodeDirectives(by_workload={WEB: WorkloadDirective(workload=WEB, enforce_share="10%")})
    assert directives.rule(WEB) == {names.ENFORCE_SHARE: "10%"}


def test_a_share_taken_back_is_that_one_until_another_is_ordered() -> None:
    taken_back = TakenBack(share="10 %", reason="more restarts")
    assert taken_back.concerns(EnforceShare(1000))
    assert not taken_back.concerns(EnforceShare(2000))
    assert TakenBack(share="something", reason="").concerns(EnforceShare(2000)), "in doubt none is enforced"

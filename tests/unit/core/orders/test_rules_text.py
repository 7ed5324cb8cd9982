"""The ConfigMap's text: what it says, and what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.orders.cluster_rules import LONGEST_RULES, MOST_RULES, UNSTATED_PAUSE, read_rules, rule_of

GOOD = ClusterRules(rules=(ClusterRule(namespace="shop", mode="off"),))


def fault(**data: str) -> str:
    rules = read_rules(data, last_good=GOOD)
    assert rules.rules == GOOD.rules  # whatever is wrong
    assert rules.fault is not None
    assert "\n" not in rules.fault
    assert len(rules.fault) < 600
    return rules.fault


def test_rules_are_read_from_yaml_and_from_json() -> None:
    rules = (
        ClusterRule(namespace="shop-*", mode="enforce"),
        ClusterRule(kind="Deployment", name="web", policy="vpa", mode="off"),
    )
    text = """
    # who is enforced
    - {namespace: "shop-*", mode: enforce}
    - kind: Deployment
      name: web
      policy: vpa
      mode: off
    """
    assert read_rules({"rules": text}, last_good=None) == ClusterRules(rules=rules)
    fields = [{"namespace": "shop-*", "mode": " enforce "}]
    assert read_rules({"rules": json.dumps(fields)}, last_good=None) == ClusterRules(rules=rules[:1])


@pytest.mark.parametrize("data", [{}, {"rules": ""}, {"rules": "# nothing", "pause": " "}, {"settings.yaml": "x: 1"}])
def test_nothing_said_is_no_rule_and_no_pause(data: dict[str, str]) -> None:
    assert read_rules(data, last_good=GOOD) == ClusterRules()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("true", UNSTATED_PAUSE),
        ("True", UNSTATED_PAUSE),
        ("the network\n  team asks", "the network team asks"),
        ("false", None),
        ("", None),
    ],
)
def test_a_pause_is_a_word_or_a_reason(text: str, reason: str | None) -> None:
    assert read_rules({"pause": text}, last_good=None).pause_reason == reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{a: 1}", "rules: {'a': 1} is not allowed (a list of rules)"),
        ("just words", "rules: 'just words' is not allowed (a list of rules)"),
        ("- [1", "rules: not YAML: line 2: did not find expected ',' or ']'"),
        (
            "- !!python/object:os.system {}",
            "not YAML: line 1: tag tag:yaml.org,2002:python/object:os.system is not allowed",
        ),
        ("- 2026-99-99", "not YAML: month must be in 1..12"),
        ("- web", "rules[0]: 'web' is not allowed (a rule such as {namespace: shop, mode: off})"),
        ("- {mode: off}\n- {namespaces: shop}", "rules[1]: key 'namespaces' is not allowed (namespace, kind, name,"),
        ("- {7: shop}", "rules[0]: key 7 is not allowed"),
        ("- {namespace: 7, mode: off}", "rules[0].namespace: 7 is not allowed (a text that is not empty)"),
        ("- {namespace: 0x" + "f" * 5000 + "}", "rules: not YAML: line 1: a number of 5002 characters"),
        ("- {namespace: '', mode: off}", "rules[0].namespace: '' is not allowed"),
        ("- {name: off, mode: off}", "rules[0].name: False is not allowed"),
        ("- {mode: on}", "rules[0].mode: True is not allowed"),
        ("- {mode: enforced}", "rules[0].mode: 'enforced' is not allowed (off, recommend, protect, enforce)"),
        ("- {policy: best}", "rules[0].policy: 'best' is not allowed (cruise"),
        ("- {windows: " + "x" * 1025 + "}", "rules[0].windows: more than 1024 characters are not allowed"),
        ("- {namespace: shop}", "rules[0]: says nothing (mode, policy, startupBoost, enforceShare or windows)"),
        ("- {mode: off}\n" * (MOST_RULES + 1), f"rules: {MOST_RULES + 1} of them are not allowed"),
        ("#" * (LONGEST_RULES + 1), f"rules: {LONGEST_RULES + 1} characters are not allowed"),
        ("[" * 5000, "rules: not YAML: line 1: nested more than 64 deep"),
        ("- ? [a]\n  : b", "rules: not YAML: line 1: found unhashable key"),
        ("- {mode: off}\n---\n- {mode: off}", "rules: 2 documents are not allowed"),
        ("- {mode: " + "e" * 5000 + "}", "is not allowed (off"),
    ],
)
def test_what_is_wrong_is_named_and_changes_no_rule(text: str, said: str) -> None:
    assert said in fault(rules=text)


def test_aliases_that_multiply_are_refused() -> None:
    """Thirty lists of nine aliases each: more texts than any memory holds, if all were written out."""
    lists = ["&a0 [x, x]"] + [f"&a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert "rules[0].kind: [[" in fault(rules="- {mode: off, kind: [[x]]}")
    refused = fault(rules=f"- {{mode: off, kind: [{', '.join(lists)}]}}")
    assert refused == "rules: not YAML: line 1: an alias (*a0) is not allowed"


def test_a_key_that_is_none_is_a_slip_and_a_slip_in_pausing_must_not_pass() -> None:
    assert fault(puase="true") == "key 'puase' is not allowed (pause, rules)"


def test_a_pause_holds_whatever_is_wrong_beside_it() -> None:
    rules = read_rules({"pause": "stop", "rules": "7"}, last_good=GOOD)
    assert (rules.pause_reason, rules.rules) == ("stop", GOOD.rules)
    ended = read_rules({"rules": "7"}, last_good=ClusterRules(pause_reason="before", rules=GOOD.rules))
    assert ended.pause_reason is None


def test_rules_that_were_never_understood_pause_everything() -> None:
    rules = read_rules({"rules": "7"}, last_good=None)
    assert rules.rules == ()
    assert rules.pause_reason == (
        "its rules are not understood and none were known before: rules: 7 is not allowed (a list of rules)"
    )
    assert read_rules({"rules": "7", "pause": "asked"}, last_good=None).pause_reason == "asked"


def test_what_is_read_is_what_is_looked_up() -> None:
    rules = read_rules({"rules": "- {namespace: 'shop-*', mode: enforce}\n- {mode: off}"}, last_good=None)
    web = Workload(namespace="shop-eu", kind="Deployment", name="web")
    assert rule_of(rules, web) == {"plimsoll.dev/mode": "enforce"}
    assert rule_of(rules, Workload(namespace="bank", kind="Deployment", name="web")) == {"plimsoll.dev/mode": "off"}


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["pause", "rules", "x", "a.b"]), st.text(max_size=40)))
def test_any_data_give_an_answer(data: dict[str, str]) -> None:
    rules = read_rules(data, last_good=None)
    assert (rules.fault is None) or rules.pause_reason

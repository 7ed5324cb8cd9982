from __future__ import annotations

from typing import Any

import pytest

from agent.kube.objects.target_node import node_named


def term(*names: str, key: str = "metadata.name", operator: str = "In") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(names)}]}


def spec(*terms: object) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def test_a_daemon_sets_pod_names_its_node() -> None:
    assert node_named(spec(term("node-a"))) == "node-a"


def test_every_term_must_name_the_same_node_as_terms_are_alternatives() -> None:
    assert node_named(spec(term("node-a"), term("node-a"))) == "node-a"
    assert node_named(spec(term("node-a"), term("node-b"))) is None
    assert node_named(spec(term("node-a"), {"matchExpressions": []})) is None


def test_one_field_that_names_it_is_enough_within_a_term() -> None:
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}, term("node-a")["matchFields"][0]]
    assert node_named(spec({"matchFields": fields})) == "node-a"


def test_a_pod_that_is_bound_already_says_so() -> None:
    assert node_named({**spec(term("node-a")), "nodeName": "node-b"}) == "node-b"
    assert node_named({**spec(term("node-a")), "nodeName": ""}) == "node-a"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"affinity": []},
        {"nodeName": 7},
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": 7}},
            }
        },
        spec(),
        spec(None),
        spec({"matchFields": None}),
        spec({"matchFields": [None]}),
        spec(term()),
        spec(term("")),
        spec(term("a", "b")),
        spec(term("a", key="metadata.uid")),
        spec(term("a", operator="NotIn")),
        spec({"matchFields": [{"key": "metadata.name", "operator": "In", "values": "a"}]}),
        spec({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [1]}]}),
    ],
)
def test_what_names_no_single_node_names_none(odd: object) -> None:
    assert node_named(odd) is None

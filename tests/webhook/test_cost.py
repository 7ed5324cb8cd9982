"""What nodes and pods cost: the sheet worked out by hand, through the webhook, its API and the verb, to the cent."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from agent.core.cluster.node import Namespace
from agent.core.cost.fit import DisruptionBudget
from agent.core.cost.prices import Prices
from agent.kube.client.own_rights import NODE_NAME_CLAIM
from agent.kube.objects.cluster_json import node_facts_from_json, pod_place_from_json
from agent.webhook.http.routes import Call
from agent.webhook.own_series import of_prices
from tests import cost_sheet
from tests.cost_sheet import (
    FREED,
    IDLE,
    LABELS,
    NAMESPACES,
    NEEDED,
    NODES,
    PODS,
    POSSIBLE,
    PRICES,
    TOTAL,
    WORKLOADS,
    Advice,
)
from tests.webhook.https import running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import READABLE, Stack, stack
from tests.webhook.test_access import Server, user


def put_sheet(webhook: Stack) -> None:
    """Let the webhook know that cluster, and each node report its pods."""
    places = [pod_place_from_json(document) for document in cost_sheet.pod_documents()]
    webhook.facts.places = {place.uid: place for place in places}
    webhook.facts.known_nodes = tuple(node_facts_from_json(document) for document in cost_sheet.node_documents())
    for node in webhook.facts.known_nodes:
        webhook.server.users[node.name] = user(**{NODE_NAME_CLAIM: node.name})
        rows = [
            row_body(
                namespace=place.namespace,
                kind=place.workload.kind,
                workload=place.workload.name,
                pod=place.name,
                podUid=place.uid,
                oomKills=[],
            )
            for place in places
            if place.node == node.name
        ]
        body = packed(report_body(*rows, node=node.name))
        answer = webhook.report(body, token=node.name, content_encoding="gzip")
        assert json.loads(answer.body)["refused"] == [], answer.body
    webhook.follow()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, list[str]]]:
    """A webhook of that cluster, and the options to reach it."""
    folder = tmp_path_factory.mktemp("cost")
    (folder / "token").write_text("good\n")
    with stack(folder, prices=PRICES, advice=Advice()) as webhook:
        put_sheet(webhook)
        with running(webhook.services, folder, names=("plimsoll-webhook.plimsoll.svc",)) as server:
            host, port = server.address
            options = [f"--webhook=https://{host}:{port}", f"--token-file={folder / 'token'}"]
            yield webhook, [*options, f"--ca-file={server.authority}"]


@pytest.fixture
def scoped(tmp_path: Path) -> Iterator[Stack]:
    """The same cluster; ann may list the pods of shop alone, and bank has pods that no node has, or one unheard of."""
    server = Server(
        users={"good": user(), "ann": {"username": "ann", "groups": []}},
        readable=READABLE,
        denied=frozenset({"ann"}),
        listable={"ann": frozenset({"shop"})},
    )
    with stack(tmp_path, prices=PRICES, advice=Advice(), server=server) as webhook:
        put_sheet(webhook)
        webhook.facts.namespaces = {name: Namespace(name=name) for name in ("bank", "kube-system", "shop")}
        lost = next(place for place in webhook.facts.places.values() if place.name == "batch-1")
        webhook.facts.places |= {
            "uid-w": replace(lost, uid="uid-w", name="waits", node=None),
            "uid-g": replace(lost, uid="uid-g", name="gone", node="n9"),
        }
        webhook.facts.known_nodes = (
            *webhook.facts.known_nodes,
            replace(webhook.facts.known_nodes[0], name="n8", capacity=None, allocatable=None),
        )
        yield webhook


def asked(webhook: Stack, *, tag: str | None = None, account: str = "good", **query: str) -> Any:
    return webhook.services.cost(
        Call(path="/v1/cost", authorization=f"Bearer {account}", query=query, if_none_match=tag)
    )


def body(webhook: Stack, **query: str) -> Any:
    answer = asked(webhook, **query)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_the_api_tells_what_was_worked_out_by_hand(served: tuple[Stack, list[str]]) -> None:
    webhook, _ = served
    costs = body(webhook, by="namespace")
    assert {row["namespace"]: row["costMonth"] for row in costs["rows"]} == NAMESPACES
    total = costs["total"]
    assert (total["costMonth"], total["podsMonth"], total["idleMonth"]) == (TOTAL, PODS, IDLE)
    assert (total["freedMonth"], total["possibleMonth"], total["neededMonth"]) == (FREED, POSSIBLE, NEEDED)
    assert (total["pods"], total["podsWithoutAdvice"], costs["isListPrice"], costs["listPriceNote"]) == (
        12,
        5,
        False,
        "",
    )
    by_node = body(webhook, by="node")
    assert {row["node"]: (row["costMonth"], row["idleMonth"]) for row in by_node["rows"]} == NODES
    assert [row["priceSource"] for row in by_node["rows"]] == [
        "cost.nodes rule 1",
        "cost.file",
        "cost.cpuCoreHour and cost.memoryGibHour",
    ]
    assert {row["value"]: row["costMonth"] for row in body(webhook, by="label", label="team")["rows"]} == LABELS


def test_what_rows_cost_and_what_is_idle_are_what_nodes_cost_exactly(served: tuple[Stack, list[str]]) -> None:
    webhook, _ = served
    nodes = sum(Decimal(row["costMonth"]) for row in body(webhook, by="node")["rows"])
    for query in ({"by": "namespace"}, {"by": "workload"}, {"by": "label", "label": "team"}):
        costs = body(webhook, **query)
        assert sum(Decimal(row["costMonth"]) for row in costs["rows"]) + Decimal(costs["total"]["idleMonth"]) == nodes


def test_workloads_tell_the_same_of_each_other_and_of_themselves(served: tuple[Stack, list[str]]) -> None:
    webhook, _ = served
    by_cost = body(webhook, by="workload")["rows"]
    names = ("costMonth", "freedMonth", "possibleMonth", "neededMonth")
    assert {row["key"]: tuple(row[name] for name in names) for row in by_cost} == WORKLOADS
    # Listed in the order of money, as one waits for it: 65.70, 45.625, 36.50, 22.8125, 14.235.
    listed = json.loads(webhook.ask("/v1/workloads", sort="cost").body)
    assert [row["name"] for row in listed["workloads"]] == ["db", "web", "cart", "batch", "agent"]
    possible = json.loads(webhook.ask("/v1/workloads", sort="cost-possible").body)["workloads"]
    assert [row["name"] for row in possible[:2]] == ["web", "db"]
    assert listed["pricing"] == {"currency": "USD", "monthHours": "730", "listPriceNote": "", "fault": None}
    same = [field for field in by_cost[0] if field in listed["workloads"][0]["cost"]]
    assert len(same) == 9
    for row in listed["workloads"]:
        (cost,) = (entry for entry in by_cost if entry["key"] == f"{row['namespace']}/{row['kind']}/{row['name']}")
        assert row["cost"] == {field: cost[field] for field in same}
    web = {"namespace": "shop", "kind": "Deployment", "name": "web"}
    whole = json.loads(webhook.ask("/v1/workloads/shop/Deployment/web", names=web).body)
    assert (whole["cost"]["costMonth"], whole["pricing"]["currency"]) == (WORKLOADS["shop/Deployment/web"][0], "USD")


def test_the_table_has_the_same_to_the_cent(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", "--width", "120", *served[1]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "USD a month of 730 hours, by what pods request now"
    # 88.5125, 82.125 and 14.235, to the cent; half to even
    assert [line.split()[:3] for line in lines[2:5]] == [
        ["bank", "4", "88.51"],
        ["shop", "5", "82.12"],
        ["kube-system", "3", "14.24"],
    ]
    summary = " ".join(lines[5:])
    assert "cluster: 3 nodes 569.40 = pods 184.87 + idle 384.53; freed 54.75, still possible 27.38" in summary
    assert "needed 26.46" in summary
    assert "1 of 3 nodes could go if all pods requested what is recommended, 350.40 a month: n3" in summary
    assert "5 pods have no recommendation yet" in summary


def test_the_csv_has_the_same_to_the_cent(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--by", "node", "-o", "csv", *served[1]]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    cents = Decimal("0.01")
    assert [(row["node"], Decimal(row["cost_month"]).quantize(cents)) for row in rows[:3]] == [
        ("n1", Decimal("87.60")),
        ("n2", Decimal("131.40")),
        ("n3", Decimal("350.40")),
    ]
    assert rows[-2]["row"] == "idle"
    assert Decimal(rows[-2]["cost_month"]) == Decimal(IDLE)
    assert (rows[-1]["row"], Decimal(rows[-1]["cost_month"]), rows[-1]["pods"]) == ("total", Decimal(TOTAL), "12")
    assert Decimal(rows[-1]["needed_month"]) == Decimal(NEEDED)


def test_json_holds_all_rows_with_their_schema(
    served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", "--by", "workload", "--namespace", "shop", "-o", "json", *served[1]]) == 0
    costs = json.loads(capsys.readouterr().out)
    assert (costs["schema"], [row["key"] for row in costs["rows"]], costs["fit"]) == (
        1,
        ["shop/Deployment/cart", "shop/Deployment/web"],
        None,
    )
    assert main(["cost", "--by", "label", "--label", "team", *served[1]]) == 0
    assert "(without it)" in capsys.readouterr().out


def test_by_node_each_that_stays_says_why(served: tuple[Stack, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--by", "node", "--width", "200", *served[1]]) == 0
    output = capsys.readouterr().out
    assert "n1 stays: pod bank/db-0 fits on no other node: 1 have no room for it" in output
    assert "n2 stays: " in output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "label"], "cost: --by label and --label KEY: one is not allowed without the other"),
        (["--label", "team"], "cost: --by label and --label KEY: one is not allowed without the other"),
        (["--by", "node", "-n", "shop"], "cost: --namespace is not allowed with --by node: a node is of no namespace"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cost", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"by": "pod"}, "by: 'pod' is not allowed; allowed: namespace, workload, node, label"),
        ({"by": "label"}, "label: is missing or too long; allowed with by=label: the key of a label of pods"),
        ({"label": "team"}, "label: is not allowed with by=namespace; allowed: by=label"),
        ({"by": "node", "namespace": "shop"}, "namespace: is not allowed with by=node: a node is of no namespace"),
        ({"limit": "0"}, "limit: '0' is not allowed; allowed: 1 to 500"),
        ({"by": "workload", "after": "shop"}, "after: 'shop' is not allowed; allowed: NAMESPACE/KIND/NAME"),
    ],
)
def test_a_question_that_is_not_understood_is_told(
    served: tuple[Stack, list[str]], query: dict[str, str], said: str
) -> None:
    answer = asked(served[0], **query)
    assert (answer.status, json.loads(answer.body)["error"]) == (400, said)


def test_pages_and_tags(served: tuple[Stack, list[str]]) -> None:
    webhook, _ = served
    first = body(webhook, limit="2")
    assert ([row["key"] for row in first["rows"]], first["next"]) == (["bank", "kube-system"], "kube-system")
    second = body(webhook, limit="2", after="kube-system")
    assert ([row["key"] for row in second["rows"]], second["next"], second["fit"]) == (["shop"], None, None)
    labels = body(webhook, by="label", label="team", limit="1")
    assert ([row["key"] for row in labels["rows"]], labels["next"]) == ([""], "")
    assert [row["key"] for row in body(webhook, by="label", label="team", after="")["rows"]] == ["data", "shop"]
    answer = asked(webhook)
    assert int(answer.headers["Age"]) >= 0
    again = asked(webhook, tag=answer.headers["ETag"])
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", answer.headers["ETag"])
    assert asked(webhook, tag='W/"other"').status == 200
    assert asked(webhook, account="bad").status == 401


def test_without_prices_every_figure_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("good\n")
    with stack(tmp_path, prices=Prices(), advice=Advice()) as webhook:
        put_sheet(webhook)
        costs = body(webhook)
        assert costs["isListPrice"]
        assert costs["listPriceNote"] == "list price (OpenCost's reference), not your bill"
        assert all(row["isListPrice"] for row in costs["rows"])
        listed = json.loads(webhook.ask("/v1/workloads").body)
        assert listed["pricing"]["listPriceNote"] == costs["listPriceNote"]
        assert all(row["cost"]["isListPrice"] for row in listed["workloads"])
        with running(webhook.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as server:
            host, port = server.address
            options = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token'}"]
            assert main(["cost", "--width", "120", *options, f"--ca-file={server.authority}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "* = list price (OpenCost's reference), not your bill"
    assert all(figure.endswith("*") for line in lines[3:6] for figure in line.split()[2:])


def test_what_is_not_read_yet_is_no_answer(tmp_path: Path) -> None:
    with stack(tmp_path) as webhook:
        webhook.facts.is_complete = False
        answer = asked(webhook)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert json.loads(answer.body)["error"] == "nodes and pods are not read yet from the API server"


def test_a_list_waits_for_money_no_longer_than_it_may_and_keeps_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.webhook.queries.cost.VIEW_WAIT_SECONDS", 60.0)  # a busy machine takes a while
    begun, let_go = threading.Event(), threading.Event()

    def budgets() -> tuple[DisruptionBudget, ...]:
        begun.set()
        assert let_go.wait(60)
        return ()

    with stack(tmp_path, prices=PRICES, advice=Advice(), budgets=budgets) as webhook:
        put_sheet(webhook)
        first = json.loads(webhook.ask("/v1/workloads").body)
        assert first["pricing"]["fault"] == "what pods cost is being worked out"
        assert first["workloads"][0]["cost"] is None
        assert begun.wait(60)
        let_go.set()
        dearest = json.loads(webhook.ask("/v1/workloads", sort="cost", limit="1").body)  # waits
        assert dearest["workloads"][0]["cost"]["costMonth"] == "65.7"
        again = json.loads(webhook.ask("/v1/workloads").body)
    assert (again["pricing"]["fault"], again["workloads"][0]["cost"]["costMonth"]) == (None, "22.8125")


@pytest.mark.parametrize(("team", "is_apart"), [("green", True), ("blue", False), (None, True)])
def test_a_pod_is_kept_from_nodes_by_the_labels_of_namespaces(tmp_path: Path, team: str | None, is_apart: bool) -> None:
    """On n1, where db-1 would go, are pods of shop; of which team that is is not known where it is not watched yet."""
    document = next(document for document in cost_sheet.pod_documents() if document["metadata"]["name"] == "db-1")
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "green"}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    place = pod_place_from_json({**document, "spec": {**document["spec"], "affinity": affinity}})
    with stack(tmp_path, prices=PRICES, advice=Advice()) as webhook:
        put_sheet(webhook)
        webhook.facts.places[place.uid] = place
        known = {} if team is None else {"shop": Namespace(name="shop", labels={"team": team})}
        webhook.facts.namespaces = {name: Namespace(name=name) for name in ("bank", "kube-system")} | known
        fit = body(webhook)["fit"]
    stays = {row["node"]: row["reason"] for row in fit["stay"]}
    assert ([row["node"] for row in fit["go"]] == ["n3"]) is not is_apart
    said = "pod bank/db-1 fits on no other node: 1 have a pod that it must be apart from, 1 have no room for it"
    assert stays.get("n3") == (said if is_apart else None)


def test_closed_budgets_and_unknown_ones_keep_nodes(tmp_path: Path) -> None:
    closed = DisruptionBudget(namespace="bank", name="db", selector=cost_sheet.selector(app="db"), allows=0)
    with stack(tmp_path, prices=PRICES, advice=Advice(), budgets=lambda: (closed,)) as webhook:
        put_sheet(webhook)
        fit = body(webhook)["fit"]
    assert fit["couldGo"] == 1  # n2: all of web-3, cart-1 and batch-1 finds room on n3
    assert [row["node"] for row in fit["go"]] == ["n2"]
    assert fit["stay"][0] == {"node": "n1", "reason": "pod bank/db-0: PodDisruptionBudget db allows no disruption now"}
    with stack(
        tmp_path, prices=PRICES, advice=Advice(), budgets=lambda: "disruption budgets cannot be read: no"
    ) as webhook:
        put_sheet(webhook)
        fit = body(webhook)["fit"]
    assert (fit["couldGo"], fit["go"], fit["fault"]) == (0, [], "disruption budgets cannot be read: no")


# Who may see a part alone

QUESTIONS: tuple[dict[str, str], ...] = (
    {},
    {"by": "workload"},
    {"by": "node"},
    {"by": "label", "label": "team"},
    {"by": "label", "label": "app"},
    {"by": "label", "label": "none"},
    {"by": "workload", "after": "bank/Deployment/batch"},
    {"by": "label", "label": "team", "after": ""},
    {"by": "node", "after": "n1"},
    {"namespace": "shop"},
    {"namespace": "bank"},
    {"namespace": "nowhere"},
)


def test_rows_and_sums_hold_nothing_of_others(scoped: Stack) -> None:
    secrets = ("bank", "batch", '"db', "data", "kube-system", "agent", '"n1', '"n2', '"n3', "n8")
    # Not POSSIBLE: the CPU of cart, which is ann's, costs as much by chance.
    amounts = (TOTAL, PODS, IDLE, NEEDED, NAMESPACES["bank"], NAMESPACES["kube-system"], LABELS["data"])
    months = tuple(month for pair in NODES.values() for month in pair)
    everything = "".join(asked(scoped, **query).body.decode() for query in QUESTIONS)
    assert [text for text in (*secrets, *amounts, *months) if text not in everything] == []
    # In both orders: what was worked out for who sees all is not handed to who does not.
    for query in (*QUESTIONS, *reversed(QUESTIONS)):
        answer = asked(scoped, account="ann", **query).body.decode()
        assert [text for text in (*secrets, *amounts, *months) if text in answer] == [], query


def test_sums_of_a_part_are_those_of_its_pods_and_no_nodes(scoped: Stack) -> None:
    costs = json.loads(asked(scoped, account="ann", by="workload").body)
    assert [row["key"] for row in costs["rows"]] == ["shop/Deployment/cart", "shop/Deployment/web"]
    # cart: 0.075 freed; web: 0.03 possible, 0.00625 needed; x 730
    assert costs["total"] == {
        "nodes": None,
        "pods": 5,
        "costMonth": None,
        "podsMonth": NAMESPACES["shop"],
        "idleMonth": None,
        "freedMonth": "54.75",
        "possibleMonth": "21.9",
        "neededMonth": "4.5625",
        "podsWithoutAdvice": 0,
        "unpricedNodes": [],
        "unpricedPods": 0,
        "unplacedPods": 0,
    }
    assert (costs["fit"], costs["scope"]["names"]) == (None, ["shop"])
    labels = json.loads(asked(scoped, account="ann", by="label", label="team").body)
    assert {row["value"]: row["costMonth"] for row in labels["rows"]} == {"shop": LABELS["shop"]}
    assert json.loads(asked(scoped, account="ann", by="node").body)["rows"] == []
    whole = body(scoped)
    assert (whole["total"]["unpricedPods"], whole["total"]["unplacedPods"]) == (1, 1)
    assert whole["total"]["unpricedNodes"] == ["n8"]


def test_another_namespace_is_refused_whether_it_is_there_or_not(scoped: Stack) -> None:
    for namespace in ("bank", "nowhere"):
        answer = asked(scoped, account="ann", namespace=namespace)
        assert answer.status == 403
        assert json.loads(answer.body)["error"].endswith("and list pods not there either")


def test_verb_says_whose_sums_they_are(scoped: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("ann\n")
    with running(scoped.services, tmp_path, names=("plimsoll-webhook.plimsoll.svc",)) as server:
        host, port = server.address
        options = [f"--webhook=https://{host}:{port}", f"--token-file={tmp_path / 'token'}"]
        options.append(f"--ca-file={server.authority}")
        assert main(["cost", "--width", "120", *options]) == 0
        assert "1 of 3 namespaces is yours: 5 pods 82.12; freed 54.75" in " ".join(capsys.readouterr().out.splitlines())
        assert main(["cost", "--by", "node", *options]) == 0
        assert "nodes are told to who may read the whole cluster" in capsys.readouterr().out
        assert main(["cost", "-o", "csv", *options]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [(row["row"], row["cost_month"]) for row in rows] == [("row", "82.125000"), ("pods", "82.125000")]


def test_who_waits_too_long_for_anothers_view_comes_again(scoped: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.webhook.queries.cost.VIEW_WAIT_SECONDS", 0.01)
    costs = scoped.services.cost.__self__  # type: ignore[attr-defined]
    with costs._making:
        answer = asked(scoped)
        assert (answer.status, json.loads(answer.body)["error"]) == (503, "what pods cost is being worked out")
    assert asked(scoped).status == 200


def test_metrics_tell_what_cores_and_gib_cost_and_name_nobody() -> None:
    samples = {family.name: list(family.read()) for family in of_prices(PRICES)}
    # 0.04 and 0.005 an hour, x 730
    source = ("USD", "cost.cpuCoreHour and cost.memoryGibHour")
    assert samples == {"plimsoll_price_core_month": [(source, 29.2)], "plimsoll_price_gib_month": [(source, 3.65)]}
    listed = [labels for family in of_prices(Prices(currency="EUR")) for labels, _ in family.read()]
    assert listed == [("EUR", "list price")] * 2

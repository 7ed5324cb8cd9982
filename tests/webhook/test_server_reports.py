"""Reports and proposals from bytes to the database and back, without a network: what is taken, refused and counted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.autoscalers.preserved_target import PreservedTarget
from agent.core.autoscalers.vpa_orders import VpaSurroundings, vpa_orders
from agent.core.cluster.facts import ClusterRule, ClusterRules, FrozenAxes, WrittenContainer
from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.http.routes import Call, HttpAnswer
from agent.webhook.reports.decoder import PIECE_ROWS
from agent.webhook.store.entries.report_payload import decode_report
from agent.webhook.store.shapes import AppendOutcome, NewReport, StoreAway
from tests.vpas import vpa
from tests.webhook.open_store import open_store
from tests.webhook.report_bodies import distribution, packed, report_body, row_body
from tests.webhook.stack import GOOD, Stack, place, stack
from tests.webhook.test_access import Server, user

GZIP = {"content_type": "application/json", "content_encoding": "gzip"}


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Stack]:
    with stack(tmp_path) as webhook:
        webhook.follow()
        yield webhook


def said(answer: HttpAnswer) -> Any:
    return json.loads(answer.body)


def results(webhook: Stack, result: str, what: str = "reports") -> float:
    return webhook.counted(f'plimsoll_{what}_received_total{{result="{result}"}}')


def test_a_report_is_in_the_database_when_it_is_answered(whole: Stack) -> None:
    answer = whole.report(packed(report_body(row_body(0), row_body(1))), **GZIP)
    assert answer.status == 200
    assert {name: said(answer)[name] for name in ("schema", "taken", "refused", "repeated")} == {
        "schema": 1,
        "taken": 2,
        "refused": [],
        "repeated": False,
    }
    (logged,) = whole.store.tail(0, 10)
    assert (logged.node, [row.pod for row in decode_report(logged.payload).rows]) == ("node-a", ["web-0", "web-1"])
    assert results(whole, "accepted") == 1
    assert whole.counted('plimsoll_report_rows_total{result="taken"}') == 2


def test_a_pod_that_began_moments_ago_is_waited_for_and_not_refused_for_good(whole: Stack) -> None:
    hidden = whole.facts.places.pop("uid-1")
    body = report_body(row_body(0), row_body(1, podAgeSeconds=4.0))
    answer = whole.report(packed(body), **GZIP)
    assert (answer.status, said(answer)) == (503, {"error": "pod shop/web-1 is not known yet"})
    assert int(answer.headers["Retry-After"]) == 5
    assert whole.store.tail(0, 10) == []
    whole.facts.places["uid-1"] = hidden
    assert said(whole.report(packed(body), **GZIP))["taken"] == 2


def test_a_pod_that_is_never_known_holds_up_the_others_for_moments_only(whole: Stack) -> None:
    del whole.facts.places["uid-1"]
    late = report_body(row_body(0), row_body(1, podAgeSeconds=4.0), endAgeSeconds=26.0)
    answer = said(whole.report(packed(late), **GZIP))
    assert (answer["taken"], answer["refused"]) == (1, [{"row": 1, "reason": "podUid: no pod uid-1 is known"}])


def test_rows_of_a_pod_that_no_watch_knows_any_more_are_taken_after_a_report_told_of_it(whole: Stack) -> None:
    assert said(whole.report(packed(report_body(row_body(0), row_body(1))), **GZIP))["taken"] == 2
    # The webhook begins anew, and the pods went meanwhile; another one stands where the second was.
    gone = [whole.facts.places.pop(f"uid-{number}") for number in (0, 1, 2)]
    whole.facts.places["uid-1"] = place(1, node="node-b")
    body = report_body(row_body(0), row_body(1), row_body(2), row_body(0, pod="web-9"), sequence=2)
    answer = said(whole.report(packed(body), **GZIP))
    assert answer["taken"] == 1
    assert answer["refused"] == [
        {"row": 1, "reason": "podUid: the pod is not on node node-a"},
        {"row": 2, "reason": f"podUid: no pod {gone[2].uid} is known"},
        {"row": 3, "reason": "pod: the uid is that of shop/web-0"},
    ]


def test_who_works_on_a_report_lets_others_go_first_between_its_pieces(tmp_path: Path) -> None:
    free: list[bool] = []

    def breathe() -> None:
        free.append(not webhook.index._lock.locked())

    with stack(tmp_path, breathe=breathe) as webhook:
        webhook.follow()
        body = report_body(*(row_body(0, container=f"c{number}") for number in range(2 * PIECE_ROWS)))
        assert webhook.report(packed(body), **GZIP).status == 200
    # Rows are read and judged, the report is written down, and what others saw is put together.
    assert len(free) >= 2 + 2 + 1 + 2
    assert all(free)


def test_a_repeat_is_answered_and_kept_once(whole: Stack) -> None:
    body = packed(report_body(row_body(0)))
    assert said(whole.report(body, **GZIP))["repeated"] is False
    assert said(whole.report(body, **GZIP))["repeated"] is True
    assert len(whole.store.tail(0, 10)) == 1
    assert (results(whole, "accepted"), results(whole, "repeated")) == (1, 1)
    assert whole.counted('plimsoll_report_rows_total{result="taken"}') == 1


def test_a_repeat_is_not_refused_for_the_time_that_it_told_of_itself(whole: Stack) -> None:
    hour = {"coveredSeconds": 3600.0}
    body = packed(report_body(row_body(99, **hour), row_body(0, **hour), row_body(1, **hour), intervalSeconds=3600.0))
    first, again = said(whole.report(body, **GZIP)), said(whole.report(body, **GZIP))
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert (again["taken"], again["refused"]) == (first["taken"], first["refused"])
    assert (again["taken"], again["refused"]) == (2, [{"row": 0, "reason": "podUid: no pod uid-99 is known"}])


def test_only_accepted_rows_are_kept_and_the_others_are_told_in_order(whole: Stack) -> None:
    bad = row_body(1, cpu={**distribution(), "sum": -1})
    answer = whole.report(packed(report_body(row_body(99), bad, row_body(2))), **GZIP)
    assert said(answer)["taken"] == 1
    assert said(answer)["refused"] == [
        {"row": 0, "reason": "podUid: no pod uid-99 is known"},
        {"row": 1, "reason": "cpu.sum: expected float >= 0.0"},
    ]
    (logged,) = whole.store.tail(0, 10)
    assert [row.pod for row in decode_report(logged.payload).rows] == ["web-2"]
    assert whole.counted('plimsoll_report_rows_total{result="foreign"}') == 1
    assert whole.counted('plimsoll_report_rows_total{result="out_of_bounds"}') == 1


def test_a_node_is_of_the_class_that_the_cluster_says(whole: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"instanceType": "m5.24xlarge", "cpus": 96}
    whole.report(packed(report_body(row_body(0), nodeClass=other)), **GZIP)
    monkeypatch.setattr(whole.facts, "node_class", lambda _: None)
    whole.report(packed(report_body(row_body(0), nodeClass=other, sequence=18)), **GZIP)
    classes = [decode_report(entry.payload).node_class for entry in whole.store.tail(0, 10)]
    assert [(machine.instance_type, machine.cpus) for machine in classes] == [("m5.large", 8), ("m5.24xlarge", 96)]


def test_what_was_reported_comes_back_as_directives_and_advice(whole: Stack) -> None:
    whole.facts.places["uid-50"] = place(50, node="node-b")
    whole.report(packed(report_body(row_body(0))), **GZIP)
    whole.follow()
    whole.server.users["b"] = {
        **user(),
        "extra": {"authentication.kubernetes.io/node-name": ["node-b"]},
    }
    answer = whole.report(packed(report_body(row_body(50), node="node-b")), "b", **GZIP)
    (directive,) = said(answer)["directives"]["workloads"]
    assert (directive["namespace"], directive["kind"], directive["name"]) == ("shop", "Deployment", "web")
    (container,) = directive["containers"]
    assert container["cpuPeakMillicores"] == 60  # of node-a: the node knows its own
    assert container["oomMemoryBytes"] is not None
    etag = said(answer)["etag"]
    assert answer.headers["ETag"] == f'"{etag}"'


def test_what_the_node_holds_is_not_sent_again(whole: Stack) -> None:
    etag = said(whole.report(packed(report_body(sequence=1)), **GZIP))["etag"]
    again = whole.report(packed(report_body(sequence=2)), if_none_match=f'"{etag}"', **GZIP)
    assert (said(again)["etag"], said(again)["directives"]) == (etag, None)
    weak = whole.report(packed(report_body(sequence=3)), if_none_match=f'W/"{etag}"', **GZIP)
    assert said(weak)["directives"] is None
    whole.facts.told = ClusterRules(pause_reason="upgrade")
    changed = whole.report(packed(report_body(sequence=4)), if_none_match=f'"{etag}"', **GZIP)
    assert said(changed)["directives"]["pauseReason"] == "upgrade"


def test_without_directives_a_report_is_taken_all_the_same(tmp_path: Path) -> None:
    with stack(tmp_path) as webhook:  # the history is not loaded: nothing may be told
        answer = webhook.report(packed(report_body(row_body(0))), **GZIP)
        assert answer.status == 200
        assert (said(answer)["taken"], said(answer)["etag"], said(answer)["directives"]) == (1, "", None)
        assert "ETag" not in answer.headers


def test_directives_that_break_lose_no_report(whole: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> Any:
        raise RuntimeError

    monkeypatch.setattr(whole.facts, "pods_on", broken)
    answer = whole.report(packed(report_body(row_body(0))), **GZIP)
    assert (answer.status, said(answer)["taken"], said(answer)["directives"]) == (200, 1, None)


def test_what_a_node_had_to_drop_is_counted_once(whole: Stack) -> None:
    for sequence, lost in ((1, 5), (2, 7), (3, 7), (2, 7)):
        whole.report(packed(report_body(sequence=sequence, lostReports=lost)), **GZIP)
    assert whole.counted("plimsoll_reports_lost_total") == 2  # five were lost before anybody here heard of the node


# Doors


@pytest.mark.parametrize(
    ("arguments", "status", "result"),
    [
        ({"token": None}, 401, "no_token"),
        ({"token": "stolen"}, 401, "bad_token"),
        ({"body": packed(report_body(node="node-b"))}, 403, "wrong_node"),
        ({"body": b"{}", "content_encoding": None}, 400, "malformed"),
        ({"body": b"no gzip"}, 400, "malformed"),
        ({"body": gzip.compress(b"\0" * (9 << 20))}, 413, "too_large"),
        ({"body": packed(report_body(schema=2))}, 415, "malformed"),  # of a newer agent, which keeps it
        ({"content_type": "text/xml"}, 415, "malformed"),
        ({"content_encoding": "br"}, 415, "malformed"),
        ({"content_type": "application/json; charset=utf-8"}, 200, "accepted"),
        ({"content_type": None}, 200, "accepted"),
        ({"content_encoding": "GZIP"}, 200, "accepted"),
    ],
)
def test_each_refusal_has_its_code_and_its_count(
    whole: Stack, arguments: dict[str, Any], status: int, result: str
) -> None:
    given = {"body": packed(report_body()), **GZIP, **arguments}
    answer = whole.report(**given)
    assert answer.status == status
    assert results(whole, result) == 1
    if status != 200:
        assert list(said(answer)) == ["error"]
        assert "\n" not in said(answer)["error"]
        assert whole.store.tail(0, 10) == []


def test_until_it_is_known_which_pods_run_where_reports_wait(whole: Stack) -> None:
    whole.facts.is_complete = False
    answer = whole.report(packed(report_body(row_body(0))), **GZIP)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert results(whole, "not_ready") == 1
    whole.facts.is_complete = True
    assert whole.report(packed(report_body(row_body(0))), **GZIP).status == 200


def test_a_node_that_reports_too_often_is_told_when_to_come(tmp_path: Path) -> None:
    with stack(tmp_path, access=AccessSettings(requests_per_minute=1)) as webhook:
        webhook.report(packed(report_body()), **GZIP)
        answer = webhook.report(packed(report_body(sequence=18)), **GZIP)
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert results(webhook, "too_many") == 1


class AwayStore:
    """A real store whose database does not answer now and then."""

    def __init__(self, url: str) -> None:
        self._store = open_store(url)
        self.is_away = False

    def append(self, entry: NewReport) -> AppendOutcome:
        if self.is_away:
            raise StoreAway("database away: no answer")
        return self._store.append(entry)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_while_the_database_is_away_reports_are_put_off_admissions_go_on_and_nothing_is_lost(tmp_path: Path) -> None:
    store = AwayStore(f"sqlite:///{tmp_path / 'plimsoll.db'}")
    with stack(tmp_path, store=store) as webhook:
        store.is_away = True
        body = packed(report_body(row_body(0)))
        answer = webhook.report(body, **GZIP)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
        assert said(answer) == {"error": "the database is away"}
        assert results(webhook, "store_away") == 1
        store.is_away = False
        again = webhook.report(body, **GZIP)
        assert (again.status, said(again)["repeated"]) == (200, False)


def test_a_fault_inside_is_told_to_the_log_alone(
    whole: Stack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(whole.facts, "node_class", broken)
    answer = whole.report(packed(report_body(row_body(0))), **GZIP)
    assert (answer.status, said(answer)) == (500, {"error": "failed; see the webhook's log"})
    assert results(whole, "error") == 1
    assert "secret" in caplog.text


# Proposals


def proposed(webhook: Stack, body: Any) -> HttpAnswer:
    call = Call(path="/v1/evictions", body=json.dumps(body).encode(), authorization=f"Bearer {GOOD}")
    return webhook.posts.evictions(call)


def test_a_proposal_is_judged(whole: Stack) -> None:
    whole.facts.places["uid-50"] = place(50, node="node-b")
    entry = {"namespace": "shop", "pod": "web-50", "podUid": "uid-50", "reason": "memory", "ranking": "low", "order": 1}
    body = {"schema": 1, "node": "node-a", "proposals": [{**entry, "needed": {"memoryBytes": 5}}]}
    answer = proposed(whole, body)
    assert answer.status == 200
    (reply,) = said(answer)["answers"]
    assert (reply["podUid"], reply["verdict"]) == ("uid-50", "refused")
    assert reply["reason"].startswith("other_node: ")
    assert results(whole, "accepted", "proposals") == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ([], 400),
        ({"schema": 2, "node": "node-a", "proposals": []}, 400),
        ({"schema": 1, "node": "node-a", "proposals": [{"namespace": "shop"}]}, 400),
        ({"schema": 1, "node": "node-b", "proposals": []}, 403),
        ({"schema": 1, "node": "node-a", "proposals": []}, 200),
    ],
)
def test_proposals_that_are_none(whole: Stack, body: Any, status: int) -> None:
    assert proposed(whole, body).status == status


# Questions


def test_the_list_goes_page_by_page(whole: Stack) -> None:
    whole.report(packed(report_body(row_body(0))), **GZIP)
    for number in range(1, 4):
        uid = f"uid-{number}"
        other = place(number, workload=Workload(namespace="shop", kind="Deployment", name=f"web-{number}"))
        whole.facts.places[uid] = other
        body = report_body(row_body(number, workload=f"web-{number}"), sequence=20 + number)
        assert said(whole.report(packed(body), **GZIP))["refused"] == []
    whole.follow()
    names: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = said(whole.ask("/v1/workloads", limit="3", **after))
        assert page["total"] == 4
        names += [workload["name"] for workload in page["workloads"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert names == ["web", "web-1", "web-2", "web-3"]
    assert said(whole.ask("/v1/workloads", namespace="bank"))["total"] == 0
    line = page["workloads"][0]
    assert (line["mode"], line["containers"]) == ("recommend", ["app"])
    assert line["cpuRequestMillicores"] == 60


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "501"}, {"limit": "x"}, {"limit": "٣"}, {"after": "a/b"}])
def test_a_question_that_is_not_understood(whole: Stack, query: dict[str, str]) -> None:
    answer = whole.ask("/v1/workloads", **query)
    assert answer.status == 400
    assert "is not allowed; allowed: " in said(answer)["error"]
    assert results(whole, "malformed", "questions") == 1


def test_a_workload_tells_what_its_hpas_target_means_after_the_change(whole: Stack) -> None:
    names = {"namespace": "shop", "kind": "Deployment", "name": "web"}
    written = (
        WrittenContainer(name="app", cpu_request_millicores=120),
        WrittenContainer(name="proxy", cpu_request_millicores=30),
        WrittenContainer(name="setup", cpu_request_millicores=900, kind=ContainerKind.INIT),
    )
    whole.facts.places["uid-0"] = replace(place(0), containers=written)
    whole.report(packed(report_body(row_body(0))), **GZIP)
    whole.follow()
    path = "/v1/workloads/shop/Deployment/web"
    assert said(whole.ask(path, names=names))["hpaAdvice"] == []
    target = UtilizationTarget(holder="HPA", resource=Resource.CPU, percent=50)
    whole.facts.targets = (target, replace(target, percent=80, container="app"))
    assert said(whole.ask(path, names=names))["hpaAdvice"] == [
        # 50 x 150 / 90 = 83.3, and 80 x 120 / 60 = 160
        "HPA: 50 % of 150m CPU of 2 containers is 75m; at 90m the equal target is 83 %",
        "HPA: 80 % of 120m CPU of app is 96m; at 60m the equal target is 160 %",
    ]
    whole.facts.kept = {
        Resource.CPU: PreservedTarget(
            resource=Resource.CPU, percent=50, request=150, unsized_request=150, written_percent=83
        )
    }
    whole.facts.targets = (replace(target, percent=83),)
    assert said(whole.ask(path, names=names))["hpaAdvice"] == [], "83 % of 90m: it has moved, and is no share of 150m"


NAMES = {"namespace": "shop", "kind": "Deployment", "name": "web"}
ONE = "/v1/workloads/shop/Deployment/web"


def applies(webhook: Stack) -> Any:
    return said(webhook.ask(ONE, names=NAMES))["applies"]


def test_what_applies_says_where_it_is_from(whole: Stack) -> None:
    whole.report(packed(report_body(row_body(0))), **GZIP)
    whole.follow()
    assert applies(whole)["mode"] == {"value": "recommend", "source": "setting act.mode"}
    other = ClusterRule(namespace="bank", mode="off")
    whole.facts.told = ClusterRules(rules=(other, ClusterRule(name="we*", mode="enforce", policy="vpa")))
    assert applies(whole)["mode"] == {"value": "enforce", "source": "ConfigMap plimsoll/plimsoll, rule 2"}
    assert applies(whole)["policy"] == {"value": "vpa", "source": "ConfigMap plimsoll/plimsoll, rule 2"}
    policies = [{"containerName": "app", "maxAllowed": {"cpu": "2"}}]
    requirement = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    update = {"updateMode": "Initial", "minReplicas": 2, "evictionRequirements": [requirement], "later": 1}
    object_ = vpa("Initial", updatePolicy=update, resourcePolicy={"containerPolicies": policies})
    whole.facts.vpas = {object_.target: vpa_orders(object_, VpaSurroundings())}
    terms = applies(whole)
    assert terms["mode"] == {"value": "enforce", "source": "VPA shop/web (new pods alone)"}
    assert terms["policy"]["source"] == "ConfigMap plimsoll/plimsoll, rule 2"
    bounds = {entry["name"]: (entry["value"], entry["source"]) for entry in terms["bounds"]}
    assert bounds["container-policies"] == ('[{"containerName":"app","maxAllowed":{"cpu":"2000m"}}]', "VPA shop/web")
    assert bounds["min-replicas"] == ("2", "VPA shop/web")
    assert bounds["eviction-requirement"] == ("TargetHigherThanRequests of cpu", "VPA shop/web")
    assert bounds["not honoured"] == ("updatePolicy.later is not honoured", "VPA shop/web")
    annotations = {"plimsoll.dev/mode": "off", "plimsoll.dev/max-cpu": "2", "other": "x"}
    whole.facts.namespaces["shop"] = Namespace(name="shop", annotations=annotations)
    terms = applies(whole)
    assert terms["mode"] == {"value": "off", "source": "Namespace shop, annotation plimsoll.dev/mode"}
    assert terms["annotations"] == {"plimsoll.dev/max-cpu": "2", "plimsoll.dev/mode": "off"}
    bound = {"name": "max-cpu", "value": "2", "source": "Namespace shop, annotation plimsoll.dev/max-cpu"}
    assert bound in terms["bounds"]
    whole.facts.namespaces["shop"] = Namespace(name="shop", annotations={"plimsoll.dev/mode": "on"})
    assert applies(whole)["mode"]["value"] == "off"
    assert "'on' is not allowed" in applies(whole)["mode"]["source"]
    labels = {"plimsoll.dev/mode": "enforce", "plimsoll.dev/policy": "vpa"}
    whole.facts.namespaces["shop"] = Namespace(name="shop", labels=labels)
    assert applies(whole)["mode"] == {"value": "enforce", "source": "Namespace shop, label plimsoll.dev/mode"}
    assert applies(whole)["annotations"] == {}
    whole.facts.namespaces["shop"] = Namespace(name="shop", annotations={"plimsoll.dev/policy": "best"})
    assert applies(whole)["mode"]["value"] == "off"
    assert "plimsoll.dev/policy: 'best' is not allowed" in applies(whole)["mode"]["source"]
    assert applies(whole)["policy"]["value"] == "cruise"
    whole.facts.axes = FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web")
    whole.facts.vpa = "VerticalPodAutoscaler shop/web"
    assert applies(whole)["cpuFrozenFor"] == "HorizontalPodAutoscaler shop/web"
    assert applies(whole)["leftAloneFor"] == "VerticalPodAutoscaler shop/web"


def test_what_one_node_alone_told_stands_beside_what_counts(whole: Stack) -> None:
    whole.facts.places["uid-50"] = place(50, node="node-b")
    whole.server.users["b"] = {**user(), "extra": {"authentication.kubernetes.io/node-name": ["node-b"]}}
    quiet, busy = (row_body(number, memory=distribution(most), oomKills=[]) for number, most in ((0, 3e6), (50, 3e9)))
    whole.report(packed(report_body(quiet)), **GZIP)
    whole.report(packed(report_body(busy, node="node-b")), "b", **GZIP)
    whole.follow()
    advice = said(whole.ask(ONE, names=NAMES))["containers"][0]["advice"]
    # Of one node four times what the others saw counts; figures are kept rounded up a little.
    assert (advice["memoryMaxBytes"], advice["memoryAloneBytes"]) == pytest.approx((12e6, 3e9), rel=0.001)


def test_a_container_is_told_with_its_kind_and_limit_while_a_pod_of_it_is_known(whole: Stack) -> None:
    whole.report(packed(report_body(row_body(0, container="app"), row_body(0, container="proxy"))), **GZIP)
    whole.follow()

    def templates() -> dict[str, tuple[str | None, int | None]]:
        containers = said(whole.ask(ONE, names=NAMES))["containers"]
        return {container["container"]: (container["kind"], container["memoryLimitBytes"]) for container in containers}

    assert templates() == {"app": (None, None), "proxy": (None, None)}
    assert said(whole.ask(ONE, names=NAMES))["podContainers"] is None
    written = (
        WrittenContainer(name="app", memory_limit_bytes=1 << 28),
        WrittenContainer(name="proxy", kind=ContainerKind.SIDECAR),
    )
    whole.facts.places["uid-0"] = replace(place(0), containers=written)
    assert templates() == {"app": ("regular", 1 << 28), "proxy": ("sidecar", None)}
    renamed = (*written[1:], WrittenContainer(name="api"))
    whole.facts.places["uid-0"] = replace(place(0), containers=renamed)
    assert templates() == {"app": (None, None), "proxy": ("sidecar", None)}
    assert said(whole.ask(ONE, names=NAMES))["podContainers"] == ["api", "proxy"]


def test_another_policy_is_tried_on_request(whole: Stack) -> None:
    whole.report(packed(report_body(row_body(0))), **GZIP)
    whole.follow()
    tried = said(whole.ask(ONE, names=NAMES, policy="vpa"))
    assert (tried["containers"][0]["advice"]["policy"], tried["containers"][0]["advice"]["missing"]) == (
        "vpa",
        "not_loaded",
    )
    assert whole.ask(ONE, names=NAMES, policy="best").status == 400


def test_workloads_are_not_told_in_part(tmp_path: Path) -> None:
    with stack(tmp_path) as webhook:
        webhook.report(packed(report_body(row_body(0))), **GZIP)

        def told() -> list[tuple[int, str | None, str | None]]:
            answers = [webhook.ask(path) for path in ("/v1/workloads", "/v1/policy", "/v1/nodes")]
            answers.append(webhook.ask(ONE, names=NAMES))
            return [(answer.status, said(answer).get("error"), answer.headers.get("Retry-After")) for answer in answers]

        assert told() == [(503, "the history is not loaded yet", "5")] * 4
        webhook.follow()
        assert told() == [(200, None, None)] * 4
        webhook.facts.is_complete = False
        assert told() == [(503, "the cluster's pods, HPAs and VPAs are not all read yet", "5")] * 4


def test_a_summary_of_a_part_says_that_it_is_one(tmp_path: Path) -> None:
    with stack(tmp_path) as webhook:
        webhook.report(packed(report_body(row_body(0))), **GZIP)

        def told() -> list[tuple[str, str]]:
            stopped = said(webhook.ask("/v1/summary"))["stopped"]
            return [(part["what"], part["detail"]) for part in stopped if part["what"] != "nodes"]

        reading = (
            "histories are being read from the database: not all workloads are counted, and there is no advice yet"
        )
        assert told() == [("history", reading)]
        assert webhook.ask("/v1/events").status == 200, "what was decided is in the database, and all of it"
        webhook.follow()
        assert told() == []
        webhook.facts.is_complete = False
        detail = "the cluster's pods, HPAs and VPAs are not all read yet: what is counted of nodes and modes is not all"
        assert told() == [("watch", detail)]


def test_what_is_not_known_is_not_found(whole: Stack) -> None:
    answer = whole.ask(ONE, names=NAMES)
    assert (answer.status, said(answer)) == (404, {"error": "nothing is known of Deployment shop/web"})


def test_nodes_say_how_far_their_reports_have_come(whole: Stack) -> None:
    whole.report(packed(report_body(row_body(0), sequence=3, lostReports=2)), **GZIP)
    whole.report(packed(report_body(row_body(0), sequence=5, lostReports=2)), **GZIP)
    whole.follow()
    nodes = said(whole.ask("/v1/nodes"))["nodes"]
    node, silent = sorted(nodes, key=lambda entry: str(entry["node"]))
    assert (silent["node"], silent["receivedAgeSeconds"]) == ("node-b", None)
    assert (node["node"], node["instanceType"], node["cpus"]) == ("node-a", "m5.large", 8)
    assert (node["sequence"], node["missingReports"], node["lostReports"], node["workloads"]) == (5, 1, 2, 1)
    assert node["receivedAgeSeconds"] < 60


def test_readers_are_let_in_by_rbac_alone(tmp_path: Path) -> None:
    with stack(tmp_path, server=Server(users={"good": user()})) as webhook:
        assert webhook.ask("/v1/nodes").status == 403
        assert webhook.ask("/v1/nodes", token=None).status == 401
        assert results(webhook, "forbidden", "questions") == 1

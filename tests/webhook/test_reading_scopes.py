"""What is read of the cluster at a glance, page by page, and by who may see a part of it alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.cli.text.spans import ASCII
from agent.cli.workloads.view import workload_lines
from agent.core.cluster.node import Namespace
from agent.core.cluster.workload import Workload
from agent.core.history.workloads.usage_ledger import LedgerAmounts, LedgerHour
from agent.webhook.http.access import MOST_NAMESPACES, Access
from agent.webhook.queries.events import EventsBody
from agent.webhook.queries.policies import PoliciesBody
from agent.webhook.queries.standings import Severity, standing_of
from agent.webhook.queries.summary import SummaryBody
from agent.webhook.queries.workload_bodies import NodeBody, NodesBody, WorkloadBody, WorkloadsBody
from agent.webhook.store.records.decisions import DecisionLogState, StoredDecision
from agent.webhook.store.shapes import StoreAway
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.signed_tokens import AnyWord
from tests.webhook.stack import READABLE, WEB, Stack, place, stack
from tests.webhook.test_access import Server, user

MIB = 1 << 20
HOUR = int(time.time() // 3600) - 2
BANK = replace(WEB, namespace="bank", name="vault")
API = replace(WEB, name="api")
DEVELOPER: dict[str, object] = {"username": "ann", "groups": ["dev"]}
STRANGER: dict[str, object] = {"username": "bob", "groups": []}


def hour(workload: Workload = WEB, unix_hour: int = HOUR, **cpu: int | None) -> LedgerHour:
    given: dict[str, Any] = {
        "written": 500,
        "requested": 400,
        "recommended": 200,
        "used": 150,
        "used_p95": 190,
        "short_seconds": 0,
        **cpu,
    }
    memory = LedgerAmounts(
        written=512 * MIB,
        requested=256 * MIB,
        recommended=256 * MIB,
        used=200 * MIB,
        used_p95=220 * MIB,
        short_seconds=0,
    )
    return LedgerHour(
        workload=workload, unix_hour=unix_hour, pods_milli=2000, cpu=LedgerAmounts(**given), memory=memory, kills=0
    )


def decision(sequence: int, workload: Workload | None = WEB, **fields: Any) -> StoredDecision:
    record = StoredDecision(
        node="node-a",
        incarnation="i",
        sequence=sequence,
        unix_seconds=time.time() - 60 * sequence,
        action="resize",
        outcome="applied",
        reason="short",
        detail="",
        workload=workload,
        pod=None if workload is None else f"{workload.name}-1",
        pod_uid=None if workload is None else f"uid-{workload.name}",
        changes='[{"container":"app","resource":"cpu","field":"request","before":400,"after":200}]',
        seconds=1.5,
        repeats=1,
        asked_by=None,
    )
    return replace(record, **fields)


class Desk:
    """A stack with two namespaces, a ledger and decisions; ``good`` reads all, ``ann`` shop alone, ``bob`` nothing."""

    def __init__(self, webhook: Stack) -> None:
        self.made = webhook
        webhook.facts.namespaces = {name: Namespace(name=name) for name in ("bank", "empty", "shop")}
        webhook.facts.places |= {
            "uid-bank": place(50, workload=BANK),
            "uid-api": place(51, workload=API),
        }
        rows = [
            row_body(1),
            row_body(51, workload="api", pod="web-51", podUid="uid-api"),
            row_body(50, namespace="bank", workload="vault", pod="web-50", podUid="uid-bank"),
        ]
        assert webhook.report(packed(report_body(*rows)), content_encoding="gzip").status == 200
        webhook.follow()
        webhook.index.loaded()
        webhook.store.write_ledger_hour(
            HOUR,
            [
                hour(),
                hour(API, requested=100, recommended=300),
                hour(BANK, requested=9000, recommended=9000, written=9000),
            ],
            gone=(),
        )
        webhook.store.write_ledger_day(HOUR // 24)
        state = DecisionLogState(
            node="node-a", incarnation="i", agent="1.2", dropped=3, received_unix_seconds=time.time()
        )
        webhook.store.take_decisions(
            state,
            [decision(1), decision(2, API), decision(3, BANK, asked_by="root (uid 0)"), decision(4, None)],
        )

    def get(self, path: str, answer_kind: Any, *, who: str = "good", names: Any = None, **query: Any) -> Any:
        answer = self.ask(path, who=who, names=names, **query)
        assert answer.status == 200, answer.body
        return msgspec.json.decode(answer.body, type=answer_kind, strict=True)

    def ask(self, path: str, *, who: str = "good", **more: Any) -> Any:
        return self.made.ask(path, token=who, **more)

    def one(self, workload: Workload, who: str = "good", **more: Any) -> Any:
        names = {"namespace": workload.namespace, "kind": workload.kind, "name": workload.name}
        path = f"/v1/workloads/{workload.namespace}/{workload.kind}/{workload.name}"
        return self.ask(path, who=who, names=names, **more)


@pytest.fixture
def server() -> Server:
    readable = frozenset({*READABLE, "/v1/workloads/bank/Deployment/vault", "/v1/workloads/shop/Deployment/api"})
    return Server(
        users={"good": user(), "ann": DEVELOPER, "bob": STRANGER},
        readable=readable,
        denied=frozenset({"ann", "bob"}),
        listable={"ann": frozenset({"shop"})},
    )


@pytest.fixture
def desk(tmp_path: Path, server: Server) -> Iterator[Desk]:
    with stack(tmp_path, server=server) as webhook:
        yield Desk(webhook)


# At a glance


def test_summary_of_the_whole_cluster(desk: Desk) -> None:
    body = desk.get("/v1/summary", SummaryBody)
    assert body.scope.whole_cluster
    assert body.sentence == "0.2 cores and 0.0 GiB are requested and not needed; 1 workload is short"
    assert (body.hour.unix_hour, body.hour.workloads, body.hour.cpu.requested_millicores) == (HOUR, 3, 9500)
    assert (body.hour.possible_cpu_millicores, body.hour.needed_cpu_millicores) == (200, 200), "never netted"
    assert body.hour_age_seconds >= 3600
    assert [(total.namespace, total.hour.workloads) for total in body.namespaces] == [("bank", 1), ("shop", 2)]
    assert [day.unix_day for day in body.days] == [HOUR // 24]
    assert (body.workloads.total, body.workloads.short, body.workloads.over, body.workloads.fits) == (3, 1, 1, 1)
    assert (body.nodes.count, body.nodes.reporting, body.nodes.silent) == (2, 1, 1)
    assert body.nodes.cpu_allocatable_millicores == 16_000
    assert [event.sequence for event in body.actions] == [1, 2, 3, 4]
    assert [stop.what for stop in body.stopped] == ["nodes"]
    assert "node-b" in body.stopped[0].detail


def test_summary_says_what_is_stopped_and_what_ends_it(desk: Desk) -> None:
    desk.made.facts.told = replace(desk.made.facts.told, pause_reason="upgrade")
    stopped = desk.get("/v1/summary", SummaryBody).stopped
    assert stopped[0].what == "pause"
    assert stopped[0].detail == "the whole cluster is paused: upgrade"
    assert stopped[0].command == "kubectl -n plimsoll edit configmap plimsoll"


def test_summary_without_a_database_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise StoreAway("gone")

    monkeypatch.setattr(desk.made.store, "newest_ledger_hour", away)
    body = desk.get("/v1/summary", SummaryBody)
    assert (body.hour, body.nodes, body.actions) == (None, None, [])
    assert "database" in [stop.what for stop in body.stopped]
    listed = desk.get("/v1/workloads", WorkloadsBody)
    assert [line.kills_week for line in listed.workloads] == [None, None, None]


# Lists


def test_lines_tell_what_the_ledger_and_the_log_know(desk: Desk) -> None:
    body = desk.get("/v1/workloads", WorkloadsBody)
    assert [(line.namespace, line.name, line.severity) for line in body.workloads] == [
        ("bank", "vault", "fits"),
        ("shop", "api", "short"),
        ("shop", "web", "over"),
    ]
    assert body.by_severity == {"short": 1, "over": 1, "fits": 1, "unknown": 0}
    web = body.workloads[2]
    assert web.severity_words == "requests 200m of CPU that it does not need"
    assert (web.hour.cpu.requested_millicores, web.hour.pods, web.kills_week) == (400, 2.0, 0)
    assert (web.last_action.sequence, web.last_action.changes[0].after) == (1, 200)
    assert (web.replicas, web.mode, web.mode_source) == (3, "recommend", "setting act.mode")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"sort": "short"}, ["api", "web", "vault"]),
        ({"sort": "cpu-requested"}, ["vault", "web", "api"]),
        ({"sort": "cpu-requested", "reverse": "true"}, ["api", "web", "vault"]),
        ({"sort": "cpu-possible"}, ["web", "vault", "api"]),
        ({"sort": "name", "reverse": "true"}, ["web", "api", "vault"]),
        ({"severity": "short"}, ["api"]),
        ({"namespace": "shop"}, ["api", "web"]),
        ({"q": "VAU"}, ["vault"]),
        ({"q": "shop/a"}, ["api"]),
        ({"q": "app"}, ["vault", "api", "web"]),
        ({"kind": "DaemonSet"}, []),
        ({"mode": "off"}, []),
        ({"mode": "recommend"}, ["vault", "api", "web"]),
    ],
)
def test_list_is_chosen_and_sorted_on_the_server(desk: Desk, query: dict[str, str], names: list[str]) -> None:
    body = desk.get("/v1/workloads", WorkloadsBody, **query)
    assert [line.name for line in body.workloads] == names
    assert body.total == len(names)


@pytest.mark.parametrize("sort", ["name", "short", "memory-used", "kills"])
def test_pages_of_any_order_hold_each_workload_once(desk: Desk, sort: str) -> None:
    names: list[str] = []
    after: str | None = None
    while True:
        more: dict[str, str] = {} if after is None else {"after": after}
        body = desk.get("/v1/workloads", WorkloadsBody, sort=sort, limit="1", **more)
        names += [line.name for line in body.workloads]
        after = body.next
        if after is None:
            break
    assert sorted(names) == ["api", "vault", "web"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"sort": "size"}, "sort: 'size' is not allowed; allowed: name, short, kills"),
        ({"severity": "bad"}, "severity: 'bad' is not allowed; allowed: short, over, fits, unknown"),
        ({"mode": "bad"}, "mode: 'bad' is not allowed"),
        ({"reverse": "1"}, "reverse: '1' is not allowed; allowed: true, false"),
        ({"q": "x" * 101}, "q: 101 characters; allowed: at most 100"),
        ({"sort": "short", "after": "shop/Deployment/gone"}, "after: 'shop/Deployment/gone' is not in this list"),
    ],
)
def test_query_that_is_not_understood_is_one_line(desk: Desk, query: dict[str, str], said: str) -> None:
    answer = desk.ask("/v1/workloads", **query)
    assert answer.status == 400
    assert json.loads(answer.body)["error"].startswith(said)


def test_workload_tells_its_hours_its_marks_and_why(desk: Desk) -> None:
    body = msgspec.json.decode(desk.one(WEB).body, type=WorkloadBody)
    assert [row.unix_hour for row in body.ledger] == [HOUR]
    assert [(event.sequence, event.changes[0].before) for event in body.events] == [(1, 400)]
    assert [(kill.count, kill.memory_bytes) for kill in body.kill_hours] in ([(2, MIB)], [(1, None), (1, MIB)])
    steps = [(step.step, step.container) for step in body.explanation]
    assert steps[:2] == [("applies", None), ("policy", None)]
    assert ("advice", "app") in steps
    kills = [(step.container, step.words) for step in body.explanation if step.step == "kills"]
    assert kills == [("app", "killed for want of memory at 1MiB")]


def test_workload_tells_its_pods_those_whose_resize_is_pending_first(desk: Desk) -> None:
    places = desk.made.facts.places
    for uid in list(places):
        if places[uid].workload == WEB:
            del places[uid]
    asked = replace(place(1), cpu_request_millicores=700, memory_request_bytes=MIB, is_running=True)
    places["a"] = replace(asked, name="web-a")
    places["b"] = replace(asked, name="web-b", resize_pending="Deferred: not enough cpu")
    places["c"] = replace(asked, name="web-c", node=None, is_running=False)
    body = msgspec.json.decode(desk.one(WEB).body, type=WorkloadBody)
    assert body.pods_total == 3
    assert [(pod.pod, pod.node, pod.state, pod.resize_pending) for pod in body.pods] == [
        ("web-b", "node-a", "running", "Deferred: not enough cpu"),
        ("web-a", "node-a", "running", None),
        ("web-c", None, "waiting", None),
    ]
    assert {(pod.cpu_request_millicores, pod.memory_request_bytes) for pod in body.pods} == {(700, MIB)}
    lines = ["".join(span.text for span in line) for line in workload_lines(body, width=150, glyphs=ASCII)]
    at = lines.index("3 pods")
    assert lines[at + 1 : at + 4] == [
        "  web-b  on node-a; requests CPU 700m, memory 1.00MiB; resize pending: Deferred: not enough cpu",
        "  web-a  on node-a; requests CPU 700m, memory 1.00MiB",
        "  web-c  not bound to a node, waiting; requests CPU 700m, memory 1.00MiB",
    ]
    for number in range(150):
        places[f"d-{number}"] = replace(asked, name=f"web-d{number:03}")
    body = msgspec.json.decode(desk.one(WEB).body, type=WorkloadBody)
    assert (body.pods_total, len(body.pods)) == (153, 100)
    lines = ["".join(span.text for span in line) for line in workload_lines(body, width=150, glyphs=ASCII)]
    assert "  10 of 153; -o json has up to 100" in lines


def test_nodes_tell_what_the_cluster_and_their_agents_say(desk: Desk) -> None:
    body = desk.get("/v1/nodes", NodesBody)
    first, second = body.nodes
    assert (first.node, first.is_silent, first.agent_version, first.dropped_decisions) == ("node-a", False, "1.2", 3)
    assert (first.kubelet, first.cpu_allocatable_millicores) == ("v1.34.1", 8000)
    assert (second.node, second.is_silent, second.agent_version) == ("node-b", True, None)


def test_nodes_tell_how_full_they_are_by_their_plans_or_why_that_is_not_known(desk: Desk) -> None:
    old, silent = desk.get("/v1/nodes", NodesBody).nodes
    assert (old.plan, old.plan_missing) == (None, "its agent is of a release that does not tell of plans")
    assert (silent.plan, silent.plan_missing) == (None, "this replica of the webhook has no report of it yet")
    cpu = {"allocatable": 8000, "requested": 7000, "reserved": 500, "base": 4000, "planned": 6000}
    memory = {"allocatable": 1 << 33, "requested": 1 << 33, "reserved": 0, "base": 1 << 33, "planned": (1 << 33) + 5}
    plan = {
        "cpu": {**{f"{name}Millicores": amount for name, amount in cpu.items()}, "infeasible": False},
        "memory": {**{f"{name}Bytes": amount for name, amount in memory.items()}, "infeasible": True},
    }

    def told(**fields: object) -> NodeBody:
        answer = desk.made.report(packed(report_body(row_body(1), **fields)), content_encoding="gzip")
        assert answer.status == 200, answer.body
        desk.made.follow()
        body: NodeBody = desk.get("/v1/nodes", NodesBody).nodes[0]
        return body

    node = told(sequence=18, endAgeSeconds=3.0, plan=plan)
    assert node.plan_missing is None
    assert node.plan is not None
    # 8000 allocatable = 500 reserved + 4000 base + 2000 headroom + 1500 free
    assert msgspec.structs.astuple(node.plan.cpu) == (8000, 7000, 500, 4000, 2000, 1500, False)
    assert (node.plan.memory.free_bytes, node.plan.memory.headroom_bytes, node.plan.memory.infeasible) == (-5, 5, True)
    node = told(sequence=19, endAgeSeconds=2.0, plan=None)
    assert (node.plan, node.plan_missing) == (None, "its agent has no plan")


def test_policy_tells_what_applies_and_what_said_so(desk: Desk) -> None:
    desk.made.facts.told_faults = ("hpas bank/x: odd",)
    body = desk.get("/v1/policy", PoliciesBody, q="we")
    assert [line.name for line in body.workloads] == ["web"]
    assert body.workloads[0].applies.mode.source == "setting act.mode"
    assert body.faults == ["hpas bank/x: odd"]


# Events


def test_events_are_chosen_and_paged(desk: Desk) -> None:
    body = desk.get("/v1/events", EventsBody)
    assert [event.sequence for event in body.events] == [1, 2, 3, 4]
    assert (body.dropped, body.retention_days, body.next) == (3, 30, None)
    assert body.events[2].by == "root (uid 0)"
    assert body.events[3].namespace is None
    first = desk.get("/v1/events", EventsBody, limit="3")
    rest = desk.get("/v1/events", EventsBody, limit="3", after=first.next)
    assert [event.sequence for event in (*first.events, *rest.events)] == [1, 2, 3, 4]
    assert rest.next is None
    for query, sequences in (
        ({"namespace": "shop"}, [1, 2]),
        ({"workload": "web"}, [1]),
        ({"workload": "Deployment/vault"}, [3]),
        ({"workload": "DaemonSet/vault"}, []),
        ({"node": "node-b"}, []),
        ({"pod": "v*"}, [3]),
        ({"action": "resize,pause", "outcome": "applied"}, [1, 2, 3, 4]),
        ({"action": "pause"}, []),
        ({"sinceSeconds": "179"}, [1, 2]),  # of 60, 120 and 180 s ago, and by now more
    ):
        assert [event.sequence for event in desk.get("/v1/events", EventsBody, **query).events] == sequences, query


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"action": "guess"}, "action: 'guess' is not allowed; allowed: resize"),
        ({"outcome": "x"}, "outcome: 'x' is not allowed"),
        ({"sinceSeconds": "0"}, "sinceSeconds: '0' is not allowed; allowed: 1 to 2592000"),
        ({"sinceSeconds": "9" * 400}, "sinceSeconds: "),
        ({"sinceSeconds": "0" * 17 + "9" * 400}, "sinceSeconds: "),
        ({"after": "yesterday"}, "after: 'yesterday' is not allowed; allowed: next of the page before"),
        ({"after": "nan-1"}, "after: 'nan-1' is not allowed"),
        ({"limit": "0"}, "limit: '0' is not allowed; allowed: 1 to 500"),
        ({"limit": "000000001000"}, "limit: '000000001000' is not allowed; allowed: 1 to 500"),
        ({"pod": "x\0"}, "pod: "),
    ],
)
def test_events_query_that_is_not_understood_is_one_line(desk: Desk, query: dict[str, str], said: str) -> None:
    answer = desk.ask("/v1/events", **query)
    assert answer.status == 400
    assert json.loads(answer.body)["error"].startswith(said)


# ETags


PATHS = ("/v1/summary", "/v1/workloads", "/v1/nodes", "/v1/events", "/v1/policy")


@pytest.mark.parametrize("path", PATHS)
def test_what_has_not_changed_but_for_ages_is_not_sent_again(desk: Desk, path: str) -> None:
    first = desk.ask(path)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')
    again = desk.ask(path, held=tag)
    assert (again.status, again.body) == (304, b"")
    assert again.headers["ETag"] == tag
    assert desk.ask(path, held='W/"other"').status == 200
    assert desk.ask(path, held=f'W/"other", {tag.removeprefix("W/")}').status == 304


def test_news_are_another_tag(desk: Desk) -> None:
    tag = desk.ask("/v1/events").headers["ETag"]
    state = DecisionLogState(node="node-a", incarnation="i", agent="1", dropped=0, received_unix_seconds=time.time())
    desk.made.store.take_decisions(state, [decision(9)])
    assert desk.ask("/v1/events", held=tag).status == 200


def test_report_that_came_is_another_tag_although_only_an_age_fell(desk: Desk) -> None:
    tag = desk.ask("/v1/nodes").headers["ETag"]
    desk.made.posts._wall_clock = lambda: time.time() + 5  # moments are compared by the second
    desk.made.report(packed(report_body(row_body(1), sequence=18)), content_encoding="gzip")
    desk.made.follow()
    assert desk.ask("/v1/nodes", held=tag).status == 200


# Who may see a part alone


def texts(desk: Desk, token: str) -> str:
    """Return all that an account is answered, whatever it asks."""
    answers = [desk.ask(path, who=token) for path in PATHS]
    answers += [
        desk.ask("/v1/workloads", who=token, q="vault"),
        desk.ask("/v1/workloads", who=token, sort="cpu-requested"),
        desk.ask("/v1/workloads", who=token, namespace="bank"),
        desk.ask("/v1/events", who=token, namespace="bank"),
        desk.ask("/v1/events", who=token, pod="vault*"),
        desk.ask("/v1/events", who=token, node="node-a"),
        desk.ask("/v1/policy", who=token, q="bank"),
        desk.one(BANK, token),
        desk.one(replace(BANK, name="none"), token),
    ]
    return "\n".join(answer.body.decode() for answer in answers)


def test_rows_sums_search_and_events_hold_nothing_of_others(desk: Desk) -> None:
    desk.made.facts.told_faults = ("hpas bank/x: odd",)
    everything = texts(desk, "good")
    assert "vault" in everything
    text = texts(desk, "ann")
    for path in ("/v1/workloads/bank/Deployment/vault", "/v1/workloads/bank/Deployment/none"):
        text = text.replace(path, "")  # what was asked for is said back
    text = re.sub(r'"unix(Hour|Day)":\d+|\d+\.\d+', "", text)  # moments and ages, whose digits may be any
    for secret in ("vault", "bank", "root (uid 0)", "9000", "9500", "empty", "node-b"):
        assert secret not in text, secret
    assert "3 of 3" not in text


def test_part_of_the_cluster_says_how_much_of_it_that_is(desk: Desk) -> None:
    body = desk.get("/v1/summary", SummaryBody, who="ann")
    assert (body.scope.whole_cluster, body.scope.namespaces, body.scope.of_namespaces) == (False, 1, 3)
    assert (body.scope.names, body.scope.words) == (["shop"], "1 of 3 namespaces is yours")
    assert (body.hour.workloads, body.hour.cpu.requested_millicores) == (2, 500)
    assert (body.workloads.total, body.nodes) == (2, None)
    assert [event.sequence for event in body.actions] == [1, 2]
    listed = desk.get("/v1/workloads", WorkloadsBody, who="ann")
    assert ([line.name for line in listed.workloads], listed.total) == (["api", "web"], 2)
    assert listed.by_severity == {"short": 1, "over": 1, "fits": 0, "unknown": 0}
    assert desk.get("/v1/nodes", NodesBody, who="ann").nodes == []
    events = desk.get("/v1/events", EventsBody, who="ann")
    assert ([event.sequence for event in events.events], events.dropped) == ([1, 2], None)
    assert desk.one(WEB, "ann").status == 200


def test_words_of_a_decision_name_nothing_of_others(desk: Desk) -> None:
    state = DecisionLogState(node="node-a", incarnation="i", agent="1", dropped=0, received_unix_seconds=time.time())
    detail = "room for bank/vault-1, shop/web-2 and Deployment/web by plimsoll.dev/mode"
    desk.made.store.take_decisions(state, [decision(9, detail=detail, unix_seconds=time.time())])
    assert desk.get("/v1/events", EventsBody).events[0].detail == detail
    wording = "room for (another namespace's), shop/web-2 and Deployment/web by plimsoll.dev/mode"
    assert desk.get("/v1/events", EventsBody, who="ann").events[0].detail == wording
    assert desk.get("/v1/workloads", WorkloadsBody, who="ann", q="web").workloads[0].last_action.detail == wording
    assert msgspec.json.decode(desk.one(WEB, "ann").body, type=WorkloadBody).events[0].detail == wording


def test_what_is_not_yours_is_refused_whether_it_is_there_or_not(desk: Desk) -> None:
    for workload in (BANK, replace(BANK, name="none"), replace(BANK, namespace="nowhere")):
        answer = desk.one(workload, "ann")
        assert answer.status == 403
        assert json.loads(answer.body)["error"].endswith("and list pods not there either")
    assert desk.ask("/v1/events", who="ann", namespace="bank").status == 403


def test_who_may_list_no_pods_is_refused(desk: Desk) -> None:
    answer = desk.ask("/v1/summary", who="bob")
    assert answer.status == 403
    assert json.loads(answer.body)["error"] == (
        "bob may not get the nonResourceURL /v1/summary, and list pods in none of 3 namespaces"
    )


def test_etags_of_others_are_others(desk: Desk) -> None:
    tag = desk.ask("/v1/workloads").headers["ETag"]
    assert desk.ask("/v1/workloads", who="ann", held=tag).status == 200


def test_rights_are_remembered_for_a_minute_and_asked_about_once(desk: Desk, server: Server) -> None:
    before = len(server.asked_of_pods)
    for path in PATHS:
        desk.ask(path, who="ann")
    # Everywhere, and then each of three namespaces; once for all paths.
    assert len(server.asked_of_pods) - before == 4


def test_right_that_is_taken_away_ends_with_the_minute(tmp_path: Path, server: Server) -> None:
    with stack(tmp_path, server=server) as webhook:
        desk = Desk(webhook)
        clock = [1000.0]
        access = Access(
            webhook.api,
            webhook.settings,
            namespace="plimsoll",
            places=webhook.facts,
            clock=lambda: clock[0],
            keys=AnyWord(),
        )
        assert access.scope("Bearer ann", "/v1/summary").namespaces == frozenset({"shop"})
        server.listable["ann"] = frozenset({"bank"})
        assert access.scope("Bearer ann", "/v1/summary").namespaces == frozenset({"shop"})
        clock[0] += 61
        assert access.scope("Bearer ann", "/v1/summary").namespaces == frozenset({"bank"})
        assert desk.made is webhook


def test_too_many_namespaces_are_not_asked_about_but_one_may_be_named(desk: Desk, server: Server) -> None:
    names = {f"n{number}" for number in range(MOST_NAMESPACES)}
    desk.made.facts.namespaces |= {name: Namespace(name=name) for name in names}
    before = len(server.asked_of_pods)
    answer = desk.ask("/v1/workloads", who="ann")
    assert answer.status == 403
    assert json.loads(answer.body)["error"].endswith("allowed: namespace=NAME")
    assert len(server.asked_of_pods) - before == 1
    assert desk.ask("/v1/workloads", who="ann", namespace="shop").status == 200


def test_who_may_list_pods_everywhere_sees_all_namespaces_and_no_nodes(desk: Desk, server: Server) -> None:
    server.listable["bob"] = frozenset({""})
    body = desk.get("/v1/summary", SummaryBody, who="bob")
    assert (body.scope.namespaces, body.scope.whole_cluster, body.nodes) == (3, False, None)


# How a workload stands


@pytest.mark.parametrize(
    ("cpu", "kills", "severity", "words"),
    [
        ({}, 2, Severity.SHORT, "killed for want of memory 2 times within a day"),
        (
            {"short_seconds": 72},
            0,
            Severity.SHORT,
            "used more CPU than requested for 72 s of container time within the hour",
        ),
        ({"short_seconds": 71}, 0, Severity.OVER, "requests 200m of CPU that it does not need"),
        ({"recommended": 421}, 0, Severity.SHORT, "needs 21m more CPU than it requests"),
        ({"recommended": 420}, 0, Severity.FITS, "requests what is recommended"),
        ({"recommended": 380}, 0, Severity.FITS, "requests what is recommended"),
        ({"requested": None, "short_seconds": None}, 0, Severity.FITS, "requests what is recommended"),
    ],
)
def test_standing(cpu: Any, kills: int, severity: Severity, words: str) -> None:
    standing = standing_of(hour(**cpu), kills_day=kills, kills_week=kills)
    assert (standing.severity, standing.words) == (severity, words)


def test_without_requests_or_advice_nothing_is_known_of_it() -> None:
    row = hour(recommended=None)
    row = replace(row, memory=replace(row.memory, requested=None))
    assert standing_of(row, kills_day=0, kills_week=0).severity is Severity.UNKNOWN

"""A real Prometheus scrapes a real agent and a real webhook: every query and every rule answers, and has data.

API server, agent, webhook and Prometheus are real; kubelet and kernel files are played, so that there is something of
everything on any machine: memory, throttling, deferred resizes, kills.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from agent.cli.main import main
from agent.core.history.minute.key import HistoryKey, KeyKind
from agent.core.history.minute.quality import Against
from agent.node.history.file import HistoryFile
from agent.node.history.quality import STATE_NAME
from tests.admissions import review_of
from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode
from tests.cluster.binaries import KUBERNETES
from tests.cluster.buffers import Buffers, install_crd
from tests.cluster.control_plane import control_plane
from tests.cluster.identities import create_namespace, create_service_account
from tests.cluster.kubelet_play import Answer, KubeletPlay
from tests.cluster.webhook_process import NAMESPACE, WebhookProcess, agent_token, webhook
from tests.monitoring.played_files import MIB, Load, PlayedTree
from tests.monitoring.prometheus import Prometheus, Target, prometheus, why_not
from tests.monitoring.rule_files import (
    DASHBOARD_FILES,
    dashboard,
    panel_queries,
    readme_section,
    rules,
    runbook_section,
    substituted,
)
from tests.policy_rows import make_minutes
from tests.qualities import two_hours

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(why_not() is not None, reason=why_not() or "")]

NODE, SHOP = "node-1", "shop"
VALUES: Final = {
    "__rate_interval": "10s",
    "__interval": "10s",
    "cluster": ".*",
    "node": NODE,
    "namespace": ".*",
    "workload": "",
    "pod": ".*",
    "container": ".*",
}
EMPTY_QUERIES: Final[dict[str, str]] = {
    "node: Memory of the tiers": "its limits: no tier has one here; tests/unit/metrics/test_pod_series.py has them",
    "node: Cgroups changed, and drift": "drift: as of plimsoll_cgroup_drift below",
}
"""Panels of which a query has no data here, as ``dashboard: panel``, and why it cannot have any."""
NEED_MEMORY: Final = {"node: Waiting of the tiers"}
"""Those that have data where the memory controller is v2's; tests/unit/metrics/test_pod_series.py has them anywhere."""
EMPTY_SELECTORS: Final[dict[str, str]] = {
    "plimsoll_webhook_ca_expiry_timestamp_seconds": "the tests' webhook serves files, which name no authority; "
    "tests/cluster/test_certificates.py has the built-in ones",
    "plimsoll_cgroup_drift": "it is told from the second audit on, five minutes after the first; "
    "tests/unit/node/keepers/test_cgroup_auditor.py has it",
}
"""Selectors of rules that find nothing here, and why they cannot."""

COME_LATER: Final = {"node: Cgroups changed, and drift", "plimsoll_cgroup_drift"}
"""Of both: what has data once the agent is five minutes old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All of it."""

    node: ActingNode
    hook: WebhookProcess
    prometheus: Prometheus


def run_pod(node: ActingNode, tree: PlayedTree, name: str, load: Load, **more: Any) -> None:
    """Run a pod whose one container does something."""
    pod = node.run_pod(name, objects.container(**more.pop("resources")), load=None, **more)
    tree.play(ActingNode.cgroup_of(pod), load)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("monitoring")
    with control_plane(KUBERNETES, directory=folder / "plane", audit=False) as plane:
        fence.install(plane)
        install_crd(plane)
        for namespace in (SHOP, NAMESPACE):
            if not plane.admin.exists(f"/api/v1/namespaces/{namespace}"):
                create_namespace(plane, namespace)
        if not plane.admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/plimsoll-agent"):
            create_service_account(plane, NAMESPACE, "plimsoll-agent")
        buffers = Buffers(plane, SHOP)
        buffers.template("chunk")
        buffers.create(
            "spare",
            podTemplateRef={"name": "chunk"},
            replicas=2,
            provisioningStrategy="plimsoll.dev/placeholder-pods",
        )
        objects.create_node(plane.admin, NODE, kubelet_version=f"v{plane.version}")
        (folder / "node").mkdir()
        with PlayedTree(folder / "node") as tree, KubeletPlay(plane, NODE) as kubelet:
            node = ActingNode(plane, SHOP, NODE, folder / "node", tree)  # type: ignore[arg-type]  # as much of a tree as it asks
            node.kubelet = kubelet
            amounts = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
            busy = Load(cpu_cores=0.6, waiting_ratio=0.3, throttled_ratio=0.1, memory_bytes=100 * MIB)
            run_pod(node, tree, "busy", busy, resources=amounts)
            kubelet.answer(SHOP, "later", Answer.DEFER)
            run_pod(node, tree, "later", busy, resources={"requests": {"cpu": "100m", "memory": "64Mi"}})
            run_pod(node, tree, "bare", Load(), owner=None, resources={"requests": {"cpu": "300m", "memory": "64Mi"}})
            large = {"requests": {"cpu": "300m", "memory": "2Gi"}}
            run_pod(node, tree, "large", Load(memory_bytes=400 * MIB), resources=large)
            write_history(folder / "node" / "state", "busy", "later", "large")
            token = folder / "token"
            token.write_text(agent_token(plane, NODE))
            (folder / "webhook").mkdir()
            with webhook(plane, folder / "webhook") as hook:
                try:
                    agent = node.start_agent(
                        report__url=f"https://127.0.0.1:{hook.port}",
                        report__tokenFile=token,
                        report__caFile=plane.authority,
                        metrics__perContainer=True,
                        metrics__perWorkload=True,
                        recommend__policy="vpa",
                    )
                    targets = (
                        Target(
                            job="agents", address=agent.metrics_url.split("/")[2], labels={"node": NODE, "cluster": "c"}
                        ),
                        Target(
                            job="webhook",
                            address=f"127.0.0.1:{hook.port}",
                            labels={"cluster": "c"},
                            authority=plane.authority,
                        ),
                    )
                    with prometheus(folder, targets) as asked:
                        live(node, tree, hook, asked)
                        yield Scene(node=node, hook=hook, prometheus=asked)
                finally:
                    if hasattr(node, "agent"):
                        node.agent.__exit__(None, None, None)


def live(node: ActingNode, tree: PlayedTree, hook: WebhookProcess, asked: Prometheus) -> None:
    """Let everything happen that is to be seen."""
    applied = 'plimsoll_resizes_total{direction="up",resource="cpu",result="applied"}'
    node.wait(lambda: (node.metric(applied) or 0) > 0, "a pod has grown")
    node.wait(lambda: node.metric("plimsoll_resize_pending_oldest_seconds"), "a resize is put off")
    node.wait(lambda: node.metric('plimsoll_report_posts_total{result="taken"}'), "a report was taken")
    shrunk = 'plimsoll_resizes_total{direction="down",resource="memory",result="applied"}'
    node.wait(lambda: (node.metric(shrunk) or 0) > 0, "a pod's memory is shrunk")
    for name, recently in (("busy", "false"), ("large", "true")):
        tree.kill(ActingNode.cgroup_of(node.pod(name)))
        kills = f'plimsoll_oom_kills_total{{resized_recently="{recently}"}}'
        node.wait(partial(node.metric, kills), f"the kill in {name} is heard of")
    review = json.dumps(review_of(objects.pod("new", None))).encode()
    for _ in range(3):
        assert hook.ask("POST", "/mutate", review, Content_Type="application/json").status == 200
        node.wait(Scraped(asked), "it is scraped")
    wait = (
        "plimsoll_buffer_ready_chunks",
        "plimsoll:webhook_duration_seconds:p99_5m",
        "plimsoll_webhook_requests_total > 2",
        "plimsoll_directives_age_seconds",
        'increase(plimsoll_oom_kills_total{resized_recently="true"}[10s]) > 0',
        'ALERTS{alertname="PlimsollOomKillAfterShrink",alertstate="firing"}',
        "plimsoll_recommended_memory_bytes",
        "plimsoll_recommendation_confidence_ratio",
    )
    for expr in wait:
        node.wait(partial(asked.series, expr), f"{expr} has data")


class Scraped:
    """True once the webhook has been scraped anew since this was made."""

    def __init__(self, asked: Prometheus) -> None:
        self._asked = asked
        self._before = self._newest()

    def __call__(self) -> bool:
        return self._newest() > self._before

    def _newest(self) -> float:
        vector = self._asked.now('timestamp(up{job="webhook"})')
        return float(vector[0]["value"][1]) if vector else 0.0


def write_history(state: Path, *workloads: str) -> None:
    """Leave ten minutes as an agent before would have: policies know nothing of CPU before a minute has ended.

    And how good its sizing was in two hours before.
    """
    state.mkdir(mode=0o700)
    with HistoryFile.open(state / "history", max_rows=64) as history:
        rows = [history.row_of(HistoryKey(KeyKind.WORKLOAD, (SHOP, "Rollout", name, "app"))) for name in workloads]
        newest = int(time.time() // 60) - 1
        for minute in range(newest - 10, newest):
            cpu: list[float | None] = [None] * history.rows
            memory: list[float | None] = [None] * history.rows
            for row in rows:
                cpu[row], memory[row] = 600.0, 100.0 * MIB
            history.append(make_minutes(minute, cpu, memory))
        judged = two_hours((newest // 60 - 3) * 60, rows=history.rows, judged=tuple(rows))
        history.save_state(STATE_NAME, judged.to_arrays())


def test_every_target_is_up(scene: Scene) -> None:
    def up() -> dict[str, str]:
        return {sample["metric"]["job"]: sample["value"][1] for sample in scene.prometheus.now("up")}

    # On a busy machine one scrape may take longer than the second it has.
    scene.node.wait(lambda: up() == {"agents": "1", "webhook": "1"}, "both are up")


def test_every_loop_of_both_is_there_and_comes_round(scene: Scene) -> None:
    agent = {("agents", loop) for loop in ("sampling", "control", "acting", "report", "runs", "decisions", "auditing")}
    webhook = ("follow", "fold", "ledger", "rebuild", "sizes", "settle", "certificates", "buffers")
    loops = agent | {("webhook", loop) for loop in webhook}
    ages: dict[tuple[str, str], float] = {}

    def are_there() -> bool:
        ages.clear()
        for sample in scene.prometheus.now("plimsoll_loop_turn_age_seconds"):
            ages[sample["metric"]["job"], sample["metric"]["loop"]] = float(sample["value"][1])
        return ages.keys() == loops

    # After a scrape that took longer than its second there is nothing of that target until the next.
    scene.node.wait(are_there, f"exactly {sorted(loops)} are there")
    section = runbook_section("PlimsollLoopStuck")
    assert {loop for _, loop in ages if f"`{loop}`" not in section} == set()
    # Far below the alert's 900 s, and far above what each takes on a busy machine.
    assert max(ages.values()) < 300


def test_a_kill_after_a_shrink_is_told_of_and_one_without_is_not(scene: Scene) -> None:
    firing = {
        alert["metric"]["alertname"]: alert["metric"]
        for alert in scene.prometheus.series('ALERTS{alertstate="firing"}')
    }
    assert firing["PlimsollOomKillAfterShrink"]["node"] == NODE
    assert scene.node.metric('plimsoll_oom_kills_total{resized_recently="true"}') == 1
    assert scene.node.metric('plimsoll_oom_kills_total{resized_recently="false"}') == 1


def test_every_query_of_the_dashboards_has_data(scene: Scene) -> None:
    queries = [query for file in DASHBOARD_FILES for query in panel_queries(file)]
    assert len(queries) > 80
    empty = {
        f"{query.dashboard}: {query.panel}": query.expr
        for query in queries
        if not scene.prometheus.series(substituted(query.expr, VALUES))
    }
    later = COME_LATER & EMPTY_QUERIES.keys() if is_old(scene) else set()
    assert EMPTY_QUERIES.keys() - later <= empty.keys() - NEED_MEMORY <= EMPTY_QUERIES.keys(), "\n".join(
        f"{panel}: {expr}" for panel, expr in empty.items()
    )


def test_how_good_sizing_was_outlives_the_agent_and_reaches_the_webhook(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """600m used where 500m was recommended and 1000m applied, as an agent before this one judged it."""
    series = 'plimsoll_workload_risk_ratio{{against="{}",resource="cpu",window="1d",workload="large"}}'
    # As it began: from one or two minutes after its start on the agent adds minutes of its own.
    curves = [scene.prometheus.series(series.format(against))[0]["values"] for against in Against]
    assert [float(values[0][1]) for values in curves] == [1.0, 0.0]
    plane = scene.node.plane
    create_service_account(plane, NAMESPACE, "plimsoll-webhook-reader")
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "quality-reader"}}
    plane.admin.apply(
        {**head, "kind": "ClusterRole", "rules": [{"nonResourceURLs": ["/v1/workloads"], "verbs": ["get"]}]}
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "quality-reader"}
    subjects = [{"kind": "ServiceAccount", "name": "plimsoll-webhook-reader", "namespace": NAMESPACE}]
    plane.admin.apply({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects})
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{NAMESPACE}:plimsoll-webhook-reader",
            "nonResourceAttributes": {"path": "/v1/workloads", "verb": "get"},
        },
    }
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    # The server heeds a right a moment after it was given.
    scene.node.wait(lambda: plane.admin.create(reviews, review)["status"]["allowed"], "the reader may read")
    options = [f"--webhook=https://127.0.0.1:{scene.hook.port}", f"--kubeconfig={plane.kubeconfig}"]
    options += [f"--ca-file={plane.authority}", "-o", "json"]
    assert main(["workloads", "--worst", *options]) == 0
    qualities = {workload["name"]: workload["quality"] for workload in json.loads(capsys.readouterr().out)}
    assert {"busy", "later", "large"} <= qualities.keys()
    assert qualities["large"]["nodes"] == 1
    recommended, peak = qualities["large"]["cpu"]["recommended"], qualities["large"]["cpu"]["peak"]
    judged = recommended["judgedMinutes"]
    assert 130 <= judged < 140
    assert recommended["riskRatio"] == pytest.approx(130 / judged, abs=1e-3)
    assert recommended["deficitRatio"] == pytest.approx(1 / 6, rel=1e-2)
    assert (peak["judgedHours"], peak["overRatio"]) == (2, 0.0)
    assert peak["underRatio"] == pytest.approx(1 / 6, rel=1e-3)
    (why,) = scene.node.ask("why", name="large", trail_seconds=0.0)["items"]
    assert why["quality"]["day"]["cpu"]["recommended"]["judged_minutes"] >= 130


def test_queries_of_the_readme_have_data(scene: Scene) -> None:
    queries = re.findall(r"^\|[^|]+\| `(.+)` \|$", readme_section(), re.M)
    assert len(queries) >= 8
    # What is above a threshold only when something is wrong is asked for without it.
    bare = [re.sub(r" > \d+$", "", query).replace("[5m]", "[10s]") for query in queries]
    assert [query for query in bare if not scene.prometheus.series(query)] == []


def test_every_variable_of_the_dashboards_has_values(scene: Scene) -> None:
    for file in DASHBOARD_FILES:
        for variable in dashboard(file)["templating"]["list"]:
            if variable["type"] != "query":
                continue
            query = substituted(variable["query"]["query"], VALUES)
            asked = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
            assert asked is not None, query
            values = scene.prometheus.get(f"label/{asked[2]}/values", **{"match[]": asked[1]})
            assert values, f"{file.stem}: ${variable['name']}"


def test_every_rule_is_evaluated_without_an_error(scene: Scene) -> None:
    groups = scene.prometheus.get("rules")["groups"]
    live_rules = [rule for group in groups for rule in group["rules"]]
    assert len(live_rules) == len(rules())
    assert [(rule["name"], rule.get("lastError")) for rule in live_rules if rule["health"] != "ok"] == []


def test_everything_that_rules_ask_for_is_there(scene: Scene) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    selectors = {
        selector
        for rule in rules()
        for selector in re.findall(r"(?:\bplimsoll:\w+:\w+|\b(?:plimsoll|process)_\w+)(?:\{[^}]*\})?", rule["expr"])
    }
    assert len(selectors) > 50
    empty = {selector for selector in selectors | recorded if not scene.prometheus.series(selector)}
    later = COME_LATER & EMPTY_SELECTORS.keys() if is_old(scene) else set()
    assert EMPTY_SELECTORS.keys() - later <= empty <= EMPTY_SELECTORS.keys()


def is_old(scene: Scene) -> bool:
    """Return whether the agent has lived for so long, on a very busy machine, that there is what comes late."""
    return bool(scene.prometheus.series("plimsoll_cgroup_drift"))

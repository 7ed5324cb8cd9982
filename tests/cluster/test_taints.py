"""The overload taint on a real API server: nobody's taint is lost, nothing is written without need, the fence holds."""

from __future__ import annotations

import http
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.node import Node, Taint
from agent.core.orders.plan_options import OverloadOptions
from agent.core.window.overload import OVERLOAD_TAINT_EFFECT, OVERLOAD_TAINT_KEY
from agent.kube.calls.taints import TaintChange, TaintResult, set_taint
from agent.kube.client.api import Api, HttpApi
from agent.kube.client.credentials import Credentials
from agent.kube.client.errors import ApiError
from agent.node.keepers.keeper import KeeperTerms
from agent.node.keepers.overload_taint import READ_SECONDS, OverloadKeeper
from tests.cluster.api import JSON_PATCH, MERGE
from tests.cluster.api import ApiError as PlainApiError
from tests.cluster.audit import AuditLog
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fence import USER, install
from tests.cluster.identities import node_bound_token
from tests.cluster.objects import create_node

pytestmark = pytest.mark.cluster

OURS = {"key": OVERLOAD_TAINT_KEY, "effect": OVERLOAD_TAINT_EFFECT}
KEPT = [
    {"key": "example.com/maintenance", "value": "monday", "effect": "NoSchedule"},
    {"key": "example.com/drain", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"},
]


@pytest.fixture
def path(cluster: ControlPlane, node_name: str) -> str:
    """A node with two taints of others."""
    create_node(cluster.admin, node_name)
    path = f"/api/v1/nodes/{node_name}"
    cluster.admin.patch(path, {"spec": {"taints": KEPT}}, MERGE)
    return path


@pytest.fixture
def agent(cluster: ControlPlane, node_name: str, path: str, tmp_path: Path) -> HttpApi:
    """The agent's own client with the chart's role and fence, and a token that names the node."""
    install(cluster)
    token = node_bound_token(cluster, "plimsoll", "plimsoll-agent", node_name)
    return client(cluster, token)


def client(cluster: ControlPlane, token: str) -> HttpApi:
    return HttpApi(Credentials(server=cluster.url, origin="tests", ca_file=cluster.authority, token=token))


def taints(cluster: ControlPlane, path: str) -> list[dict[str, Any]]:
    node_taints: list[dict[str, Any]] = cluster.admin.get(path)["spec"].get("taints") or []
    return node_taints


def put(api: Api, name: str, *, wanted: bool = True) -> TaintResult:
    return set_taint(api, name, key=OVERLOAD_TAINT_KEY, effect=OVERLOAD_TAINT_EFFECT, wanted=wanted)


def test_the_taint_comes_beside_those_of_others_and_goes_without_them(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    assert put(agent, node_name).change is TaintChange.PUT
    assert taints(cluster, path) == [*KEPT, OURS]

    assert put(agent, node_name, wanted=False).change is TaintChange.TAKEN_AWAY
    assert taints(cluster, path) == KEPT


def test_the_last_taint_of_a_node_comes_and_goes_too(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    cluster.admin.patch(path, {"spec": {"taints": []}}, MERGE)

    put(agent, node_name)
    assert taints(cluster, path) == [OURS]
    put(agent, node_name, wanted=False)
    assert taints(cluster, path) == []


def test_a_taint_of_our_key_with_another_effect_is_set_right(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    other = {"key": OVERLOAD_TAINT_KEY, "effect": "PreferNoSchedule"}
    cluster.admin.patch(path, {"spec": {"taints": [other, *KEPT]}}, MERGE)

    put(agent, node_name)

    assert taints(cluster, path) == [*KEPT, OURS]


def test_what_is_as_wanted_is_not_written(cluster: ControlPlane, agent: HttpApi, node_name: str, path: str) -> None:
    put(agent, node_name)
    version = cluster.admin.get(path)["metadata"]["resourceVersion"]
    audit = AuditLog(cluster.audit_log)

    assert put(agent, node_name).change is TaintChange.NONE

    calls = [call for call in audit.calls(USER) if call.name == node_name]
    assert {call.verb for call in calls} <= {"get"}
    assert cluster.admin.get(path)["metadata"]["resourceVersion"] == version


class Interrupted:
    """An API in which somebody else writes before each of the agent's patches, a number of times."""

    def __init__(self, api: HttpApi, write: Callable[[int], object], times: int) -> None:
        self._api, self._write, self._times = api, write, times
        self.patches = 0

    def call(self, method: str, path: str, **options: Any) -> object:
        if method == "PATCH":
            self.patches += 1
            if self.patches <= self._times:
                self._write(self.patches)
        return self._api.call(method, path, **options)

    def stream(self, path: str, **options: Any) -> Any:
        return self._api.stream(path, **options)


def added(cluster: ControlPlane, path: str) -> Callable[[int], object]:
    def add(number: int) -> object:
        taint = {"key": f"example.com/new-{number}", "effect": "NoSchedule"}
        return cluster.admin.patch(path, [{"op": "add", "path": "/spec/taints/-", "value": taint}], JSON_PATCH)

    return add


def test_a_taint_that_came_between_reading_and_writing_is_kept(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    between = Interrupted(agent, added(cluster, path), times=2)

    result = put(between, node_name)

    assert (result.change, result.conflicts, between.patches) == (TaintChange.PUT, 2, 3)
    new = [{"key": f"example.com/new-{number}", "effect": "NoSchedule"} for number in (1, 2)]
    assert taints(cluster, path) == [*KEPT, *new, OURS]


def test_endless_conflicts_end_in_one_error_and_change_nothing(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    between = Interrupted(agent, added(cluster, path), times=100)

    with pytest.raises(ApiError) as caught:
        put(between, node_name)

    assert caught.value.status == http.HTTPStatus.CONFLICT
    assert OURS not in taints(cluster, path)


def test_two_writers_at_once_lose_nothing(cluster: ControlPlane, agent: HttpApi, node_name: str, path: str) -> None:
    rounds = 40
    add = added(cluster, path)
    failures: list[BaseException] = []

    def other() -> None:
        try:
            for number in range(rounds):
                add(number)
        except BaseException as error:  # noqa: BLE001  # told by the test, as a thread has nobody else to tell
            failures.append(error)

    writer = threading.Thread(target=other)
    writer.start()
    conflicts = changes = 0
    wanted = True
    while writer.is_alive():
        try:
            result = put(agent, node_name, wanted=wanted)
        except ApiError as error:
            if error.status != http.HTTPStatus.CONFLICT:
                raise
            continue
        conflicts += result.conflicts
        changes += 1
        wanted = not wanted
    writer.join()
    put(agent, node_name)

    assert failures == []
    expected = {f"example.com/new-{number}" for number in range(rounds)}
    assert {taint["key"] for taint in taints(cluster, path)} == expected | {
        *(str(taint["key"]) for taint in KEPT),
        OVERLOAD_TAINT_KEY,
    }
    print(f"{rounds} taints of another writer, {changes} changes of ours meanwhile, {conflicts} conflicts: none lost")


def test_a_failed_test_of_a_json_patch_looks_like_a_refusal_while_a_merge_patch_says_conflict(
    cluster: ControlPlane, path: str
) -> None:
    # Why taints.py sends a merge patch.
    tested = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/spec/taints/-", "value": OURS},
    ]
    with pytest.raises(PlainApiError) as json_patch:
        cluster.admin.patch(path, tested, JSON_PATCH)
    with pytest.raises(PlainApiError) as merge_patch:
        cluster.admin.patch(path, {"metadata": {"resourceVersion": "1"}, "spec": {"taints": [OURS]}}, MERGE)

    assert json_patch.value.status == http.HTTPStatus.UNPROCESSABLE_ENTITY
    assert merge_patch.value.status == http.HTTPStatus.CONFLICT


def test_another_node_and_another_key_are_beyond_the_agents_reach(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    other = f"{node_name}-other"
    create_node(cluster.admin, other)
    try:
        with pytest.raises(ApiError) as elsewhere:
            put(agent, other)
        with pytest.raises(ApiError) as foreign:
            set_taint(agent, node_name, key="example.com/mine", effect="NoSchedule", wanted=True)
    finally:
        cluster.admin.delete(f"/api/v1/nodes/{other}")

    assert elsewhere.value.status == foreign.value.status == http.HTTPStatus.FORBIDDEN
    assert taints(cluster, path) == KEPT


def test_a_node_that_is_gone_is_told(cluster: ControlPlane, agent: HttpApi, node_name: str, path: str) -> None:
    cluster.admin.delete(path)

    with pytest.raises(ApiError) as caught:
        put(agent, node_name)

    # The token names the node: with it gone the token is as good as none.
    assert caught.value.status in {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.UNAUTHORIZED}


def node_value(document: Mapping[str, Any]) -> Node:
    return Node(
        name=document["metadata"]["name"],
        resource_version=document["metadata"]["resourceVersion"],
        taints=tuple(Taint(key=taint["key"], effect=taint["effect"]) for taint in document["spec"].get("taints") or []),
    )


def test_the_keeper_taints_waits_out_an_outage_and_takes_away_at_recovery_and_at_exit(
    cluster: ControlPlane, agent: HttpApi, node_name: str, path: str
) -> None:
    load = [2.0]
    decisions: list[tuple[str, str, str]] = []
    seen = [node_value(cluster.admin.get(path))]

    def tell(**decision: Any) -> None:
        decisions.append((decision["action"], decision["outcome"], decision["reason"]))

    keeper = OverloadKeeper(
        api=agent,
        node_name=node_name,
        options=OverloadOptions(taint=True),
        node=lambda: seen[0],
        load_per_cpu=lambda: load[0],
        waiting_ratio=lambda: 0.5,
        terms=KeeperTerms(may_write=lambda: None, tell=tell),
    )
    now = 0.0

    def turns(number: int) -> None:
        nonlocal now
        for _ in range(number):
            keeper.tick(now)
            now += READ_SECONDS

    turns(6)  # 75 s: not yet
    assert taints(cluster, path) == KEPT
    with cluster.outage():
        turns(6)
        assert keeper.is_overloaded
        assert keeper.is_tainted is False
    turns(30)
    assert taints(cluster, path) == [*KEPT, OURS]
    assert decisions == [("taint", "error", "overloaded"), ("taint", "done", "overloaded")]

    seen[0] = node_value(cluster.admin.get(path))
    load[0] = 0.5
    turns(1)
    assert taints(cluster, path) == KEPT

    seen[0] = node_value(cluster.admin.get(path))
    load[0] = 2.0
    turns(12)
    assert taints(cluster, path) == [*KEPT, OURS]
    keeper.remove_at_exit(60.0)  # a node's agent has less time to end than a busy machine may stand still
    assert taints(cluster, path) == KEPT
    assert decisions[2:] == [
        ("untaint", "done", "recovered"),
        ("taint", "done", "overloaded"),
        ("untaint", "done", "exit"),
    ]

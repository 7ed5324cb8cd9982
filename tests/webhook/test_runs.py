"""Runs of Jobs: posted, kept within bounds, and the next one sized by them; on both databases where it is theirs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from agent.cli.text.spans import UNICODE
from agent.cli.workloads.view import workload_lines
from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.cluster.pod import TopOwner
from agent.core.cluster.workload import Workload
from agent.core.history.workloads.job_run import JobRun, ToldRun, runs_text
from agent.core.history.workloads.node_peaks import node_number
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.run_options import MOST_RUNS, RunOptions
from agent.webhook.http.access import WHOLE_CLUSTER
from agent.webhook.http.routes import Call
from agent.webhook.queries.workload_bodies import WorkloadBody
from agent.webhook.store.records import job_runs
from agent.webhook.store.shapes import ForgetWish
from agent.webhook.store.store import Store
from agent.webhook.workloads.runs import RunIndex
from tests.admissions import response_of, review_of
from tests.pods import container, pod_json
from tests.webhook.stack import GOOD, Stack, place, stack

MIB = 1 << 20
CRON_JOB = Workload(namespace="shop", kind="CronJob", name="report")
NOW = float(int(time.time()))
"""The webhook tells the age of runs by the real clock, and those of a month ago count no more."""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Stack]:
    with stack(tmp_path, act=ActOptions(mode=Mode.ENFORCE)) as webhook:
        webhook.index.loaded()
        yield webhook


def a_run(number: int, *, workload: Workload = CRON_JOB, need_mib: int | None = 300, **more: Any) -> JobRun:
    given = {"ended_unix_seconds": NOW + number, "duration_seconds": 3.0, "cpu_mean_millicores": 120.0, **more}
    need = None if need_mib is None else need_mib * MIB
    return JobRun(workload=workload, container="app", run=f"report-{number}", memory_need_bytes=need, **given)


def told(number: int, row: JobRun) -> ToldRun:
    return ToldRun(pod=f"web-{number}", pod_uid=f"uid-{number}", ended_age_seconds=0.5, row=row)


def post(desk: Stack, runs: list[ToldRun], node: str = "node-a") -> Any:
    body = runs_text(node, runs).encode()
    answer = desk.posts.runs(Call(path="/v1/runs", body=body, authorization=f"Bearer {GOOD}"))
    return answer.status, json.loads(answer.body)


def of_cron_job(desk: Stack, count: int, *, nodes: Sequence[str] = ("node-a",)) -> None:
    for number in range(count):
        put_place(desk, number, CRON_JOB, f"report-{number}", node=nodes[number % len(nodes)])


def put_place(desk: Stack, number: int, workload: Workload, job: str | None, *, node: str = "node-a") -> None:
    """Have the watch know a pod, and what controls it."""
    desk.facts.places[f"uid-{number}"] = replace(place(number, node, workload), controller=job)


def new_pod(at: float, *, limit: str = "1Gi", job: str | None = None, labels: dict[str, str] | None = None) -> Any:
    name = job if job is not None else f"report-{int(at) // 60}"
    metadata = {
        "name": None,
        "generateName": f"{name}-",
        "labels": labels or {},
        "creationTimestamp": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ownerReferences": [{"kind": "Job", "name": name, "uid": "job", "controller": True}],
    }
    return pod_json(container("app", {"cpu": "1", "memory": "64Mi"}, {"memory": limit}), metadata=metadata)


def admitted(desk: Stack, document: Any) -> dict[str, Any]:
    """Return the values that the patch of a new pod puts, by path."""
    response = response_of(desk.services.review(json.dumps(review_of(document)).encode(), "10.0.0.1"))
    return {operation["path"]: operation.get("value") for operation in response.get("patch", [])}


MEMORY = "/spec/containers/0/resources/requests/memory"
LIMIT = "/spec/containers/0/resources/limits/memory"


def test_from_the_fourth_run_on_a_cron_jobs_pods_are_admitted_with_what_the_last_ones_needed(desk: Stack) -> None:
    of_cron_job(desk, 4)
    for number in range(3):
        desk.follow()
        assert MEMORY not in admitted(desk, new_pod(time.time()))
        assert post(desk, [told(number, a_run(number))]) == (200, {"taken": 1, "refused": []})
    desk.follow()
    patch = admitted(desk, new_pod(time.time()))
    assert 300 * MIB <= int(patch[MEMORY]) <= 400 * MIB
    assert LIMIT not in patch  # it stays
    # A killed one: the next has more, and its limit rises with it.
    killed = a_run(3, need_mib=None, memory_at_kill_bytes=400 * MIB)
    assert post(desk, [told(3, killed)])[0] == 200
    desk.follow()
    patch = admitted(desk, new_pod(time.time(), limit="400Mi"))
    assert int(patch[MEMORY]) == int(patch[LIMIT]) == 600 * MIB


def test_a_run_started_by_hand_counts_where_jobs_are_read(desk: Stack) -> None:
    by_hand = Workload(namespace="shop", kind="Job", name="by-hand")
    put_place(desk, 0, by_hand, "by-hand")
    row = a_run(0, workload=by_hand)
    assert post(desk, [told(0, row)])[1]["taken"] == 1
    desk.facts.jobs["shop", "by-hand"] = TopOwner(kind="CronJob", name="report")
    assert post(desk, [told(0, row)])[1]["taken"] == 1
    desk.follow()
    # The agent cannot read Jobs and called it by its own name: what the webhook knows is taken.
    assert desk.index.runs.workloads() == (CRON_JOB, by_hand)
    assert [run.run for run in desk.index.runs.last_of(CRON_JOB, now_unix_seconds=time.time())["app"]] == ["by-hand"]
    for number in (1, 2):
        put_place(desk, number, CRON_JOB, f"report-{number}")
        post(desk, [told(number, a_run(number))])
    desk.follow()
    assert MEMORY in admitted(desk, new_pod(time.time(), job="by-hand"))


def test_pods_of_one_label_are_one_history_whatever_their_jobs_are_called(desk: Stack) -> None:
    group = Workload(namespace="shop", kind="Group", name="nightly")
    for number in range(3):
        put_place(desk, number, group, f"step-{number}")
        post(desk, [told(number, a_run(number, workload=group))])
    desk.follow()
    assert MEMORY in admitted(desk, new_pod(time.time(), job="step-9", labels={"workflow": "nightly"}))
    assert MEMORY not in admitted(desk, new_pod(time.time(), job="step-9", labels={"workflow": "weekly"}))


@pytest.mark.parametrize(
    ("number", "changes", "why"),
    [
        (19, {"uid": "uid-other"}, "no pod uid-other is known"),
        (1, {}, "a Deployment has no runs"),
        (0, {"memory_peak_bytes": 33 << 30}, "memory_peak_bytes"),
        (0, {"cpu_mean_millicores": 8801.0}, "cpu_mean_millicores"),
    ],
)
def test_what_a_node_may_not_say_is_refused(desk: Stack, number: int, changes: dict[str, Any], why: str) -> None:
    of_cron_job(desk, 1)
    uid = changes.pop("uid", f"uid-{number}")
    workload = CRON_JOB if number != 1 else desk.facts.places["uid-1"].workload
    row = a_run(number, workload=workload, **{"duration_seconds": 3600.0, **changes})
    status, answer = post(desk, [replace(told(number, row), pod_uid=uid)])
    assert (status, answer["taken"]) == (200, 0)
    assert why in answer["refused"][0]["reason"]


def test_a_pod_that_no_watch_has_brought_yet_is_waited_for(desk: Stack) -> None:
    assert post(desk, [replace(told(0, a_run(0)), pod_uid="uid-new")])[0] == 503
    assert post(desk, [told(0, a_run(0))], node="node-b")[0] == 403


def test_a_pod_is_one_run_whatever_its_node_calls_it(desk: Stack) -> None:
    other = Workload(namespace="shop", kind="CronJob", name="other")
    desk.facts.jobs["shop", "other-1"] = TopOwner(kind="CronJob", name="other")
    of_cron_job(desk, 1)
    for number in range(1, 4):
        # The node says that it is of another CronJob of the namespace, and other runs each time.
        assert post(desk, [told(0, a_run(number, workload=other))])[1]["taken"] == 1
    desk.follow()
    assert desk.index.runs.workloads() == (CRON_JOB,)
    [run] = desk.index.runs.last_of(CRON_JOB, now_unix_seconds=time.time())["app"]
    assert run.run == "report-0"


def test_a_node_tells_no_runs_of_its_own_pod_before_the_watch_knows_it(desk: Stack) -> None:
    row = a_run(0, workload=replace(CRON_JOB, namespace="plimsoll"), duration_seconds=3600.0)
    own = replace(told(0, row), pod="plimsoll-agent-x", pod_uid="agent-uid")
    status, answer = post(desk, [own])
    assert (status, answer["taken"]) == (200, 0)
    assert "podUid" in answer["refused"][0]["reason"]


def test_one_nodes_word_counts_up_to_four_times_what_another_saw(desk: Stack) -> None:
    of_cron_job(desk, 4, nodes=("node-a", "node-b"))
    desk.store.take_runs([a_run(number, memory_node=node_number("node-b")) for number in (1, 3)])
    lie = a_run(0, need_mib=30 << 10, cpu_mean_millicores=8000.0)
    assert post(desk, [told(0, lie)])[1]["taken"] == 1
    desk.follow()
    patch = admitted(desk, new_pod(time.time(), limit="30Gi"))
    assert int(patch[MEMORY]) == math.ceil(4 * 300 * MIB * 1.15)


def test_a_reader_is_shown_the_runs_that_count(desk: Stack) -> None:
    of_cron_job(desk, 3)
    post(desk, [told(number, a_run(number, exit_code=0, memory_peak_bytes=320 * MIB)) for number in range(2)])
    post(desk, [told(2, a_run(2, need_mib=None, memory_at_kill_bytes=400 * MIB, exit_code=137))])
    desk.follow()
    answer = desk.questions._workload(
        Call(
            path="/v1/workloads/shop/CronJob/report", names={"namespace": "shop", "kind": "CronJob", "name": "report"}
        ),
        WHOLE_CLUSTER,
    )
    body = json.loads(answer.body)
    [shown] = body["containers"]
    assert sorted(run["run"] for run in shown["runs"]) == ["report-0", "report-1", "report-2"]
    assert shown["advice"]["source"] == "runs"
    assert shown["advice"]["oomMemoryBytes"] == 600 * MIB
    lines = workload_lines(msgspec.json.decode(answer.body, type=WorkloadBody), width=120, glyphs=UNICODE)
    text = "\n".join("".join(span.text for span in line) for line in lines)
    assert "memory 600MiB   by its last 3 runs" in text
    assert "largest need 300MiB and a margin; one was killed: 600MiB until a run gets through with more" in text
    assert "report-2  " in text
    assert "exit 137; killed for want of memory at 400MiB" in text


CPU = "/spec/containers/0/resources/requests/cpu"
BOOSTED = "/metadata/annotations"


def a_start(desk: Stack, number: int, millicores: float = 1800.0) -> ToldRun:
    """Return the start of a pod of the workload of ``uid-1``, as its node tells it."""
    row = a_run(
        number,
        workload=desk.facts.places["uid-1"].workload,
        need_mib=None,
        duration_seconds=70.0,
        cpu_largest_millicores=millicores,
        ended_unix_seconds=time.time(),
    )
    return replace(told(number, row), is_start=True)


def starting_pod(workload: Workload, order: str = "auto") -> Any:
    metadata = {
        "name": None,
        "generateName": f"{workload.name}-",
        "annotations": {"plimsoll.dev/startup-boost": order},
        "ownerReferences": [{"kind": workload.kind, "name": workload.name, "uid": "owner", "controller": True}],
    }
    return pod_json(container("app", {"cpu": "500m", "memory": "64Mi"}, {"memory": "1Gi"}), metadata=metadata)


def test_from_the_second_start_on_pods_begin_with_what_the_last_ones_used(desk: Stack) -> None:
    web = replace(desk.facts.places["uid-1"].workload, name="web")
    for number in (1, 2):
        desk.facts.places[f"uid-{number}"] = place(number, workload=web)
        desk.follow()
        patch = admitted(desk, starting_pod(web))
        assert CPU not in patch
        assert '"learnt":true' in json.dumps(patch).replace("\\", "")
        assert post(desk, [a_start(desk, number)]) == (200, {"taken": 1, "refused": []})
    desk.follow()
    assert admitted(desk, starting_pod(web))[CPU] == "1800m"
    assert CPU not in admitted(desk, starting_pod(replace(web, name="other")))
    answer = desk.questions._workload(
        Call(path="/v1/workloads/shop/x", names={"namespace": "shop", "kind": web.kind, "name": web.name}),
        WHOLE_CLUSTER,
    )
    [shown] = json.loads(answer.body)["containers"]
    assert (len(shown["starts"]), shown["startCpuMillicores"], shown["runs"]) == (2, 1800, [])
    lines = workload_lines(msgspec.json.decode(answer.body, type=WorkloadBody), width=140, glyphs=UNICODE)
    text = "\n".join("".join(span.text for span in line) for line in lines)
    assert "the last 2 starts took 1m10s and used at most 1800m; the next needs 1800m" in text
    # Sizes of the rest of its time know nothing of it.
    assert shown["advice"]["missing"] is not None


def test_starts_of_what_runs_to_an_end_and_more_than_the_node_has_are_refused(desk: Stack) -> None:
    of_cron_job(desk, 1)
    desk.facts.places["uid-1"] = place(1, workload=Workload(namespace="shop", kind="Deployment", name="web"))
    as_start = replace(told(0, a_run(0)), is_start=True)
    too_much = a_start(desk, 1, millicores=8801.0)
    _, answer = post(desk, [as_start, too_much])
    assert answer["taken"] == 0
    assert [refusal["reason"].partition(":")[2].strip().split(" of ")[0] for refusal in answer["refused"]] == [
        "a CronJob has no starts",
        "8801",
    ]


# -- the store ---------------------------------------------------------------------------------------------------------


def index_of(store: Store, options: RunOptions | None = None) -> RunIndex:
    index = RunIndex(options or RunOptions())
    while index.follow(store):
        pass
    return index


def test_a_run_told_twice_is_one_and_its_pods_are_merged(store: Store) -> None:
    index = index_of(store)
    first = store.take_runs([a_run(1), a_run(1, need_mib=400)])
    assert store.take_runs([a_run(1)]) > first
    assert index.follow(store)
    assert not index.follow(store)
    assert len(index) == 1
    [run] = index.last_of(CRON_JOB, now_unix_seconds=NOW)["app"]
    assert run == a_run(1, need_mib=400)


def test_of_each_container_the_newest_runs_are_kept_in_the_store_and_in_memory(store: Store) -> None:
    index = index_of(store)
    for start in range(0, 200, 50):
        store.take_runs([a_run(number) for number in range(start, start + 50)])
        index.follow(store)
    runs, _ = store.runs_after(0)
    assert {run.run for run in runs} == {f"report-{number}" for number in range(150, 200)}
    assert len(runs) == len(index) == len(index_of(store)) == MOST_RUNS


def test_of_starts_no_more_are_kept_than_ever_count(store: Store) -> None:
    web = Workload(namespace="shop", kind="Deployment", name="web")
    index = index_of(store)
    store.take_runs([a_run(number, workload=web) for number in range(30)])
    index.follow(store)
    runs, _ = store.runs_after(0)
    assert {run.run for run in runs} == {f"report-{number}" for number in range(20, 30)}
    assert len(index) == 10


def test_a_post_longer_than_a_piece_is_read_whole(store: Store) -> None:
    store.take_runs([a_run(number) for number in range(3)])
    store.take_runs([a_run(number) for number in range(3, 8)])
    first, post = store.runs_after(0, 4)
    assert (len(first), store.runs_after(post, 4)) == (8, ([], post))


def test_of_a_database_that_was_put_back_to_an_earlier_state_the_runs_are_read_again(store: Store) -> None:
    index = RunIndex(RunOptions())
    for number in range(5):
        store.take_runs([a_run(number)])
    while index.follow(store):
        pass
    with store._engine.writing() as connection:
        connection.execute(text("DELETE FROM job_runs WHERE post > 2"))
        connection.execute(text("UPDATE counters SET value = 2 WHERE name = 'last_run_post'"))
    assert index.follow(store)
    store.take_runs([a_run(7)])
    assert index.follow(store)
    assert not index.follow(store)
    known = {run.run for run in index.last_of(CRON_JOB, now_unix_seconds=NOW)["app"]}
    assert known == {f"report-{number}" for number in (0, 1, 2, 3, 4, 7)}, "and what was known before is, too"


def test_runs_that_count_for_nothing_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Workload(namespace="shop", kind="Job", name="reindex")
    day, month = 86_400.0, 30 * 86_400.0
    store.take_runs([a_run(0, workload=job, ended_unix_seconds=NOW - day - 1), a_run(0)])
    store.take_runs([a_run(1, ended_unix_seconds=NOW - month - 1), a_run(2), a_run(3)])
    index = index_of(store)
    assert len(index) == 5
    assert store.expire_runs(NOW) == 2
    index.expire(NOW)
    assert len(index) == 3
    assert index.workloads() == (CRON_JOB,)
    monkeypatch.setattr(job_runs, "MOST_ROWS", 1)
    monkeypatch.setattr(job_runs, "_ABOVE_MOST", 0)
    monkeypatch.setattr("agent.webhook.workloads.runs.MOST_ROWS", 1)
    index.expire(NOW)
    assert [run.run for run in index.last_of(CRON_JOB, now_unix_seconds=NOW)["app"]] == ["report-3"]
    # Of too many those of Jobs by themselves go first, however new they are; of those that ended together no more.
    store.take_runs([a_run(number, workload=job, ended_unix_seconds=NOW + 100 + number) for number in range(3)])
    index.follow(store)
    assert store.expire_runs(NOW) == 5
    index.expire(NOW)
    assert index.workloads() == (CRON_JOB,)
    [job_run], _ = store.runs_after(0)
    assert job_run == a_run(3)
    store.take_runs([a_run(number, ended_unix_seconds=NOW + 3) for number in range(4, 8)])
    assert store.expire_runs(NOW) == 4


@pytest.mark.parametrize(("kind", "ahead_days"), [("CronJob", 31), ("Job", 2)])
def test_a_clock_that_is_ahead_takes_the_oldest_hour_of_runs_at_a_time(
    store: Store, kind: str, ahead_days: int
) -> None:
    workload = replace(CRON_JOB, kind=kind)
    store.take_runs([a_run(number, workload=workload, ended_unix_seconds=NOW - number * 1800) for number in range(4)])
    ahead = NOW + ahead_days * 86_400
    assert store.expire_runs(ahead) == 2
    runs, _ = store.runs_after(0)
    assert {run.run for run in runs} == {"report-0", "report-1"}
    assert store.expire_runs(ahead) == 2


def test_older_runs_of_a_cron_job_hold_up_no_job_by_itself(store: Store) -> None:
    job = replace(CRON_JOB, kind="Job")
    old, older = NOW - 2 * 86_400, NOW - 20 * 86_400
    store.take_runs([a_run(0, ended_unix_seconds=older), a_run(1, workload=job, ended_unix_seconds=old)])
    assert store.expire_runs(NOW) == 1
    [run], _ = store.runs_after(0)
    assert run.workload == CRON_JOB


def test_a_forgotten_workload_has_no_runs(store: Store) -> None:
    store.take_runs([a_run(number) for number in range(3)])
    index = index_of(store)
    assert isinstance(estimate_of(index), Estimate)
    wish = ForgetWish(asked_by="admin", workload=CRON_JOB)
    assert store.forget(wish, now_unix_seconds=NOW).is_known
    index.forget(CRON_JOB)
    index.forget(CRON_JOB)
    assert (len(index), len(index_of(store))) == (0, 0)
    # What came since is known, also where the order to forget is heeded later than that was read.
    store.take_runs([a_run(7)])
    index.follow(store)
    index.forget(CRON_JOB)
    index.follow(store)
    assert len(index) == 1
    store.forget(wish, now_unix_seconds=NOW)
    index.forget(CRON_JOB)
    assert estimate_of(index) is NoEstimate.UNKNOWN_WORKLOAD


def estimate_of(index: RunIndex) -> Estimate | NoEstimate:
    return index.estimate(CRON_JOB, "app", policy=PolicyName.CRUISE, now_unix_seconds=NOW)

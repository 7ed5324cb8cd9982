"""Pods of Jobs: runs of a CronJob, runs that somebody started by hand, groups by labels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.core.cluster.pod import Pod, TopOwner
from agent.core.cluster.workload import Workload, controller_name, no_job_owner, run_of, with_top_owner, workload_of
from agent.kube.objects.cluster_json import OwnedJob, owned_job_from_json, pod_place_from_json
from agent.kube.objects.pod_json import pod_from_json
from tests.pods import container, make_pod, mirror_metadata, pod_json

SCHEDULED = datetime(2026, 11, 23, 2, 0, tzinfo=UTC)
MINUTES = 29_923_320
"""Of SCHEDULED: 1,795,399,200 s since 1970, in minutes."""
CRON_JOB = Workload(namespace="shop", kind="CronJob", name="report")


def metadata(
    owner: str, *, kind: str = "Job", created: datetime | None = SCHEDULED, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "name": f"{owner}-x7k2p",
        "labels": labels or {},
        "ownerReferences": [{"kind": kind, "name": owner, "uid": "owner", "controller": True}],
        **({} if created is None else {"creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ")}),
    }


def pod(owner: str, **more: Any) -> Pod:
    return make_pod(container(), metadata=metadata(owner, **more))


def test_the_minutes_are_those_of_the_schedule() -> None:
    assert SCHEDULED.timestamp() == MINUTES * 60


@pytest.mark.parametrize(
    ("late", "is_scheduled"),
    [
        (timedelta(0), True),
        (timedelta(seconds=8), True),
        (timedelta(days=1), True),
        (timedelta(days=1, seconds=1), False),
        (timedelta(minutes=-5), True),
        (timedelta(minutes=-5, seconds=-1), False),
    ],
)
def test_a_job_named_by_the_minutes_of_its_time_is_a_run_of_its_cron_job(late: timedelta, is_scheduled: bool) -> None:
    name = f"report-{MINUTES}"
    job = Workload(namespace="shop", kind="Job", name=name)
    assert workload_of(pod(name, created=SCHEDULED + late)) == (CRON_JOB if is_scheduled else job)


@pytest.mark.parametrize(
    "name", ["report", "report-20261123", f"{MINUTES}", f"report-{MINUTES}-1", "report-1234567890"]
)
def test_a_job_of_another_name_is_itself(name: str) -> None:
    # 20261123 minutes are the 10th of July 2008; ten digits are no minutes that anybody lives to see.
    assert workload_of(pod(name)) == Workload(namespace="shop", kind="Job", name=name)


def test_a_pod_whose_age_is_not_known_is_its_jobs() -> None:
    assert workload_of(pod(f"report-{MINUTES}", created=None)).kind == "Job"


def test_the_name_alone_counts_where_the_owner_is_a_job_alone() -> None:
    name = f"report-{MINUTES}"
    assert workload_of(pod(name, kind="StatefulSet")) == Workload(namespace="shop", kind="StatefulSet", name=name)
    assert controller_name(pod(name)) == name


def test_what_the_job_says_goes_before_its_name() -> None:
    manual, lying = pod("report-by-hand"), pod(f"report-{MINUTES}")

    def owner_of(namespace: str, job: str) -> TopOwner | None:
        assert namespace == "shop"
        return {"report-by-hand": TopOwner(kind="CronJob", name="report")}.get(job, TopOwner(kind="Job", name=job))

    assert workload_of(with_top_owner(manual, group_by=(), job_owner=owner_of)) == CRON_JOB
    workload = workload_of(with_top_owner(lying, group_by=(), job_owner=owner_of))
    assert workload == Workload(namespace="shop", kind="Job", name=lying.owners[0].name)


def test_pods_with_one_label_are_one_group_whatever_ends_them() -> None:
    keys = ("workflows.argoproj.io/workflow-template", "app")
    labels = {"app": "etl", "workflows.argoproj.io/workflow-template": "nightly"}
    documents = [
        pod_json(container(), metadata=metadata("nightly-8x2zq", kind="Workflow", labels=labels)),
        pod_json(container(), metadata=metadata(f"report-{MINUTES}", labels=labels)),
        pod_json(container(), metadata={"labels": labels}),
    ]
    group = Workload(namespace="shop", kind="Group", name="nightly")
    assert {workload_of(pod_from_json(document, group_by=keys)) for document in documents} == {group}
    assert {pod_place_from_json(document, group_by=keys).workload for document in documents} == {group}
    assert workload_of(pod_from_json(documents[0], group_by=keys[1:])).name == "etl"
    assert workload_of(pod_from_json(documents[0], group_by=["team"])).kind == "Workflow"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"])
def test_labels_group_no_pods_that_stay(kind: str) -> None:
    web = pod("web", kind=kind, labels={"app": "etl"})
    assert with_top_owner(web, group_by=["app"], job_owner=no_job_owner) is web


def test_labels_group_no_mirror_of_a_static_pod() -> None:
    mirror = make_pod(container(), metadata={**mirror_metadata(), "labels": {"app": "etl"}})
    assert with_top_owner(mirror, group_by=["app"], job_owner=no_job_owner) is mirror


def test_a_run_is_the_job_and_of_a_job_by_itself_each_pod() -> None:
    scheduled, alone = pod(f"report-{MINUTES}"), pod("reindex")
    assert run_of(scheduled) == f"report-{MINUTES}"
    assert run_of(alone) == "reindex-x7k2p"
    assert run_of(make_pod(container())) == "web"


def test_the_place_of_a_pod_has_the_same_workload() -> None:
    document = pod_json(container(), metadata=metadata(f"report-{MINUTES}"))
    place = pod_place_from_json(document)
    assert (place.workload, place.controller) == (CRON_JOB, f"report-{MINUTES}")
    stays = pod_place_from_json(pod_json(container(), metadata=metadata("web", kind="StatefulSet")))
    assert stays.controller is None


def test_a_job_says_whose_it_is() -> None:
    references = [{"kind": "Other", "name": "a"}, {"kind": "CronJob", "name": "report"}]
    named = {"namespace": "shop", "name": "report-by-hand"}
    assert owned_job_from_json({"metadata": {**named, "ownerReferences": references}}) == OwnedJob(
        namespace="shop", name="report-by-hand", owner=TopOwner(kind="CronJob", name="report")
    )
    alone = owned_job_from_json({"metadata": {"name": "reindex"}})
    assert (alone.namespace, alone.owner) == ("default", TopOwner(kind="Job", name="reindex"))

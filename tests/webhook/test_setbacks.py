"""What was taken back of workloads, in both databases."""

from __future__ import annotations

from dataclasses import replace

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.workload_setback import SetbackKind, WorkloadSetback
from agent.webhook.store.shapes import ForgetWish
from agent.webhook.store.store import Store

WEB = Workload(namespace="shop", kind="Deployment", name="web")
SHARE = WorkloadSetback(workload=WEB, kind=SetbackKind.SHARE, at_unix_seconds=50.5, reason="restarts", share="10 %")
SHRINK = replace(SHARE, kind=SetbackKind.SHRINK, share="")
OTHER = replace(SHRINK, workload=replace(WEB, name="api"))


def test_the_newest_of_each_kind_is_kept_until_the_workload_is_forgotten(store: Store) -> None:
    assert store.setbacks() == []
    for setback in (SHARE, SHRINK, OTHER):
        store.take_setback(setback)
    assert store.setbacks() == [OTHER, SHARE, SHRINK]
    newer = replace(SHARE, at_unix_seconds=60.0, share="20 %")
    store.take_setback(newer)
    store.take_setback(SHARE)
    assert store.setbacks() == [OTHER, newer, SHRINK]
    store.forget(ForgetWish(asked_by="somebody", workload=WEB), now_unix_seconds=100.0)
    assert store.setbacks() == [OTHER]


def test_a_reason_that_no_database_takes_is_kept_as_far_as_it_can_be_read(store: Store) -> None:
    store.take_setback(replace(SHRINK, reason="restarts:\0 2\x1b[31m"))
    assert store.setbacks() == [replace(SHRINK, reason="restarts:  2 [31m")]

"""Runs of Jobs in the database: merged as they come, and of each container no more than are ever asked for. Webhook.

Who takes a post locks the counter first: a run's row is read and written behind it, and posts become visible in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from agent.core.cluster.workload import JOB_KIND, RUN_KINDS, Workload
from agent.core.history.workloads.job_run import JobRun, merged_run
from agent.core.history.workloads.start_figures import MOST_STARTS
from agent.core.orders.run_options import MOST_RUNS
from agent.webhook.store.database.tables import LAST_RUN_POST, counters, job_runs
from agent.webhook.store.statements import EXPIRED_AT_ONCE_SECONDS, expiry_bound

KEPT_SECONDS: Final = 30 * 86_400.0
"""After its end; older runs count for nothing."""
KEPT_JOB_SECONDS: Final = 86_400.0
"""Of a Job by itself, which ends for good: its own later pods are sized by it, and nothing else."""
MOST_ROWS: Final = 50_000
"""Of all workloads: 20 MiB of database and 43 MiB of each replica (``tests.bench.runs``). Of more the oldest go, first
those of Jobs by themselves: whoever makes many of these must not take away what a CronJob learnt in weeks."""
_ABOVE_MOST: Final = 1000
"""How many more there may be between two looks."""

_NEXT_POST: Final = (
    update(counters)
    .where(counters.c.name == LAST_RUN_POST)
    .values(value=counters.c.value + 1)
    .returning(counters.c.value)
)
_NEWEST_POST: Final = select(counters.c.value).where(counters.c.name == LAST_RUN_POST)
_OF_CONTAINER: Final = (
    job_runs.c.namespace == bindparam("b_namespace"),
    job_runs.c.workload_kind == bindparam("b_workload_kind"),
    job_runs.c.workload_name == bindparam("b_workload_name"),
    job_runs.c.container == bindparam("b_container"),
)
_RUN: Final = select(job_runs).where(*_OF_CONTAINER, job_runs.c.run == bindparam("b_run"))
_DELETE_RUN: Final = delete(job_runs).where(*_OF_CONTAINER, job_runs.c.run == bindparam("b_run"))
_NEWEST: Final = (
    select(job_runs.c.run)
    .where(*_OF_CONTAINER)
    .order_by(job_runs.c.ended_unix_seconds.desc(), job_runs.c.run.desc())
    .limit(bindparam("b_kept"))
)
_DELETE_OLDER: Final = delete(job_runs).where(*_OF_CONTAINER, job_runs.c.run.not_in(_NEWEST.scalar_subquery()))
_AFTER: Final = (
    select(job_runs).where(job_runs.c.post > bindparam("b_after")).order_by(job_runs.c.post).limit(bindparam("b_limit"))
)


def take_runs(connection: Connection, runs: Iterable[JobRun]) -> int:
    """Merge runs into those that are known; return the number of the post. In a transaction that writes."""
    post: int = connection.execute(_NEXT_POST).scalar_one()
    keys: dict[tuple[Workload, str], dict[str, str]] = {}
    for run in runs:
        key = keys.setdefault(run.key, _key(run))
        here = {**key, "b_run": run.run}
        known = connection.execute(_RUN, here).mappings().one_or_none()
        if known is not None:
            connection.execute(_DELETE_RUN, here)
        merged = run if known is None else merged_run(to_run(known), run)
        connection.execute(insert(job_runs), _values(merged, post))
    for key in keys.values():
        connection.execute(_DELETE_OLDER, {**key, "b_kept": kept_runs(key["b_workload_kind"])})
    return post


def runs_after(connection: Connection, post: int, limit: int) -> tuple[list[JobRun], int]:
    """Return what was changed by later posts, oldest post first, and the last of them; whole posts alone count.

    Nothing more is there if the post is the one that was given. 0 = the database had later posts when it was asked
    before, and was lost or put back to what it was: it is to be read from its beginning.
    """
    rows = connection.execute(_AFTER, {"b_after": post, "b_limit": limit}).mappings().all()
    if len(rows) == limit:  # the last post may go on
        last: int = rows[-1]["post"]
        whole = [row for row in rows if row["post"] < last]
        more = connection.execute(select(job_runs).where(job_runs.c.post == last)).mappings().all()
        rows = [*whole, *more]
    if not rows:
        newest: int = connection.execute(_NEWEST_POST).scalar_one()
        return [], 0 if newest < post else post
    return [to_run(row) for row in rows], rows[-1]["post"]


def expire_runs(connection: Connection, now_unix_seconds: float) -> int:
    """Delete runs that ended too long ago, an hour's at a time, and the oldest beyond the most; return how many."""
    is_job = job_runs.c.workload_kind == JOB_KIND
    gone = _expire_ended(connection, now_unix_seconds - KEPT_SECONDS)
    gone += _expire_ended(connection, now_unix_seconds - KEPT_JOB_SECONDS, is_job)
    if _count(connection) > MOST_ROWS + _ABOVE_MOST:
        gone += _expire_oldest(connection, _count(connection) - MOST_ROWS, is_job)
        gone += _expire_oldest(connection, _count(connection) - MOST_ROWS)
    return gone


def kept_runs(kind: str) -> int:
    """Return how many runs of a container are kept; of what does not run to an end they are starts."""
    return MOST_RUNS if kind in RUN_KINDS else MOST_STARTS


def kept_seconds(workload: Workload) -> float:
    """Return for how long after their end the runs of a workload are kept."""
    return KEPT_JOB_SECONDS if workload.kind == JOB_KIND else KEPT_SECONDS


def _count(connection: Connection) -> int:
    count: int = connection.execute(select(func.count()).select_from(job_runs)).scalar_one()
    return count


def _expire_ended(connection: Connection, before_unix_seconds: float, *which: ColumnElement[bool]) -> int:
    """Delete of some runs those that ended before; return how many."""
    ended = job_runs.c.ended_unix_seconds
    bound = expiry_bound(connection, ended, before_unix_seconds, EXPIRED_AT_ONCE_SECONDS, *which)
    return connection.execute(delete(job_runs).where(ended < bound, *which)).rowcount


def _expire_oldest(connection: Connection, excess: int, *which: ColumnElement[bool]) -> int:
    """Delete so many of the oldest of some runs; return how many."""
    if excess <= 0:
        return 0
    oldest = select(*job_runs.primary_key).where(*which).order_by(job_runs.c.ended_unix_seconds).limit(excess)
    return connection.execute(delete(job_runs).where(tuple_(*job_runs.primary_key).in_(oldest))).rowcount


def forget_runs(connection: Connection, workload: Workload) -> None:
    """Delete all runs of a workload."""
    connection.execute(
        delete(job_runs).where(
            job_runs.c.namespace == workload.namespace,
            job_runs.c.workload_kind == workload.kind,
            job_runs.c.workload_name == workload.name,
        )
    )


def to_run(row: RowMapping) -> JobRun:
    """Read a row of ``job_runs``."""
    return JobRun(
        workload=Workload(namespace=row["namespace"], kind=row["workload_kind"], name=row["workload_name"]),
        container=row["container"],
        run=row["run"],
        ended_unix_seconds=row["ended_unix_seconds"],
        duration_seconds=row["duration_seconds"],
        cpu_seconds=row["cpu_seconds"],
        cpu_mean_millicores=row["cpu_mean_millicores"],
        cpu_p75_millicores=row["cpu_p75_millicores"],
        cpu_largest_millicores=row["cpu_largest_millicores"],
        memory_peak_bytes=row["memory_peak_bytes"],
        memory_need_bytes=row["memory_need_bytes"],
        memory_at_kill_bytes=row["memory_at_kill_bytes"],
        exit_code=row["exit_code"],
        cpu_node=row["cpu_node"],
        memory_node=row["memory_node"],
    )


def _key(run: JobRun) -> dict[str, str]:
    workload = run.workload
    return {
        "b_namespace": workload.namespace,
        "b_workload_kind": workload.kind,
        "b_workload_name": workload.name,
        "b_container": run.container,
    }


def _values(run: JobRun, post: int) -> dict[str, str | float | None]:
    return {
        **{name.removeprefix("b_"): value for name, value in _key(run).items()},
        "run": run.run,
        "post": post,
        "ended_unix_seconds": run.ended_unix_seconds,
        "duration_seconds": run.duration_seconds,
        "cpu_seconds": run.cpu_seconds,
        "cpu_mean_millicores": run.cpu_mean_millicores,
        "cpu_p75_millicores": run.cpu_p75_millicores,
        "cpu_largest_millicores": run.cpu_largest_millicores,
        "memory_peak_bytes": run.memory_peak_bytes,
        "memory_need_bytes": run.memory_need_bytes,
        "memory_at_kill_bytes": run.memory_at_kill_bytes,
        "exit_code": run.exit_code,
        "cpu_node": run.cpu_node,
        "memory_node": run.memory_node,
    }

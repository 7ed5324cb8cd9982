"""The tables of the store, as statements name them; `migrations` makes them. Webhook.

A change here is a change there: a test compares the two.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata: Final = MetaData()

# Names and keys compare by their bytes: no locale of a database changes an order or an equality.
_Name = Text().with_variant(Text(collation="C"), "postgresql")

counters: Final = Table(
    "counters",
    metadata,
    Column("name", _Name, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""Single numbers; a row is also the lock that its name speaks of."""

LAST_ID: Final = "last_id"
"""The newest report's id; locked by who appends."""
FOLDED_THROUGH: Final = "folded_through"
"""Reports up to this id are in the sketches; locked by who folds."""
HEADS_THROUGH: Final = "heads_through"
"""What `FOLDED_THROUGH` was when ``sketch_heads`` was last known to be true; another value = it may not be."""
EVICTION_TURN: Final = "eviction_turn"
"""How often anybody had the tables of evictions and taints to itself; locked by who has."""

LAST_RUN_POST: Final = "last_run_post"
"""How many posts of runs were taken; locked by who takes one."""
NODE_HOURS_SINCE: Final = "node_hours_since"
"""The hour from which on ``node_hours`` is whole: sketches of earlier ones were folded without it."""

reports: Final = Table(
    "reports",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("node", _Name, nullable=False),
    Column("incarnation", _Name, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("received_unix_seconds", Float(53), nullable=False),
    Column("rows", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""The log of reports not folded yet; what is forgotten or imported stands in it too, of no incarnation and with
sequence 0."""

node_marks: Final = Table(
    "node_marks",
    metadata,
    Column("node", _Name, primary_key=True),
    Column("incarnation", _Name, primary_key=True),
    Column("lowest_sequence", BigInteger, nullable=False),
    Column("highest_sequence", BigInteger, nullable=False),
    Column("missing", Text, nullable=False),  # ranges as text: "3-5 9"
    Column("reports", BigInteger, nullable=False),
    Column("lost_reports", BigInteger, nullable=False),
    Column("first_received_unix_seconds", Float(53), nullable=False),
    Column("last_received_unix_seconds", Float(53), nullable=False),
)
"""Which sequences of a node's incarnation were taken."""

node_pods: Final = Table(
    "node_pods",
    metadata,
    Column("node", _Name, primary_key=True),
    Column("received_unix_seconds", Float(53), nullable=False),
    Column("pods", LargeBinary, nullable=False),
)
"""The pods of each node's newest report: their last rows may come when no watch knows them any more."""

sketches: Final = Table(
    "sketches",
    metadata,
    # The hour first: what is written and dropped together lies together.
    Column("unix_hour", BigInteger, primary_key=True, autoincrement=False),
    Column("key", _Name, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

sketch_heads: Final = Table(
    "sketch_heads",
    metadata,
    Column("unix_hour", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("names", LargeBinary, nullable=False),
    Column("joined", LargeBinary, nullable=False),
)
"""Of hours that are over, the first bytes of all sketches in one row (`webhook.store.hour_heads`)."""

node_hours: Final = Table(
    "node_hours",
    metadata,
    Column("unix_day", BigInteger, primary_key=True, autoincrement=False),
    Column("node", _Name, primary_key=True),
    Column("payload", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
"""In which hours of a day a node had a part in which sketches."""

forgettings: Final = Table(
    "forgettings",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("asked_unix_seconds", Float(53), nullable=False),
    Column("payload", LargeBinary, nullable=False),
)
"""What was forgotten at somebody's order, by its place in the log: for those who find the log folded."""

eviction_back_offs: Final = Table(
    "eviction_back_offs",
    metadata,
    Column("namespace", _Name, primary_key=True),
    Column("workload_kind", _Name, primary_key=True),
    Column("workload_name", _Name, primary_key=True),
    Column("refusals", Integer, nullable=False),
    Column("until_unix_seconds", Float(53), nullable=False),
)
"""Workloads whose disruption budget refused, how often in a row, and until when nobody asks again."""

evictions: Final = Table(
    "evictions",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("requested_unix_seconds", Float(53), nullable=False, index=True),
    Column("namespace", _Name, nullable=False),
    Column("workload_kind", _Name, nullable=False),
    Column("workload_name", _Name, nullable=False),
    Column("pod", _Name, nullable=False),
    Column("pod_uid", _Name, nullable=False, unique=True),
    Column("node", _Name, nullable=False),
    Column("reason", _Name, nullable=False),
    Column("state", _Name, nullable=False),
    Column("detail", Text, nullable=False),
    Column("done_unix_seconds", Float(53), nullable=True),
)
"""Evictions begun and what became of them, one row per pod; those of a time window are the tokens that are out."""

taint_grants: Final = Table(
    "taint_grants",
    metadata,
    Column("node", _Name, primary_key=True),
    Column("granted_unix_seconds", Float(53), nullable=False),
    Column("until_unix_seconds", Float(53), nullable=False),
)
"""Nodes that may taint themselves until then, and hold one of the places for as long."""

setbacks: Final = Table(
    "setbacks",
    metadata,
    Column("namespace", _Name, primary_key=True),
    Column("workload_kind", _Name, primary_key=True),
    Column("workload_name", _Name, primary_key=True),
    Column("what", _Name, primary_key=True),
    Column("at_unix_seconds", Float(53), nullable=False),
    Column("share", _Name, nullable=False),
    Column("reason", Text, nullable=False),
)
"""The newest shrink of each workload that was taken back, and its enforced share that was."""

job_runs: Final = Table(
    "job_runs",
    metadata,
    Column("namespace", _Name, primary_key=True),
    Column("workload_kind", _Name, primary_key=True),
    Column("workload_name", _Name, primary_key=True),
    Column("container", _Name, primary_key=True),
    Column("run", _Name, primary_key=True),
    Column("post", BigInteger, nullable=False, index=True),
    Column("ended_unix_seconds", Float(53), nullable=False, index=True),
    Column("duration_seconds", Float(53), nullable=False),
    Column("cpu_seconds", Float(53), nullable=True),
    Column("cpu_mean_millicores", Float(53), nullable=True),
    Column("cpu_p75_millicores", Float(53), nullable=True),
    Column("cpu_largest_millicores", Float(53), nullable=True),
    Column("memory_peak_bytes", BigInteger, nullable=True),
    Column("memory_need_bytes", BigInteger, nullable=True),
    Column("memory_at_kill_bytes", BigInteger, nullable=True),
    Column("exit_code", Integer, nullable=True),
    Column("cpu_node", BigInteger, nullable=False),
    Column("memory_node", BigInteger, nullable=False),
)
"""The last runs of each container of a Job, CronJob or group; ``post`` says by which post each was last changed."""


decisions: Final = Table(
    "decisions",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("node", _Name, nullable=False),
    Column("incarnation", _Name, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("unix_seconds", Float(53), nullable=False),
    Column("action", _Name, nullable=False),
    Column("outcome", _Name, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("namespace", _Name, nullable=True),
    Column("workload_kind", _Name, nullable=True),
    Column("workload_name", _Name, nullable=True),
    Column("pod", _Name, nullable=True),
    Column("pod_uid", _Name, nullable=True),
    Column("changes", Text, nullable=False),  # JSON, as ChangeBody has it
    Column("seconds", Float(53), nullable=True),
    Column("repeats", BigInteger, nullable=False),
    Column("asked_by", Text, nullable=True),
    UniqueConstraint("node", "incarnation", "sequence", name="decisions_told_once"),
    Index("decisions_by_time", "unix_seconds", "id"),
    Index("decisions_by_workload", "namespace", "workload_kind", "workload_name", "unix_seconds"),
)
"""What nodes decided and did; no namespace = it is about the node."""

decision_logs: Final = Table(
    "decision_logs",
    metadata,
    Column("node", _Name, primary_key=True),
    Column("incarnation", _Name, nullable=False),
    Column("agent", _Name, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    Column("received_unix_seconds", Float(53), nullable=False),
    Column("unix_day", BigInteger, nullable=False),
    Column("taken", BigInteger, nullable=False),
)
"""How far each node's decisions have come: of its newest log, and how many were taken in a day."""

ledger_workloads: Final = Table(
    "ledger_workloads",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("namespace", _Name, nullable=False),
    Column("workload_kind", _Name, nullable=False),
    Column("workload_name", _Name, nullable=False),
    UniqueConstraint("namespace", "workload_kind", "workload_name", name="ledger_workloads_named_once"),
)
"""Workloads that the ledger has rows of, by number."""


def _amounts() -> list[Column[int]]:
    """Return the columns of a row of the ledger beside its key: millicores, bytes and seconds; NULL = not known."""
    return [
        Column("pods_milli", BigInteger, nullable=False),
        *(
            Column(f"{resource}_{figure}", BigInteger, nullable=True)
            for resource in ("cpu", "memory")
            for figure in ("written", "requested", "recommended", "used", "used_p95", "short_seconds")
        ),
        Column("kills", BigInteger, nullable=False),
    ]


ledger_hours: Final = Table(
    "ledger_hours",
    metadata,
    # The hour first: what is written and dropped together lies together.
    Column("unix_hour", BigInteger, primary_key=True, autoincrement=False),
    Column("workload", BigInteger, primary_key=True, autoincrement=False),
    *_amounts(),
    sqlite_with_rowid=False,
)
"""The ledger by hour."""

LEDGER_MARGINS: Final = tuple(
    f"{resource}_{figure}" for resource in ("cpu", "memory") for figure in ("freed", "possible", "needed")
)
ledger_days: Final = Table(
    "ledger_days",
    metadata,
    Column("unix_day", BigInteger, primary_key=True, autoincrement=False),
    Column("workload", BigInteger, primary_key=True, autoincrement=False),
    Column("hours", Integer, nullable=False),
    *_amounts(),
    *(Column(name, BigInteger, nullable=False) for name in LEDGER_MARGINS),
    sqlite_with_rowid=False,
)
"""The ledger by day: sums of the day's hours; the last columns are what was too much or too little in each hour, which
sums over a day would hide."""
LEDGER_THROUGH: Final = "ledger_through"
"""The newest hour that was put into the ledger; 0 = none yet."""

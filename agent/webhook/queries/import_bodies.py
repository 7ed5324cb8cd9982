"""The bodies of imported history: hours of containers as they were read elsewhere, and what became of them.

Webhook; JSON in camelCase. The types are the schema, as those of ``reports.bodies``. Hours are UTC, by the clock of
Prometheus: unlike a node's report, they are of the past.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from agent.core.history.reports.rollup import SCHEMA_VERSION, Distribution
from agent.core.history.workloads.imported import ImportedHour, ImportSource
from agent.webhook.reports.bodies import MAX_BYTES, Body, Kind, Label, ObjectName, RefusedRowBody

MOST_PODS: Final = 10_000
"""Of one workload within an hour."""
HOUR_SECONDS: Final = 3600
_MOST_SAMPLES: Final = MOST_PODS * HOUR_SECONDS


class ImportedSamplesBody(Body, kw_only=True):
    """The samples of one signal in one hour; CPU in millicores, memory in bytes."""

    count: Annotated[int, Meta(ge=1, le=_MOST_SAMPLES)]
    sum: Annotated[float, Meta(ge=0, le=1e21)]
    max: Annotated[float, Meta(ge=0, le=MAX_BYTES)]
    buckets: Annotated[
        list[Annotated[int, Meta(ge=0, le=_MOST_SAMPLES)]],
        Meta(min_length=2, max_length=2000, description="Bucket, count, bucket, count, ...; counts add up to count."),
    ]

    @classmethod
    def of(cls, samples: Distribution) -> ImportedSamplesBody:
        """Write samples."""
        buckets = [number for pair in sorted(samples.buckets.items()) for number in pair]
        return cls(count=samples.count, sum=samples.sum, max=samples.max, buckets=buckets)


class ImportedHourBody(Body, kw_only=True, omit_defaults=True):
    """One container of a workload and one UTC hour, all its pods together."""

    namespace: Label
    kind: Kind
    workload: ObjectName
    container: Label
    unix_hour: Annotated[int, Meta(ge=0, le=10_000_000, description="Hours since 1970.")]
    covered_seconds: Annotated[float, Meta(gt=0, le=_MOST_SAMPLES)]
    pods: Annotated[int, Meta(ge=1, le=MOST_PODS)]
    cpu: ImportedSamplesBody | None = None
    cpu_adjusted: ImportedSamplesBody | None = None
    memory: ImportedSamplesBody | None = None
    oom_kills: Annotated[
        list[
            tuple[
                Annotated[float, Meta(ge=0, lt=HOUR_SECONDS)],
                Annotated[int, Meta(ge=1, le=10**13)] | None,
            ]
        ],
        Meta(max_length=100, description="[second of the hour, bytes or null]"),
    ] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, hour: ImportedHour) -> ImportedHourBody:
        """Write an hour."""
        cpu, adjusted, memory = (
            None if samples is None else ImportedSamplesBody.of(samples)
            for samples in (hour.cpu, hour.cpu_adjusted, hour.memory)
        )
        return cls(
            namespace=hour.workload.namespace,
            kind=hour.workload.kind,
            workload=hour.workload.name,
            container=hour.container,
            unix_hour=hour.unix_hour,
            covered_seconds=hour.covered_seconds,
            pods=hour.pods,
            cpu=cpu,
            cpu_adjusted=adjusted,
            memory=memory,
            oom_kills=[(kill.second, kill.memory_bytes) for kill in hour.kills],
        )


class HistoryBody(Body, kw_only=True):
    """Hours to be taken. What agents told stays, and an hour of Prometheus replaces one that was imported before."""

    schema: Annotated[int, Meta(ge=1, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    source: ImportSource = "prometheus"
    """Hours of ``vpa-checkpoints`` replace none."""
    rows: list[ImportedHourBody]


class RawHistoryBody(Body, kw_only=True):
    """The same, its rows not read yet."""

    schema: Annotated[int, Meta(ge=1, le=SCHEMA_VERSION)]
    source: ImportSource
    rows: list[msgspec.Raw]


class HistoryAnswer(Body, kw_only=True):
    """What became of imported hours."""

    schema: int = SCHEMA_VERSION
    taken: int
    """Rows; those that stood there already among them."""
    changed: int
    """Of these, the ones that did not stand there already."""
    refused: list[RefusedRowBody]
    """By number, the first one 0."""
    in_memory_too: bool
    """Whether the replica that answers knows them in memory; if not, it will within seconds, as all others."""

"""Every series that agent and webhook can have, with its labels: from the program's own registries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.admission.answer import AdmissionOutcome
from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.cost.prices import Prices
from agent.core.history.minute.quality import QUALITY_FIELDS, WINDOWS
from agent.core.history.reports.directive import Directives
from agent.core.plan.needs.directives import NodeDirectives
from agent.core.window.snapshot import PodStatus, UnitStatus
from agent.metrics.acting_series import Trigger
from agent.metrics.agent_series import Metrics, PodSource, PressureKind, PressureResource
from agent.metrics.container_series import FAMILIES, ContainerSeries
from agent.metrics.directive_series import DirectiveSeries
from agent.metrics.families import FamilyReading
from agent.metrics.report_series import ProposingSeries, ReportSeries, TaintAnswerSeries
from agent.metrics.webhook_series import WebhookMetrics
from agent.webhook import own_series as telling
from agent.webhook.admission.glance import Unread
from tests.plans import plan
from tests.snapshots import cpu_window, memory_window

TARGET_LABELS: Final = {"cluster", "node", "job", "instance"}
"""What scraping puts on every series, with the chart's monitors or the README's example."""


def cgroup(path: str, kind: UnitKind) -> UnitStatus:
    """Return a pod or tier of which everything is known."""
    return UnitStatus(
        identity=UnitIdentity(cgroup_path=path, kind=kind, namespace="a", pod="b"),
        resources=UnitResources(),
        cpu=cpu_window(),
        memory=memory_window(),
        sample_age_seconds=1.0,
        memory_max_bytes=1,
    )


def agent_families() -> dict[str, set[str]]:
    """Return the agent's samples by name, each with its own labels."""
    metrics = Metrics(version="0", commit="", sampler="native", per_container=True)
    metrics.add_process()
    metrics.set_in_force(mode="recommend", policy="cruise")
    metrics.loops.begin("acting")
    metrics.set_rings(touched_bytes=0, span_seconds=1.0)
    metrics.set_pod_source_age(PodSource.WATCH, 0.0)
    metrics.set_node_pressure(PressureResource.CPU, PressureKind.SOME, 0.0)
    metrics.set_slack(cpu_millicores=1.0, memory_bytes=1)
    metrics.set_cold_file(1)
    metrics.set_node(cpus=1, cpu_usage_millicores=1.0, memory_total_bytes=1, memory_available_bytes=1)
    metrics.set_advised(
        cpu_requested_millicores=1,
        cpu_recommended_millicores=1,
        memory_requested_bytes=1,
        memory_recommended_bytes=1,
    )
    metrics.set_drift({})
    metrics.acting.set_qos_reserved({QosClass.BURSTABLE: 1})
    whole, tier = (
        cgroup(path, kind) for path, kind in (("/kubepods/pod1", UnitKind.POD), ("/kubepods", UnitKind.TIER))
    )
    metrics.tiers.publish([tier])
    metrics.publish_pods([PodStatus(whole=whole, itself_cpu_millicores=1.0, itself_working_set_bytes=1)])
    metrics.acting.take_plan(plan(), trigger=Trigger.INTERVAL, seconds=0.0)
    metrics.acting.set_pending_oldest(1.0)
    metrics.acting.set_window_wait(1.0)
    own = CollectorRegistry()
    ReportSeries(own).set_last_success(1.0)
    ProposingSeries(own)
    TaintAnswerSeries(own)
    metrics.register(own)
    metrics.register(DirectiveSeries(lambda: NodeDirectives(directives=Directives(etag="e"), age_seconds=1.0)))
    figures = {name: 1 for family in FAMILIES for _, name in family.fields}
    metrics.publish_containers([ContainerSeries(labels=("a", "b", "c"), **cast(Any, figures))])
    judged = np.ones((len(WINDOWS), QUALITY_FIELDS))
    workload = Workload(namespace="shop", kind="Deployment", name="web")
    metrics.take_quality(lambda: judged, lambda: {(workload, "app"): judged})
    return _samples(metrics.page().body.decode())


def webhook_families() -> dict[str, set[str]]:
    """Return the webhook's samples by name, each with its own labels."""
    metrics = WebhookMetrics(
        version="0",
        commit="",
        admission_results=[str(outcome) for outcome in AdmissionOutcome],
        unread_reasons=[str(reason) for reason in Unread],
    )
    metrics.loops.begin("follow")
    labels_by_name = _samples(metrics.page().body.decode())
    nobody = cast(Any, _Nobody())  # a reading has its name and labels before anything is read
    readings: Iterable[FamilyReading] = (
        *telling.of_history(nobody, nobody, nobody, nobody, nobody),
        *telling.of_directives(nobody),
        *telling.of_prices(Prices()),
        *telling.of_shares(nobody),
        *telling.of_cluster(nobody, nobody),
        *telling.of_certificate(nobody),
        *telling.of_evictions(nobody),
        *telling.of_taints(nobody, nobody),
        *telling.of_buffers(nobody),
        *telling.of_vpas(nobody, nobody),
        *telling.of_hpas(nobody, nobody),
        *telling.of_connections(nobody),
    )
    for reading in readings:
        labels_by_name[f"{reading.name}_total" if reading.is_counter else reading.name] = set(reading.labels)
    return labels_by_name


def families() -> Mapping[str, set[str]]:
    """Return all of both; where both have a name, the labels of either."""
    agent, webhook = agent_families(), webhook_families()
    return {name: agent.get(name, set()) | webhook.get(name, set()) for name in {*agent, *webhook}}


class _Nobody:
    """Has whatever is asked for; it is never called."""

    def __getattr__(self, name: str) -> _Nobody:
        return self


def _samples(page: str) -> dict[str, set[str]]:
    labels_by_name: dict[str, set[str]] = {}
    for family in parse_text(page):
        for sample in family.samples:
            labels_by_name.setdefault(sample.name, set()).update(sample.labels)
    return labels_by_name

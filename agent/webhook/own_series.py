"""What the parts of the webhook tell of themselves on /metrics: read when the page is asked for. Webhook.

Everything here is in memory; the store's size, which is not, is looked up by a thread of its own once a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from agent.core.autoscalers.options import Preserve
from agent.core.buffers.buffer import BufferOutcome
from agent.core.cost.prices import Prices, PriceSource
from agent.core.eviction.proposal import Reason, Verdict
from agent.core.eviction.taint_cap import TaintReason
from agent.kube.watch.lease import LeaderLease
from agent.metrics.families import FamilyReading, Values, counter_reading, gauge_reading
from agent.webhook.autoscalers.controller import VpaController
from agent.webhook.autoscalers.publisher import RESULTS as PUBLISHER_RESULTS
from agent.webhook.autoscalers.statuses import RESULTS as STATUS_RESULTS
from agent.webhook.autoscalers.targets import RESULTS as HPA_RESULTS
from agent.webhook.autoscalers.targets import HpaTargets
from agent.webhook.buffers.controller import BufferController
from agent.webhook.buffers.namespace_pass import NamespaceView
from agent.webhook.certificates.certificates import Certificates
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.eviction.taint_cap import TaintCap
from agent.webhook.http.connections import Connections
from agent.webhook.reports.directives import Director
from agent.webhook.store.shapes import StoreAway
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.shares import WorkloadShares
from agent.webhook.workloads.tailer import Tailer

log = logging.getLogger(__name__)

SIZE_SECONDS: Final = 60.0
_LOOK_RESULTS: Final = ("done", "requeued", "failed", "error")


class StoreSize:
    """What the store takes, as of the last look."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.size_bytes: int | None = None
        """None = not known."""

    def look(self) -> bool:
        """Check again; False = that was all."""
        try:
            self.size_bytes = self._store.size_bytes()
        except StoreAway:
            self.size_bytes = None
        return False


def of_history(
    index: WorkloadIndex, tailer: Tailer, folder: Folder, sizes: StoreSize, takes_reports: Callable[[], bool]
) -> tuple[FamilyReading, ...]:
    """Return the families of what nodes learnt and where it is kept."""

    def entries() -> Values:
        size = index.size()
        return [
            (("workloads",), size.workloads),
            (("containers",), size.containers),
            (("rows",), size.rows),
            (("node_rows",), size.node_rows),
            (("nodes",), size.nodes),
        ]

    return (
        gauge_reading("plimsoll_history_entries", "What is in memory, by kind.", entries, "kind"),
        gauge_reading("plimsoll_history_workloads", "Workloads in memory.", lambda: _single(index.size().workloads)),
        gauge_reading(
            "plimsoll_history_bytes", "Memory of the rings of history.", lambda: _single(index.size().array_bytes)
        ),
        gauge_reading(
            "plimsoll_history_age_seconds",
            "Time since memory was last known to hold all that the database has.",
            lambda: _known(tailer.age_seconds(time.time())),
        ),
        gauge_reading(
            "plimsoll_history_loaded", "1 = the history of the database is loaded.", lambda: _single(index.is_loaded)
        ),
        counter_reading(
            "plimsoll_history_rows_without_room",
            "Rows of reports that found no room in memory; the database has them.",
            lambda: _single(index.size().rows_without_room),
        ),
        counter_reading(
            "plimsoll_history_containers_left_out",
            "Rows of reports whose container is beyond the 200 that are kept of a workload.",
            lambda: _single(index.size().containers_left_out),
        ),
        counter_reading(
            "plimsoll_reports_followed", "Reports read from the log into memory.", lambda: _single(tailer.taken_reports)
        ),
        counter_reading(
            "plimsoll_reports_folded", "Reports put into hourly sketches.", lambda: _single(folder.folded_reports)
        ),
        counter_reading(
            "plimsoll_store_unreadable",
            "What the database held and could not be read.",
            lambda: [
                (("report",), tailer.bad_reports + folder.bad_reports),
                (("sketch",), tailer.bad_sketches + folder.bad_sketches),
            ],
            "kind",
        ),
        gauge_reading(
            "plimsoll_store_up",
            "1 = the database answered last time, and had room for what was written.",
            lambda: _single(takes_reports() and not tailer.is_away),
        ),
        gauge_reading("plimsoll_store_bytes", "What the database takes on disk.", lambda: _known(sizes.size_bytes)),
    )


def of_directives(director: Director) -> tuple[FamilyReading, ...]:
    """Return the family of what nodes are not told."""
    return (
        counter_reading(
            "plimsoll_directives_containers_left_out",
            "Containers whose figures a node was not told, as its answer would have been too long.",
            lambda: _single(director.left_out),
        ),
    )


def of_prices(prices: Prices) -> tuple[FamilyReading, ...]:
    """Return the families of what cores and GiB cost where a node has no price of its own; no names are in them."""
    source = PriceSource.LIST if prices.has_list_rates else PriceSource.RATES
    cpu, memory = (float(prices.month(hourly)) for hourly in prices.reference)

    def price_reading(price: float) -> Callable[[], Values]:
        return lambda: [((prices.currency, source), price)]

    labels = ("currency", "source")
    return (
        gauge_reading(
            "plimsoll_price_core_month",
            "What a core costs a month, by settings or a list.",
            price_reading(cpu),
            *labels,
        ),
        gauge_reading(
            "plimsoll_price_gib_month", "What a GiB of memory costs a month.", price_reading(memory), *labels
        ),
    )


def of_shares(shares: WorkloadShares) -> tuple[FamilyReading, ...]:
    """Return the family of enforced shares."""
    return (
        gauge_reading(
            "plimsoll_shares_taken_back",
            "Workloads whose enforced share was taken back, as its pods fared worse than the others.",
            lambda: _single(shares.taken_back_count()),
        ),
    )


def of_cluster(facts: ClusterFacts, lease: LeaderLease) -> tuple[FamilyReading, ...]:
    """Return the families of what the API server tells, and of who leads."""
    return (
        gauge_reading(
            "plimsoll_leader", "1 = this replica does what only one may do.", lambda: _single(lease.is_leader)
        ),
        gauge_reading(
            "plimsoll_cluster_objects",
            "Objects of the cluster in memory, by kind.",
            lambda: [((status.name,), status.objects) for status in facts.statuses()],
            "kind",
        ),
        gauge_reading(
            "plimsoll_cluster_age_seconds",
            "Time since the API server was last heard, by kind.",
            lambda: [
                ((status.name,), status.age_seconds) for status in facts.statuses() if status.age_seconds is not None
            ],
            "kind",
        ),
        counter_reading(
            "plimsoll_cluster_watch_failures",
            "Watches and lists that broke off, by kind.",
            lambda: [((status.name,), status.counts.failures) for status in facts.statuses()],
            "kind",
        ),
        gauge_reading(
            "plimsoll_cluster_faults",
            "Objects that are not understood, the ConfigMap of the rules among them.",
            lambda: _single(len(facts.faults())),
        ),
        gauge_reading(
            "plimsoll_cluster_tainted_nodes",
            "Nodes with the overload taint.",
            lambda: _single(len(facts.tainted_nodes())),
        ),
        gauge_reading(
            "plimsoll_cluster_paused",
            "1 = the cluster is paused: nothing is written anywhere.",
            lambda: _single(facts.rules().pause_reason is not None),
        ),
    )


def of_certificate(certificates: Certificates) -> tuple[FamilyReading, ...]:
    """Return the families of the serving certificate."""
    return (
        gauge_reading(
            "plimsoll_webhook_cert_expiry_timestamp_seconds",
            "When the certificate that is served expires.",
            lambda: _known(certificates.status().expires_unix_seconds),
        ),
        gauge_reading(
            "plimsoll_webhook_ca_expiry_timestamp_seconds",
            "When the authority that signs it expires.",
            lambda: _known(certificates.status().authority_expires_unix_seconds),
        ),
        gauge_reading(
            "plimsoll_webhook_cert_fault",
            "1 = something is wrong with the certificate or its registration; the log says what.",
            lambda: _single(certificates.status().fault is not None),
        ),
        counter_reading(
            "plimsoll_webhook_cert_reloads", "Certificates taken up.", lambda: _single(certificates.status().reloads)
        ),
    )


def of_evictions(arbiter: Arbiter) -> tuple[FamilyReading, ...]:
    """Return the family of proposals by verdict and reason; every pair that can be stands at 0 from the start."""
    pairs: list[tuple[Verdict, Reason]] = [(reason.verdict, reason) for reason in Reason]

    def read() -> Values:
        counts = arbiter.counts()
        return [((verdict.value, reason.value), counts.get((verdict, reason), 0)) for verdict, reason in pairs]

    return (
        counter_reading(
            "plimsoll_evictions_judged", "Proposed evictions, by what came of them.", read, "verdict", "reason"
        ),
    )


def of_buffers(controller: BufferController) -> tuple[FamilyReading, ...]:
    """Return the families of CapacityBuffers; by namespace and name where it is of one."""
    of_one, of_call = ("namespace", "buffer"), ("verb", "resource")

    def each(value: Callable[[BufferOutcome, NamespaceView], float | None]) -> Values:
        for view in controller.views():
            for outcome in view.outcomes:
                figure = value(outcome, view)
                if figure is not None:
                    yield (outcome.buffer.namespace, outcome.buffer.name), figure

    def wanted(outcome: BufferOutcome, _view: NamespaceView) -> int | None:
        sizing = outcome.explanation.sizing
        return None if sizing is None else sizing.replicas

    return (
        gauge_reading(
            "plimsoll_buffers", "CapacityBuffers that are known.", lambda: _single(controller.watches.buffers.count())
        ),
        gauge_reading(
            "plimsoll_buffer_wanted_chunks",
            "Chunks that a CapacityBuffer asks for by replicas, percentage and limits.",
            lambda: each(wanted),
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_allowed_chunks",
            "Chunks of a CapacityBuffer's status: what quotas and its schedule leave of those wanted.",
            lambda: each(lambda outcome, _view: outcome.status.replicas),
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_ready_chunks",
            "Chunks of which the room is kept by a placeholder pod that runs.",
            lambda: each(lambda outcome, view: view.ready.get(outcome.buffer.name)),
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_not_ready",
            "1 = a CapacityBuffer could not be resolved or sized; its condition says why.",
            lambda: each(lambda outcome, _view: outcome.explanation.fault is not None),
            *of_one,
        ),
        gauge_reading(
            "plimsoll_buffer_namespaces_waiting",
            "Namespaces with CapacityBuffers that are to be looked at, most of them by the clock.",
            lambda: _single(controller.waiting()),
        ),
        gauge_reading(
            "plimsoll_buffer_namespaces_failing",
            "Namespaces of which the last look failed.",
            lambda: _single(controller.faults()),
        ),
        gauge_reading(
            "plimsoll_buffers_contested",
            "1 = another controller writes the status of CapacityBuffers, and this one steps back.",
            lambda: _single(controller.standing().contested_by is not None or controller.is_fought()),
        ),
        counter_reading(
            "plimsoll_buffer_reconciles",
            "Looks at namespaces with CapacityBuffers, by how they came out.",
            lambda: [((result,), controller.results[result]) for result in _LOOK_RESULTS],
            "result",
        ),
        counter_reading(
            "plimsoll_buffer_writes",
            "Statuses and managed templates written.",
            lambda: [(("status",), controller.counts.statuses), (("template",), controller.counts.templates)],
            "what",
        ),
        counter_reading(
            "plimsoll_buffer_api_calls", "Calls for CapacityBuffers.", lambda: controller.api.calls().items(), *of_call
        ),
        counter_reading(
            "plimsoll_buffer_api_errors",
            "Of these, those that were refused or not answered.",
            lambda: controller.api.errors().items(),
            *of_call,
        ),
    )


def of_vpas(controller: VpaController, facts: ClusterFacts) -> tuple[FamilyReading, ...]:
    """Return the families of VerticalPodAutoscaler objects; none where they are not taken."""
    if not controller.options.enabled:
        return ()

    def objects() -> Values:
        all_orders = facts.own_vpas()
        managed = sum(1 for orders in all_orders if orders.vpa.is_managed)
        left = sum(1 for orders in all_orders if orders.left_to is not None)
        return [(("taken",), len(all_orders) - managed - left), (("managed",), managed), (("left_to_vpa",), left)]

    return (
        gauge_reading(
            "plimsoll_vpa_objects",
            "VerticalPodAutoscaler objects of the recommender plimsoll: taken as orders (taken), made by Plimsoll "
            "itself (managed), or left to VPA's own admission controller and updater (left_to_vpa).",
            objects,
            "state",
        ),
        counter_reading(
            "plimsoll_vpa_status_looks",
            "Looks at the status of such objects, by how they came out.",
            lambda: [((result,), controller.statuses.results[result]) for result in STATUS_RESULTS],
            "result",
        ),
        counter_reading(
            "plimsoll_vpa_published",
            "Objects that were made or removed for workloads that Plimsoll sizes.",
            lambda: [((result,), controller.publisher.results[result]) for result in PUBLISHER_RESULTS],
            "result",
        ),
    )


def of_hpas(mover: HpaTargets, facts: ClusterFacts) -> tuple[FamilyReading, ...]:
    """Return the families of HPAs' targets that move with requests; none where they never do."""
    if mover.options.preserve is Preserve.OFF:
        return ()

    def targets() -> Values:
        pairs = [(facts.preserved(workload), hpa) for workload, hpa, _ in facts.movable_targets()]
        followed = sum(len(preserved_targets) for preserved_targets, _ in pairs)
        every = sum(max(len(hpa.kept), 1 if hpa.fault else 0) for _, hpa in pairs)
        return [(("followed",), followed), (("held",), every - followed)]

    return (
        gauge_reading(
            "plimsoll_hpa_targets",
            "Utilization targets of HPAs whose original is kept: moved after the requests of their pods (followed), or "
            "not now, so that these stay (held).",
            targets,
            "state",
        ),
        counter_reading(
            "plimsoll_hpa_target_writes",
            "Writes of HPAs: an original was kept (taken), a target moved, an original put back or let go (released), "
            "it was changed meanwhile (changed), or the API server refused it.",
            lambda: [((result,), mover.results[result]) for result in HPA_RESULTS],
            "result",
        ),
    )


def of_taints(cap: TaintCap, most: Callable[[], int]) -> tuple[FamilyReading, ...]:
    """Return the families of nodes that asked for the overload taint."""

    def read() -> Values:
        counts = cap.counts()
        return [((reason.value,), counts.get(reason, 0)) for reason in TaintReason]

    return (
        counter_reading(
            "plimsoll_taints_judged", "Nodes that asked for the overload taint, by the answer.", read, "reason"
        ),
        gauge_reading(
            "plimsoll_cluster_tainted_nodes_limit", "Nodes that may have the overload taint.", lambda: _single(most())
        ),
    )


def of_connections(connections: Connections) -> tuple[FamilyReading, ...]:
    """Return the families of who is connected."""
    return (
        gauge_reading("plimsoll_webhook_connections", "Connections open now.", lambda: _single(len(connections))),
        counter_reading(
            "plimsoll_webhook_connections_closed",
            "Connections closed by the webhook: idle beyond the bound of one address (idle), for newcomers' sake "
            "(greedy), or not let in as their address used up its share (share).",
            lambda: [((why,), count) for why, count in tuple(connections.closed.items())],
            "reason",
        ),
    )


def _single(value: float) -> Values:
    return [((), value)]


def _known(value: float | None) -> Values:
    return [] if value is None else _single(value)

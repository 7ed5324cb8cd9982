"""The webhook put together: who is handed what, which threads there are, in what order all begins and ends.

Webhook. The event loop (the thread that calls ``run``) answers admissions from memory. Beside it: workers for reports
and questions, one thread that follows the log into the index, one that folds the log (leader only), one that works out
the dear policies, and those of the watches, the Lease and the certificate. No admission waits for any of them.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Final

from agent.core.admission.answer import AdmissionOutcome
from agent.core.admission.estimate import Estimate
from agent.core.autoscalers.options import Preserve
from agent.core.cluster.facts import PodPlace
from agent.core.cluster.versions import resize_supported
from agent.core.cluster.workload import Workload
from agent.core.eviction.options import EvictionMode
from agent.core.eviction.taint_cap import most_tainted
from agent.core.history.reports.rollup import Report
from agent.core.history.workloads.usage_ledger import LedgerContainer
from agent.core.orders.resolution import listed
from agent.heap import Heap
from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials, in_cluster
from agent.kube.client.errors import CredentialsError
from agent.kube.client.kubeconfig import from_kubeconfig
from agent.kube.watch.lease import LeaderLease
from agent.kube.watch.reflector import pace_within
from agent.metrics.call_result import CallResult
from agent.metrics.webhook_series import WebhookMetrics
from agent.turns import Turns
from agent.version import installed_version
from agent.webhook import own_series
from agent.webhook.admission.glance import Unread
from agent.webhook.admission.precedence import BREATH_SECONDS, Precedence
from agent.webhook.admission.recent_growth import RecentGrowth
from agent.webhook.admission.review import Reviewer
from agent.webhook.autoscalers.controller import VpaController, VpaParts
from agent.webhook.autoscalers.publisher import PublisherParts
from agent.webhook.autoscalers.targets import HpaParts, HpaTargets
from agent.webhook.buffers.chunk_size import AdmissionSizer
from agent.webhook.buffers.controller import BufferController, Collaborators
from agent.webhook.buffers.options import BufferMode
from agent.webhook.buffers.placeholders import Placeholders
from agent.webhook.buffers.schedules import Schedules
from agent.webhook.buffers.seams import WritePermission
from agent.webhook.certificates.certificates import Certificates
from agent.webhook.cluster.disruption_budgets import read_budgets
from agent.webhook.cluster.facts import ClusterFacts, OptionalReads
from agent.webhook.collector_pause import Settling
from agent.webhook.eviction.arbiter import Arbiter
from agent.webhook.eviction.preemption import GivingWay
from agent.webhook.eviction.taint_cap import TaintCap
from agent.webhook.http.access import Access
from agent.webhook.http.routes import Services, WebhookApp
from agent.webhook.http.tls_server import HttpsServer
from agent.webhook.http.tokens import SigningKeys
from agent.webhook.openapi import document
from agent.webhook.queries.buffers import BufferQuestions
from agent.webhook.queries.cost import CostParts, CostQuestions
from agent.webhook.queries.effective_policy import Applying, Defaults
from agent.webhook.queries.events import EventQuestions
from agent.webhook.queries.forget import ForgetParts, Forgetter
from agent.webhook.queries.imports import Doors, Importer, ImportParts
from agent.webhook.queries.policies import PolicyQuestions
from agent.webhook.queries.summary import SummaryParts, SummaryQuestions
from agent.webhook.queries.workloads import QueryParts, Questions
from agent.webhook.reports.directives import Director
from agent.webhook.reports.posts import PostParts, Posts
from agent.webhook.settings import WebhookSettings, read_prices
from agent.webhook.store.database.engine import database_now
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.evictions import EvictionStore
from agent.webhook.store.shapes import SchemaTooNew, StoreAway, StoreError, StoreUnusable
from agent.webhook.store.store import Store
from agent.webhook.store.taints import TaintStore
from agent.webhook.workloads.folder import Folder
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.percentiles import Statistics
from agent.webhook.workloads.preparation import OrderedPolicies, Preparing
from agent.webhook.workloads.rebuilder import Rebuilder
from agent.webhook.workloads.shares import WorkloadShares
from agent.webhook.workloads.tailer import Tailer
from agent.webhook.workloads.usage_ledger import LedgerParts, UsageLedger

log = logging.getLogger(__name__)

FOLLOW_SECONDS: Final = 1.0
"""Between two looks at the log; a report taken here is looked for at once, or when the spacing is over."""
FOLLOW_SPACING_SECONDS: Final = 0.25
"""Between two looks at the least. Each asks the database three times, which was half of what following a report cost
where each of 17 a second was looked for by itself."""
UPKEEP_SECONDS: Final = 5.0
RUNS_UPKEEP_SECONDS: Final = 600.0
"""Between two looks at runs that ended too long ago."""
LEDGER_SECONDS: Final = 30.0
"""Between two looks for hours that are over."""
SETTLE_SECONDS: Final = 10.0
STOP_SECONDS: Final = 5.0


class ListeningError(Exception):
    """The address or port cannot be had; one line."""


class _Ending(BaseException):
    """The webhook ends in the middle of background work; not for ``except Exception``."""


class Webhook:
    """One replica."""

    def __init__(self, settings: WebhookSettings) -> None:
        """Build everything, each part after those that it is handed; nothing is asked or answered yet.

        Raises:
            CredentialsError, StoreError, CertificateSetupError, ListeningError, PriceError: It cannot work so; one
                line.
        """
        self.settings: Final = settings
        self._heap = Heap()
        self._heap.keep_one_arena()  # before any thread starts
        self._heap.map_large()
        self._prices = read_prices(settings.cost)
        self._stopping = threading.Event()
        self._precedence = Precedence()
        self._fatal: StoreError | None = None
        self._began_seconds = time.monotonic()
        self.listener: Final = open_listener(settings.listening.address, settings.listening.port)
        with ExitStack() as undone:
            undone.callback(self.listener.close)
            self._store = Store(settings.database.url)
            self._api = HttpApi(
                credentials_of(settings),
                timeout_seconds=settings.cluster.request_timeout_seconds,
                user_agent=f"plimsoll/{installed_version()} webhook",
            )
            self._pace = pace_within(settings.cluster.stale_seconds)
            self.metrics = WebhookMetrics(
                version=installed_version(),
                commit=os.environ.get("PLIMSOLL_COMMIT", "unknown"),
                admission_results=[str(outcome) for outcome in AdmissionOutcome],
                unread_reasons=[str(reason) for reason in Unread],
            )
            self._know()
            self._learn()
            self._admit()
            self._control()
            self._judge()
            self._answer()
            self._measure()
            undone.pop_all()

    def _know(self) -> None:
        """Build what is known of the cluster, who leads, and the certificate."""
        settings, cluster = self.settings, self.settings.cluster
        self._growth = RecentGrowth(time.monotonic)
        self._pod_orders = OrderedPolicies(
            listed(settings.plan.managed_kinds), listed(settings.act.excluded_namespaces)
        )
        self.facts = ClusterFacts(
            self._api,
            namespace=cluster.namespace,
            config_map=cluster.config_map,
            pace=self._pace,
            on_pod=self._see_pod,
            group_by=settings.workloads.label_keys,
            reads=OptionalReads(
                jobs=cluster.reads_jobs,
                vpas=settings.vpa_objects.enabled,
                preserves_hpas=settings.hpa.preserve is Preserve.FOLLOW,
                are_evictions_on=settings.arbiter.mode is EvictionMode.ENFORCE,
            ),
        )
        self.lease = LeaderLease(
            self._api,
            namespace=cluster.namespace,
            name=cluster.lease,
            identity=cluster.replica or socket.gethostname(),
        )
        self.certificates = Certificates(
            settings.certificate,
            namespace=cluster.namespace,
            api=self._api,
            is_leader=self._is_leader,
            pace=self._pace,
            counts=self.metrics.loops.begin("certificates"),
        )
        self.lease.on_change = lambda _: self.certificates.wake()

    def _learn(self) -> None:
        """Build the history: the index, what feeds it, and the loops that do."""
        settings = self.settings
        self.index = WorkloadIndex(
            settings.history,
            settings,
            sized_kinds=listed(settings.plan.managed_kinds),
            min_age_seconds=settings.plan.min_age_seconds,
            cluster=self.facts,
            jobs=settings.jobs,
        )
        self.shares = WorkloadShares(settings.guard)
        self.tailer = Tailer(
            self._store,
            self.index,
            pause=self._breathe,
            taken=self.shares.take,
            forgotten=self.shares.forget,
            turn=self._precedence.turn,
        )
        self._applying = Applying(self.facts, self._defaults())
        self._ledger = UsageLedger(
            LedgerParts(store=self._store, written=self._written, recommended=self._recommended), pause=self._breathe
        )
        self._folder = Folder(
            self._store,
            settings.folding,
            pause=self._breathe,
            folded=self._ledger.folded,
            turn=self._precedence.turn,
        )
        self._preparing = Preparing(
            self.facts,
            self.index,
            Rebuilder(self._store, self.index, settings, settings.rebuilding, pause=self._breathe),
            self._pod_orders,
            policy=settings.recommend.policy,
            pause=self._breathe,
        )
        self._runs_due_seconds = time.monotonic()
        self._settling = Settling(self._staying, self._heap.give_back)
        self._sizes = own_series.StoreSize(self._store)
        self._following = self._loop("follow", self._follow, FOLLOW_SECONDS, spacing_seconds=FOLLOW_SPACING_SECONDS)
        self._loops = (
            self._following,
            self._loop("fold", self._fold, UPKEEP_SECONDS),
            self._loop("ledger", self._put_down, LEDGER_SECONDS),
            self._loop("rebuild", self._rebuild, UPKEEP_SECONDS),
            self._loop("sizes", self._sizes.look, own_series.SIZE_SECONDS),
            self._loop("settle", self._settling.look, SETTLE_SECONDS),
        )

    def _admit(self) -> None:
        """Build what sizes pods: new ones at their admission, running ones by directives to their nodes."""
        settings = self.settings
        self._director = Director(
            self.facts,
            self.index,
            stop_shrinking_seconds=settings.act.shrink_barred_seconds,
            freezes_axes=settings.admission.hpa_freezes_axes,
            setbacks=self.shares,
            pause=self._precedence.breathe,
        )
        self._reviewer = Reviewer(
            self.facts,
            self.index,
            settings.of_admission(),
            growth=self._growth,
            taken_back=self.shares.taken_back,
            count=self.metrics.count_admission,
        )

    def _control(self) -> None:
        """Build the loops that write to the cluster; only the leader's do."""
        settings = self.settings
        permission = WritePermission(is_leader=self._is_leader, pause_reason=lambda: self.facts.rules().pause_reason)
        self._placeholders = Placeholders(
            self._api,
            settings.placeholders,
            permission=permission,
            can_resize=lambda: resize_supported(self.facts.server_version),
            pace=self._pace,
        )
        self.buffers = BufferController(
            self._api,
            options=settings.buffers,
            permission=permission,
            instance=self.lease.identity,
            collaborators=Collaborators(
                sizer=AdmissionSizer(self._reviewer.admission, is_ready=self._is_read),
                activities=Schedules(),
                keeper=self._placeholders,
            ),
            pace=self._pace,
            # A loop that never runs has no place on the page.
            counts=None if settings.buffers.mode is BufferMode.OFF else self.metrics.loops.begin("buffers"),
        )
        self.vpas = self._vpa_controller()
        self.hpas = self._hpa_targets()

    def _judge(self) -> None:
        """Build what decides on the evictions and taints that nodes ask for."""
        settings = self.settings
        self._arbiter = Arbiter(
            api=self._api,
            store=EvictionStore(self._store, clock=database_now),
            facts=self.facts,
            admission=lambda pod: self._reviewer.admission(pod, None),
            options=settings.arbiter,
            sizing=settings.of_admission(),
            give_way=GivingWay(self._api, pods=self._placeholders.pods),
        )
        self._taints = TaintCap(
            store=TaintStore(self._store, now=database_now), facts=self.facts, options=settings.arbiter
        )

    def _answer(self) -> None:
        """Build what answers, and the server that is asked."""
        settings = self.settings
        access = Access(
            self._api,
            settings.access,
            namespace=settings.cluster.namespace,
            places=self.facts,
            clock=time.monotonic,
            keys=SigningKeys(self._api),
        )
        posts, importer = self._posts(access), self._importer(access)
        doors = Doors(posts, importer)
        costs = self._cost_questions(access)
        questions = self._questions(access, costs)
        summaries = self._summaries(access, questions)
        events = EventQuestions(access, self._store, self.metrics)
        policies = PolicyQuestions(access, self.index, self.facts, questions.applying, questions.applies, self.metrics)
        buffers = self._buffer_questions(access)
        services = Services(
            review=self._precedence.first(self._reviewer.review),
            failed=self.metrics.count_unread,
            known=doors.known,
            entering=doors.entering,
            report=posts.report,
            evictions=posts.evictions,
            taint=posts.taint,
            history=importer.history,
            runs=posts.runs,
            decisions=posts.decisions,
            workloads=questions.workloads,
            workload=questions.workload,
            forget=self._forgetter(access).forget,
            nodes=questions.nodes,
            summary=summaries.summary,
            events=events.events,
            policy=policies.policy,
            buffers=buffers.buffers,
            buffer=buffers.buffer,
            cost=costs.cost,
            rejected=lambda kind: self.metrics.count_call(kind, CallResult.OVERLOAD),
            page=self.metrics.page,
            scrape_rejected=self.metrics.count_rejected_scrape,
            ready=self.ready,
            openapi=document(),
            most_report_bytes=settings.access.body_bytes,
        )
        self.server = HttpsServer(
            WebhookApp(services, settings.listening),
            self.listener,
            self.certificates.served_context(),
            settings.listening,
            loop_works=self._precedence.loop_works,
        )

    def _measure(self) -> None:
        """Put the series of all parts on the page of metrics."""
        self.metrics.read(
            *own_series.of_history(self.index, self.tailer, self._folder, self._sizes, self._takes_reports),
            *own_series.of_directives(self._director),
            *own_series.of_prices(self._prices),
            *own_series.of_shares(self.shares),
            *own_series.of_cluster(self.facts, self.lease),
            *own_series.of_certificate(self.certificates),
            *own_series.of_evictions(self._arbiter),
            *own_series.of_buffers(self.buffers),
            *own_series.of_vpas(self.vpas, self.facts),
            *own_series.of_hpas(self.hpas, self.facts),
            *own_series.of_taints(self._taints, lambda: most_tainted(self.facts.node_count(), self.settings.arbiter)),
            *own_series.of_connections(self.server.connections),
        )

    # -- what answers, one by one ----------------------------------------------------------------------------------

    def _posts(self, access: Access) -> Posts:
        settings = self.settings
        return Posts(
            PostParts(
                access=access,
                store=self._store,
                facts=self.facts,
                encode=encode_report,
                directives=lambda node: self._director.directives_of(node, time.time()),
                arbitrate=self._arbiter.decide,
                taint=self._taints.decide,
                taint_seconds=settings.arbiter.taint_grant_seconds,
                appended=self._see_report,
                followed=self._see_runs,
                turn=self._precedence.turn,
                breathe=self._precedence.breathe,
            ),
            settings.access,
            self.metrics,
        )

    def _importer(self, access: Access) -> Importer:
        settings = self.settings
        return Importer(
            ImportParts(
                access=access,
                store=self._store,
                retention_days=settings.folding.retention_days,
                ordered=self._following.wake,
                wait_for=self.tailer.wait_for,
            ),
            settings.access,
            self.metrics,
        )

    def _forgetter(self, access: Access) -> Forgetter:
        return Forgetter(
            ForgetParts(
                access=access,
                store=self._store,
                merged=self.index.merged,
                ordered=self._following.wake,
                wait_for=self.tailer.wait_for,
            ),
            self.metrics,
        )

    def _cost_questions(self, access: Access) -> CostQuestions:
        return CostQuestions(
            CostParts(
                access=access,
                histories=self.index,
                facts=self.facts,
                budgets=lambda: read_budgets(self._api),
                prices=self._prices,
                pause=self._precedence.give_way,
            ),
            self._defaults(),
            self.metrics,
        )

    def _questions(self, access: Access, costs: CostQuestions) -> Questions:
        return Questions(
            QueryParts(
                access=access,
                histories=self.index,
                facts=self.facts,
                directive=self._director.directive_of,
                statistics=Statistics(self._store, self.index.places).of,
                marks=self._store.nodes,
                shares=self.shares.fares,
                store=self._store,
                costs=costs.workload_costs,
                share_window_seconds=self.settings.guard.share_window_seconds,
                pause=self._precedence.give_way,
            ),
            self._defaults(),
            self.metrics,
        )

    def _summaries(self, access: Access, questions: Questions) -> SummaryQuestions:
        cluster = self.settings.cluster
        return SummaryQuestions(
            SummaryParts(
                access=access,
                store=self._store,
                histories=self.index,
                facts=self.facts,
                applying=questions.applying,
                standings=questions.standings,
                leader=lambda: self.lease.holder,
                config_map=f"{cluster.namespace}/{cluster.config_map}",
                pause=self._precedence.give_way,
            ),
            self.metrics,
        )

    def _buffer_questions(self, access: Access) -> BufferQuestions:
        return BufferQuestions(
            self.buffers,
            access,
            self.metrics,
            replica=self.lease.identity,
            namespace=self.settings.cluster.namespace,
            leader=lambda: self.lease.holder,
        )

    # -- what writes, one by one -----------------------------------------------------------------------------------

    def _vpa_controller(self) -> VpaController:
        options = self.settings.vpa_objects
        return VpaController(
            VpaParts(
                api=self._api,
                facts=self.facts,
                admission=lambda pod, is_left: self._reviewer.admission(pod, None, is_left_to_others=is_left),
                publishing=PublisherParts(
                    api=self._api,
                    facts=self.facts,
                    workloads=lambda: (seen.workload for seen in self.index.workloads()),
                    admission=lambda pod: self._reviewer.admission(pod, None),
                ),
                may_write=self._may_write,
                is_ready=self._is_read,
            ),
            options,
            counts=self.metrics.loops.begin("vpas") if options.enabled else None,
        )

    def _hpa_targets(self) -> HpaTargets:
        options = self.settings.hpa
        return HpaTargets(
            HpaParts(
                api=self._api,
                facts=self.facts,
                admission=lambda pod: self._reviewer.admission(pod, None),
                may_write=self._may_write,
                is_ready=self._is_read,
            ),
            options,
            counts=None if options.preserve is Preserve.OFF else self.metrics.loops.begin("hpas"),
        )

    # -- what the parts ask of each other --------------------------------------------------------------------------

    def _takes_reports(self) -> bool:
        return self._store.is_prepared and not self._store.refuses_writes

    def _may_write(self) -> bool:
        return self.lease.is_leader and self.facts.rules().pause_reason is None

    def _is_read(self) -> bool:
        return self.facts.is_complete and self.index.is_loaded

    def _is_leader(self) -> bool:
        return self.lease.is_leader

    def _see_report(self, report_id: int, report: Report) -> None:
        self.tailer.offer(report_id, report)
        self._following.wake()

    def _see_runs(self) -> None:
        self._following.wake()

    def _see_pod(self, place: PodPlace, is_new: bool) -> None:
        if is_new:
            self._growth.see(place.workload)
        if place.policy is not None:
            self._pod_orders.order(place.workload, place.policy)

    def ready(self) -> tuple[bool, str]:
        """Return whether admissions are answered as well as they can be, and in one line why (not)."""
        certificate = self.certificates.status()
        if not certificate.is_served:
            return False, "no certificate is served yet"
        if not self.facts.is_complete:
            missing = ", ".join(status.name for status in self.facts.statuses() if not status.is_listed)
            return False, f"not read yet from the API server: {missing}"
        if self.index.is_loaded:
            is_ready, words = self._preparing.readiness()
            return is_ready, words if certificate.fault is None else f"{words}; certificate: {certificate.fault}"
        # However long it takes: in a rollout a replica that knows nothing would take the place of one that does.
        waited = time.monotonic() - self._began_seconds
        why = "" if self._store.is_prepared else ": the database is away"
        return False, f"the history is not loaded yet ({waited:.0f} s){why}"

    def run(self) -> None:
        """Serve until ``stop``.

        Raises:
            StoreError: The database turned out to be none for this Plimsoll.
        """
        # The first try comes before anything is answered: a newer schema must stop the start.
        self._store.ensure_prepared()
        sys.setswitchinterval(self.settings.listening.switch_interval_seconds)
        self._heap.give_back_code()  # before any thread starts
        self._began_seconds = time.monotonic()
        self.facts.start()
        self.lease.start()
        self.certificates.start()
        self.buffers.start()
        self.vpas.start()
        self.hpas.start()
        for loop in self._loops:
            loop.start()
        log.info("serving", extra={"url": self.server.url, "database": self._store.place})
        try:
            self.server.run()
        finally:
            self._end()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """End: answer what is under way, and come back from ``run``; from any thread, and from a signal handler."""
        self.server.stop()

    def close(self) -> None:
        """Release what was built and never run."""
        self.listener.close()
        self._store.close()
        self._api.close()

    def _end(self) -> None:
        self._stopping.set()
        for loop in self._loops:
            loop.stop()
        self.buffers.stop()  # before the Lease is given back: nothing is written after it
        self.vpas.stop()
        self.hpas.stop()
        self.lease.stop()
        self.certificates.stop()
        self.facts.stop()
        until = time.monotonic() + STOP_SECONDS
        for loop in self._loops:
            loop.join(max(0.0, until - time.monotonic()))
        self.close()
        log.info("ended")

    # -- threads ---------------------------------------------------------------------------------------------------

    def _loop(self, name: str, turn: Callable[[], bool], seconds: float, *, spacing_seconds: float = 0.0) -> Turns:
        """Return a loop of background work: the next turn comes at once while there is more, else after so long."""

        def guarded() -> float:
            try:
                return 0.0 if turn() else seconds
            except StoreAway:
                return seconds  # the store's own series tells of that
            except _Ending:
                return seconds  # the loop is asked to end in a moment

        def failed(error: Exception) -> float:
            if isinstance(error, (SchemaTooNew, StoreUnusable)):
                log.exception("the database is none for this Plimsoll")
                self._fatal = error
                self.stop()
            else:
                log.exception("background work failed")
            return seconds

        counts = self.metrics.loops.begin(name)
        return Turns(name, guarded, failed=failed, counts=counts, spacing_seconds=spacing_seconds)

    def _follow(self) -> bool:
        if not self._store.ensure_prepared():
            return False
        was_loaded = self.index.is_loaded
        try:
            more_runs = self.index.runs.follow(self._store)  # first: who is loaded knows the runs too
        except StoreAway as error:
            self.tailer.note_away(error)  # asked first, so that it is the first to find out
            return False
        more = self.tailer.advance(time.time())
        self.shares.follow(self._store, time.time(), is_caught_up=not more)
        if self.index.is_loaded and not was_loaded:
            self._settling.settle()
            log.info("history loaded", extra={"workloads": self.index.size().workloads})
        return more or more_runs

    def _staying(self) -> int:
        size = self.index.size()
        return (
            size.rows
            + size.node_rows
            + size.nodes
            + self._preparing.workloads
            + sum(status.objects for status in self.facts.statuses())
        )

    def _fold(self) -> bool:
        if self.lease.is_leader and time.monotonic() >= self._runs_due_seconds:
            self._runs_due_seconds = time.monotonic() + RUNS_UPKEEP_SECONDS
            self._store.expire_runs(time.time())
            self._store.expire_decisions(time.time())
        is_folded = self._folder.fold_once(self.lease.is_leader, now_unix_seconds=time.time()) > 0
        if is_folded:
            self._heap.give_back()  # what it merged: megabytes, until the next fold in some minutes
        return is_folded

    def _put_down(self) -> bool:
        if not self._store.is_prepared or not (self.facts.is_complete and self.index.is_loaded):
            return False  # what is written and recommended is not known yet
        return self._ledger.turn(self.lease.is_leader, now_unix_seconds=time.time())

    def _written(self, workload: Workload) -> dict[str, LedgerContainer]:
        return {
            name: LedgerContainer(
                cpu_millicores=container.cpu_request_millicores or 0, memory_bytes=container.memory_request_bytes or 0
            )
            for name, container in self.facts.written(workload).items()
        }

    def _recommended(self, workload: Workload, containers: Collection[str]) -> dict[str, LedgerContainer]:
        policy, now = self._applying.policy_name(workload, self.facts.rules()), time.time()
        estimates = {
            name: self.index.estimate(
                workload, name, policy=policy, node=None, node_class=None, now_unix_seconds=now, is_ordered=False
            )
            for name in containers
        }
        return {
            name: LedgerContainer(
                cpu_millicores=estimate.cpu_request_millicores, memory_bytes=estimate.memory_request_bytes
            )
            for name, estimate in estimates.items()
            if isinstance(estimate, Estimate)
        }

    def _defaults(self) -> Defaults:
        settings = self.settings
        return Defaults(
            act=settings.act,
            bounds=settings.bounds,
            policy=settings.of_admission().policy,
            config_map=f"{settings.cluster.namespace}/{settings.cluster.config_map}",
            profile=settings.of_profile(),
        )

    def _rebuild(self) -> bool:
        if not self._preparing.can_begin:
            self._stopping.wait(FOLLOW_SECONDS)  # readiness waits for it
            return True
        return self._preparing.turn(time.time())

    def _breathe(self) -> None:
        if self._stopping.is_set():
            raise _Ending
        time.sleep(BREATH_SECONDS)


def credentials_of(settings: WebhookSettings) -> Credentials:
    """Return how to reach the API server."""
    if settings.cluster.kubeconfig is not None:
        return from_kubeconfig(settings.cluster.kubeconfig)
    credentials = in_cluster()
    if credentials is None:
        raise CredentialsError("there is no pod's service account here and no kubeconfig is given (--kubeconfig)")
    return credentials


def open_listener(address: str, port: int) -> socket.socket:
    """Bind and listen; IPv4 or IPv6, and ``::`` takes IPv4 too."""
    where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=1024, dualstack_ipv6=address == "::")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ListeningError(
            f"cannot listen on {where}: {reason.lower()}; set listening.address or listening.port (0 = any free port)"
        ) from error

"""When each alert fires and when it does not: series as promtool writes them, one sample a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NODE: Final = 'node="n1",instance="i1",job="agents"'
HOOK: Final = 'instance="w1",job="hooks"'
AT_NODE: Final[Mapping[str, str]] = {"node": "n1", "instance": "i1", "job": "agents"}
AT_HOOK: Final[Mapping[str, str]] = {"instance": "w1", "job": "hooks"}
ON: Final = "n1 (i1)"
BUILD: Final = (f"plimsoll_build_info{{{NODE}}}", "1x600")
HOOK_BUILD: Final = (f"plimsoll_webhook_build_info{{{HOOK}}}", "1x600")
DAY: Final = 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One alert: the same series, a moment at which it must be silent and one at which it must fire."""

    alert: str
    series: tuple[tuple[str, str], ...]
    quiet: int
    """Minutes from the start: the fault is not there yet, or not for long enough."""
    fires: int
    """Minutes from the start."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the alert, without its name and severity."""
    summary: str
    quiet_too: int | None = None
    """A later moment at which it is silent again; None = it stays."""


def level(name: str, values: str, where: str = NODE, more: str = "") -> tuple[str, str]:
    """Return one series of an agent, or of another place."""
    return f"{name}{{{more}{',' if more else ''}{where}}}", values


AGENT: Final = (
    Case(
        alert="PlimsollAgentsAbsent",
        series=((f"plimsoll_build_info{{{NODE}}}", "1x10 stale"),),
        quiet=24,
        fires=27,
        summary="No Plimsoll agent is scraped at all",
    ),
    Case(
        alert="PlimsollAgentDown",
        series=(
            (f"up{{{NODE}}}", "1x10 0x40 1x20"),
            (f"plimsoll_build_info{{{NODE}}}", "1x10 stale"),
            ('up{job="others",instance="o1"}', "0x100"),  # of somebody else
        ),
        quiet=24,
        fires=30,
        quiet_too=60,
        labels=AT_NODE,
        summary=f"Agent on {ON} is not scraped",
    ),
    Case(
        alert="PlimsollNodesWithoutAgent",
        series=(BUILD, level("plimsoll_cluster_objects", "1x10 3x200", HOOK, 'kind="nodes"')),
        quiet=60,
        fires=80,
        summary="2 nodes have no agent that is scraped",
    ),
    Case(
        alert="PlimsollRestarting",
        series=(BUILD, level("process_start_time_seconds", "100x30 200x5 300x5 400x100")),
        quiet=39,
        fires=45,
        quiet_too=110,
        labels=AT_NODE,
        summary="Plimsoll on i1 was started anew 3 times within an hour",
    ),
    Case(
        alert="PlimsollLoopStuck",
        series=(level("plimsoll_loop_turn_age_seconds", "5x10 0+60x30", more='loop="acting"'),),
        quiet=26,
        fires=31,
        labels={**AT_NODE, "loop": "acting"},
        summary="Loop acting on i1 has not come round for 20m 0s",
    ),
    Case(
        alert="PlimsollLoopFailing",
        series=(level("plimsoll_loop_failures_total", "0x20 0+1x40 40x60", HOOK, 'loop="fold"'),),
        quiet=30,
        fires=45,
        quiet_too=90,
        labels={**AT_HOOK, "loop": "fold"},
        summary="Turns of loop fold on w1 fail",
    ),
    Case(
        alert="PlimsollSamplerLate",
        # 60 sweeps a minute: at first all of them within 1 ms, then all of them between 0.5 and 1 s late.
        series=(
            level("plimsoll_sweep_lateness_seconds_bucket", "0+60x20 1200x40", more='le="0.001"'),
            level("plimsoll_sweep_lateness_seconds_bucket", "0+60x20 1200x40", more='le="0.5"'),
            level("plimsoll_sweep_lateness_seconds_bucket", "0+60x60", more='le="1.0"'),
            level("plimsoll_sweep_lateness_seconds_bucket", "0+60x60", more='le="+Inf"'),
        ),
        quiet=25,
        fires=40,
        labels=AT_NODE,
        summary=f"Sweeps on {ON} start 995ms late (p99)",
    ),
    Case(
        alert="PlimsollSamplesDropped",
        series=(
            level("plimsoll_samples_total", "0+95x100"),
            level("plimsoll_samples_dropped_total", "0x20 0+4x80", more='reason="parse"'),
            level("plimsoll_samples_dropped_total", "0x20 0+1x80", more='reason="clock"'),
        ),
        quiet=30,
        fires=45,
        labels=AT_NODE,
        summary=f"5% of the samples on {ON} give no figure",
    ),
    Case(
        alert="PlimsollKernelSignalMissing",
        series=(
            level("plimsoll_feature_enabled", "1x10 0x60", more='feature="pressure"'),
            level("plimsoll_feature_enabled", "0x70", more='feature="memory_peak"'),  # an old kernel: nobody's fault
            level("plimsoll_containers", "7x70", more='state="tracked"'),
        ),
        quiet=39,
        fires=42,
        labels={**AT_NODE, "feature": "pressure"},
        summary=f"Node {ON} has no pressure on cgroup v2",
    ),
    Case(
        alert="PlimsollContainersNotWatched",
        series=(level("plimsoll_containers", "0x10 12x60", more='state="excluded"'),),
        quiet=39,
        fires=42,
        labels={**AT_NODE, "state": "excluded"},
        summary=f"12 containers on {ON} are not watched",
    ),
    Case(
        alert="PlimsollPodListStale",
        series=(
            level("plimsoll_pod_source_age_seconds", "3x10 0+60x60", more='source="watch"'),
            level("plimsoll_pod_source_age_seconds", "5000x80", more='source="file"'),  # a file may be old
        ),
        quiet=25,
        fires=30,
        labels={**AT_NODE, "source": "watch"},
        summary=f"Agent on {ON} has heard nothing of the API server for 19m 0s",
    ),
    Case(
        alert="PlimsollPodListNeverRead",
        series=(
            level("plimsoll_containers", "30x80", more='state="tracked"'),
            level("plimsoll_pod_source_age_seconds", "3x10 _x70", more='source="watch"'),
        ),
        quiet=24,
        fires=32,
        labels={**AT_NODE, "state": "tracked"},
        summary=f"Agent on {ON} has not read the list of its pods once",
    ),
    Case(
        alert="PlimsollAgentMemoryHigh",
        series=(
            BUILD,
            level("process_resident_memory_bytes", "134217728x10 251658240x60"),
            ('process_resident_memory_bytes{job="others",instance="o1"}', "9e9x80"),
        ),
        quiet=24,
        fires=27,
        labels=AT_NODE,
        summary=f"Agent on {ON} takes 240MiB of memory",
    ),
    Case(
        alert="PlimsollSeriesDropped",
        series=(level("plimsoll_series_dropped", "0x10 26x60"),),
        quiet=39,
        fires=42,
        labels=AT_NODE,
        summary=f"26 series of containers and workloads of {ON} are left out of the page",
    ),
    Case(
        alert="PlimsollVersionsDiffer",
        series=(
            (f'plimsoll_build_info{{version="1",{NODE}}}', "1x600"),
            (f'plimsoll_webhook_build_info{{version="1",{HOOK}}}', "1x10 stale"),
            (f'plimsoll_webhook_build_info{{version="2",{HOOK}}}', "_x10 1x600"),
        ),
        quiet=360,
        fires=380,
        summary="2 versions of Plimsoll run beside each other",
    ),
)


def resized(result: str, values: str, *, direction: str = "up", resource: str = "cpu") -> tuple[str, str]:
    """Return the counter of resizes of one kind."""
    labels = f'resource="{resource}",direction="{direction}",result="{result}"'
    return level("plimsoll_resizes_total", values, more=labels)


ACTING: Final = (
    Case(
        alert="PlimsollOomKillAfterShrink",
        series=(
            level("plimsoll_oom_kills_total", "0x10 0+3x40", more='resized_recently="false"'),
            level("plimsoll_oom_kills_total", "0x30 1x60", more='resized_recently="true"'),
        ),
        quiet=29,
        fires=32,
        quiet_too=60,
        labels=AT_NODE,
        summary=f"A container on {ON} was killed for want of memory soon after its memory was shrunk",
    ),
    Case(
        alert="PlimsollResizesFailing",
        series=(resized("accepted", "0+3x200"), resized("rejected", "0x60 0+1x140")),
        quiet=75,
        fires=125,
        labels=AT_NODE,
        summary=f"25% of the resizes on {ON} fail",
    ),
    Case(
        alert="PlimsollResizesInfeasible",
        series=(resized("infeasible", "0x60 0+1x60 60x100"),),
        quiet=70,
        fires=100,
        quiet_too=200,
        labels={**AT_NODE, "resource": "cpu"},
        summary=f'The kubelet on {ON} says "never" to resizes of cpu',
    ),
    Case(
        alert="PlimsollResizePending",
        series=(level("plimsoll_resize_pending_oldest_seconds", "_x10 0+60x80 stale"),),
        quiet=74,
        fires=79,
        quiet_too=100,
        labels=AT_NODE,
        summary=f"A resize on {ON} has been put off for 1h 9m 0s",
    ),
    Case(
        alert="PlimsollFlapping",
        series=(
            resized("accepted", "0x60 0+1x200"),
            resized("accepted", "0x60 0+1x200", direction="down"),
            resized("accepted", "0x60 0+1x200", resource="memory"),  # one way only
        ),
        quiet=110,
        fires=140,
        labels={**AT_NODE, "resource": "cpu"},
        summary=f"Requests for cpu on {ON} go up and down all the time",
    ),
    Case(
        alert="PlimsollPlansUnsound",
        series=(level("plimsoll_plans_unsound_total", "0x30 1x100"),),
        quiet=29,
        fires=32,
        quiet_too=100,
        labels=AT_NODE,
        summary=f"A plan on {ON} broke an invariant and was not carried out",
    ),
    Case(
        alert="PlimsollNodeDoesNotFit",
        series=(level("plimsoll_plan_infeasible", "0x10 1x60", more='resource="memory"'),),
        quiet=39,
        fires=42,
        labels={**AT_NODE, "resource": "memory"},
        summary=f"The pods on {ON} need more memory than it has",
    ),
    Case(
        alert="PlimsollNothingWritten",
        series=(
            level("plimsoll_writes_barred", "0x10 1x60 0x10", more='reason="rights"'),
            level("plimsoll_writes_barred", "1x80", more='reason="paused"'),
            level("plimsoll_pods", "4x80", more='mode="enforce"'),
        ),
        quiet=39,
        fires=42,
        quiet_too=72,
        labels=AT_NODE,
        summary=f"Pods on {ON} are to be enforced and nothing is written",
    ),
    Case(
        alert="PlimsollPausedLong",
        series=(level("plimsoll_paused", f"0x10 1x{DAY + 60}"),),
        quiet=DAY,
        fires=DAY + 15,
        labels=AT_NODE,
        summary=f"Node {ON} has been paused for a day",
    ),
    Case(
        alert="PlimsollAnnotationNotUnderstood",
        series=(level("plimsoll_annotation_faults", "0x10 3x60"),),
        quiet=24,
        fires=27,
        labels=AT_NODE,
        summary=f"3 pods on {ON} have an annotation that is not understood",
    ),
    Case(
        alert="PlimsollCgroupDrift",
        series=(
            level("plimsoll_cgroup_drift", "0x10 2x60", more='kind="cpu.weight"'),
            level("plimsoll_cgroup_drift", "0x70", more='kind="memory.max"'),
        ),
        quiet=19,
        fires=22,
        labels={**AT_NODE, "kind": "cpu.weight"},
        summary=f"2 values of cpu.weight on {ON} are not what the kubelet should have written",
    ),
    Case(
        alert="PlimsollNodeHot",
        series=(
            level("plimsoll_node_pressure_ratio", "0.1x10 0.55x60", more='resource="cpu",kind="some"'),
            level("plimsoll_node_pressure_ratio", "0.9x70", more='resource="memory",kind="some"'),
        ),
        quiet=19,
        fires=22,
        labels={**AT_NODE, "resource": "cpu", "kind": "some"},
        summary=f"On node {ON} tasks wait for a CPU 55% of the time",
    ),
    Case(
        alert="PlimsollOverloadTaintHeld",
        series=(level("plimsoll_overload_tainted", "0x10 1x200"),),
        quiet=129,
        fires=132,
        labels=AT_NODE,
        summary=f"Node {ON} has had the overload taint for two hours",
    ),
    Case(
        alert="PlimsollRecommendationsShort",
        series=(
            level(
                "plimsoll_sizing_risk_ratio", "0.1x10 0.25x90", more='resource="cpu",against="recommended",window="1d"'
            ),
            # Users' own requests, and an hour of a new load.
            level("plimsoll_sizing_risk_ratio", "0.9x100", more='resource="cpu",against="applied",window="1d"'),
            level("plimsoll_sizing_risk_ratio", "0.9x100", more='resource="cpu",against="recommended",window="1h"'),
        ),
        quiet=69,
        fires=72,
        labels={**AT_NODE, "resource": "cpu"},
        summary=f"On node {ON} more cpu was used than recommended in 25% of the minutes of a day",
    ),
)
REPORTS: Final = (
    Case(
        alert="PlimsollReportsStale",
        # The last one was taken at the start of time; at minute 15 it is 900 s old.
        series=(level("plimsoll_report_last_success_timestamp_seconds", "0x60"),),
        quiet=20,
        fires=22,
        labels=AT_NODE,
        summary=f"The webhook has not taken a report of {ON} for 22m 0s",
    ),
    Case(
        alert="PlimsollReportsNeverTaken",
        series=(
            level("plimsoll_report_queue_reports", "0x10 1x60"),
            level("plimsoll_report_last_success_timestamp_seconds", "_x50 3000x20"),
        ),
        quiet=39,
        fires=42,
        quiet_too=55,
        labels=AT_NODE,
        summary=f"The webhook has not taken one report of {ON}",
    ),
    Case(
        alert="PlimsollReportQueueLong",
        series=(level("plimsoll_report_queue_reports", "2x10 30x60"),),
        quiet=24,
        fires=27,
        labels=AT_NODE,
        summary=f"30 reports wait on {ON}",
    ),
    Case(
        alert="PlimsollReportsLost",
        series=(
            BUILD,
            level("plimsoll_reports_lost_total", "0x30 2x100"),
            level("plimsoll_reports_lost_total", "0x10 2x120", HOOK),  # the same ones, as the webhook counts them
        ),
        quiet=29,
        fires=32,
        quiet_too=100,
        labels=AT_NODE,
        summary=f"Reports of {ON} are lost",
    ),
    Case(
        alert="PlimsollReportsRefused",
        series=(
            level("plimsoll_reports_received_total", "0+9x100", HOOK, 'result="accepted"'),
            level("plimsoll_reports_received_total", "0+50x100", HOOK, 'result="too_many"'),  # come again
            level("plimsoll_reports_received_total", "0x30 0+21x70", HOOK, 'result="no_claim"'),
        ),
        quiet=40,
        fires=65,
        summary="The webhook refuses 26.25% of the nodes' reports",
    ),
    Case(
        alert="PlimsollDirectivesStale",
        series=(level("plimsoll_directives_age_seconds", "60x10 0+60x100"),),
        quiet=80,
        fires=90,
        labels=AT_NODE,
        summary=f"What the webhook told {ON} is 1h 19m 0s old",
    ),
)
WEBHOOK: Final = (
    Case(
        alert="PlimsollWebhookAbsent",
        series=(
            level("plimsoll_report_queue_reports", "0x60"),
            (f"plimsoll_webhook_build_info{{{HOOK}}}", "1x10 stale"),
        ),
        quiet=24,
        fires=27,
        summary="Agents report to a webhook, and none is scraped",
    ),
    Case(
        alert="PlimsollWebhookDown",
        series=((f"up{{{HOOK}}}", "1x10 0x40"), (f"plimsoll_webhook_build_info{{{HOOK}}}", "1x10 stale")),
        quiet=14,
        fires=18,
        labels=AT_HOOK,
        summary="Replica w1 of the webhook is not scraped",
    ),
    Case(
        alert="PlimsollWebhookSlow",
        series=(
            level("plimsoll_webhook_duration_seconds_bucket", "0+60x20 1200x40", HOOK, 'le="0.5"'),
            level("plimsoll_webhook_duration_seconds_bucket", "0+60x60", HOOK, 'le="2.0"'),
            level("plimsoll_webhook_duration_seconds_bucket", "0+60x60", HOOK, 'le="+Inf"'),
        ),
        quiet=25,
        fires=40,
        summary="Admissions take 1.985s (p99)",
    ),
    Case(
        alert="PlimsollAdmissionErrors",
        series=(
            level("plimsoll_webhook_requests_total", "0+95x60", HOOK, 'result="patched"'),
            level("plimsoll_webhook_requests_total", "0x20 0+5x40", HOOK, 'result="error"'),
        ),
        quiet=28,
        fires=40,
        summary="5% of the admissions end in an error",
    ),
    Case(
        alert="PlimsollStoreAway",
        series=(level("plimsoll_store_up", "1x10 0x20 1x10", HOOK),),
        quiet=14,
        fires=17,
        quiet_too=35,
        labels=AT_HOOK,
        summary="Replica w1 of the webhook cannot reach its database, or finds no room there",
    ),
    Case(
        alert="PlimsollStoreUnreadable",
        series=(level("plimsoll_store_unreadable_total", "0x30 1x100", HOOK, 'kind="sketch"'),),
        quiet=29,
        fires=32,
        quiet_too=100,
        labels={**AT_HOOK, "kind": "sketch"},
        summary="The database of w1 holds a sketch that cannot be read",
    ),
    Case(
        alert="PlimsollHistoryNotLoaded",
        series=(level("plimsoll_history_loaded", "0x30 1x10", HOOK),),
        quiet=14,
        fires=16,
        quiet_too=35,
        labels=AT_HOOK,
        summary="Replica w1 of the webhook has not loaded its history",
    ),
    Case(
        alert="PlimsollHistoryStale",
        series=(level("plimsoll_history_age_seconds", "1x10 0+60x60", HOOK),),
        quiet=34,
        fires=41,
        labels=AT_HOOK,
        summary="The memory of w1 is 30m 0s behind its database",
    ),
    Case(
        alert="PlimsollHistoryFull",
        series=(level("plimsoll_history_rows_without_room_total", "0x10 0+5x60", HOOK),),
        quiet=24,
        fires=30,
        labels=AT_HOOK,
        summary="Rows of reports find no room in the memory of w1",
    ),
    Case(
        alert="PlimsollCertificateExpiring",
        # At minute 30 it has 14 days left, at minute 120 an hour and a half less.
        series=(level("plimsoll_webhook_cert_expiry_timestamp_seconds", f"{14 * 86400 + 1800}x200", HOOK),),
        quiet=85,
        fires=120,
        labels=AT_HOOK,
        summary="The certificate of w1 expires in 13d 22h 30m 0s",
    ),
    Case(
        alert="PlimsollAuthorityExpiring",
        series=(level("plimsoll_webhook_ca_expiry_timestamp_seconds", f"{30 * 86400 + 1800}x200", HOOK),),
        quiet=85,
        fires=120,
        labels=AT_HOOK,
        summary="The authority behind the certificate of w1 expires in 29d 22h 30m 0s",
    ),
    Case(
        alert="PlimsollCertificateFault",
        series=(level("plimsoll_webhook_cert_fault", "0x10 1x20", HOOK),),
        quiet=19,
        fires=22,
        labels=AT_HOOK,
        summary="Something is wrong with the certificate of w1 or its registration",
    ),
    Case(
        alert="PlimsollNoLeader",
        series=(
            level("plimsoll_leader", "1x10 0x20", HOOK),
            level("plimsoll_leader", "0x20 1x10", 'instance="w2",job="hooks"'),
        ),
        quiet=14,
        fires=17,
        quiet_too=25,
        summary="No replica of the webhook leads",
    ),
    Case(
        alert="PlimsollManyLeaders",
        series=(
            level("plimsoll_leader", "1x40", HOOK),
            level("plimsoll_leader", "0x10 1x30", 'instance="w2",job="hooks"'),
        ),
        quiet=14,
        fires=17,
        summary="2 replicas of the webhook lead at once",
    ),
    Case(
        alert="PlimsollClusterWatchStale",
        series=(level("plimsoll_cluster_age_seconds", "1x10 0+60x40", HOOK, 'kind="pods"'),),
        quiet=25,
        fires=31,
        labels={**AT_HOOK, "kind": "pods"},
        summary="Replica w1 has heard nothing of pods for 20m 0s",
    ),
    Case(
        alert="PlimsollObjectsNotUnderstood",
        series=(level("plimsoll_cluster_faults", "0x10 2x30", HOOK),),
        quiet=24,
        fires=27,
        labels=AT_HOOK,
        summary="2 objects are not understood by w1",
    ),
    Case(
        alert="PlimsollClusterPausedLong",
        series=(level("plimsoll_cluster_paused", f"0x10 1x{DAY + 60}", HOOK),),
        quiet=DAY,
        fires=DAY + 15,
        summary="The whole cluster has been paused for a day",
    ),
    Case(
        alert="PlimsollEvictionsForbidden",
        series=(
            level("plimsoll_evictions_judged_total", "0x30 1x100", HOOK, 'verdict="refused",reason="forbidden"'),
            level("plimsoll_evictions_judged_total", "0+1x100", HOOK, 'verdict="refused",reason="not_more"'),
        ),
        quiet=29,
        fires=32,
        quiet_too=100,
        summary="The API server forbids the webhook to evict",
    ),
    Case(
        alert="PlimsollEvictionsRefused",
        series=(
            level("plimsoll_evictions_judged_total", "30x400", HOOK, 'verdict="granted",reason="evicted"'),
            level("plimsoll_evictions_judged_total", "0x60 0+1x400", HOOK, 'verdict="later",reason="budget"'),
        ),
        quiet=75,  # no more than twenty
        fires=120,
        summary="100% of the evictions that nodes propose are refused or put off",
    ),
    Case(
        alert="PlimsollTaintCapReached",
        series=(
            level("plimsoll_cluster_tainted_nodes", "0x10 1x10 2x60", HOOK),
            level("plimsoll_cluster_tainted_nodes_limit", "2x80", HOOK),
        ),
        quiet=50,
        fires=55,
        summary="2 nodes have the overload taint, as many as may",
    ),
)
OF_BUFFER: Final[Mapping[str, str]] = {"namespace": "shop", "buffer": "spare"}


def of_buffer(name: str, values: str) -> tuple[str, str]:
    """Return one series of a CapacityBuffer."""
    return level(name, values, HOOK, 'namespace="shop",buffer="spare"')


BUFFERS: Final = (
    Case(
        alert="PlimsollBufferNotReady",
        series=(of_buffer("plimsoll_buffer_not_ready", "0x10 1x30"),),
        quiet=24,
        fires=27,
        labels=OF_BUFFER,
        summary="CapacityBuffer shop/spare is not ready for provisioning",
    ),
    Case(
        alert="PlimsollBufferShort",
        series=(
            of_buffer("plimsoll_buffer_allowed_chunks", "3x80"),
            of_buffer("plimsoll_buffer_ready_chunks", "3x10 1x40 3x30"),
        ),
        quiet=39,
        fires=42,
        quiet_too=60,
        labels=OF_BUFFER,
        summary="CapacityBuffer shop/spare lacks 2 chunks of its room",
    ),
    Case(
        alert="PlimsollBuffersContested",
        series=(level("plimsoll_buffers_contested", "0x10 1x30", HOOK),),
        quiet=14,
        fires=17,
        summary="Another controller writes the status of CapacityBuffers",
    ),
    Case(
        alert="PlimsollBufferLooksFailing",
        series=(level("plimsoll_buffer_namespaces_failing", "0x10 2x60", HOOK),),
        quiet=39,
        fires=42,
        summary="The buffers of 2 namespaces cannot be looked at",
    ),
)
CASES: Final = (*AGENT, *ACTING, *REPORTS, *WEBHOOK, *BUFFERS)

"""The end of the day: each thing that must hold, as a step that is seen or fails."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from agent.core.resize.decision import Outcome
from agent.node.history.file import HISTORY_FILE_NAME
from tests.cluster import fence
from tests.cluster.audit import AuditLog, Call
from tests.cluster.processes import wait_for
from tests.e2e.steps import Steps
from tests.guest.machine import REPOSITORY
from tests.soak import logs
from tests.soak.day import Day, Stage, jumps_minutes, settled_outcomes
from tests.soak.flatness import Growth, growth
from tests.soak.histories import database_fault, node_history, why_not_whole
from tests.soak.matching import Patch, Witnesses, decided_of, matched, patch_of
from tests.soak.roles import HERE, ROLES, history_key
from tests.soak.rules import AGENT_WRITES, WEBHOOK_WRITES, broken_rules, lost_original, not_restored, strange_writes
from tests.soak.schedule import Event, Kind

WEBHOOK_USER: Final = f"system:serviceaccount:{fence.NAMESPACE}:plimsoll-webhook"
MIB: Final = float(1 << 20)
WARM_UP_SECONDS: Final = {"agent": 30.0, "webhook": 300.0}
"""Before a process is compared with itself: windows fill, the policy learns; the webhook has done each of its works."""
LEAST_RSS_BYTES: Final = 2.0 * MIB
"""What an allocator takes at once."""
GONE_POD_BYTES: Final = 944.0
"""What the webhook keeps of a pod that has gone, for an hour and of 20,000 at most (``cluster.pods.MOST_GONE``)."""
SIZED_SECONDS: Final = 300.0
"""So long a run must be for new pods to be sized at admission: two reports, and history of a minute."""
LEAST_DESCRIPTORS: Final = 4.0
"""Connections come and go, those of scrapes and questions too."""
FULL_MARGIN_SECONDS: Final = 5.0
"""A decision that was made before a disk was full may be written after that."""
TOLD: Final = 12
"""Faults told of one step; all of them are in the records."""
CLEARLY_OFF_SECONDS: Final = 1800.0
"""Of a clock that was set by an hour."""
RESTORE_SECONDS: Final = 240.0
SETTLED_SECONDS: Final = 60.0


@dataclass(slots=True)
class Evening:
    """The checks after a day, in their order; ``steps`` holds what came of each.

    Args:
        day: That was played; its agent and its webhook run still.
        stage: It was played on.
        events: That were planned.
        seconds: The run's length.
        steps: Where verdicts are put.
    """

    day: Day
    stage: Stage
    events: Sequence[Event]
    seconds: float
    steps: Steps
    patches: Sequence[Patch] = ()
    calls: Sequence[Call] = ()
    restored_unix: float = math.inf
    """When the original requests of all pods were asked for."""

    def run(self, out: Path) -> dict[str, Any]:
        """Check all; give the counts of what happened."""
        steps = self.steps
        steps.run("all events came", self._came)
        steps.run("the newest certificate is served, and the newest sources run", self._is_up_to_date)
        steps.run("no pod lost its original requests", self._originals)
        steps.run("plimsoll restore --all gives them back", self._restored)
        steps.run("the cluster's history knows the workloads", self._workloads)
        self.day.agent.end(kill=False)
        self.day.hook.end()
        steps.run("each resize in the audit log was decided, and each decided one is there", self._matched)
        steps.run("nothing was resized outside its rules", self._rules)
        steps.run("the node's history is whole", self._history)
        steps.run("the cluster's database is whole", self._database)
        steps.run("memory of agent and webhook is flat", self._flat_memory)
        steps.run(
            "descriptors of agent and webhook are flat",
            lambda: self._flat(
                "descriptors", {"agent": LEAST_DESCRIPTORS, "webhook": LEAST_DESCRIPTORS}, 1.0, "descriptors"
            ),
        )
        steps.run("the agent ended only when it was ended", self._lives)
        steps.run("no traceback in any log", lambda: self._traces(out))
        return self._counts()

    # (0) It took place

    def _came(self) -> str:
        planned = Counter(event.kind for event in self.events)
        wait_for(self.day.catch_up, "pods that waited for the API server", seconds=SETTLED_SECONDS)
        missing = {kind.value: count - self.day.happened.events[kind] for kind, count in planned.items()}
        must([f"{count} x {kind}" for kind, count in missing.items() if count], "did not happen")
        late = self.day.happened.most_late_seconds
        lives = zip(self.day.agent.logs, self.day.agent.began_unix, strict=True)
        off = [span for span in (logs.clock_off(log, began_unix) for log, began_unix in lives) if span is not None]
        ahead, behind = max(most for most, _ in off), min(least for _, least in off)
        must([] if ahead > CLEARLY_OFF_SECONDS else [f"never an hour ahead, {ahead:+.0f} s"], "clock of the agent")
        must([] if behind < -CLEARLY_OFF_SECONDS else [f"never an hour behind, {behind:+.0f} s"], "clock of the agent")
        drift = f"{behind:+.0f} to {ahead:+.0f} s"
        return f"{planned.total()} events, none later than {late:.1f} s; the agent's clock was {drift} off"

    def _is_up_to_date(self) -> str:
        agent = self.day.agent
        wait_for(lambda: self.day.catch_up() and agent.is_told(), "the agent knows its pods", seconds=SETTLED_SECONDS)
        wait_for(self.day.hook.is_served, "the newest certificate is shown", seconds=SETTLED_SECONDS)
        return f"after {len(self.day.agent.logs)} starts of the agent, {len(self.day.hook.lives)} of the webhook"

    # (1) Originals

    def _originals(self) -> str:
        living, originals = self.day.living(), self.day.kept()
        faults = [fault for pod, now in living if (fault := lost_original(pod, now, originals)) is not None]
        must([*self.day.happened.lost_originals, *faults], "pods lost them")
        return f"{len(self.day.happened.pods)} pods looked at when they went, {len(living)} of them here at the end"

    def _restored(self) -> str:
        self._plimsoll("pause")  # who was not resized yet would be meanwhile
        self.restored_unix = time.time()
        output = self._plimsoll("restore", "--all")
        living = [(pod, now) for pod, now in self.day.living() if ROLES[pod.role].node == HERE]
        must([fault for pod, now in living if (fault := not_restored(pod, now)) is not None], "have others")
        lines = sum("restored and pinned" in line for line in output.splitlines())
        return f"{lines} pods restored; all {len(living)} of the node request what was written"

    def _plimsoll(self, *words: str) -> str:
        """Run a verb as a person on the node does; give what it prints."""
        command = [sys.executable, "-m", "agent", *words, "--socket", str(self.day.agent.socket)]
        done = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=RESTORE_SECONDS
        )
        must([] if done.returncode == 0 else done.stderr.splitlines()[-TOLD:], f"ended with {done.returncode}")
        return done.stdout

    # (2) Resizes

    def _matched(self) -> str:
        log = AuditLog(self.stage.plane.audit_log, from_start=True)
        self.calls = [*log.calls(), *log.unanswered()]
        resizes = [call for call in self.calls if call.user == fence.USER and call.resource == "pods/resize"]
        self.patches = [patch_of(call) for call in resizes if not call.is_dry_run]
        agent = self.day.agent
        decided = [
            witness for _, decision in sorted(agent.decisions.items()) if (witness := decided_of(decision)) is not None
        ]
        spans = [
            (since - FULL_MARGIN_SECONDS, until + FULL_MARGIN_SECONDS) for since, until in self.day.happened.disk_full
        ]
        tally = matched(
            self.patches,
            Witnesses(decided=decided, under_way=agent.under_way, logged=logs.sent(agent.logs), disk_full=spans),
        )
        must(tally.faults, "do not match")
        taken = sum(patch.is_done for patch in self.patches)
        must([] if taken else ["no resize at all"], "so nothing was compared")
        return (
            f"{taken} taken: {tally.by_decision} by the decision log, {tally.by_ledger} by the ledger of a "
            f"killed agent, {tally.by_log} by the log; {tally.refused} refused"
        )

    def _rules(self) -> str:
        def calls_of(user: str) -> list[Call]:
            return [call for call in self.calls if call.user == user]

        agents, webhooks = calls_of(fence.USER), calls_of(WEBHOOK_USER)
        must(
            [
                *broken_rules(self.patches, self.day.happened.pods, restored_unix=self.restored_unix),
                *self.day.happened.vanished,
                *strange_writes(agents, AGENT_WRITES),
                *strange_writes(webhooks, WEBHOOK_WRITES),
            ],
            "should not have been",
        )
        spared = sum(not ROLES[pod.role].may_be_resized for pod in self.day.happened.pods.values())
        return f"{len(self.patches)} patches, none of them of {spared} pods that may not be resized"

    # (3) Histories

    def _history(self) -> str:
        known, damage = node_history(self.day.agent.state / HISTORY_FILE_NAME)
        lost = self._lost_minutes()
        faults = [] if damage is None else [damage]
        shortest = 1 << 30
        for pod in self._residents():
            minutes = known.get(history_key(pod.role), [])
            shortest = min(shortest, len(minutes))
            fault = why_not_whole(
                minutes,
                lived_minutes=(self.seconds - self.day.happened.born_seconds[pod.pod]) / 60.0,
                lost_minutes=lost,
                jumps_minutes=jumps_minutes(self.events),
            )
            faults += [] if fault is None else [f"{pod.role}: {fault}"]
        must(faults, "are not whole")
        return f"{len(self._residents())} residents, at least {shortest} minutes of each; {lost:.1f} minutes were lost"

    def _lost_minutes(self) -> float:
        """Return how many minutes the agent was away, or its disk full; the latter spoils one more, in part."""
        away = [until - since for since, until in self.day.agent.away]
        full = [until - since for since, until in self.day.happened.disk_full]
        return sum(seconds / 60.0 + 1.0 for seconds in full) + sum(away) / 60.0

    def _residents(self) -> list[Any]:
        return [
            pod
            for pod in self.day.happened.pods.values()
            if pod.pod.endswith("-resident") and ROLES[pod.role].node == HERE and ROLES[pod.role].owner is not None
        ]

    def _workloads(self) -> str:
        missing = []
        sought = [pod for pod in self._residents() if pod.role != "job"]
        for pod in sought:
            role = ROLES[pod.role]
            path = f"/v1/workloads/{role.namespace}/{role.owner}/{quote(pod.role)}"
            reply = self.day.hook.hook.get(path, self.stage.reader)
            if reply.status != 200:
                missing.append(f"{path}: {reply.status}")
        must(missing, "are not known")
        sized = self.day.happened.sized_at_admission
        must([] if sized or self.seconds < SIZED_SECONDS else ["none of them"], "new pods were sized by it")
        return f"{len(sought)} workloads; {sized} new pods were sized by it"

    def _database(self) -> str:
        fault = database_fault(self.day.hook.database)
        must([] if fault is None else [fault], "is damaged")
        return f"{self.day.hook.database.stat().st_size / MIB:.1f} MiB, integrity_check ok"

    # (4) Flat

    def _flat_memory(self) -> str:
        gone = sum(event.kind is Kind.POD_GOES for event in self.events) * GONE_POD_BYTES
        return self._flat("rss_bytes", {"agent": LEAST_RSS_BYTES, "webhook": LEAST_RSS_BYTES + gone}, MIB, "MiB")

    def _flat(self, figure: str, least: Mapping[str, float], unit: float, name: str) -> str:
        lives = {"agent": self.day.agent.lives, "webhook": self.day.hook.lives}
        grown = {
            who: growth(some, figure, warm_up_seconds=WARM_UP_SECONDS[who], least=least[who])
            for who, some in lives.items()
        }
        phrases = [f"{who}: {growth_words(trend, unit, name)}" for who, trend in grown.items()]
        must([words for words, trend in zip(phrases, grown.values(), strict=True) if not trend.is_flat], "is not flat")
        return "; ".join(phrases)

    # (5) Logs

    def _lives(self) -> str:
        must(self.day.agent.ended_by_itself, "ended by themselves")
        return f"{len(self.day.agent.logs)} starts, {self.day.happened.events[Kind.AGENT_KILLED]} kills"

    def _traces(self, out: Path) -> str:
        files = [*self.day.agent.logs, self.day.hook.log]
        must([line for file in files for line in logs.traces(file)], "tracebacks")
        return f"{len(files)} logs, {sum(file.stat().st_size for file in files) / MIB:.1f} MiB; kept in {out}"

    def _counts(self) -> dict[str, Any]:
        happened, agent = self.day.happened, self.day.agent
        logged = logs.sent(agent.logs)
        return {
            "events": {kind.value: happened.events[kind] for kind in Kind},
            "pods": len(happened.pods),
            "sized_at_admission": happened.sized_at_admission,
            "admissions": {result: count for result, count in sorted(self.day.hook.admissions.items()) if count},
            "patches": dict(sorted(Counter(str(patch.code) for patch in self.patches).items())),
            "answers_logged": settled_outcomes(logged),
            "accepted": logged_total(logged, Outcome.ACCEPTED),
            "errors_logged": dict(logs.errors([*agent.logs, self.day.hook.log])),
            "agent_away_seconds": round(sum(until - since for since, until in agent.away), 1),
            "memory_waited_usec": happened.memory_waited_usec,
        }


def logged_total(logged: Counter[tuple[str, Outcome]], outcome: Outcome) -> int:
    """Return how often an outcome was logged."""
    return sum(count for (_, logged_outcome), count in logged.items() if logged_outcome is outcome)


def growth_words(trend: Growth, unit: float, name: str) -> str:
    """Return a growth in one line, with the noise that it is held against."""
    if trend.slope_per_hour is None or trend.over_a_life is None:
        return "no life was long enough"
    slope = trend.slope_per_hour
    return (
        f"{slope.value / unit:+.1f} ({slope.low / unit:+.1f} to {slope.high / unit:+.1f}) {name} an hour over "
        f"{trend.lives} lives of {trend.life_seconds:.0f} s, {trend.over_a_life / unit:+.2f} of them sure in a life, "
        f"noise {trend.noise / unit:.2f}"
    )


def must(faults: Sequence[str], words: str) -> None:
    """Raise with the first of some faults, if there are any."""
    if faults:
        more = f" (and {len(faults) - TOLD} more)" if len(faults) > TOLD else ""
        raise AssertionError("\n".join([f"{len(faults)} {words}: {faults[0]}", *faults[1:TOLD]]) + more)


def page(steps: Steps, counts: dict[str, Any], heading: str) -> str:
    """Return the verdicts and the counts as a short page."""
    rows = [f"| {row.title} | {'PASS' if row.outcome == 'ok' else 'FAIL'} | {row.note} |" for row in steps.rows]
    bullets = [f"- {name.replace('_', ' ')}: {json.dumps(value)}" for name, value in counts.items()]
    return "\n".join([f"# {heading}", "", "| what must hold | verdict | seen |", "|---|---|---|", *rows, "", *bullets])

"""What an agent's reporting to the webhook means: reached or not, and the line that mends it. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.machine.checkup import Check, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportStanding:
    """How reporting goes."""

    url: str
    interval_seconds: float
    last_success_age_seconds: float | None
    """Since the webhook last took a report; None = it has taken none since the agent's start."""
    trouble: str | None
    """Why the newest report was not taken, in one sentence; None = it was, or none was sent yet."""
    is_access_refused: bool
    """The trouble lies with the token or the certificates."""
    waiting_reports: int
    lost_reports: int
    queue_fault: str | None
    """Why reports cannot be kept on disk; None = they can."""


def judge_reporting(standing: ReportStanding) -> Check:
    """Judge it."""
    name = "webhook"
    kept = f"; {standing.waiting_reports} reports wait, {standing.lost_reports} lost"
    if standing.trouble is not None:
        heard = standing.last_success_age_seconds
        since = "no report taken yet" if heard is None else f"last report taken {heard:.0f} s ago"
        return Check(
            name=name,
            verdict=Verdict.DEGRADED,
            found=f"{standing.trouble} ({since}{kept})",
            consequence="what this node learns serves no other, and new directives do not come: the old ones hold",
            mend="report.tokenFile needs a projected token of the agent's account with the webhook's audience, "
            "report.caFile the webhook's authority"
            if standing.is_access_refused
            else "kubectl get pods,service of plimsoll-webhook; the network policy must let the agent out to it; "
            "a certificate that is not trusted: report.caFile",
        )
    if standing.queue_fault is not None:
        return Check(
            name=name,
            verdict=Verdict.DEGRADED,
            found=f"{standing.url}: {standing.queue_fault}{kept}",
            consequence="reports that are not taken at once are lost with the agent's end",
            mend="room on the disk of the state directory, and the right to write there",
        )
    if standing.last_success_age_seconds is None:
        found = f"{standing.url}: no report sent yet, one comes every {standing.interval_seconds:g} s"
    else:
        found = f"{standing.url}: last report taken {standing.last_success_age_seconds:.0f} s ago"
    return Check(name=name, verdict=Verdict.OK, found=found + (kept if standing.lost_reports else ""))

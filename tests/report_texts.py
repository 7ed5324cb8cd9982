"""A report as it is sent, from one that never waited on a disk."""

from __future__ import annotations

from agent.core.history.reports.rollup import Report
from agent.core.history.reports.rollup_json import kept_text, sent_text


def report_text(report: Report, *, agent: str) -> str:
    """Return the whole report."""
    text = kept_text(report, agent=agent)
    return sent_text(text, end_age_seconds=report.end_age_seconds, lost_reports=report.lost_reports)

"""How good sizing was, as bodies of answers. Webhook."""

from __future__ import annotations

from typing import Final

from agent.core.history.minute.quality import PeakQuality, QualityWindow, RequestQuality, ResourceQuality
from agent.webhook.queries.workload_bodies import (
    PeakQualityBody,
    RequestQualityBody,
    ResourceQualityBody,
    SizingQualityBody,
)
from agent.webhook.workloads.quality import MergedQuality

_DECIMALS: Final = 6
"""Of ratios."""
_AMOUNT_DECIMALS: Final = 3


def quality_body(merged: MergedQuality, window: QualityWindow) -> SizingQualityBody:
    """Return what is told of one window."""
    quality = merged.windows.over(window)
    return SizingQualityBody(
        window=window, nodes=merged.nodes, cpu=_resource_body(quality.cpu), memory=_resource_body(quality.memory)
    )


def _resource_body(quality: ResourceQuality) -> ResourceQualityBody:
    return ResourceQualityBody(
        recommended=_request_body(quality.recommended),
        applied=_request_body(quality.applied),
        peak=_peak_body(quality.peak),
    )


def _request_body(quality: RequestQuality) -> RequestQualityBody:
    return RequestQualityBody(
        judged_minutes=round(quality.judged_minutes),
        risk_ratio=_ratio(quality.risk_ratio),
        slack_ratio=_ratio(quality.slack_ratio),
        deficit_ratio=_ratio(quality.deficit_ratio),
        excess_amount=round(quality.excess_amount, _AMOUNT_DECIMALS),
        missing_amount=round(quality.missing_amount, _AMOUNT_DECIMALS),
    )


def _peak_body(quality: PeakQuality) -> PeakQualityBody:
    return PeakQualityBody(
        judged_hours=round(quality.judged_hours),
        over_ratio=_ratio(quality.over_ratio),
        under_ratio=_ratio(quality.under_ratio),
    )


def _ratio(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, _DECIMALS)

"""What figures of quality say: shares of minutes and of what was used; what was not judged has none."""

from __future__ import annotations

import pytest

from agent.core.history.minute.quality import (
    QUALITY_FIELDS,
    Against,
    PeakQuality,
    QualityWindow,
    RequestQuality,
    to_windows,
)


def request(**changes: float) -> RequestQuality:
    """Return ten minutes of which one was above."""
    figures = {
        "judged_minutes": 10.0,
        "above_minutes": 1.0,
        "used_amount": 200.0,
        "missing_amount": 4.0,
        "excess_amount": 50.0,
    }
    return RequestQuality(**{**figures, **changes})


def test_ratios_are_the_judges() -> None:
    """Risk by minutes; slack and deficit by what was used."""
    known = request()
    assert known.risk_ratio == pytest.approx(0.1)
    assert known.deficit_ratio == pytest.approx(0.02)
    assert known.slack_ratio == pytest.approx(0.25)


def test_ratios_of_nothing_are_none() -> None:
    """No minute judged, or nothing used, is no 0."""
    nothing = request(judged_minutes=0.0, above_minutes=0.0, used_amount=0.0, missing_amount=0.0)
    assert (nothing.risk_ratio, nothing.deficit_ratio, nothing.slack_ratio) == (None,) * 3


def test_peak_errors_are_shares_of_the_peaks_seen() -> None:
    """Too large and too small are told apart."""
    peak = PeakQuality(judged_hours=2.0, seen_amount=400.0, over_amount=100.0, under_amount=20.0)
    assert (peak.over_ratio, peak.under_ratio) == pytest.approx((0.25, 0.05))
    nothing = PeakQuality(judged_hours=0.0, seen_amount=0.0, over_amount=0.0, under_amount=0.0)
    assert (nothing.over_ratio, nothing.under_ratio) == (None, None)


def test_windows_take_their_figures_in_the_order_told() -> None:
    """CPU, then memory; recommended, applied, peak; a newer sender's further figures are not looked at."""
    rows = [[span * 100.0 + field for field in range(QUALITY_FIELDS + 2)] for span in range(3)]
    windows = to_windows(rows)
    assert windows.over(QualityWindow.HOUR) is windows.hour
    assert windows.over(QualityWindow.DAY) is windows.day
    assert windows.over(QualityWindow.WEEK) is windows.week
    assert windows.day.cpu.against(Against.RECOMMENDED) == request(
        judged_minutes=100.0, above_minutes=101.0, used_amount=102.0, missing_amount=103.0, excess_amount=104.0
    )
    assert windows.hour.cpu.against(Against.APPLIED).excess_amount == 9.0
    assert windows.hour.cpu.peak == PeakQuality(
        judged_hours=10.0, seen_amount=11.0, over_amount=12.0, under_amount=13.0
    )
    assert windows.week.memory.recommended.judged_minutes == 214.0
    assert windows.week.memory.peak.under_amount == 227.0


def test_windows_are_as_long_as_they_are_called() -> None:
    """The names are metric labels."""
    assert [(window.value, window.seconds) for window in QualityWindow] == [
        ("1h", 3600),
        ("1d", 86_400),
        ("7d", 604_800),
    ]

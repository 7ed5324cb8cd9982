from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.recommendation import RequestSeverity
from agent.core.recommender.severity import cpu_severity, memory_severity
from tests.subjects import MI


@pytest.mark.parametrize(
    ("request_millicores", "recommended_millicores", "severity"),
    [
        (500, None, RequestSeverity.UNKNOWN),
        (None, None, RequestSeverity.UNKNOWN),
        (None, 100, RequestSeverity.UNSET),
        (0, 100, RequestSeverity.UNSET),
        (500, 500, RequestSeverity.GOOD),
        (500, 501, RequestSeverity.SHORT),
        (500, 749, RequestSeverity.SHORT),  # 249 missing is under half of 500
        (500, 750, RequestSeverity.VERY_SHORT),
        (50, 149, RequestSeverity.SHORT),  # three times the request, and still under a tenth of a core
        (50, 150, RequestSeverity.VERY_SHORT),
        (500, 499, RequestSeverity.SAVING),
        (500, 251, RequestSeverity.SAVING),
        (500, 250, RequestSeverity.LARGE_SAVING),
        (150, 51, RequestSeverity.SAVING),
        (150, 50, RequestSeverity.LARGE_SAVING),
    ],
)
def test_cpu_severity_goes_by_share_and_amount(
    request_millicores: int | None, recommended_millicores: int | None, severity: RequestSeverity
) -> None:
    assert cpu_severity(request_millicores, recommended_millicores) is severity


@pytest.mark.parametrize(
    ("request_bytes", "recommended_bytes", "severity"),
    [
        (64 * MI, 191 * MI, RequestSeverity.SHORT),
        (64 * MI, 192 * MI, RequestSeverity.VERY_SHORT),
        (1024 * MI, 512 * MI, RequestSeverity.LARGE_SAVING),
        (1024 * MI, 513 * MI, RequestSeverity.SAVING),
        (200 * MI, 73 * MI, RequestSeverity.SAVING),  # 127 MiB
        (200 * MI, 72 * MI, RequestSeverity.LARGE_SAVING),
    ],
)
def test_memory_severity_goes_by_share_and_amount(
    request_bytes: int, recommended_bytes: int, severity: RequestSeverity
) -> None:
    assert memory_severity(request_bytes, recommended_bytes) is severity


@given(st.integers(1, 10**12), st.integers(0, 10**12))
def test_saving_is_never_told_as_a_shortage(request_bytes: int, recommended_bytes: int) -> None:
    is_short = memory_severity(request_bytes, recommended_bytes) in (RequestSeverity.SHORT, RequestSeverity.VERY_SHORT)

    assert is_short is (recommended_bytes > request_bytes)

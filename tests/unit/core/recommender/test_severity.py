from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.recommendation import Severity
from agent.core.recommender.severity import cpu_severity, memory_severity
from tests.subjects import MI


@pytest.mark.parametrize(
    ("request_millicores", "recommended_millicores", "severity"),
    [
        (500, None, Severity.UNKNOWN),
        (None, None, Severity.UNKNOWN),
        (None, 100, Severity.UNSET),
        (0, 100, Severity.UNSET),
        (500, 500, Severity.GOOD),
        (500, 501, Severity.SHORT),
        (500, 749, Severity.SHORT),  # 249 missing is under half of 500
        (500, 750, Severity.VERY_SHORT),
        (50, 149, Severity.SHORT),  # three times the request, and still under a tenth of a core
        (50, 150, Severity.VERY_SHORT),
        (500, 499, Severity.SAVING),
        (500, 251, Severity.SAVING),
        (500, 250, Severity.LARGE_SAVING),
        (150, 51, Severity.SAVING),
        (150, 50, Severity.LARGE_SAVING),
    ],
)
def test_cpu_severity_goes_by_share_and_amount(
    request_millicores: int | None, recommended_millicores: int | None, severity: Severity
) -> None:
    assert cpu_severity(request_millicores, recommended_millicores) is severity


@pytest.mark.parametrize(
    ("request_bytes", "recommended_bytes", "severity"),
    [
        (64 * MI, 191 * MI, Severity.SHORT),
        (64 * MI, 192 * MI, Severity.VERY_SHORT),
        (1024 * MI, 512 * MI, Severity.LARGE_SAVING),
        (1024 * MI, 513 * MI, Severity.SAVING),
        (200 * MI, 73 * MI, Severity.SAVING),  # 127 MiB
        (200 * MI, 72 * MI, Severity.LARGE_SAVING),
    ],
)
def test_memory_severity_goes_by_share_and_amount(
    request_bytes: int, recommended_bytes: int, severity: Severity
) -> None:
    assert memory_severity(request_bytes, recommended_bytes) is severity


@given(st.integers(1, 10**12), st.integers(0, 10**12))
def test_saving_is_never_told_as_a_shortage(request_bytes: int, recommended_bytes: int) -> None:
    is_short = memory_severity(request_bytes, recommended_bytes) in (Severity.SHORT, Severity.VERY_SHORT)

    assert is_short is (recommended_bytes > request_bytes)

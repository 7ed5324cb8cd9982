from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.text.figures import age_text, bytes_text, millicores_text, milliseconds_text, percent_text

KIB, MIB, GIB = 1024, 1024**2, 1024**3


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        (millicores_text, None, "-"),
        (millicores_text, 0, "0m"),
        (millicores_text, 0.01, "<0.1m"),
        (millicores_text, 3.21, "3.2m"),
        (millicores_text, 9.96, "10m"),
        (millicores_text, 250.4, "250m"),
        (millicores_text, 1250, "1250m"),
        (millicores_text, 9999.4, "9999m"),
        (millicores_text, 9999.5, "10.0"),
        (millicores_text, 12_500, "12.5"),
        (bytes_text, None, "-"),
        (bytes_text, 0, "0B"),
        (bytes_text, 1023, "1023B"),
        (bytes_text, KIB, "1.00KiB"),
        (bytes_text, 12.34 * MIB, "12.3MiB"),
        (bytes_text, 9.999 * MIB, "10.0MiB"),
        (bytes_text, 99.96 * MIB, "100MiB"),
        (bytes_text, 1023 * MIB, "1023MiB"),
        (bytes_text, 1023.6 * MIB, "1.00GiB"),  # 1024MiB would not be three digits
        (bytes_text, 1.5 * GIB, "1.50GiB"),
        (bytes_text, 2.0**63, "8192PiB"),
        (percent_text, None, "-"),
        (percent_text, 0.0, "0%"),
        (percent_text, 0.0004, "<0.1%"),  # 0.04 % is not nothing
        (percent_text, 0.031, "3.1%"),
        (percent_text, 0.0996, "10%"),
        (percent_text, 1.0, "100%"),
        (age_text, None, "-"),
        (age_text, 0.42, "0.4s"),
        (age_text, 59.4, "59s"),
        (age_text, 59.6, "1m00s"),
        (age_text, 725, "12m05s"),
        (age_text, 11220, "3h07m"),
        (age_text, 439200, "5d02h"),
        (milliseconds_text, None, "-"),
        (milliseconds_text, 0.00042, "0.42ms"),
        (milliseconds_text, 0.0123, "12ms"),
    ],
)
def test_figures_for_people(text: Callable[[float | None], str], value: float | None, expected: str) -> None:
    assert text(value) == expected


@given(st.floats(min_value=0, max_value=1e7))
def test_a_figure_above_nothing_never_looks_like_nothing(value: float) -> None:
    for text in (millicores_text, percent_text):
        assert (text(value) in ("0m", "0%")) == (value == 0)

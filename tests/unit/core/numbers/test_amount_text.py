from __future__ import annotations

import pytest

from agent.core.numbers.amount_text import amount_text

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (0.0, "millicores", "0m"),
        (250, "millicores", "250m"),
        (78.4378, "millicores", "78.4m"),
        (12_500.0, "millicores", "12500m"),
        (0, "bytes", "0B"),
        (700, "bytes", "700B"),
        (1.5 * KIB, "bytes", "1.5KiB"),
        (16_000_000, "bytes", "15.3MiB"),
        (128 * MIB, "bytes", "128MiB"),
        # what is not whole stays in MiB, where a step of rounding can be seen
        (1537 * MIB, "bytes", "1537MiB"),
        (2 * GIB, "bytes", "2GiB"),
        (0.0041, "ratio", "0.0041"),
        (1.0, "ratio", "1"),
        (720, "samples", "720 samples"),
        (4.25, "", "4.2"),
    ],
)
def test_amount_text_keeps_what_counts_and_names_the_unit(amount: float, unit: str, text: str) -> None:
    assert amount_text(amount, unit) == text

from __future__ import annotations

import pytest

from tests.bench.webhook import tell_of_odd


def test_odd_reports_are_told_of_and_most_of_them_end_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    tell_of_odd([], 100, "reports")
    assert capsys.readouterr().err == ""

    tell_of_odd(["node 7: 503"], 100, "reports")  # one in a hundred is the most that may be
    assert capsys.readouterr().err == "webhook: 1 of 100 reports were odd; the first: node 7: 503\n"

    with pytest.raises(RuntimeError, match="2 of 100 reports were odd; the first: node 7: 503"):
        tell_of_odd(["node 7: 503", "node 8: 503"], 100, "reports")

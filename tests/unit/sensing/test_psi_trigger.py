"""Pressure triggers where there are none; the real thing is in tests/kernel/test_events_live.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sensing.psi_trigger import PsiTrigger, TriggerRefused


def test_psi_trigger_on_a_file_that_is_not_there_says_why(tmp_path: Path) -> None:
    with pytest.raises(TriggerRefused, match=r"cpu\.pressure: cannot be opened for writing: No such file"):
        PsiTrigger(tmp_path / "cpu.pressure")

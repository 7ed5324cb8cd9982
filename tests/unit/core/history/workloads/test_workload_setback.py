from __future__ import annotations

from agent.core.history.workloads.workload_setback import SetbackKind, WorkloadSetback
from tests.directives import WEB


def test_a_shrink_has_no_share_and_kinds_are_the_words_of_the_database() -> None:
    setback = WorkloadSetback(workload=WEB, kind=SetbackKind("shrink"), at_unix_seconds=1.0, reason="restarts")
    assert setback.share == ""
    assert [str(kind) for kind in SetbackKind] == ["shrink", "share"]

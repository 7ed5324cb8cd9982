"""What is told of a workload that is forgotten while it is asked for; tests/webhook/test_workloads.py has the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from agent.core.cluster.workload import Workload
from agent.webhook.store.entries.forget_entry import Forgetting
from agent.webhook.workloads.shapes import MergedHistory
from tests.webhook.test_workloads import index_of
from tests.webhook.workload_reports import NOON, WEB, report, row

OTHER = Workload(namespace="bank", kind=WEB.kind, name="vault")


class HeldUp:
    """A lock after whose release so many times its holder is held up, and something happens."""

    def __init__(self, releases: int, then: Callable[[], object]) -> None:
        self._lock, self._left, self._then = threading.RLock(), releases, then

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._left -= 1
        if not self._left:
            self._then()


@pytest.mark.parametrize("releases", [1, 2, 3])
def test_a_row_that_is_another_workloads_by_now_is_not_told(monkeypatch: pytest.MonkeyPatch, releases: int) -> None:
    index = index_of((NOON, report(row(), node="a")))

    def changed() -> None:
        index.forget(Forgetting(id=1, asked_by="x", workload=WEB))
        index.take(report(row(workload=OTHER), node="b"), NOON + 7200)

    def told(history: MergedHistory | None) -> list[float]:
        assert history is not None
        return [known.last_unix_seconds for container in history.containers for known in container.classes]

    [before] = told(index.merged(WEB))
    monkeypatch.setattr(index, "_lock", HeldUp(releases, changed))
    assert set(told(index.merged(WEB))) <= {before}
    [after] = told(index.merged(OTHER))
    assert after > before

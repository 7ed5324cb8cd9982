"""A turn of a loop that fails is told, and the loop goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.node.assembly import Watch
from agent.sensing.sampler_contract import SweepResult
from agent.settings import load_settings
from tests.kernel.agents import wait_for
from tests.kernel.cgroups import CgroupTree

pytestmark = pytest.mark.kernel


def test_a_sweep_that_fails_is_a_note_and_the_next_ones_go_on(
    tree: CgroupTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.make("a")
    overrides = {"state.directory": "none", "cgroup.root": f"/{tree.name}", "sampling.intervalSeconds": "0.1"}
    watch = Watch(load_settings(None, environment={}, overrides=overrides), source="self")
    real: Callable[..., SweepResult] = watch.sampling.sampler.sweep
    calls = []

    def sweep(**asked: bool) -> SweepResult:
        calls.append(asked)
        if len(calls) == 2:
            raise RuntimeError("no luck")
        return real(**asked)

    monkeypatch.setattr(watch.sampling.sampler, "sweep", sweep)
    with watch:
        wait_for(lambda: watch.sampling.loop.heartbeat.sweeps >= 3, "sweeps after the one that failed")
        assert "1 turns failed and were left out: RuntimeError: no luck" in watch.notes.sentences()

"""The minute of a node: containers that ended young are in it, in an agent as it is assembled."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.node.assembly import Watch
from agent.node.sampling.short_lives import ShortLife
from agent.node.sampling.unit_table import WatchedUnit
from agent.settings import load_settings
from tests.cgroup_files import POD_UID
from tests.kernel.cgroups import CgroupTree
from tests.pods import container, pod_json

pytestmark = pytest.mark.kernel

MINUTE_NS = 60_000_000_000
MIB = 1 << 20


def test_a_minute_that_is_summed_up_knows_who_ended_young_in_it(tree: CgroupTree, tmp_path: Path) -> None:
    pods = tmp_path / "pods.json"
    pod = pod_json(container("app"), metadata={"name": "web-1", "uid": POD_UID})
    pods.write_text(json.dumps({"kind": "List", "items": [pod]}))
    overrides = {"state.directory": "none", "cgroup.root": f"/{tree.name}", "podsFile": str(pods)}
    now_ns = (time.monotonic_ns() // MINUTE_NS) * MINUTE_NS + 5_000_000_000
    identity = UnitIdentity(
        cgroup_path="/gone", kind=UnitKind.CONTAINER, pod_uid=POD_UID, namespace="shop", pod="web-1", container="app"
    )
    watch = Watch(load_settings(None, environment={}, overrides=overrides), source="self")  # its threads do not run
    with contextlib.ExitStack() as stack:
        stack.callback(watch.stop)
        learner, lives = watch.learner, watch.sampling.ends.lives
        learner.restore(lambda: False)
        lives.add(
            ShortLife(
                unit=WatchedUnit(slot=0, inode=1, identity=identity, resources=UnitResources()),
                started_ns=now_ns - 7_000_000_000,
                ended_ns=now_ns - 6_000_000_000,
                working_set_bytes=300 * MIB,
            )
        )
        watch.evaluator.roll_minutes(now_ns, lambda: True)  # it stops: the minute waits for the next start
        assert not learner.history.keys()
        watch.evaluator.roll_minutes(now_ns, lambda: False)
        [row] = learner.history.keys().values()
        minutes = learner.history.minutes(row)
        assert minutes.unix_minutes.tolist() == [learner.clock.unix_minute(now_ns // MINUTE_NS - 1)]
        assert minutes.working_set_bytes[0] == pytest.approx(300 * MIB, rel=0.001)

"""Credit for seconds on a real API server: who is answered in place requests less, and only while the node has room."""

from __future__ import annotations

import random
import time

import pytest

from agent.core.cluster.pod_index import PodIndex, belonging, join
from agent.core.history.minute.key import history_key
from agent.kube.objects.pod_json import pod_from_json
from agent.node.history.file import HISTORY_FILE_NAME, HistoryFile
from agent.node.sampling.unit_table import identity_at
from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.kernel.cgroups import why_not
from tests.policy_rows import make_minutes

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

DAYS = 3
STRIDE = 5
CALM_MINUTES = 90
"""Without bursts, whatever minute of the hour it is: what an hour begins with is asked for until its end."""
BURST_RATIO = 1 / 36
USUAL_MILLICORES, BURST_MILLICORES = 100.0, 800.0
"""A burst in every third hour, by chance: worth keeping room for at the one price, and not at the other."""
PRICES = {"sizing__price": 1000, "sizing__priceInPlace": 1}


def write_history(node: ActingNode, *names: str) -> None:
    """Leave three days of pods as an agent before would have, no burst in the last minutes of it."""
    index = PodIndex([pod_from_json(node.pod(name)) for name in names])
    state = node.directory / "state"
    state.mkdir(mode=0o700)
    now, chance = int(time.time() // 60), random.Random(11)
    with HistoryFile.open(state / HISTORY_FILE_NAME, max_rows=64) as history:
        rows = []
        for name in names:
            identity, _ = join(identity_at(f"/{node.tree.name}/{node.cgroup_of(node.pod(name))}"), index)
            rows.append(history.row_of(history_key(identity, belonging(identity, index).workload)))
        for ago in range(DAYS * 1440, 0, -STRIDE):
            cpu: list[float | None] = [None] * history.rows
            is_burst = chance.random() < BURST_RATIO and ago > CALM_MINUTES
            for row in rows:
                cpu[row] = BURST_MILLICORES if is_burst else USUAL_MILLICORES
            history.append(make_minutes(now - ago, cpu))


def recommended_millicores(node: ActingNode, name: str) -> float | None:
    """Return the request that is recommended for a pod's one container."""
    items = {item["identity"]["pod"]: item for item in node.ask("recommend")["items"]}
    millicores: float | None = items[name]["cpu_millicores"]["request"] if name in items else None
    return millicores


def test_a_burst_that_is_answered_in_place_is_not_requested_while_the_node_has_room(node: ActingNode) -> None:
    app = objects.container(requests={"cpu": "1", "memory": "64Mi"})
    for name, mode in (("answered", "enforce"), ("watched", "recommend")):
        node.run_pod(name, app, orders={"mode": mode})
    write_history(node, "answered", "watched")
    node.start_agent(recommend__policy="plimsoll", **PRICES)
    node.wait(lambda: node.request_of("answered") == "100m", "it is asked for what it uses without the bursts")
    assert node.request_of("watched") == "1"
    # Who was found a moment later has too few readings for a moment longer.
    node.wait(lambda: recommended_millicores(node, "watched") is not None, "the other is recommended for too")
    assert recommended_millicores(node, "watched") == pytest.approx(BURST_MILLICORES, rel=0.02)
    assert node.metric('plimsoll_credit_containers{reason="granted"}') == 1.0
    assert node.metric("plimsoll_credit_saved_cpu_cores") == pytest.approx(0.7, rel=0.02)
    # 1.1 CPUs are requested: what it lacks when it bursts, 700m, has no room any more.
    objects.write_node_status(node.plane.admin, node.name, {"allocatable": {"cpu": "1300m"}})
    node.wait(lambda: node.metric('plimsoll_credit_containers{reason="no_room"}') == 1.0, "its room is gone")
    node.wait(lambda: node.request_of("answered") not in ("100m", None), "it is asked for at the full price")
    assert node.metric("plimsoll_credit_saved_cpu_cores") == 0.0

"""What the node tells of itself: sums of what is advised, and what a plan is made of."""

from __future__ import annotations

from dataclasses import replace

from agent.core.cluster.unit import UnitResources
from agent.core.recommender.recommendation import Withheld
from agent.node.recommender.evaluation import to_measured
from agent.node.recommender.evaluation_series import advised
from tests.recommendations import MI, recommendation
from tests.snapshots import container, cpu_window


def test_advised_sums_what_has_both_figures() -> None:
    items = [
        recommendation("a", cpu=250, memory=128 * MI),  # of 500m and 256Mi
        recommendation("b", cpu=100, memory=Withheld.TOO_YOUNG),
        recommendation("c", resources=UnitResources(memory_request_bytes=64 * MI), cpu=100, memory=32 * MI),
    ]
    # CPU: a and b, 500 + 500 requested, 250 + 100 recommended; memory: a and c, 256 + 64 and 128 + 32.
    assert advised(items) == ((1000, 350), (320 * MI, 160 * MI))
    assert advised([]) == ((None, None), (None, None))


def test_pressure_counts_as_read_where_it_was_in_the_last_seconds() -> None:
    calm, unread = (
        replace(container(name, "app"), cpu=replace(cpu_window(), last_waiting_ratio=ratio))
        for name, ratio in (("a", 0.0), ("b", None))
    )
    assert calm.identity.pod_uid is not None
    assert to_measured([calm, unread], {}).cpu_pressure == {(calm.identity.pod_uid, "app")}

"""What the node tells of itself: sums of what is advised."""

from __future__ import annotations

from agent.core.cluster.unit import UnitResources
from agent.core.recommender.recommendation import Withheld
from agent.node.recommender.evaluation_series import advised
from tests.recommendations import MI, recommendation


def test_advised_sums_what_has_both_figures() -> None:
    items = [
        recommendation("a", cpu=250, memory=128 * MI),  # of 500m and 256Mi
        recommendation("b", cpu=100, memory=Withheld.TOO_YOUNG),
        recommendation("c", resources=UnitResources(memory_request_bytes=64 * MI), cpu=100, memory=32 * MI),
    ]
    # CPU: a and b, 500 + 500 requested, 250 + 100 recommended; memory: a and c, 256 + 64 and 128 + 32.
    assert advised(items) == ((1000, 350), (320 * MI, 160 * MI))
    assert advised([]) == ((None, None), (None, None))

"""Pods of a workload that come at once, before their quota shows any of them."""

from __future__ import annotations

import json
from typing import Any

from agent.core.cluster.facts import Quota
from agent.core.cluster.workload import Workload
from agent.webhook.admission.recent_growth import UNSEEN_SECONDS, RecentGrowth
from agent.webhook.admission.review import Reviewer
from tests.admissions import EXACT, MB, NOW_UNIX_SECONDS, Cluster, Told, estimate, new_pod, response_of, review_of
from tests.json_patch import apply_patch
from tests.pods import container

GI = 1 << 30
NANOS = 10**9
POD = new_pod(container("app", {"cpu": "500m", "memory": "1Gi"}))


class Desk:
    """A reviewer of pods that want one and a half GiB where they state one, under a quota."""

    def __init__(self, hard_bytes: int, *, running: int | None = None) -> None:
        self.hard_bytes, self.seconds = hard_bytes, 100.0
        self.cluster = Cluster(running=running)
        self.shows(0)
        self.growth = RecentGrowth(lambda: self.seconds)
        self.reviewer = Reviewer(
            self.cluster,
            Told(estimate(500, 1.5 * GI / MB)),
            EXACT,
            clock=lambda: NOW_UNIX_SECONDS,
            growth=self.growth,
        )

    def shows(self, used_bytes: int) -> None:
        hard, used = {"requests.memory": self.hard_bytes * NANOS}, {"requests.memory": used_bytes * NANOS}
        self.cluster.all_quotas = (Quota(name="quota", hard=hard, used=used),)

    def asked(self, document: dict[str, Any] = POD, *, peer: str = "10.0.0.1", **request: Any) -> int:
        """Admit a pod; the memory that it then requests."""
        response = response_of(self.reviewer.review(json.dumps(review_of(document, **request)).encode(), peer))
        done = apply_patch(document, response["patch"]) if "patch" in response else document
        text = done["spec"]["containers"][0]["resources"]["requests"]["memory"]
        return GI if text == "1Gi" else int(text)


def test_pods_that_come_at_once_do_not_get_the_same_room() -> None:
    desk = Desk(12 * GI)
    # The quota shows none of them: two grow by half a GiB, and ten more fit then.
    request_bytes = [desk.asked() for _ in range(10)]
    assert request_bytes == [3 * GI // 2] * 2 + [GI] * 8
    assert sum(request_bytes) <= desk.hard_bytes


def test_reviews_of_a_stranger_use_up_nothing() -> None:
    desk = Desk(12 * GI)
    for _ in range(178):
        desk.asked(peer="10.1.2.3")
    request_bytes = [desk.asked() for _ in range(10)]
    assert request_bytes == [3 * GI // 2] * 2 + [GI] * 8


def test_what_a_quota_shows_in_the_end_counts_once() -> None:
    desk = Desk(13 * GI)
    assert [desk.asked() for _ in range(2)] == [3 * GI // 2] * 2
    desk.shows(3 * GI // 2)
    desk.seconds += UNSEEN_SECONDS
    assert desk.asked() == GI  # 1.5 used, 1 not shown: 1.5 and 10 more do not fit
    desk.seconds += 1.0
    assert desk.asked() == 3 * GI // 2


def test_a_pod_that_is_only_tried_takes_no_room() -> None:
    desk = Desk(23 * GI // 2)
    assert [desk.asked(dryRun=True) for _ in range(3)] == [3 * GI // 2] * 3
    assert [desk.asked(dryRun=dry) for dry in (False, False, True)] == [3 * GI // 2, GI, GI]


def test_room_is_kept_for_the_pods_that_run() -> None:
    assert Desk(20 * GI, running=10).asked() == 3 * GI // 2
    assert Desk(20 * GI, running=19).asked() == GI
    assert Desk(20 * GI, running=None).asked() == 3 * GI // 2


def test_pods_are_counted_only_where_there_is_a_quota() -> None:
    class Counting(Cluster):
        def replicas(self, workload: Workload) -> int | None:
            asked.append(workload)
            return 3

    asked: list[Workload] = []
    desk = Desk(20 * GI)
    desk.reviewer._facts = cluster = Counting()
    desk.asked()
    assert asked == []
    cluster.all_quotas = desk.cluster.all_quotas
    desk.asked()
    assert asked == [Workload(namespace="shop", kind="Deployment", name="web")]


def test_growth_in_one_namespace_is_none_in_another() -> None:
    desk = Desk(23 * GI // 2)
    bank = {**POD, "metadata": {**POD["metadata"], "namespace": "bank"}}
    desk.cluster.namespaces["bank"] = desk.cluster.namespaces["shop"]
    assert desk.asked() == 3 * GI // 2
    assert desk.asked(bank, namespace="bank") == 3 * GI // 2
    assert desk.asked() == GI

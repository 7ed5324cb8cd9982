"""What the containers of a plan demanded at the same time, as the node's policy remembers it. Node.

It asks core and holds no rule. Any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from agent.core.plan.needs.demands import Key
from agent.core.plan.sizing.joint_spike import Together
from agent.core.recommender.policy import JointPolicy, SeenTogether
from agent.core.recommender.recommendation import Recommendation
from agent.node.history.learner import Learner


def together_of(learner: Learner, recommendations: Iterable[Recommendation]) -> Together:
    """Return who tells what containers demanded together, of those that were recommended for.

    Pods of one workload share a row of the history, which holds what the busiest of them demanded: each counts with it.
    While the history is being learnt, or where the policy keeps nothing of the kind, nothing is known.
    """
    identities = {(item.identity.pod_uid, item.identity.container): item.identity for item in recommendations}

    def together(bases: Mapping[Key, int]) -> SeenTogether | None:
        if not learner.is_restored:
            return None
        containers = [identities.get(key) for key in bases]
        places = [None if identity is None else learner.place_of(identity) for identity in containers]
        amounts = np.array(list(bases.values()), dtype=np.float64)
        with learner.lock:
            policy = learner.policy
            if not isinstance(policy, JointPolicy):
                return None
            nobody = policy.rows - 1
            rows = np.array([nobody if place is None else place.row for place in places], dtype=np.intp)
            return policy.together(rows, amounts, now_unix_seconds=learner.clock.now())

    return together

"""Random new pods and what is known of their workloads, from a seed: the same on every machine."""

from __future__ import annotations

import random
from typing import Any

from agent.core.admission.estimate import Estimate, EstimateSource
from agent.core.orders import annotations as names
from agent.core.orders.policy_options import PolicyName
from tests.admissions import MB, estimate, new_pod
from tests.pods import container

Json = dict[str, Any]

CPU = ("0", "1m", "100m", "250m", "0.5", "500m", "1", "1500m", "4")
"""None finer than a thousandth: to that an API server rounds before it asks."""
MEMORY = ("0", "1", "1M", "16Mi", "100M", "128Mi", "300M", "0.5Gi", "512Mi", "600M", "2G", "1e9", "100500m")
_VALUES = {"cpu": CPU, "memory": MEMORY}


def random_resources(rng: random.Random, *, stated: float = 0.7) -> Json:
    """Return requests and limits of a container as an API server shows them: what is not requested is the limit."""
    requests, limits = {}, {}
    for name, values in _VALUES.items():
        if rng.random() < stated:
            requests[name] = rng.choice(values)
        if rng.random() < stated:
            limits[name] = requests[name] if name in requests and rng.random() < 0.6 else rng.choice(values)
            requests.setdefault(name, limits[name])
    return {key: amounts for key, amounts in (("requests", requests), ("limits", limits)) if amounts}


def random_budget(rng: random.Random) -> Json:
    """Return resources of a pod as a whole: large enough, as often as not, for its containers."""
    budget: Json = {}
    for key in ("requests", "limits"):
        amounts = {"cpu": rng.choice(("500m", "1", "6", "8")), "memory": rng.choice(("1G", "6G", "8G"))}
        subset = {name: amount for name, amount in amounts.items() if rng.random() < 0.5}
        if subset:
            budget[key] = subset
    return budget


def random_pod(rng: random.Random, *, budgets: float = 0.6) -> Json:
    """Return the JSON of a pod ``web`` in ``shop``, in mode enforce.

    Args:
        rng: Where the dice come from.
        budgets: How often it has resources of its own.
    """
    stated = rng.choice((0.3, 0.7, 1.0))
    regular = [container(str(index), **_kept(rng, stated)) for index in range(rng.randint(1, 3))]
    initial = []
    for index in range(rng.choice((0, 0, 1, 2))):
        fields: Json = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
        initial.append(container(f"init{index}", **_kept(rng, stated), **fields))
    orders: Json = {}
    if rng.random() < 0.4:
        orders[names.POLICY] = rng.choice(list(PolicyName))
    if rng.random() < 0.5:
        orders[names.GUARANTEED] = "true"
    if rng.random() < 0.2:
        orders[names.POD_LIMITS] = rng.choice(('{"limits":{"cpu":"3"}}', '{"limits":{"memory":"1500M","cpu":"6"}}'))
    spec: Json = {"initContainers": initial} if initial else {}
    if rng.random() < budgets:
        spec["resources"] = random_budget(rng)
    kind = rng.choice(("Deployment", "Deployment", "StatefulSet", "DaemonSet"))
    return new_pod(*regular, kind=kind, orders=orders, **spec)


def _kept(rng: random.Random, stated: float) -> Any:
    return random_resources(rng, stated=stated)


def random_estimate(rng: random.Random) -> Estimate:
    """Return what is known of a container: little, much, or only some of it."""

    def maybe(most: int) -> int | None:
        return None if rng.random() < 0.3 else rng.randint(0, most)

    memory = maybe(3000)
    return estimate(
        cpu=maybe(3000),
        memory_mb=memory,
        source=rng.choice(list(EstimateSource)),
        cpu_max_millicores=maybe(3000),
        cpu_base_millicores=maybe(3000),
        memory_max_bytes=_times(maybe(3000), MB),
        memory_base_bytes=_times(maybe(3000), MB),
        oom_memory_bytes=_times(maybe(3000), MB) if rng.random() < 0.2 else None,
        history_seconds=rng.choice((10.0, 4000.0, 1e6)),
    )


def _times(amount: int | None, unit: int) -> int | None:
    return None if amount is None else amount * unit

"""Plans and decisions made by hand for tests of what draws, writes and reads them."""

from __future__ import annotations

from typing import Any, Final

from agent.core.cluster.pod import ContainerKind, PodRef
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.orders.order import Mode, Ranking
from agent.core.plan.needs.demand import KeptReason, ReservedReason
from agent.core.plan.plan import ContainerPlan, Eviction, Invariant, Phase, Plan, PlanStep, PodPlan, ResourcePlan, Share
from agent.core.plan.pod_change import Change, Setting
from agent.core.recommender.recommendation import Withheld
from agent.core.resize.decision import Action, Decision, Decisions, Outcome
from tests.snapshots import TAKEN_UNIX_SECONDS

MI: Final = 1 << 20


def ref(name: str = "web-7d9c5b8f4-x2x9k", namespace: str = "shop") -> PodRef:
    """A pod; its uid follows from its name."""
    return PodRef(namespace=namespace, name=name, uid=f"uid-{namespace}-{name}")


def share(base: int, peak: int, request: int | None, applied: int | None = None, **fields: Any) -> Share:
    """One resource; its share of the headroom is half of its spike, and it is applied unless told."""
    spike = peak - base
    known: dict[str, Any] = {
        "base": base,
        "peak": peak,
        "spike": spike,
        "headroom": spike // 2,
        "final": base + spike // 2,
        "request": request,
        "applied": base + spike // 2 if applied is None else applied,
        "limit": None,
        "limit_applied": None,
    }
    return Share(**{**known, **fields})


def container(name: str = "app", **fields: Any) -> ContainerPlan:
    """A container of base 100m and peak 300m that requests 500m, and the same in memory."""
    known: dict[str, Any] = {
        "kind": ContainerKind.REGULAR,
        "cpu": share(100, 300, 500),
        "memory": share(100 * MI, 140 * MI, 256 * MI),
    }
    return ContainerPlan(**{"name": name, **known, **fields})


def pod(
    name: str = "web-7d9c5b8f4-x2x9k", *containers: ContainerPlan, namespace: str = "shop", **fields: Any
) -> PodPlan:
    """An enforced pod."""
    known: dict[str, Any] = {
        "ref": ref(name, namespace),
        "workload": Workload(namespace=namespace, kind="Deployment", name="web"),
        "mode": Mode.ENFORCE,
        "ranking": Ranking.LOW,
        "reserved": None,
        "cpu_counted_millicores": 500,
        "memory_counted_bytes": 256 * MI,
        "containers": containers,
    }
    return PodPlan(**{**known, **fields})


def left_alone(name: str, reason: ReservedReason, namespace: str = "shop", **fields: Any) -> PodPlan:
    """A pod that may not be optimised."""
    mode = Mode.RECOMMEND if reason is ReservedReason.RECOMMEND else Mode.OFF
    return pod(name, namespace=namespace, reserved=reason, **{"mode": mode, **fields})


def sums(resource: Resource = Resource.CPU, **fields: Any) -> ResourcePlan:
    """4 cores, or 8 GiB, of which a quarter is reserved; it fits."""
    unit = 1000 if resource is Resource.CPU else 2048 * MI
    known: dict[str, Any] = {
        "allocatable": 4 * unit,
        "reserved": unit,
        "available": 3 * unit,
        "base_total": unit,
        "spike_largest": unit // 2,
        "headroom": unit // 2,
        "final_total": unit + unit // 2,
        "applied_total": 2 * unit,
        "is_infeasible": False,
    }
    return ResourcePlan(**{"resource": resource, **known, **fields})


def change(before: int = 500, after: int = 200, name: str = "app", **fields: Any) -> Change:
    """A CPU request that falls."""
    known: dict[str, Any] = {
        "kind": ContainerKind.REGULAR if name else None,
        "resource": Resource.CPU,
        "setting": Setting.REQUEST,
    }
    return Change(**{"container": name, **known, "before": before, "after": after, **fields})


def step(name: str = "web-7d9c5b8f4-x2x9k", *changes: Change, namespace: str = "shop", **fields: Any) -> PlanStep:
    """A step that shrinks, unless told."""
    known: dict[str, Any] = {
        "ref": ref(name, namespace),
        "workload": Workload(namespace=namespace, kind="Deployment", name="web"),
        "phase": Phase.SHRINK,
        "changes": changes or (change(),),
        "reason": "share of the node's spike",
    }
    return PlanStep(**{**known, **fields})


def plan(*pods: PodPlan, **fields: Any) -> Plan:
    """The plan of one node; it fits, and two invariants hold."""
    known: dict[str, Any] = {
        "taken_unix_seconds": TAKEN_UNIX_SECONDS,
        "node": "worker-7",
        "cpu": sums(),
        "memory": sums(Resource.MEMORY),
        "evictions": (),
        "steps": (),
        "invariants": (
            Invariant(name="base <= final <= peak", holds=True, detail="4 shares"),
            Invariant(name="at most one eviction per pod", holds=True),
        ),
    }
    return Plan(**{**known, "pods": tuple(sorted(pods, key=lambda pod_plan: pod_plan.ref)), **fields})


def mixed_plan() -> Plan:
    """One of each: grows, shrinks, kept, withheld, a pod's own budget, an eviction, pods left alone, a broken node."""
    memory_limit = {"resource": Resource.MEMORY, "setting": Setting.LIMIT}
    return plan(
        pod(
            "cache-0",
            container(
                "redis", cpu=share(400, 800, 200), memory=share(MI, MI, 64 * MI, 64 * MI, kept=KeptReason.COOL_DOWN)
            ),
            workload=Workload(namespace="shop", kind="StatefulSet", name="cache"),
            ranking=Ranking.MEDIUM,
        ),
        left_alone("coredns-5", ReservedReason.EXCLUDED, "kube-system"),
        left_alone("etcd-worker-7", ReservedReason.STATIC, "kube-system", memory_counted_bytes=100 * MI),
        left_alone("kube-proxy", ReservedReason.EXCLUDED, "kube-system"),
        left_alone("advised-1", ReservedReason.RECOMMEND),
        pod(
            "budget-1",
            container("a", cpu=share(50, 50, 50, kept=KeptReason.POD_LEVEL), memory=None),
            container("b", cpu=None, memory=None),
            budget=ContainerPlan(name="", kind=ContainerKind.REGULAR, cpu=share(100, 200, 400), memory=None),
            namespace="team",
        ),
        pod("gone-1", container(), is_evicted=True),
        pod(
            "web-7d9c5b8f4-x2x9k",
            container(
                memory=share(
                    100 * MI,
                    140 * MI,
                    256 * MI,
                    limit=512 * MI,
                    limit_applied=400 * MI,
                    limit_kept=None,
                )
            ),
            container(
                "istio-proxy",
                kind=ContainerKind.SIDECAR,
                cpu=share(20, 20, 20, withheld=Withheld.TOO_YOUNG, kept=KeptReason.GAPS),
                memory=share(MI, MI, MI, limit=MI, limit_applied=MI, limit_kept=KeptReason.IN_USE),
            ),
        ),
        memory=sums(
            Resource.MEMORY, is_infeasible=True, available=500 * MI, base_total=700 * MI, spike_largest=100 * MI
        ),
        evictions=(
            Eviction(
                ref=ref("gone-1"),
                workload=Workload(namespace="shop", kind="Deployment", name="web"),
                resource=Resource.MEMORY,
                ranking=Ranking.LOW,
                spike=40 * MI,
                reason="the node does not fit, and it has the largest spike of the lowest ranking",
            ),
        ),
        steps=(
            step("web-7d9c5b8f4-x2x9k", change()),
            step("cache-0", change(200, 600, "redis"), phase=Phase.GROW, is_urgent=True, reason="waiting for CPU"),
            step("budget-1", change(400, 150, ""), namespace="team"),
            step("web-7d9c5b8f4-x2x9k", change(512 * MI, 400 * MI, **memory_limit), phase=Phase.LIMIT_DOWN),
        ),
        notes=("the API server was last heard 70 s ago: nothing is written",),
    )


def decision(sequence: int = 1, age_seconds: float = 12.0, **fields: Any) -> Decision:
    """A resize that is in force."""
    known: dict[str, Any] = {
        "unix_seconds": TAKEN_UNIX_SECONDS - age_seconds,
        "action": Action.RESIZE,
        "outcome": Outcome.APPLIED,
        "reason": "share of the node's spike",
        "pod": ref(),
        "workload": "Deployment/web",
        "changes": (change(),),
        "seconds": 1.5,
    }
    return Decision(**{"sequence": sequence, **known, **fields})


def decisions(*items: Decision, **fields: Any) -> Decisions:
    """The answer of an agent."""
    known: dict[str, Any] = {
        "taken_unix_seconds": TAKEN_UNIX_SECONDS,
        "node": "worker-7",
        "source": "agent",
        "matching": len(items),
    }
    return Decisions(**{**known, "items": items, **fields})

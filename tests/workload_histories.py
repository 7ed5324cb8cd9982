"""What the webhook says of workloads, as JSON, with figures that tests choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

MIB = 1 << 20


def advice(cpu_millicores: int = 137, memory_bytes: int = 97 * MIB, **fields: Any) -> dict[str, Any]:
    """Return advice by seven days of three pods, of a minute ago."""
    return {
        "policy": "plimsoll",
        "missing": None,
        "source": "workload",
        "cpuRequestMillicores": cpu_millicores,
        "memoryRequestBytes": memory_bytes,
        "cpuMaxMillicores": cpu_millicores,
        "memoryMaxBytes": memory_bytes,
        "cpuBaseMillicores": 1,
        "memoryBaseBytes": MIB,
        "historySeconds": 604_800.0,
        "pods": 3,
        "newestAgeSeconds": 60.0,
        **fields,
    }


def workload_history(
    place: str,
    containers: Mapping[str, Mapping[str, Any]] | Sequence[str] = ("app",),
    *,
    kinds: Mapping[str, str | None] = MappingProxyType({}),
    **applies: Any,
) -> dict[str, Any]:
    """Return ``NAMESPACE/KIND/NAME`` as ``/v1/workloads/...`` has it; containers are regular, but for ``kinds``."""
    namespace, kind, name = place.split("/")
    advised = containers if isinstance(containers, Mapping) else {container: advice() for container in containers}
    return {
        "namespace": namespace,
        "kind": kind,
        "name": name,
        "historySeconds": 604_800.0,
        "newestAgeSeconds": 60.0,
        "applies": {
            "mode": {"value": "recommend", "source": "setting act.mode"},
            "policy": {"value": "plimsoll", "source": "setting recommend.policy"},
            "pause": {"value": None, "source": "ConfigMap plimsoll/plimsoll"},
            "cpuFrozenFor": None,
            "memoryFrozenFor": None,
            "leftAloneFor": None,
            "stopShrinkingSeconds": None,
            "replicas": 3,
            "bounds": [],
            "annotations": {},
            "rulesFault": None,
            **applies,
        },
        "containers": [
            {
                "container": container,
                "advice": dict(figures),
                "hours": [],
                "classes": [],
                "nodes": [],
                "kind": kinds.get(container, "regular"),
            }
            for container, figures in advised.items()
        ],
    }

"""VerticalPodAutoscaler objects of the recommender ``plimsoll``, as the API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.core.cluster.vpa import VpaObject
from agent.kube.objects.vpa_json import vpa_from_json


def vpa_json(spec: Mapping[str, Any] | None = None, *, name: str = "web", **metadata: Any) -> dict[str, Any]:
    """Return an object for Deployment ``web`` of ``shop``: further fields of its spec as they are."""
    known = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "recommenders": [{"name": "plimsoll"}],
    }
    head = {
        "namespace": "shop",
        "name": name,
        "uid": f"uid-{name}",
        "generation": 3,
        "resourceVersion": "77",
        "creationTimestamp": "2026-01-31T12:00:00Z",
    }
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {**head, **metadata},
        "spec": {**known, **(spec or {})},
    }


def vpa(update_mode: str | None = None, *, name: str = "web", **spec: Any) -> VpaObject:
    """Return an object with an updateMode, and further fields of its spec."""
    policy = {} if update_mode is None else {"updatePolicy": {"updateMode": update_mode}}
    return vpa_from_json(vpa_json({**policy, **spec}, name=name))

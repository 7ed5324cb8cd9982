"""Paths of the API server's objects, each part quoted. Pure."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

CORE: Final = "/api/v1"
EVENTS: Final = "/apis/events.k8s.io/v1"
LEASES: Final = "/apis/coordination.k8s.io/v1"


def namespaced_path(
    namespace: str, resource: str, name: str | None = None, subresource: str | None = None, *, group: str = CORE
) -> str:
    """Return the path of a namespace's objects of one resource, of one of them, or of its subresource."""
    path = f"{group}/namespaces/{quote(namespace, safe='')}/{resource}"
    if name is not None:
        path += f"/{quote(name, safe='')}"
    return path if subresource is None else f"{path}/{subresource}"

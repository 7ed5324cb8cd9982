"""Removes one placeholder pod: that one, and no successor of its name. Webhook."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from agent.kube.api import Api
from agent.kube.errors import ApiError

_GONE: Final = frozenset({404, 409})


def pods_path(namespace: str, name: str | None = None) -> str:
    """Give the path of a namespace's pods, or of one of them."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    return path if name is None else f"{path}/{quote(name, safe='')}"


def remove_placeholder(api: Api, *, namespace: str, name: str, uid: str, timeout_seconds: float | None = None) -> None:
    """Delete a pod; one that is gone, or whose name is another's by now, is as good.

    Raises:
        KubeError: The server refused, or did not answer.
    """
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    try:
        api.call("DELETE", pods_path(namespace, name), body=options, timeout_seconds=timeout_seconds)
    except ApiError as error:
        if error.status not in _GONE:
            raise

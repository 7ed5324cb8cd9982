"""Whether and how the API server is reached. Node. Light: what speaks to it is imported only where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from agent.kube.client.credentials import Credentials, in_cluster
from agent.kube.client.errors import CredentialsError
from agent.kube.client.kubeconfig import from_kubeconfig
from agent.settings import ApiChoice, Settings

if TYPE_CHECKING:
    from agent.kube.client.api import HttpApi
    from agent.node.cluster.view import ClusterView


def credentials_of(settings: Settings) -> Credentials | None:
    """Return how to reach the API server; None = it is not to be asked.

    Raises:
        CredentialsError: It is to be asked, and there is no way to; or the kubeconfig is not understood.
    """
    kubernetes = settings.kubernetes
    if kubernetes.api is ApiChoice.OFF:
        return None
    if kubernetes.api is ApiChoice.AUTO and settings.pods_file is not None:
        return None
    if kubernetes.kubeconfig is not None:
        return from_kubeconfig(kubernetes.kubeconfig)
    credentials = in_cluster()
    if credentials is None and kubernetes.api is ApiChoice.ON:
        raise CredentialsError(
            "kubernetes.api: on, but there is no pod's service account here and no kubeconfig is given (--kubeconfig)"
        )
    return credentials


Connection: TypeAlias = "tuple[HttpApi, ClusterView]"
"""The API server, and the view of this node's part of it."""


def connect(settings: Settings, node: str) -> Connection | None:
    """Prepare the API server's view of this node; None = no API server is to be asked. Nothing is asked yet."""
    credentials = credentials_of(settings)
    if credentials is None:
        return None
    from agent.kube.client.api import HttpApi  # six megabytes that an agent without an API server does without
    from agent.kube.watch.reflector import pace_within
    from agent.node.cluster.view import ClusterView

    api = HttpApi(credentials, timeout_seconds=settings.kubernetes.request_timeout_seconds)
    pace = pace_within(settings.act.stale_seconds)
    return api, ClusterView(
        api,
        node,
        pace=pace,
        pause_config_map=settings.cluster_pause_config_map,
        group_by=settings.workloads.label_keys,
    )

"""What the webhook's cluster facts, election and certificates need, no more: the tests run as this account."""

from __future__ import annotations

from typing import Final

from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_service_account, node_bound_token

READ: Final = ["list", "watch"]
CLUSTER_RULES: Final[list[Json]] = [
    {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces", "limitranges", "resourcequotas"], "verbs": READ},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": READ},
    {"apiGroups": ["autoscaling.k8s.io"], "resources": ["verticalpodautoscalers"], "verbs": READ},
]
ACCOUNT: Final = "webhook"


def own_rules(
    *,
    config_map: str = "plimsoll",
    lease: str = "lease",
    secret: str = "certificate",  # noqa: S107  its name
) -> list[Json]:
    """Return the rights in the webhook's own namespace."""
    return [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config_map], "verbs": READ},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["plimsoll-webhook-authority"],
            "verbs": ["patch"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": [*READ, "patch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [lease],
            "verbs": ["get", "update"],
        },
    ]


def configuration_rules(name: str) -> list[Json]:
    """Return the rights on the webhook's registration."""
    return [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": [name],
            "verbs": [*READ, "patch"],
        }
    ]


def webhook_api(
    cluster: ControlPlane, namespace: str, *, everywhere: list[Json], own: list[Json], timeout_seconds: float = 5.0
) -> HttpApi:
    """Make the account with these rights, and give the agent's own client as it; rights take a moment to hold."""
    create_service_account(cluster, namespace, ACCOUNT)
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}]
    for kind, rules in (("ClusterRole", everywhere), ("Role", own)):
        name = f"webhook-{namespace}"
        place = {"namespace": namespace} if kind == "Role" else {}
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name, **place}}
        cluster.admin.apply({**head, "kind": kind, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        cluster.admin.apply({**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects})
    token = node_bound_token(cluster, namespace, ACCOUNT, None)
    credentials = Credentials(server=cluster.url, origin="tests", ca_file=cluster.authority, token=token)
    return HttpApi(credentials, timeout_seconds=timeout_seconds)

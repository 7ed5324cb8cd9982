"""Who calls the API: namespaces, service accounts, and the tokens that the kubelet gives to pods."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Final

from tests.cluster.api import Api, ApiError, Json, path_of
from tests.cluster.control_plane import ControlPlane

CONFLICT: Final = 409


def fresh_name(what: str) -> str:
    """Return a name that nothing has: tests share one cluster."""
    return f"{what}-{secrets.token_hex(4)}"


def create_namespace(
    plane: ControlPlane, name: str, annotations: dict[str, str] | None = None, *, labels: dict[str, str] | None = None
) -> Json:
    """Create a namespace in which pods may be created at once.

    Its default account is made here: the controller manager makes it too, but after an outage only half a minute later.
    """
    namespace = plane.admin.create(
        "/api/v1/namespaces",
        {"metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}}},
    )
    ensure_default_account(plane, name)
    return namespace


def ensure_default_account(plane: ControlPlane, namespace: str) -> None:
    """Create a namespace's default account, unless the controller manager was quicker."""
    try:
        create_service_account(plane, namespace, "default")
    except ApiError as error:
        if error.status != CONFLICT:
            raise


def remove_namespace(plane: ControlPlane, name: str) -> None:
    """Remove a namespace with all in it; nothing that watches it may be waited for."""
    plane.wipe_namespace(name)


def create_service_account(plane: ControlPlane, namespace: str, name: str) -> Json:
    """Create a service account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    return plane.admin.create(path, {"metadata": {"name": name}})


def is_allowed(
    api: Api,
    verb: str,
    resource: str,
    *,
    group: str = "",
    subresource: str = "",
    namespace: str = "",
    name: str = "",
) -> bool:
    """Ask the server whether an identity may do something; without a namespace: in all of them."""
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@contextlib.contextmanager
def granted(plane: ControlPlane, manifests: Iterable[Json]) -> Iterator[None]:
    """Have roles and bindings in force inside the block only: other tests of the session prove what is not allowed."""
    applied = list(manifests)
    plane.admin.apply_all(applied)
    try:
        yield
    finally:
        for manifest in reversed(applied):
            plane.admin.delete(path_of(manifest))


def node_bound_token(
    plane: ControlPlane,
    namespace: str,
    service_account: str,
    node: str | None,
    *,
    audiences: tuple[str, ...] = (),
    seconds: int = 3600,
) -> str:
    """Ask for a token of a service account.

    Args:
        plane: Where.
        namespace: Of the account.
        service_account: Its name.
        node: Bind it to this Node object, which must exist: the token then carries the node's name as the kubelet's
            projected tokens do. None = bound to nothing.
        audiences: Whom it is for; the API server when empty.
        seconds: Its life, at least 600.
    """
    spec: Json = {"audiences": list(audiences), "expirationSeconds": seconds}
    if node is not None:
        uid = plane.admin.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    return _token(plane, namespace, service_account, spec)


def pod_bound_token(plane: ControlPlane, namespace: str, service_account: str, pod: str) -> str:
    """Ask for a token as the kubelet does for a pod: it carries the pod and, once the pod is bound, its node."""
    uid = plane.admin.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
    return _token(plane, namespace, service_account, {"boundObjectRef": reference})


def _token(plane: ControlPlane, namespace: str, service_account: str, spec: Json) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return str(plane.admin.create(path, request)["status"]["token"])


def whoami(api: Api) -> Json:
    """Ask the server whom it takes the caller for: username, groups, extra."""
    review = api.create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    info: Json = review["status"]["userInfo"]
    return info

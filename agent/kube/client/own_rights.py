"""What this agent may do, and whom the API server takes it for: asked of the server, nothing is tried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError

REVIEWS_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SELF_PATH: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
NODE_NAME_CLAIM: Final = "authentication.kubernetes.io/node-name"
"""User extra that the server takes from a token bound to a node, or to a pod on it (KEP-4193)."""
_NOT_FOUND: Final = 404


class Purpose(StrEnum):
    """What a permission is for; the sentence says what is left out without it."""

    WATCH = "without it the API server cannot be the pod source"
    RESIZE = "without it nothing is resized"
    TAINT = "without it an overloaded node is not tainted"
    EVENTS = "without it no Kubernetes Events tell of resizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One thing to do with one kind of object, in all namespaces."""

    verb: str
    resource: str
    purpose: Purpose
    group: str = ""
    """Empty = the core group."""
    subresource: str = ""

    def __str__(self) -> str:
        """Return it as RBAC spells it: ``patch pods/resize``."""
        kind = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {kind}" + (f" ({self.group})" if self.group else "")


def _watching(resource: str) -> tuple[Permission, ...]:
    return tuple(Permission(verb=verb, resource=resource, purpose=Purpose.WATCH) for verb in ("list", "watch"))


NEEDED: Final = (
    *_watching("pods"),
    *_watching("nodes"),
    *_watching("namespaces"),
    Permission(verb="patch", resource="pods", subresource="resize", purpose=Purpose.RESIZE),
    Permission(verb="get", resource="nodes", purpose=Purpose.TAINT),
    Permission(verb="patch", resource="nodes", purpose=Purpose.TAINT),
    Permission(verb="create", group="events.k8s.io", resource="events", purpose=Purpose.EVENTS),
    Permission(verb="patch", group="events.k8s.io", resource="events", purpose=Purpose.EVENTS),
)
"""All that the agent does; who does not taint or tell leaves those out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPermission:
    """A permission that this agent does not have."""

    permission: Permission
    reason: str = ""
    """What the server says; often nothing."""

    def __str__(self) -> str:
        """Return the sentence for people."""
        said = f" ({self.reason})" if self.reason else ""
        return f"not allowed: {self.permission}: {self.permission.purpose}{said}"


def missing_permissions(api: Api, needed: Iterable[Permission] = NEEDED) -> tuple[MissingPermission, ...]:
    """Ask for each permission by a SelfSubjectAccessReview, which every account may do.

    Returns:
        Those that are not there, in the order asked; empty = all is allowed.
    """
    answers = ((permission, _review(api, permission)) for permission in needed)
    return tuple(
        MissingPermission(permission=permission, reason=reason) for permission, reason in answers if reason is not None
    )


def _review(api: Api, permission: Permission) -> str | None:
    """Ask for one; None = allowed, else why not."""
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": permission.resource,
        "subresource": permission.subresource,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    document = api.call("POST", REVIEWS_PATH, body=review)
    status = document.get("status") if isinstance(document, Mapping) else None
    status = status if isinstance(status, Mapping) else {}
    if status.get("allowed") is True:
        return None
    reason = status.get("reason")
    return reason if isinstance(reason, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom the API server takes this agent for."""

    username: str | None
    node_name: str | None
    """The node that the token names; None = it names none."""


def identity(api: Api) -> Identity:
    """Ask the server who is asking, by a SelfSubjectReview (1.28 and newer).

    Returns:
        Nothing known where the server is older.
    """
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        document = api.call("POST", SELF_PATH, body=review)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return Identity(username=None, node_name=None)
        raise
    user = _object(_object(document, "status"), "userInfo")
    username, claims = user.get("username"), _object(user, "extra").get(NODE_NAME_CLAIM)
    node_name = claims[0] if isinstance(claims, list) and len(claims) == 1 else None
    return Identity(
        username=username if isinstance(username, str) else None,
        node_name=node_name if isinstance(node_name, str) and node_name else None,
    )


def node_claim(api: Api) -> str | None:
    """Return the node that this agent's token is bound to; None = to none, or the server is too old to say."""
    return identity(api).node_name


def _object(document: object, key: str) -> Mapping[object, object]:
    value = document.get(key) if isinstance(document, Mapping) else None
    return value if isinstance(value, Mapping) else {}

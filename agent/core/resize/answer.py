"""What the API server says to a resize, put into the few kinds that ask for different doings. Core, pure.

The texts and causes were taken from kube-apiserver 1.37.1 (``tests/cluster/test_resizing.py`` asks it again). Code and
reason do not tell enough: a node that is too small, a quota, a missing right and a policy are all 403 Forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from agent.core.cluster.resource import Resource


class AnswerKind(StrEnum):
    """What a resize came to. Also a metric label."""

    ACCEPTED = "accepted"
    """The spec has changed; the kubelet has not answered yet."""
    NO_CHANGE = "no_change"
    """The pod asked for just that already: nothing was written."""
    INFEASIBLE = "infeasible"
    """More than the node has in all (1.36 and newer say so at once, older kubelets in a condition)."""
    FEATURE_MISSING = "feature_missing"
    """The server, the node or its platform cannot do this kind of step."""
    FORBIDDEN = "forbidden"
    """A right is missing, or an admission policy refuses: for instance the fence around the agent's own node."""
    REJECTED = "rejected"
    """LimitRange, ResourceQuota or an admission webhook refuses this amount; another, or the same later, may pass."""
    INVALID = "invalid"
    """Against the rules of a resize (class, removed limits, static pod): the same wish never passes."""
    CONFLICT = "conflict"
    """The pod has changed since it was read: to be decided anew on its new state."""
    GONE = "gone"
    """There is no such pod, or another one has its name."""
    THROTTLED = "throttled"
    """The server sheds load: the same later."""
    UNAVAILABLE = "unavailable"
    """The server cannot serve now; nothing was done."""
    UNKNOWN = "unknown"
    """No answer, or one that does not say: it may have been done, now or later."""


_PASSING: Final = frozenset(
    {AnswerKind.CONFLICT, AnswerKind.THROTTLED, AnswerKind.UNAVAILABLE, AnswerKind.UNKNOWN},
)


def is_passing(kind: AnswerKind) -> bool:
    """Return whether an answer says nothing of the wish: the same may pass in a moment."""
    return kind in _PASSING


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeAnswer:
    """The answer to one resize."""

    kind: AnswerKind
    message: str = ""
    """One line for people, without the pod's name where the server puts it in front; empty = nothing to say."""
    retry_after_seconds: float | None = None
    """As the server asks; None = it does not say."""
    resources: tuple[Resource, ...] = ()
    """Of INFEASIBLE: what the node has too little of; empty = not known."""

    @property
    def is_done(self) -> bool:
        """Return whether the pod's spec holds the wish now."""
        return self.kind in (AnswerKind.ACCEPTED, AnswerKind.NO_CHANGE)


class RefusalCause(Protocol):
    """One entry of ``details.causes`` of a Status; empty texts where it says nothing."""

    @property
    def reason(self) -> str:
        """``NodeCapacity``, ``FieldValueInvalid`` and the like."""

    @property
    def field(self) -> str:
        """``metadata.uid`` and the like."""

    @property
    def message(self) -> str:
        """For people."""


class Refusal(Protocol):
    """An answer of 400 or above, as ``agent.kube.client.errors.ApiError`` carries it."""

    @property
    def status(self) -> int:
        """The HTTP code."""

    @property
    def reason(self) -> str:
        """``Forbidden``, ``Invalid`` and the like; empty = the answer is no Status."""

    @property
    def message(self) -> str:
        """For people."""

    @property
    def causes(self) -> Sequence[RefusalCause]:
        """Of its details."""

    @property
    def retry_after_seconds(self) -> float | None:
        """Of the header; None = it has none."""


NODE_CAPACITY: Final = "NodeCapacity"
UNSUPPORTED_PLATFORM: Final = "UnsupportedPlatform"
UID_FIELD: Final = "metadata.uid"
LONGEST_MESSAGE: Final = 500
"""Characters; a refusal that quotes a whole patch is cut."""

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 401, 403, 404, 405
_CONFLICT, _UNPROCESSABLE, _TOO_MANY, _INTERNAL, _UNAVAILABLE = 409, 422, 429, 500, 503

_SUBJECT: Final = re.compile(r'[A-Za-z.]+ "[^"]*" is (?:forbidden|invalid): ')
"""``pods "web" is forbidden: ``, ``Pod "web" is invalid: ``."""
_SHORT_OF: Final = re.compile(r"\b(cpu|memory), requested: \d+, allocatable: \d+")
_POLICY: Final = "ValidatingAdmissionPolicy '"
_AMOUNT_REFUSED: Final = re.compile(
    r"exceeded quota: "  # ResourceQuota
    r"|(?:minimum|maximum) \S+ usage per \w+ is |limit to request ratio per "  # LimitRange
    r"|node \"[^\"]*\" not found"  # the node object comes back, or the pod goes
)
_FEATURES: Final = re.compile(
    r"requires features |node without support for resize|pod resize is only supported on "
    # 1.34 and older: not the containers of such pods either
    r"|pods with pod-level resources cannot be resized"
    r"|resources for non-sidecar init containers are immutable"
    r"|memory limits cannot be decreased"
)
_WEBHOOK: Final = 'admission webhook "'
"""A denial: of the code that the webhook chose, 400 if none. One that cannot be asked is a 500 with other words."""
_NO_RESOURCE: Final = "the server could not find the requested resource"
_NOTHING_DONE: Final = re.compile(r"failed calling webhook |no endpoints available|apiserver is shutting down")


def classify(refusal: Refusal) -> ResizeAnswer:
    """Classify an answer of 400 or above.

    A code that is not known is INVALID below 500, else UNKNOWN: doubt about whether something was done is never taken
    for "not done".
    """
    kind = _kind(refusal)
    resources: tuple[Resource, ...] = ()
    if kind is AnswerKind.INFEASIBLE:
        resources = tuple(sorted({Resource(name) for name in _SHORT_OF.findall(refusal.message)}))
    return ResizeAnswer(
        kind=kind,
        message=one_line(refusal.message) or f"{refusal.status} {refusal.reason}".rstrip(),
        retry_after_seconds=refusal.retry_after_seconds,
        resources=resources,
    )


def one_line(message: str) -> str:
    """Return a server's message as one line of a bearable length, without the object's name in front."""
    text = _SUBJECT.sub("", " ".join(message.split()), count=1)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."


def _kind(refusal: Refusal) -> AnswerKind:
    by_status = {
        # Not the pod's matter: a token that ran out is read anew, and reading the API fails with it too.
        _UNAUTHORIZED: AnswerKind.UNAVAILABLE,
        _NOT_ALLOWED: AnswerKind.FEATURE_MISSING,
        # Of the pod, or of a ResourceQuota that others use at the same time.
        _CONFLICT: AnswerKind.CONFLICT,
        _TOO_MANY: AnswerKind.THROTTLED,
    }
    if refusal.status < _INTERNAL and refusal.message.startswith(_WEBHOOK):
        return AnswerKind.REJECTED
    if refusal.status in by_status:
        return by_status[refusal.status]
    if refusal.status == _NOT_FOUND:
        # A server that knows no such subresource says 404 too, in other words.
        is_old = not refusal.reason or refusal.message.startswith(_NO_RESOURCE)
        return AnswerKind.FEATURE_MISSING if is_old else AnswerKind.GONE
    if refusal.status == _FORBIDDEN:
        return _kind_of_forbidden(refusal)
    if refusal.status == _UNPROCESSABLE:
        return _kind_of_invalid(refusal)
    if refusal.status < _INTERNAL:
        return AnswerKind.INVALID
    if refusal.status == _UNAVAILABLE and "etcdserver" not in refusal.message:
        return AnswerKind.UNAVAILABLE
    if refusal.status == _INTERNAL and _NOTHING_DONE.search(refusal.message):
        return AnswerKind.UNAVAILABLE
    # etcd, a time limit or a proxy in between: the write may be under way.
    return AnswerKind.UNKNOWN


def _kind_of_forbidden(refusal: Refusal) -> AnswerKind:
    causes = {cause.reason for cause in refusal.causes}
    if NODE_CAPACITY in causes:
        return AnswerKind.INFEASIBLE
    if UNSUPPORTED_PLATFORM in causes or _FEATURES.search(refusal.message):
        return AnswerKind.FEATURE_MISSING
    # A policy's words are its author's own: they must not be read as a quota's.
    if _POLICY not in refusal.message and _AMOUNT_REFUSED.search(refusal.message):
        return AnswerKind.REJECTED
    return AnswerKind.FORBIDDEN


def _kind_of_invalid(refusal: Refusal) -> AnswerKind:
    if any(cause.field == UID_FIELD for cause in refusal.causes):
        return AnswerKind.GONE  # "field is immutable": the name belongs to another pod now
    if _POLICY in refusal.message:
        return AnswerKind.FORBIDDEN  # a policy without `reason: Forbidden`
    if _FEATURES.search(refusal.message):
        return AnswerKind.FEATURE_MISSING
    return AnswerKind.INVALID

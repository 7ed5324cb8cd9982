"""What a review is like, seen without reading it: whom to answer, and what reading it would cost. Webhook; no I/O.

Anybody may send reviews, and the cost of one grows with what is in it. So it is looked at first, which takes a tenth of
a percent of what reading takes; one that is too much is admitted as it came, by the only hand that writes such answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from agent.core.cluster.launch import MOST_SPLIT
from agent.core.orders.annotations import PREFIX

MAX_REVIEW_BYTES: Final = 3 << 20
"""An API server takes objects of 3 MiB at most, and etcd half of that."""

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_CONTAINERS: Final = 250
"""Init and ephemeral ones too. A kubelet's pod sandbox ends long before; each costs up to 0.2 ms."""
MAX_ANNOTATION_BYTES: Final = 64 * 1024
"""Of Plimsoll's own annotations, which are the ones that are read. The originals of 250 containers take 40 kB."""
MOST_UID_CHARACTERS: Final = 253
UID_WITHIN_BYTES: Final = 4096
"""An API server writes the review's uid at its beginning."""

REVIEW_SECONDS: Final = 0.0003
"""Of any review, measured on one core of 2.5 GHz, as are the others."""
CONTAINER_SECONDS: Final = 0.00017
READ_BYTE_SECONDS: Final = 0.15e-6
"""Of a byte that is looked at by rules: quantities, labels, owners, Plimsoll's annotations."""
START_BYTE_SECONDS: Final = 0.025e-6
"""Of a byte of a container's command, args and env."""
SPLIT_BYTE_SECONDS: Final = 0.4e-6
"""More for each byte of those that may be split with heed to quotes, up to ``MOST_SPLIT``."""
BYTE_SECONDS: Final = 3e-9
"""Of any byte."""

_UID: Final = re.compile(rb'"uid"\s*:\s*"((?:[^"\\\x00-\x1f]|\\.){1,1600})"')
"""The text as JSON has it, escapes and all."""
_TEXT: Final = msgspec.json.Decoder(str)
_NOTHING: Final = msgspec.Raw()


class Unread(StrEnum):
    """Why a review was answered without being read. Also a metric label."""

    SLOW = "slow"
    """It did not come in time; answered with 408."""
    LARGE = "large"
    """More than 3 MiB, or more than there is room for beside others."""
    CONTAINERS = "containers"
    ANNOTATIONS = "annotations"
    SHARE = "share"
    """Its sender's address used up its share of the process."""
    BUSY = "busy"
    """Too many that take long are waiting."""
    ERROR = "error"
    """It is no review, or something broke."""


UNREAD_WORDS: Final[Mapping[Unread, str]] = {
    Unread.SLOW: "it did not arrive in time",
    Unread.LARGE: f"it has more than {MAX_REVIEW_BYTES} bytes, or more than there is room for beside others",
    Unread.CONTAINERS: f"its pod has more than {MAX_CONTAINERS} containers",
    Unread.ANNOTATIONS: f"its pod has more than {MAX_ANNOTATION_BYTES} bytes of Plimsoll's annotations",
    Unread.SHARE: "its address used up its share of a CPU (listening.addressShareRatio)",
    Unread.BUSY: "too many reviews that take long are waiting",
    Unread.ERROR: "it is no review of a pod",
}
"""What the log says of each."""


class _Container(msgspec.Struct):
    resources: msgspec.Raw = _NOTHING
    command: msgspec.Raw = _NOTHING
    args: msgspec.Raw = _NOTHING
    env: msgspec.Raw = _NOTHING

    @property
    def start_bytes(self) -> int:
        return len(self.command) + len(self.args) + len(self.env)

    @property
    def is_split(self) -> bool:
        """A shell's script, as after ``-c``, or a runtime's options may be among it."""
        return b"OPTIONS" in bytes(self.env) or any(b'c"' in bytes(words) for words in (self.command, self.args))


class _Metadata(msgspec.Struct, rename="camel"):
    annotations: dict[str, msgspec.Raw] | None = None
    labels: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NOTHING


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    resources: msgspec.Raw = _NOTHING
    affinity: msgspec.Raw = _NOTHING
    overhead: msgspec.Raw = _NOTHING


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


class _Request(msgspec.Struct):
    object: _Object | None = None


class _Review(msgspec.Struct):
    request: _Request | None = None


_REVIEW: Final = msgspec.json.Decoder(_Review)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What is seen of a review."""

    seconds: float
    """CPU that reading it takes, about."""
    too_much: Unread | None = None
    """Why it is not to be read; None = it may be."""


def glance(body: bytes) -> Glance:
    """Check a review, whatever it is: half a millisecond for a MiB. One that is none is not to be read either."""
    if len(body) > MAX_REVIEW_BYTES:
        return Glance(seconds=0.0, too_much=Unread.LARGE)
    try:
        review = _REVIEW.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Glance(seconds=0.0, too_much=Unread.ERROR)
    pod = review.request.object if review.request is not None else None
    if pod is None:
        return Glance(seconds=REVIEW_SECONDS + len(body) * BYTE_SECONDS)
    metadata, spec = pod.metadata or _Metadata(), pod.spec or _Spec()
    lists = (spec.containers, spec.init_containers, spec.ephemeral_containers)
    containers = [container for group in lists if group is not None for container in group]
    if len(containers) > MAX_CONTAINERS:
        return Glance(seconds=0.0, too_much=Unread.CONTAINERS)
    annotated = sum(len(text) for name, text in (metadata.annotations or {}).items() if name.startswith(PREFIX))
    if annotated > MAX_ANNOTATION_BYTES:
        return Glance(seconds=0.0, too_much=Unread.ANNOTATIONS)
    parts = [metadata.labels, metadata.owner_references, spec.resources, spec.affinity, spec.overhead]
    parts += [container.resources for container in containers]
    split_bytes = sum(container.start_bytes for container in containers if container.is_split)
    read_bytes = annotated + sum(len(part) for part in parts)
    return Glance(
        seconds=REVIEW_SECONDS
        + len(containers) * CONTAINER_SECONDS
        + read_bytes * READ_BYTE_SECONDS
        + sum(container.start_bytes for container in containers) * START_BYTE_SECONDS
        + min(split_bytes, MOST_SPLIT) * SPLIT_BYTE_SECONDS
        + len(body) * BYTE_SECONDS
    )


def uid_of(body: bytes) -> str:
    """Find whom to answer in what came of a review, be it cut or broken; empty = nobody."""
    match = _UID.search(body, 0, UID_WITHIN_BYTES)
    if match is None:
        return ""
    try:
        return bounded_uid(_TEXT.decode(b'"' + match[1] + b'"'))
    except (msgspec.MsgspecError, ValueError):
        return ""


def bounded_uid(uid: object) -> str:
    """Return a uid as it is to be sent back; empty = it is none."""
    return uid if isinstance(uid, str) and len(uid) <= MOST_UID_CHARACTERS else ""


def answer(uid: str, response: Mapping[str, object]) -> bytes:
    """Write a whole review with its answer; it admits the pod unless ``response`` says otherwise."""
    return msgspec.json.encode(
        {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, "allowed": True, **response}}
    )


def unchanged(body: bytes) -> bytes:
    """Write the answer that admits a pod as it is, from whatever came."""
    return answer(uid_of(body), {})

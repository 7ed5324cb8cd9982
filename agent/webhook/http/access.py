"""Who calls, and what that caller may say: tokens judged by the API server, claims compared with what is reported.

Webhook. A node speaks for itself alone and only of containers of pods that run there, or were seen there within a day,
within what the node has, and of no time twice. A workload that has one of its pods there may be on other nodes too: for
these a lie counts up to four times what any of them saw, or up to what the pods request as written where that is more
(``core.workload_claims``). What one stolen token can bend beyond its node is that, a stop of shrinking for a day after
an invented kill, how the pods of an enforced share compare with the others, and nothing of workloads that have no pod
there. People read with a token of the same audience, and as far as RBAC lets them ``get`` the path, or of the
namespaces whose pods they may list.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from agent.core.cluster.facts import PodPlace
from agent.core.cluster.workload import RUN_KINDS, Workload
from agent.core.numbers.token_bucket import WINDOW_SECONDS, TokenBucket
from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.kube.client.own_rights import NODE_NAME_CLAIM
from agent.metrics.call_result import CallKind, CallResult
from agent.settings.webhook_sections import AccessSettings
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.http.tokens import NotAToken, SigningKeys, Token

TOKEN_REVIEWS_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  a path
ACCESS_REVIEWS_PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
POD_NAME_CLAIM: Final = "authentication.kubernetes.io/pod-name"
POD_UID_CLAIM: Final = "authentication.kubernetes.io/pod-uid"
MOST_TOKEN_BYTES: Final = 16 * 1024
AWAY_SECONDS: Final = 5.0
"""After which a caller may come again while the API server is away."""
NEW_POD_SECONDS: Final = 30.0
"""A pod that began less than this before the watch was last heard may run before it has brought it."""
CALL_BYTES: Final = 256 * 1024
"""Unpacked bytes of a body that cost as much as a call: what 200 containers are told in. So the 30 calls a minute of a
node are 7.5 MiB, which take about half a second to read and keep."""
BEARER_REVIEWS_PER_MINUTE: Final = 60
"""Questions about the tokens of one bearer: an agent has two a minute."""
GOOD_SECONDS: Final = 3600.0
"""For which it is remembered that a token was good once: agents' live for an hour, and come every five minutes."""
SCOPE_SECONDS: Final = 60.0
"""For which it is believed whose pods an account may list."""
MOST_SCOPED: Final = 256
"""Accounts of which that is remembered; of more those asked about longest ago are asked about again."""
MOST_NAMESPACES: Final = 500
"""That are asked about for one account within that time: each is a question to the API server."""
SCOPE_WAIT_SECONDS: Final = 2.0
"""One account at a time is looked into, so that strangers do not hold the threads that agents' reports need."""
MOST_NODES: Final = 20_000
"""Of which calls are counted; those heard of longest ago are forgotten first."""


class Denied(Exception):  # noqa: N818  an answer
    """The caller is not let in. ``reason`` is one line for the caller; ``result`` is the label it is counted under."""

    def __init__(
        self, status: int, result: CallResult, reason: str, *, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.result: Final = result
        self.reason: Final = reason
        self.retry_after_seconds: Final = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom the API server takes a token's bearer for."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def claim(self, name: str) -> str | None:
        """Return a claim that the token makes once; None = it makes none, or several."""
        values = self.extra.get(name, ())
        return values[0] if len(values) == 1 and values[0] else None


class Sender(NamedTuple):
    """Who posts: an agent, or who imports history."""

    caller: Caller
    node: str
    """As its token names it; of who imports, the account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What of the cluster somebody may see."""

    namespaces: frozenset[str] | None
    """Whose pods the account may list; None = the whole cluster, its nodes too."""
    known_namespaces: int = 0
    """How many there are; 0 = it plays no part."""

    def holds(self, namespace: str) -> bool:
        """Return whether what is of a namespace may be seen."""
        return self.namespaces is None or namespace in self.namespaces


WHOLE_CLUSTER: Final = Scope(namespaces=None)


Kept = TypeVar("Kept")


class _Memory(Generic[Kept]):
    """What was found out of whom, for seconds; bounded. For any thread."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[float, Kept]] = OrderedDict()

    def get(self, key: bytes) -> Kept | None:
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return None
            if entry[0] <= self._clock():
                del self._kept[key]
                return None
            return entry[1]

    def put(self, key: bytes, value: Kept, seconds: float) -> None:
        with self._lock:
            self._kept[key] = (self._clock() + seconds, value)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class PodRow(Protocol):
    """What a node tells of a container of a pod."""

    @property
    def workload(self) -> Workload:
        """Return whose it is, as the node has it."""

    @property
    def container(self) -> str:
        """Return its name."""

    @property
    def pod(self) -> str:
        """Return the pod's name."""

    @property
    def pod_uid(self) -> str:
        """Return the pod's uid, as the API has it."""

    @property
    def pod_age_seconds(self) -> float | None:
        """Return its age; None = not known."""


class Access:
    """Lets callers in or not; asks the API server, so only from a thread that may wait. For any of them."""

    def __init__(
        self,
        api: Api,
        settings: AccessSettings,
        *,
        namespace: str,
        places: ClusterFacts,
        clock: Callable[[], float],
        keys: SigningKeys,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; nothing is asked yet.

        Tokens are looked into before anybody is asked, and their signatures checked by ``keys``; ``api`` is that of an
        account that may create tokenreviews and subjectaccessreviews, ``namespace`` that of the agents' account.
        """
        self._api = api
        self._keys, self._wall_clock = keys, wall_clock
        self._settings = settings
        self._namespace = namespace
        self._agent = f"system:serviceaccount:{namespace}:{settings.agent_account}"
        self._places = places
        self._clock = clock
        self._callers: _Memory[Caller] = _Memory(settings.verdicts, clock)
        """By the token's hash."""
        self._refused: _Memory[str] = _Memory(settings.verdicts, clock)
        """Why, by the token's hash; kept apart, as whom strangers could push out else."""
        self._once_good: _Memory[bool] = _Memory(MOST_NODES, clock)
        self._readers: _Memory[bool] = _Memory(settings.verdicts, clock)
        self._lock = threading.Lock()
        self._reviews = TokenBucket(settings.reviews_per_minute, now_seconds=clock())
        self._strangers = TokenBucket(settings.strangers_per_minute, now_seconds=clock())
        """Of whose tokens nothing speaks for them: no signature could be checked, and none was good before."""
        self._bearers: OrderedDict[bytes, TokenBucket] = OrderedDict()
        self._rights = TokenBucket(settings.reviews_per_minute, now_seconds=clock())
        """Of who reads: each path is a question, and who reads them all must not keep agents from reporting."""
        self._nodes: OrderedDict[tuple[CallKind, str], TokenBucket] = OrderedDict()
        self._scopes: _Memory[frozenset[str]] = _Memory(MOST_SCOPED, clock)
        self._scoping = threading.Lock()
        self._lists = TokenBucket(settings.reviews_per_minute, now_seconds=clock())
        """Of who reads namespaces alone: their questions are many, and keep nobody else from reading."""

    def caller(self, authorization: str | None) -> Caller:
        """Find out who sent a header Authorization.

        Raises:
            Denied: 401 without a good token; 429 and 503 where it cannot be found out now.
        """
        token = _bearer(authorization)
        key = _hash(token)
        verdict = self._verdict(key)
        if verdict is None:
            verdict = self._reviewed(token, self._budgets(token, key))
            if isinstance(verdict, Caller):
                self._callers.put(key, verdict, self._settings.verdict_seconds)
                self._once_good.put(key, True, GOOD_SECONDS)
            else:
                self._refused.put(key, verdict, self._settings.refusal_seconds)
        return _good(verdict)

    def _verdict(self, key: bytes) -> Caller | str | None:
        return self._callers.get(key) or self._refused.get(key)

    def _looked_into(self, token: str) -> tuple[Token, bool | None]:
        """Read a token, from memory: its claims, and whether its signature is good; None = that cannot be told.

        Raises:
            Denied: 401; it cannot be good.
        """
        try:
            parsed_token = self._keys.look(token, audience=self._settings.audience, now_unix_seconds=self._wall_clock())
        except NotAToken as error:
            raise Denied(401, CallResult.BAD_TOKEN, str(error)) from None
        is_signed = self._keys.is_signed(parsed_token)
        if is_signed is False:
            raise Denied(401, CallResult.BAD_TOKEN, "the token's signature is not the API server's")
        return parsed_token, is_signed

    def _budgets(self, token: str, key: bytes) -> tuple[TokenBucket, ...]:
        """Return the budgets that a question about a token is taken from.

        Raises:
            Denied: 401; it cannot be good, and nobody is asked.
        """
        parsed_token, is_signed = self._looked_into(token)
        if self._once_good.get(key):
            return (self._reviews,)
        if is_signed is None and self._keys.refresh():
            is_signed = self._looked_into(token)[1]
        if is_signed is None:
            return (self._strangers,)
        with self._lock:
            own = self._bearers.pop(parsed_token.bearer, None)
            if own is None:
                own = TokenBucket(BEARER_REVIEWS_PER_MINUTE, now_seconds=self._clock())
            self._bearers[parsed_token.bearer] = own
            while len(self._bearers) > MOST_NODES:
                self._bearers.popitem(last=False)
        return own, self._reviews

    def known_sender(self, authorization: str | None) -> Sender | None:
        """Find out which node's agent calls, from memory and at once; None = the API server must be asked.

        Raises:
            Denied: As ``sender``, where that is known or there is no token at all.
        """
        token = _bearer(authorization)
        verdict = self._verdict(_hash(token))
        if verdict is None:
            self._looked_into(token)
            return None
        return self._sender(_good(verdict))

    def sender(self, authorization: str | None) -> Sender:
        """Find out which node's agent calls.

        Raises:
            Denied: As ``caller``; 403 where it is no agent, or its token names no node.
        """
        return self._sender(self.caller(authorization))

    def _sender(self, caller: Caller) -> Sender:
        if caller.username != self._agent:
            raise Denied(403, CallResult.WRONG_ACCOUNT, f"{caller.username} may not report; allowed: {self._agent}")
        node = caller.claim(NODE_NAME_CLAIM)
        if node is None:
            reason = (
                "the token names no node; allowed: a token of a pod, or bound to a Node, of Kubernetes 1.32 or newer"
            )
            raise Denied(403, CallResult.NO_CLAIM, reason)
        return Sender(caller, node)

    def admit(self, node: str, kind: CallKind) -> None:
        """Count a call (``report`` or ``evictions``, each with its own budget) of a node, as its token names it.

        Raises:
            Denied: 429; there were too many within a minute.
        """
        now = self._clock()
        with self._lock:
            bucket = self._nodes.pop((kind, node), None)
            if bucket is None:
                bucket = TokenBucket(self._settings.requests_per_minute, now_seconds=now)
            self._nodes[kind, node] = bucket
            while len(self._nodes) > MOST_NODES:
                self._nodes.popitem(last=False)
            if bucket.take(now):
                return
            seconds = bucket.wait_seconds(now)
        reason = f"more than {self._settings.requests_per_minute} calls a minute of node {node}"
        raise Denied(429, CallResult.TOO_MANY, reason, retry_after_seconds=seconds)

    def charge(self, node: str, kind: CallKind, unpacked_bytes: int) -> None:
        """Count what a call that was admitted costs beyond one: reading a large body takes time in proportion.

        Raises:
            Denied: 429; its node has not so many calls left in this minute. The largest body that is read at all
                passes where nothing else came within a minute.
        """
        more = min(unpacked_bytes // CALL_BYTES, self._settings.requests_per_minute - 1)
        now = self._clock()
        with self._lock:
            bucket = self._nodes.get((kind, node))
            if bucket is None or not more:
                return
            if bucket.available(now) >= more:
                for _ in range(more):
                    bucket.take(now)
                return
        reason = f"{unpacked_bytes} bytes count as {more + 1} calls; too many of node {node} in a minute"
        raise Denied(429, CallResult.TOO_MANY, reason, retry_after_seconds=WINDOW_SECONDS / 4)

    def check_node(self, claimed: str, reported: str) -> None:
        """Compare the token's node with the body's.

        Raises:
            Denied: 403; they differ.
        """
        if claimed != reported:
            raise Denied(
                403, CallResult.WRONG_NODE, f"the token is of node {claimed}, the report of node {reported[:253]}"
            )

    def place_of(self, uid: str, remembered: Callable[[str], PodPlace | None]) -> PodPlace | None:
        """Find where a pod is or was; ``remembered`` returns pods of the node that no watch knows. None = nobody knows.

        A pod that is gone may still be told of: its last minutes come after its end.
        """
        return self._places.pod(uid) or self._places.gone_pod(uid) or remembered(uid)

    def row_fault(self, caller: Caller, node: str, row: PodRow, place: PodPlace | None) -> str | None:
        """Return why a row may not come from a node, ``place`` by `place_of`; None = it may."""
        uid = row.pod_uid
        if place is None:
            if uid == caller.claim(POD_UID_CLAIM):  # created a moment ago: the token itself says where it is
                own = self._namespace, caller.claim(POD_NAME_CLAIM)
                return None if (row.workload.namespace, row.pod) == own else f"the token is of pod {own[0]}/{own[1]}"
            return f"podUid: no pod {uid} is known"
        if place.node != node:
            return f"podUid: the pod is not on node {node}"
        if (place.namespace, place.name) != (row.workload.namespace, row.pod):
            return f"pod: the uid is that of {place.namespace}/{place.name}"
        if place.workload != row.workload and not _are_runs(place.workload, row.workload):
            owner = place.workload
            return f"workload: the pod belongs to {owner.kind} {owner.namespace}/{owner.name}"
        if not place.has_container(row.container):
            return f"container: the pod has none named {row.container}"
        return None

    def check_known(self, caller: Caller, rows: Iterable[PodRow], *, end_age_seconds: float) -> None:
        """Wait for pods that began so lately that the watch may not have brought them: their rows are not foreign.

        Raises:
            Denied: 503; the whole report comes again in some seconds. As the rows grow older the waiting ends.
        """
        young_seconds = NEW_POD_SECONDS + self._places.pods_age_seconds()
        for row in rows:
            age_seconds = row.pod_age_seconds
            if age_seconds is None or age_seconds + end_age_seconds >= young_seconds:
                continue
            uid = row.pod_uid
            if uid == caller.claim(POD_UID_CLAIM) or self._places.pod(uid) or self._places.gone_pod(uid):
                continue
            raise Denied(
                503,
                CallResult.NOT_READY,
                f"pod {row.workload.namespace}/{row.pod} is not known yet",
                retry_after_seconds=5.0,
            )

    def known_writer(self, authorization: str | None, path: str, *, verb: str) -> Sender | None:
        """Return who writes, from memory and at once; None = the API server must be asked.

        Raises:
            Denied: As ``reader``, where that is known or there is no token at all.
        """
        token = _bearer(authorization)
        verdict = self._verdict(_hash(token))
        if verdict is None:
            self._looked_into(token)
            return None
        caller = _good(verdict)
        allowed = self._readers.get(_right_key(caller, path, verb))
        if allowed is False:
            raise _no_right(caller, path, verb)
        return Sender(caller, caller.username) if allowed else None

    def writer(self, authorization: str | None, path: str, *, verb: str) -> Sender:
        """Return who writes, by the name of the account, if RBAC grants the verb on the path as a nonResourceURL.

        Raises:
            Denied: As ``reader``.
        """
        caller = self.reader(authorization, path, verb=verb)
        return Sender(caller, caller.username)

    def reader(self, authorization: str | None, path: str, *, verb: str = "get") -> Caller:
        """Return who calls with a header Authorization, if RBAC grants the verb on the path as a nonResourceURL.

        Raises:
            Denied: As ``caller``; 403 where RBAC does not grant it.
        """
        caller = self.caller(authorization)
        key = _right_key(caller, path, verb)
        allowed = self._readers.get(key)
        if allowed is None:
            allowed = self._has_right(caller, verb, path)
            settings = self._settings
            self._readers.put(key, allowed, settings.verdict_seconds if allowed else settings.refusal_seconds)
        if not allowed:
            raise _no_right(caller, path, verb)
        return caller

    def scope(self, authorization: str | None, path: str, namespace: str | None = None) -> Scope:
        """Return what of the cluster a reader of a path may see: all of it, or the namespaces whose pods it may list.

        Args:
            namespace: The only one that was asked about; None = all.

        Raises:
            Denied: As ``reader``; 403 where it may list pods in none of them.
        """
        caller = self.caller(authorization)
        try:
            self.reader(authorization, path)
        except Denied as denied:
            if denied.result is not CallResult.FORBIDDEN:
                raise
            return self._scope_of(caller, path, namespace)
        return WHOLE_CLUSTER

    def _scope_of(self, caller: Caller, path: str, namespace: str | None) -> Scope:
        names = self._places.namespace_names()
        if not names:
            reason = "which namespaces there are is not known yet"
            raise Denied(503, CallResult.NOT_READY, reason, retry_after_seconds=AWAY_SECONDS)
        asked = names if namespace is None else tuple(name for name in names if name == namespace)
        namespaces = self._listable(caller, asked)
        if not namespaces:
            where = f"in none of {len(names)} namespaces" if namespace is None else "not there either"
            reason = f"{_no_right(caller, path, 'get').reason}, and list pods {where}"
            raise Denied(403, CallResult.FORBIDDEN, reason)
        return Scope(namespaces=namespaces, known_namespaces=len(names))

    def _listable(self, caller: Caller, names: tuple[str, ...]) -> frozenset[str]:
        """Return those of some namespaces whose pods somebody may list."""
        if not names:
            return frozenset()
        everywhere = _right_key(caller, "", "list pods")
        key = everywhere if len(names) != 1 else _right_key(caller, names[0], "list pods")
        known = self._scopes.get(key)
        if known is not None:
            return known & frozenset(names)
        if not self._scoping.acquire(timeout=SCOPE_WAIT_SECONDS):
            reason = "others' rights are being looked into"
            raise Denied(503, CallResult.OVERLOAD, reason, retry_after_seconds=SCOPE_WAIT_SECONDS)
        try:
            known = self._scopes.get(key)
            if known is None:
                known = self._ask_listable(caller, names)
                self._scopes.put(key, known, SCOPE_SECONDS)
        finally:
            self._scoping.release()
        return known & frozenset(names)

    def _ask_listable(self, caller: Caller, names: tuple[str, ...]) -> frozenset[str]:
        if len(names) > 1 and self._may_list_pods(caller, ""):
            return frozenset(names)
        if len(names) > MOST_NAMESPACES:
            reason = (
                f"{caller.username} may not read the whole cluster, and {len(names)} namespaces are too many to ask"
                f" about (at most {MOST_NAMESPACES}); allowed: namespace=NAME"
            )
            raise Denied(403, CallResult.FORBIDDEN, reason)
        return frozenset(name for name in names if self._may_list_pods(caller, name))

    def _may_list_pods(self, caller: Caller, namespace: str) -> bool:
        resource = {"verb": "list", "version": "v1", "resource": "pods", "namespace": namespace}
        return self._is_allowed(caller, {"resourceAttributes": resource}, self._lists)

    def _reviewed(self, token: str, budgets: tuple[TokenBucket, ...]) -> Caller | str:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._settings.audience]},
        }
        status = _part(self._asked(TOKEN_REVIEWS_PATH, review, budgets), "status")
        if status.get("authenticated") is not True:
            return f"the token is not good for audience {self._settings.audience}"
        # A server that knows no audiences answers without: then the token was not made for the webhook.
        if self._settings.audience not in _texts(status.get("audiences")):
            return f"the token is not for audience {self._settings.audience}"
        user = _part(status, "user")
        username, uid = user.get("username"), user.get("uid")
        if not isinstance(username, str) or not username:
            return "the token has no user"
        return Caller(
            username=username,
            uid=uid if isinstance(uid, str) else "",
            groups=_texts(user.get("groups")),
            extra={str(name): _texts(values) for name, values in _part(user, "extra").items()},
        )

    def _has_right(self, caller: Caller, verb: str, path: str) -> bool:
        return self._is_allowed(caller, {"nonResourceAttributes": {"path": path, "verb": verb}}, self._rights)

    def _is_allowed(self, caller: Caller, attributes: Mapping[str, object], budget: TokenBucket) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": caller.username,
                "uid": caller.uid,
                "groups": list(caller.groups),
                "extra": {name: list(values) for name, values in caller.extra.items()},
                **attributes,
            },
        }
        return _part(self._asked(ACCESS_REVIEWS_PATH, review, (budget,)), "status").get("allowed") is True

    def _asked(self, path: str, review: Mapping[str, object], budgets: tuple[TokenBucket, ...]) -> object:
        now = self._clock()
        with self._lock:
            seconds = max(budget.wait_seconds(now) for budget in budgets)
            if seconds:
                raise Denied(429, CallResult.TOO_MANY, "too many questions at once", retry_after_seconds=seconds)
            for budget in budgets:
                budget.take(now)
        try:
            return self._api.call("POST", path, body=review)
        except KubeError as error:
            reason = "the API server cannot be asked about the token now"
            raise Denied(503, CallResult.API_AWAY, reason, retry_after_seconds=AWAY_SECONDS) from error


def _right_key(caller: Caller, path: str, verb: str) -> bytes:
    known = caller.username, caller.groups, sorted(caller.extra.items()), verb, path
    return hashlib.sha256(repr(known).encode()).digest()


def _no_right(caller: Caller, path: str, verb: str) -> Denied:
    return Denied(403, CallResult.FORBIDDEN, f"{caller.username} may not {verb} the nonResourceURL {path}")


def workload_of(row: PodRow, place: PodPlace | None) -> Workload:
    """Return whose a row is, ``place`` by `Access.place_of`: of runs the webhook knows better, as it may read Jobs.

    An agent of another version may also call a run by its Job where this one names the CronJob.
    """
    return row.workload if place is None or not _are_runs(place.workload, row.workload) else place.workload


def _are_runs(workload: Workload, other: Workload) -> bool:
    """Return whether both may be names of one run's workload."""
    return workload.namespace == other.namespace and workload.kind in RUN_KINDS and other.kind in RUN_KINDS


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _good(verdict: Caller | str) -> Caller:
    if isinstance(verdict, str):
        raise Denied(401, CallResult.BAD_TOKEN, verdict)
    return verdict


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Denied(401, CallResult.NO_TOKEN, "no token; allowed: Authorization: Bearer TOKEN")
    if len(token) > MOST_TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
        raise Denied(401, CallResult.BAD_TOKEN, "this is no token")
    return token


def _part(document: object, key: str) -> Mapping[object, object]:
    value = document.get(key) if isinstance(document, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()

"""The routes: bytes in, bytes out. Small admissions are answered on the event loop; what takes long has threads.

Webhook. No rule is in here: what is answered comes from ``Services``. Every bound on size, time and number is, and that
no address takes more of the process than its share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar, TypeVarTuple

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.core.history.workloads.job_run import RUNS_PATH
from agent.core.resize.told_decisions import DECISIONS_PATH
from agent.metrics.call_result import CallKind
from agent.metrics.exposition import MetricsPage
from agent.settings.webhook_sections import ListeningSettings
from agent.webhook.admission.glance import BYTE_SECONDS, UNREAD_WORDS, Unread, glance, unchanged
from agent.webhook.admission.logged_reasons import LoggedReasons
from agent.webhook.http.access import Sender
from agent.webhook.http.address_shares import MOST_OWED_SECONDS, REQUEST_SECONDS, Shares
from agent.webhook.http.bodies import Bodies, BodyTooLarge, TooSlow
from agent.webhook.http.fair_queue import AnswerLine, FairQueue, Full
from agent.webhook.page.files import page_files

log = logging.getLogger(__name__)

MAX_QUESTION_BYTES: Final = 4096
MAX_BODIES: Final = 4
"""Posts of one sender at once: an agent has three threads that post, one request at a time."""
MAX_SCRAPES: Final = 2
RETRY_SECONDS: Final = 2.0
"""When to come again after an overload."""
JSON: Final = "application/json"
_FAILED: Final = "failed; see the webhook's log"
_TEXT: Final = "text/plain; charset=utf-8"
QUICK_SECONDS: Final = 0.001
"""What takes longer leaves the event loop: four containers or so stay on it."""
MOST_DELAY_SECONDS: Final = MOST_OWED_SECONDS / 2
"""A request waits that long at most because of its address, and an admission is given up then: API servers still hear
of it in time."""


_Made = TypeVar("_Made")
_Given = TypeVarTuple("_Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, as far as it matters."""

    path: str
    body: bytes = b""
    authorization: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    if_none_match: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Parts of the path by name."""
    sender: Sender | None = None
    """Who posts, where that was found out before the body was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def fault(status: int, text: str, *, retry_after_seconds: float | None = None, closes: bool = False) -> HttpAnswer:
    """Make the answer that says why not."""
    headers = {} if retry_after_seconds is None else {"Retry-After": str(max(1, math.ceil(retry_after_seconds)))}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if closes:
        headers["Connection"] = "close"
    return HttpAnswer(status=status, body=msgspec.json.encode({"error": text}), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What answers."""

    review: Callable[[bytes, str], bytes]
    """An AdmissionReview and its sender's address with the answer; from memory, at once, in any thread."""
    failed: Callable[[Unread], None]
    """Counts an admission that had to be answered without ``review``, and why."""
    known: Callable[[CallKind, str | None], Sender | HttpAnswer | None]
    """Who posts, by the header Authorization and from memory, or why not to let it in; None = ``entering`` has to find
    out."""
    entering: Callable[[CallKind, str | None], Sender | HttpAnswer]
    """The same; it may wait."""
    report: Callable[[Call], HttpAnswer]
    """These may wait, each in one of a few threads."""
    evictions: Callable[[Call], HttpAnswer]
    taint: Callable[[Call], HttpAnswer]
    history: Callable[[Call], HttpAnswer]
    runs: Callable[[Call], HttpAnswer]
    decisions: Callable[[Call], HttpAnswer]
    workloads: Callable[[Call], HttpAnswer]
    workload: Callable[[Call], HttpAnswer]
    forget: Callable[[Call], HttpAnswer]
    """What the path names, a workload or a node."""
    nodes: Callable[[Call], HttpAnswer]
    summary: Callable[[Call], HttpAnswer]
    events: Callable[[Call], HttpAnswer]
    policy: Callable[[Call], HttpAnswer]
    buffers: Callable[[Call], HttpAnswer]
    buffer: Callable[[Call], HttpAnswer]
    cost: Callable[[Call], HttpAnswer]
    rejected: Callable[[CallKind], None]
    """Counts a call that found no thread free."""
    page: Callable[[str, str], MetricsPage]
    """/metrics by the headers Accept and Accept-Encoding."""
    scrape_rejected: Callable[[], None]
    ready: Callable[[], tuple[bool, str]]
    """Whether it is, and one line of why (not); from memory."""
    openapi: bytes
    most_report_bytes: int


class WebhookApp:
    """The routes, as an ASGI application."""

    def __init__(self, services: Services, settings: ListeningSettings) -> None:
        self._services = services
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="worker")
        self._scrapers = ThreadPoolExecutor(MAX_SCRAPES, thread_name_prefix="scrape")
        self._under_way = 0
        # Of each its own: who sends one kind from many addresses leaves the others room in the log.
        self._logged: Final = {why: LoggedReasons(time.monotonic) for why in Unread}
        self.bodies: Final = Bodies(settings.request_seconds)
        self.shares: Final = Shares(time.monotonic, share_ratio=settings.address_share_ratio)
        self._turns, self._line = FairQueue(), AnswerLine()
        self._senders: Counter[str] = Counter()
        """Posts under way, by the node whose agent sends them."""
        self._scrapes = 0
        self._is_ending = False
        self._page = page_files()
        report, reading = services.most_report_bytes, 0
        routes = Starlette(
            routes=[
                Route("/mutate", self._mutate, methods=["POST"]),
                Route("/v1/report", self._working(CallKind.REPORT, services.report, report), methods=["POST"]),
                Route("/v1/evictions", self._working(CallKind.EVICTIONS, services.evictions, report), methods=["POST"]),
                Route("/v1/taint", self._working(CallKind.TAINT, services.taint, MAX_QUESTION_BYTES), methods=["POST"]),
                Route("/v1/history", self._working(CallKind.HISTORY, services.history, report), methods=["POST"]),
                Route(RUNS_PATH, self._working(CallKind.RUNS, services.runs, report), methods=["POST"]),
                Route(DECISIONS_PATH, self._working(CallKind.DECISIONS, services.decisions, report), methods=["POST"]),
                Route("/v1/workloads", self._working(CallKind.READING, services.workloads, reading)),
                Route(
                    "/v1/workloads/{namespace}/{kind}/{name}",
                    self._working(CallKind.READING, services.workload, reading),
                ),
                Route(
                    "/v1/workloads/{namespace}/{kind}/{name}",
                    self._working(CallKind.FORGETTING, services.forget, reading),
                    methods=["DELETE"],
                ),
                Route(
                    "/v1/nodes/{node}", self._working(CallKind.FORGETTING, services.forget, reading), methods=["DELETE"]
                ),
                Route("/v1/nodes", self._working(CallKind.READING, services.nodes, reading)),
                Route("/v1/summary", self._working(CallKind.READING, services.summary, reading)),
                Route("/v1/events", self._working(CallKind.READING, services.events, reading)),
                Route("/v1/policy", self._working(CallKind.READING, services.policy, reading)),
                Route("/v1/buffers", self._working(CallKind.READING, services.buffers, reading)),
                Route("/v1/buffers/{namespace}/{name}", self._working(CallKind.READING, services.buffer, reading)),
                Route("/v1/cost", self._working(CallKind.READING, services.cost, reading)),
                Route("/metrics", self._scrape),
                Route("/healthz", self._health),
                Route("/readyz", self._readiness),
                Route("/openapi.json", self._document),
                Route("/ui", self._to_page),
                Route("/ui/{path:path}", self._page_file),
            ],
            exception_handlers={HTTPException: _on_http, Exception: _on_fault},
        )
        self.asgi: Final[ASGIApp] = _Shared(routes, self.shares)

    def end(self) -> None:
        """Report not ready from now on; requests under way go on."""
        self._is_ending = True

    def close(self) -> None:
        """End the threads, when nothing is answered any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._scrapers.shutdown(wait=True, cancel_futures=True)
        self._turns.close()

    async def _mutate(self, request: Request) -> Response:
        body, peer = b"", _peer(request.scope)
        try:
            body = await self.bodies.review(request.stream())
            self.shares.charge(peer, len(body) * BYTE_SECONDS)
            return _response(HttpAnswer(body=await self._reviewed(body, peer)))
        except TooSlow:
            self._count_unread(Unread.SLOW, peer)
            return _response(fault(408, "the review did not arrive in time", closes=True))
        except BodyTooLarge as error:
            self.shares.charge(peer, error.size * BYTE_SECONDS)
            self._count_unread(Unread.LARGE, peer)
            return _response(HttpAnswer(body=unchanged(error.begun), headers={"Connection": "close"}))
        except _Passed as passed:
            self._count_unread(passed.why, peer)
        except ClientDisconnect:
            return _GONE
        except Exception:  # whatever is wrong in here, the pod is admitted
            log.exception("an admission failed; the pod is admitted unchanged")
            self._services.failed(Unread.ERROR)
        return _response(HttpAnswer(body=unchanged(body)))

    def _count_unread(self, why: Unread, peer: str) -> None:
        """Count a review that is answered unread, and log why, once an hour for each address."""
        self._services.failed(why)
        if self._logged[why].is_due(f"{why} from {peer}"):
            reason = UNREAD_WORDS[why]
            log.warning(
                "a review is not read and its pod admitted as it came", extra={"reason": reason, "address": peer}
            )

    async def _reviewed(self, body: bytes, peer: str) -> bytes:
        """Answer a review here, or in a thread where that takes long."""
        seen = glance(body)
        if seen.too_much is not None:
            raise _Passed(seen.too_much)
        if self.shares.owed_seconds(peer):
            raise _Passed(Unread.SHARE)
        if seen.seconds > QUICK_SECONDS:
            self.shares.charge(peer, seen.seconds)
            try:
                return await self._turns.take(peer, seen.seconds, self._measured(seen.seconds), body)
            except Full:
                raise _Passed(Unread.BUSY) from None
        begun = time.thread_time()  # what other threads use up meanwhile is not this address'
        try:
            return self._services.review(body, peer)
        finally:
            self.shares.charge(peer, time.thread_time() - begun)

    def _measured(self, charged_seconds: float) -> Callable[[bytes, str], bytes]:
        """Return how a review is answered in a thread; what that takes beyond what was charged is charged afterwards.

        Also of a client that has gone by then, so that nobody works more by not waiting for an answer.
        """
        loop = asyncio.get_running_loop()

        def review(body: bytes, peer: str) -> bytes:
            begun = time.thread_time()
            try:
                return self._services.review(body, peer)
            finally:
                more_seconds = time.thread_time() - begun - charged_seconds
                if more_seconds > 0:
                    with contextlib.suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(self.shares.charge, peer, more_seconds)

        return review

    def _working(
        self, kind: CallKind, work: Callable[[Call], HttpAnswer], most_bytes: int
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            # Before the body: what cannot be worked on need not be held in memory.
            if self._under_way >= self._settings.workers + self._settings.waiting_requests:
                self._services.rejected(kind)
                text = f"{self._under_way} requests are under way or wait"
                return _response(fault(503, text, retry_after_seconds=RETRY_SECONDS, closes=True))
            self._under_way += 1
            try:
                if kind is CallKind.READING:
                    async with self._line.turn():
                        return _response(await self._in_thread(_worked, work, _call_of(request)))
                if not most_bytes:
                    return _response(await self._in_thread(_worked, work, _call_of(request)))
                sender = await self._sender(kind, request)
                if isinstance(sender, Sender):
                    answer = await self._posted(request, sender, work, most_bytes)
            except ClientDisconnect:
                return _GONE
            finally:
                self._under_way -= 1
            if not isinstance(sender, Sender):  # its place is another's by now
                answer = sender
                await self.bodies.drain(request.stream(), self._services.most_report_bytes)
            # Of five thousand agents each comes every five minutes: a connection kept for it is memory for nothing.
            return _response(answer, closes=True)

        return handle

    async def _sender(self, kind: CallKind, request: Request) -> Sender | HttpAnswer:
        """Find out who posts before the body is read, or why not to let it in."""
        authorization = request.headers.get("authorization")
        sender = self._services.known(kind, authorization)
        if sender is None:
            sender = await self._in_thread(self._entering, kind, authorization)
        if isinstance(sender, Sender) and self._senders[sender.node] >= MAX_BODIES:
            self._services.rejected(kind)
            return fault(
                429, f"{MAX_BODIES} requests of {sender.node} are under way", retry_after_seconds=RETRY_SECONDS
            )
        return sender

    def _entering(self, kind: CallKind, authorization: str | None) -> Sender | HttpAnswer:
        try:
            return self._services.entering(kind, authorization)
        except Exception:
            log.exception("a sender could not be judged")
            return fault(500, _FAILED)

    async def _posted(
        self, request: Request, sender: Sender, work: Callable[[Call], HttpAnswer], most_bytes: int
    ) -> HttpAnswer:
        self._senders[sender.node] += 1
        try:
            body = await self.bodies.posted(request.stream(), most_bytes, request.headers.get("content-length", ""))
            return await self._in_thread(_worked, work, _call_of(request, body, sender))
        except BodyTooLarge:
            return fault(413, f"the body has more than {most_bytes} bytes", closes=True)
        except TooSlow:
            return fault(408, "the body did not arrive in time", closes=True)
        finally:
            self._senders[sender.node] -= 1
            if not self._senders[sender.node]:
                del self._senders[sender.node]

    async def _in_thread(self, work: Callable[[*_Given], _Made], *given: *_Given) -> _Made:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)

    async def _scrape(self, request: Request) -> Response:
        if self._scrapes >= MAX_SCRAPES:
            self._services.scrape_rejected()
            return _response(fault(503, f"{MAX_SCRAPES} scrapes are under way", retry_after_seconds=1.0))
        self._scrapes += 1
        try:
            headers = request.headers
            page = await asyncio.get_running_loop().run_in_executor(
                self._scrapers, self._services.page, headers.get("accept", ""), headers.get("accept-encoding", "")
            )
        except Exception:
            log.exception("no page of metrics")
            return _response(fault(500, _FAILED))
        finally:
            self._scrapes -= 1
        extra = {"Vary": "Accept, Accept-Encoding"}
        if page.content_encoding:
            extra["Content-Encoding"] = page.content_encoding
        return _response(HttpAnswer(body=page.body, content_type=page.content_type, headers=extra))

    async def _health(self, _: Request) -> Response:
        return _response(HttpAnswer(body=b"ok\n", content_type=_TEXT))

    async def _readiness(self, _: Request) -> Response:
        ready, reason = (False, "ending") if self._is_ending else self._services.ready()
        return _response(HttpAnswer(status=200 if ready else 503, body=f"{reason}\n".encode(), content_type=_TEXT))

    async def _document(self, _: Request) -> Response:
        return _response(HttpAnswer(body=self._services.openapi))

    async def _to_page(self, _: Request) -> Response:
        return _response(HttpAnswer(status=308, content_type=_TEXT, headers={"Location": "/ui/"}))

    async def _page_file(self, request: Request) -> Response:
        # From memory, and nobody's data: no token, no thread.
        answer = self._page.answer(
            request.path_params["path"],
            accept_encoding=request.headers.get("accept-encoding", ""),
            if_none_match=request.headers.get("if-none-match"),
        )
        return _response(
            HttpAnswer(status=answer.status, body=answer.body, content_type=answer.content_type, headers=answer.headers)
        )


class _Passed(Exception):  # noqa: N818
    """A review is not read."""

    def __init__(self, why: Unread) -> None:
        super().__init__()
        self.why: Final = why


class _Shared:
    """The application behind the shares: whose address used up its own waits before each request."""

    def __init__(self, app: ASGIApp, shares: Shares) -> None:
        self._app, self._shares = app, shares

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            peer = _peer(scope)
            self._shares.charge(peer, REQUEST_SECONDS)
            owed_seconds = self._shares.owed_seconds(peer)
            if owed_seconds:
                await asyncio.sleep(min(owed_seconds, MOST_DELAY_SECONDS))
        await self._app(scope, receive, send)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _worked(work: Callable[[Call], HttpAnswer], call: Call) -> HttpAnswer:
    try:
        return work(call)
    except Exception:
        log.exception("a request failed", extra={"path": call.path})
        return fault(500, _FAILED)


def _call_of(request: Request, body: bytes = b"", sender: Sender | None = None) -> Call:
    headers = request.headers
    return Call(
        # Routes go by the same; ``request.url`` is made of the header Host too, which the client chooses.
        path=request.scope["path"],
        body=body,
        authorization=headers.get("authorization"),
        content_type=headers.get("content-type"),
        content_encoding=headers.get("content-encoding"),
        if_none_match=headers.get("if-none-match"),
        query=dict(request.query_params),
        names={name: str(value) for name, value in request.path_params.items()},
        sender=sender,
    )


def _response(answer: HttpAnswer, *, closes: bool = False) -> Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **answer.headers}
    if closes:
        headers["Connection"] = "close"
    media_type = None if answer.status == 304 else answer.content_type
    return Response(answer.body, status_code=answer.status, headers=headers, media_type=media_type)


_GONE: Final = Response(status_code=400, headers={"Connection": "close"})
"""For a sender that left; nobody reads it."""


async def _on_http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    texts = {404: "not here; /openapi.json lists what there is", 405: "not allowed with this method"}
    answer = fault(error.status_code, texts.get(error.status_code, error.detail))
    response = _response(answer)
    response.headers.update(error.headers or {})
    return response


async def _on_fault(_: Request, error: Exception) -> Response:
    log.error("a request failed", exc_info=error)
    return _response(fault(500, _FAILED))

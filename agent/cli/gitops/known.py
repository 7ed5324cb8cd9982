"""What is known of workloads: asked of the webhook as it is needed, or read from a file. Face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.cli.client.webhook import PAGE, NotKnownError, WebhookReader
from agent.core.numbers.document_text import DocumentTextError, decoded, json_value
from agent.named_file import DOCUMENT_MOST_BYTES, called, read_named

if TYPE_CHECKING:
    from agent.webhook.queries.workload_bodies import WorkloadBody, WorkloadLineBody

Key = tuple[str, str, str]
"""Namespace, kind, name."""
ALLOWED: Final = "the output of plimsoll workloads -o history, or of plimsoll workloads WORKLOAD -o json"


class KnownFileError(Exception):
    """A file that cannot be used; one line."""


class KnownWorkloads:
    """Workloads by name, each with its figures when they are asked for."""

    def __init__(self, keys: Iterable[Key], body: Callable[[Key], WorkloadBody | None]) -> None:
        self._keys: Final = frozenset(keys)
        self._body: Final = body

    def of(self, namespace: str, kind: str, name: str) -> WorkloadBody | None:
        """Return what is known of a workload; None = nothing."""
        key = namespace, kind, name
        return self._body(key) if key in self._keys else None

    def namespaces_of(self, kind: str, name: str) -> list[str]:
        """Return where workloads of that kind and name are."""
        return sorted(namespace for namespace, *rest in self._keys if rest == [kind, name])


def of_webhook(client: WebhookReader, namespace: str | None = None) -> KnownWorkloads:
    """Ask the webhook; NoWebhookAnswerError = no answer came, now or at a later question."""

    def body(key: Key) -> WorkloadBody | None:
        return whole_workload(client, key)

    return KnownWorkloads(((line.namespace, line.kind, line.name) for line in all_lines(client, namespace)), body)


def all_lines(client: WebhookReader, namespace: str | None = None) -> Iterator[WorkloadLineBody]:
    """Ask for the list of workloads, page by page."""
    from agent.webhook.queries.workload_bodies import WorkloadsBody

    query = {"limit": str(PAGE), **({"namespace": namespace} if namespace else {})}
    while True:
        page, _ = client.get("/v1/workloads", WorkloadsBody, query)
        yield from page.workloads
        if page.next is None:
            return
        query["after"] = page.next


def whole_workload(client: WebhookReader, key: Key) -> WorkloadBody | None:
    """Ask for one workload; None = it was forgotten meanwhile."""
    from agent.webhook.queries.workload_bodies import WorkloadBody

    try:
        return client.get(f"/v1/workloads/{'/'.join(key)}", WorkloadBody)[0]
    except NotKnownError:
        return None


def of_file(path: Path) -> KnownWorkloads:
    """Read workloads from JSON: one as the webhook gives it, a list of them, or ``{"workloads": [...]}``.

    Raises:
        KnownFileError: It is not that.
    """
    import msgspec

    from agent.webhook.queries.workload_bodies import WorkloadBody

    try:
        document = json_value(decoded(read_named(path, most_bytes=DOCUMENT_MOST_BYTES)))
    except OSError as error:
        raise KnownFileError(f"{called(path)}: cannot be read: {error.strerror or error}") from error
    except DocumentTextError as error:
        raise KnownFileError(f"{called(path)}: {error}; allowed: {ALLOWED}") from error
    if isinstance(document, dict) and "workloads" in document:
        document = document["workloads"]
    try:
        bodies = msgspec.convert(document if isinstance(document, list) else [document], list[WorkloadBody])
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise KnownFileError(f"{called(path)}: {reason}; allowed: {ALLOWED}") from error
    known = {(body.namespace, body.kind, body.name): body for body in bodies}
    return KnownWorkloads(known, known.get)

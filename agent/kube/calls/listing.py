"""Lists, or pages of them, read item by item within a bound: how many objects there are is for others to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.kube.client.api import JSON, Api
from agent.kube.client.errors import Unreachable
from agent.kube.objects.list_stream import ListError, ListHead, read_list


def read_listing(
    api: Api,
    path: str,
    take: Callable[[object], None],
    *,
    query: Mapping[str, str],
    accept: str = JSON,
    timeout_seconds: float,
) -> ListHead:
    """Pass the items of a list to ``take`` one by one, and return what the list says of itself.

    Raises:
        TooLong: The list has more bytes than are held.
        KubeError: The server refused, or did not answer with a list; what was handed over is not to be believed.
    """
    stream = api.stream(path, query=query, accept=accept, timeout_seconds=timeout_seconds)
    try:
        text = b"".join(stream)
    finally:
        stream.close()
    try:
        return read_list(text, take)
    except ListError as error:
        raise Unreachable(f"GET {path}: {error}") from error

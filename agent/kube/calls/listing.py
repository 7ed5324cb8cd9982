"""Lists, or pages of them, read item by item within a bound: how many objects there are is for others to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agent.kube.client.api import JSON, Api
from agent.kube.client.errors import TooLong, Unreachable
from agent.kube.objects.list_stream import ListError, ListHead, read_list

PAGE_OBJECTS: Final = 1000
"""Of the first page where a list at once is too long: 32 MiB hold the metadata of some 8,000 pods."""
FEWER_OBJECTS: Final = 4
"""Where a page is too long as well, the next try asks for so many times fewer objects."""
MOST_PAGES: Final = 50
"""So nobody's objects, however many and large, take a caller's time for minutes."""


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


def read_whole_listing(
    api: Api,
    path: str,
    take: Callable[[object], None],
    *,
    query: Mapping[str, str],
    accept: str = JSON,
    timeout_seconds: float,
) -> None:
    """Pass all items of a list to ``take`` one by one: of one answer, or where that is too long to be held, of pages.

    Raises:
        TooLong: It takes more than `MOST_PAGES` pages, or one object alone is too long.
        KubeError: As ``read_listing``.
    """
    # What a server's cache has at hand comes at once; of pages servers make the newest state only.
    paged = {key: value for key, value in query.items() if key != "resourceVersion"}
    asked, page_objects = query, None
    for _ in range(MOST_PAGES):
        try:
            head = read_listing(api, path, take, query=asked, accept=accept, timeout_seconds=timeout_seconds)
        except TooLong:
            if page_objects == 1:
                raise
            page_objects = PAGE_OBJECTS if page_objects is None else max(page_objects // FEWER_OBJECTS, 1)
            paged["limit"] = str(page_objects)
        else:
            if head.next_page is None:
                return
            paged["continue"] = head.next_page
        asked = paged
    raise TooLong(f"GET {path}: a list of more than {MOST_PAGES} pages")

"""A control socket that answers as a test tells it to, for tests of verbs that ask the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agent.node.sockets.control import ControlEndpoint, Verb, open_control_listener
from agent.node.sockets.loop import ListeningLoop


@contextmanager
def answering(path: Path, verbs: Mapping[str, Verb]) -> Iterator[Path]:
    """Serve these verbs at the path, as the agent does."""
    loop = ListeningLoop([ControlEndpoint(open_control_listener(path), verbs)], read_seconds=10.0)
    loop.start()
    try:
        yield path
    finally:
        loop.close()

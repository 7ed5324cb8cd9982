"""A control socket that answers as a test tells it to, for tests of verbs that ask the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from agent.cli.client.agent import ask, ask_or_refuse
from agent.node.sockets.control import ControlEndpoint, Verb, open_control_listener, request
from agent.node.sockets.loop import ListeningLoop

PATIENCE_SECONDS: Final = 60.0
"""Of both sides, in place of the five seconds that the product gives an answer: a busy machine may take longer."""


@contextmanager
def answering(path: Path, verbs: Mapping[str, Verb]) -> Iterator[Path]:
    """Serve these verbs at the path, as the agent does."""
    endpoint = ControlEndpoint(open_control_listener(path), verbs)
    loop = ListeningLoop([endpoint], read_seconds=PATIENCE_SECONDS, write_seconds=PATIENCE_SECONDS)
    loop.start()
    with ExitStack() as stack:
        stack.callback(loop.close)
        for asking in (request, ask, ask_or_refuse):
            defaults = asking.__kwdefaults__
            assert defaults is not None
            stack.enter_context(patch.dict(defaults, timeout_seconds=PATIENCE_SECONDS))
        yield path

"""Starts the node's parts for a verb and turns what cannot start into one line and exit code 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from agent.cli.options.settings_options import fail
from agent.kube.client.errors import CredentialsError
from agent.kube.objects.pods_file import PodsFileError
from agent.node.history.file import HistoryError
from agent.node.sockets.control import ControlError
from agent.node.sockets.http import ServingError
from agent.sensing.discovery import DiscoveryError
from agent.sensing.machine import MachineError
from agent.sensing.sampler_contract import SamplerError
from agent.sensing.state_file import RingError

Part = TypeVar("Part")

_CANNOT_START = (
    MachineError,
    DiscoveryError,
    RingError,
    HistoryError,
    PodsFileError,
    CredentialsError,
    ServingError,
    ControlError,
    SamplerError,
)


@contextmanager
def started(build: Callable[[], AbstractContextManager[Part]]) -> Iterator[Part]:
    """Build and enter a part of the node; leave it in any case. What cannot start is one line on stderr and code 2."""
    try:
        context = build()
        part = context.__enter__()
    except _CANNOT_START as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot start: {error}")
    try:
        yield part
    finally:
        context.__exit__(None, None, None)

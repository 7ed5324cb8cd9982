"""For all tests: whether they pass does not depend on how quick the machine is; who shares a server shares a worker."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: what is red is red for everybody, and what is covered is covered always. `make explore`
# looks further, with --hypothesis-profile=explore: other examples each time, kept in .hypothesis where one fails.
_NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("plimsoll", _NO_CLOCK, derandomize=True)
settings.register_profile("explore", _NO_CLOCK, print_blob=True)
settings.load_profile("plimsoll")
# A shell that begins this in the background ignores SIGINT; programs would inherit that, and tests interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Take away where a verb run in the test's own process sends its log: the stream is closed after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


# Optional: the guest's pytest has no xdist.
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Give each folder to one worker as a whole, where ``--dist loadgroup`` asks for groups (`make test WORKERS=2`).

    Marks would say it too, but xdist 3.8 writes them to where pytest 9.2 does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    made: object = LoadScopeScheduling(config, log)
    setattr(made, "_split_scope", folder_of)  # noqa: B010  the one thing in which its kinds differ
    return made


def folder_of(nodeid: str) -> str:
    """Name a test's group; the largest folder is two: agents that act on a node, and all else with a control plane."""
    _, folder, file = nodeid.split("/", 2)
    return f"{folder} acting" if file.startswith("test_acting") else folder

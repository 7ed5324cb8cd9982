"""For all tests: whether they pass does not depend on how quick the machine is; who shares a server shares a worker."""

from __future__ import annotations

import contextlib
import gc
import logging
import signal
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: what is red is red for everybody. `make explore` looks further, with
# --hypothesis-profile=explore: other examples each time, kept in .hypothesis where one fails. `make unit` takes fewer.
_NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("plimsoll", _NO_CLOCK, derandomize=True)
settings.register_profile("explore", _NO_CLOCK, print_blob=True)
settings.register_profile("quick", _NO_CLOCK, derandomize=True, max_examples=10)
settings.load_profile("plimsoll")
CORE_TESTS: Final = ("tests/unit/core/", "tests/conformance/")
SHARED: Final = ("tests/chart/", "tests/guest/", "tests/image/")
"""Folders with one release on one control plane, one run of each guest, one image."""
SECONDS: Final[dict[str, int]] = {
    "tests/chart/": 540,
    "tests/image/": 180,
    "tests/cluster/test_acting_first_minute.py": 105,
    "tests/cluster/test_acting_outages.py": 100,
    "tests/cluster/test_webhook_evicting.py": 75,
    "tests/monitoring/test_live.py": 65,
    "tests/kernel/test_demo_live.py": 50,
    "tests/cluster/test_placeholders.py": 50,
    "tests/cluster/test_acting_held.py": 50,
    "tests/cluster/test_acting_node.py": 50,
    "tests/cluster/test_webhook_access.py": 50,
    "tests/cluster/test_binaries.py": 45,
    "tests/cluster/test_webhook_quota.py": 45,
    "tests/cluster/test_demo.py": 45,
    "tests/cluster/test_acting_conflicts.py": 40,
    "tests/cluster/test_buffers.py": 40,
    "tests/terminal/test_top_screen.py": 40,
    "tests/cluster/test_buffers_webhooks.py": 40,
    "tests/cluster/test_webhook_admission_orders.py": 35,
    "tests/monitoring/test_rules.py": 35,
    "tests/cluster/test_buffers_vectors.py": 35,
    "tests/cluster/test_acting_refused.py": 30,
    "tests/cluster/test_buffers_replicas.py": 30,
    "tests/cluster/test_webhook_admission.py": 25,
    "tests/cluster/test_watching.py": 25,
    "tests/terminal/test_terminal_gone.py": 20,
    "tests/kernel/test_agent_live.py": 20,
    "tests/cluster/test_acting_rights.py": 20,
    "tests/cluster/test_webhook_forgetting.py": 20,
    "tests/cluster/test_resize_refusals.py": 20,
    "tests/cluster/test_fence.py": 20,
    "tests/cluster/test_taints.py": 20,
    "tests/cluster/test_webhook_strangers.py": 20,
    "tests/kernel/test_record_live.py": 15,
    # Of the first tier
    "tests/unit/cli/test_named_files.py": 145,
    "tests/webhook/test_workloads_estimating.py": 95,
    "tests/webhook/test_tailing.py": 60,
    "tests/webhook/test_hostile_reports.py": 50,
    "tests/webhook/test_store_replicas.py": 50,
    "tests/webhook/test_arbiter.py": 45,
    "tests/webhook/test_surface.py": 40,
    "tests/webhook/test_importing.py": 35,
    "tests/webhook/test_backfill.py": 30,
    "tests/unit/core/recommender/test_bounds.py": 35,
    "tests/webhook/test_openapi_fuzz.py": 35,
    "tests/webhook/test_store_schema.py": 35,
}
"""How long the longest files and the shared folders took on two busy cores, three at a time (build/test/*.xml).

They only say what begins first; a figure that is out of date costs a wait at the end, not a test.
"""
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


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse parameters in no order: each worker would have its own, and pytest-xdist runs nothing then.

    Of two values both workers have the same order every other time, so that it would fail by chance, and elsewhere.
    """
    for mark in metafunc.definition.iter_markers("parametrize"):
        values = mark.kwargs.get("argvalues", mark.args[1] if len(mark.args) > 1 else ())
        if isinstance(values, (set, frozenset)):
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: parametrize takes a list or tuple, not a set")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by which agent/core must be covered: its own, and of those no property tests and no slow ones.

    What only a property covers is covered by the examples of one version of hypothesis and of that test's text.
    """
    for item in items:
        is_of_core = item.nodeid.startswith(CORE_TESTS)
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_of_core and not is_property and not any(item.iter_markers("slow")):
            item.add_marker("covers_core")


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of every later search for garbage."""
    gc.collect()
    gc.freeze()


# Optional: the guest's pytest has no xdist.
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Return each file to one worker as a whole, the longest first (``--dist loadfile``).

    xdist's own order is by the number of tests, and a file that takes three minutes has nine.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def _assign_work_unit(self, node: object) -> None:
            self.workqueue.move_to_end(max(self.workqueue, key=seconds_of), last=False)
            super()._assign_work_unit(node)

    scheduler: object = LongestFirst(config, log)
    return scheduler


def group_of(nodeid: str) -> str:
    """Return what goes to one worker as a whole: a file, or a folder whose tests share what is costly."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in SHARED if file.startswith(folder)), file)


def seconds_of(group: str) -> float:
    """Return about how long a group takes; groups without a figure come last, those with many tests first."""
    return float(SECONDS.get(group, 0))

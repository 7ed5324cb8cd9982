"""For all tests: whether they pass does not depend on how quick the machine is; who shares a server shares a worker."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies

# The same examples in every run: what is red is red for everybody. `make explore` looks further, with
# --hypothesis-profile=explore: other examples each time, kept in .hypothesis where one fails. `make unit` takes fewer.
_NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("plimsoll", _NO_CLOCK, derandomize=True)
settings.register_profile("explore", _NO_CLOCK, print_blob=True)
settings.register_profile("quick", _NO_CLOCK, derandomize=True, max_examples=10)
settings.load_profile("plimsoll")
CORE_TESTS: Final = ("tests/unit/core/", "tests/conformance/")
SHARED: Final = ("tests/guest/", "tests/image/")
"""Folders with one run of each guest, one image."""
SECONDS: Final[dict[str, int]] = {
    "tests/image/": 240,
    "tests/chart/test_installed.py": 138,
    "tests/chart/test_admissions_under_load.py": 124,
    "tests/cluster/test_acting_protect.py": 118,
    "tests/chart/test_retired.py": 84,
    "tests/cluster/test_vpa_objects.py": 83,
    "tests/cluster/test_acting_outages.py": 72,
    "tests/cluster/test_webhook_evicting.py": 71,
    "tests/cluster/test_demo.py": 62,
    "tests/monitoring/test_live.py": 60,
    "tests/cluster/test_acting_first_minute.py": 57,
    "tests/cluster/test_placeholders.py": 56,
    "tests/chart/test_programs.py": 46,
    "tests/cluster/test_hpa_targets.py": 43,
    "tests/cluster/test_webhook_access.py": 40,
    "tests/chart/test_fenced_webhook.py": 40,
    "tests/kernel/test_demo_live.py": 39,
    "tests/cluster/test_acting_held.py": 39,
    "tests/cluster/test_buffers_webhooks.py": 38,
    "tests/cluster/test_webhook_quota.py": 36,
    "tests/cluster/test_buffers.py": 35,
    "tests/cluster/test_buffers_vectors.py": 34,
    "tests/page/test_page.py": 30,
    "tests/cluster/test_acting_conflicts.py": 29,
    "tests/cluster/test_acting_refused.py": 26,
    "tests/cluster/test_buffers_replicas.py": 25,
    "tests/cluster/test_webhook_admission_orders.py": 25,
    "tests/cluster/test_acting_node.py": 23,
    "tests/cluster/test_acting_shares.py": 22,
    "tests/cluster/test_webhook_shares.py": 21,
    "tests/cluster/test_fence.py": 18,
    "tests/cluster/test_acting_rights.py": 18,
    "tests/cluster/test_webhook_forgetting.py": 16,
    "tests/cluster/test_acting_directed.py": 16,
    "tests/terminal/test_top_screen.py": 16,
    "tests/kernel/test_record_live.py": 15,
    "tests/kernel/test_pods_live.py": 15,
    "tests/cluster/test_webhook_strangers.py": 15,
    "tests/kernel/test_agent_live.py": 15,
    "tests/cluster/test_watching.py": 15,
    "tests/chart/test_fenced_rights.py": 15,
    "tests/cluster/test_taint_cap.py": 13,
    "tests/kernel/test_recommend_live.py": 13,
    "tests/chart/test_operator_kinds.py": 13,
    "tests/bench/test_policies.py": 12,
    "tests/cluster/test_buffers_process.py": 12,
    "tests/image/test_lock.py": 10,
    "tests/cluster/test_webhook_admission.py": 10,
    "tests/native/test_strict_build.py": 10,
    # Of the first tier
    "tests/unit/cli/test_named_files.py": 34,
    "tests/webhook/test_openapi_fuzz.py": 28,
    "tests/webhook/test_tailing.py": 23,
    "tests/webhook/test_workloads_estimating.py": 21,
    "tests/webhook/test_backfill.py": 20,
    "tests/webhook/test_forgetting_asked.py": 20,
    "tests/webhook/test_hostile_reports.py": 20,
    "tests/webhook/test_https_bounds.py": 19,
    "tests/webhook/test_surface.py": 18,
    "tests/webhook/test_store_replicas.py": 16,
    "tests/webhook/test_arbiter.py": 15,
    "tests/unit/core/recommender/plimsoll/test_plimsoll_on_traces.py": 15,
    "tests/unit/core/admission/test_admission_properties.py": 13,
    "tests/unit/node/history/test_file.py": 13,
    "tests/unit/core/plan/test_plan_odd_pods.py": 12,
    "tests/webhook/test_mcp.py": 11,
    "tests/webhook/test_store_schema.py": 11,
    "tests/unit/core/plan/test_plan_properties.py": 10,
    # Of the fast one
    "tests/unit/core/recommender/plimsoll/test_policy.py": 9,
    "tests/unit/node/reports/test_reporter.py": 8,
    "tests/unit/cli/verbs/offline/test_simulate.py": 5,
    "tests/unit/node/history/test_learner.py": 4,
    "tests/unit/cli/client/test_orders.py": 3,
    "tests/unit/core/recommender/plimsoll/test_explanation.py": 3,
    "tests/unit/kube/client/test_api.py": 3,
    "tests/unit/node/offline/test_replay.py": 3,
    "tests/unit/node/sockets/test_http.py": 3,
}
"""How long the longest files and the shared folders took on two busy cores, beside others as in make test.

They only say what begins first; a figure that is out of date costs a wait at the end, not a test.

Source: build/test/*.xml
"""
# What argparse says is English for everybody; and no catalogue is looked for at each word that a parser may say.
os.environ["LANGUAGE"] = "C"
# Control planes, Helm, kubectl and promtool, all of Go, look for garbage less often, up to this memory each: a tenth to
# a fifth of their CPU.
os.environ.setdefault("GOGC", "400")
os.environ.setdefault("GOMEMLIMIT", "768MiB")
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out of ``-m "not covers_core"`` the files of core whose tests all cover it, for each worker to collect."""
    if config.option.markexpr != "not covers_core" or not collection_path.name.startswith("test_"):
        return None
    is_of_core = os.path.relpath(collection_path, config.rootpath).startswith(CORE_TESTS)
    return True if is_of_core and not may_not_cover_core(collection_path) else None


def may_not_cover_core(file: Path) -> bool:
    """Return whether a file of core's tests names what keeps a test from covering it: hypothesis, or the mark slow."""
    text = file.read_text()
    return "hypothesis" in text or "mark.slow" in text


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by which agent/core must be covered: its own, and of those no property tests and no slow ones.

    What only a property covers is covered by the examples of one version of hypothesis and of that test's text.
    """
    others: set[Path] = set()
    for item in items:
        is_of_core = item.nodeid.startswith(CORE_TESTS)
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_of_core and not is_property and not any(item.iter_markers("slow")):
            item.add_marker("covers_core")
        elif is_of_core:
            others.add(item.path)
    unnamed = sorted(str(file) for file in others if not may_not_cover_core(file))
    if unnamed:  # they would run in neither step
        raise pytest.UsageError(f"{unnamed}: a property or slow test in a file that names neither hypothesis nor slow")


@settings(max_examples=1, database=None)
@given(strategies.none())
def _first_example(_nothing: None) -> None:
    """With its first example Hypothesis asks the collector who holds its random numbers, and warns if nobody does.

    The collector does not look among what is frozen; since Python 3.14, which tracks each dict from the start, the
    holder is there.
    """


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Search for no garbage while thousands of tests are collected, all of which stay; nor in those, later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        _first_example()
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

"""For all tests: whether they pass does not depend on how quick the machine is, nor on who else runs."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("plimsoll", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("plimsoll")

HERE: Final = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Split what `make test` runs on two workers: tests/cluster, which has one control plane, and all the rest."""
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        item.add_marker(pytest.mark.xdist_group("cluster" if folder == "cluster" else "rest"))

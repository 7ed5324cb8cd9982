"""The pods file: read again when it changes, kept when the change cannot be read."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.kube.objects.pods_file import PodsFileError
from agent.node.sampling.pods_file import NoPods, PodsFile
from tests.pods import container, pod_json

ID = "a" * 64
UNIT = UnitIdentity(
    cgroup_path=f"/kubepods/burstable/poduid-web/{ID}", kind=UnitKind.CONTAINER, pod_uid="uid-web", container_id=ID
)


def write(path: Path, name: str = "web", cpu: str = "250m") -> None:
    """Put a list of one pod in the place of what was there, as a careful writer does: by renaming."""
    pod = pod_json(
        container("app", {"cpu": cpu}),
        metadata={"name": name},
        status={"containerStatuses": [{"name": "app", "containerID": f"containerd://{ID}"}]},
    )
    replace(path, json.dumps({"kind": "List", "items": [pod]}))


def replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    # A size and a time of its own, however coarse the file system's clock is.
    os.utime(new, ns=(1, new.stat().st_mtime_ns + write_count()))
    new.rename(path)


def write_count(counter: list[int] = [0]) -> int:  # noqa: B006 - counts over all calls
    counter[0] += 1
    return counter[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pods.json"
    write(path)
    return path


def named(pods: PodsFile) -> tuple[str | None, int | None]:
    identity, resources = pods.name(UNIT)
    return identity.pod, resources.cpu_request_millicores


def test_name_gives_pod_container_and_requests(path: Path) -> None:
    pods = PodsFile(path)
    identity, resources = pods.name(UNIT)
    assert (identity.namespace, identity.pod, identity.container) == ("shop", "web", "app")
    assert resources == UnitResources(cpu_request_millicores=250)
    assert pods.age_seconds >= 0


def test_refresh_of_an_unchanged_file_is_no_news(path: Path) -> None:
    pods = PodsFile(path)
    assert not pods.refresh()


def test_refresh_takes_a_change(path: Path) -> None:
    pods = PodsFile(path)
    write(path, "web-2", "500m")
    assert pods.refresh()
    assert named(pods) == ("web-2", 500)
    assert not pods.refresh()


def test_refresh_keeps_the_names_over_a_broken_change_and_says_so_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pods = PodsFile(path)
    with caplog.at_level(logging.WARNING):
        replace(path, '{"kind": "List", "items": [')
        assert not pods.refresh()
        assert not pods.refresh()
        replace(path, '{"kind": "Lis')
        assert not pods.refresh()
    assert named(pods) == ("web", 250)
    assert len(caplog.records) == 1

    write(path, "web-3")
    assert pods.refresh()
    assert named(pods) == ("web-3", 250)
    with caplog.at_level(logging.WARNING):
        replace(path, "")
        assert not pods.refresh()
    assert len(caplog.records) == 2  # broken again is news again


def test_refresh_keeps_the_names_while_the_file_is_away(path: Path) -> None:
    pods = PodsFile(path)
    path.unlink()
    assert not pods.refresh()
    assert named(pods) == ("web", 250)
    write(path, "web-4")
    assert pods.refresh()
    assert named(pods) == ("web-4", 250)


def test_a_file_that_cannot_be_read_at_the_start_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(PodsFileError, match=r"absent\.json"):
        PodsFile(tmp_path / "absent.json")


def test_no_pods_leaves_all_as_it_is() -> None:
    pods = NoPods()
    assert pods.name(UNIT) == (UNIT, UnitResources())
    assert not pods.refresh()

"""The demo's parts that need no kernel: its pods, limits, loads and the removal of directories."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.cli.demo import load as demo_load
from agent.cli.demo.tree import (
    LOADS,
    SETTINGS,
    DemoError,
    DemoLoad,
    DemoTree,
    demo_pods,
    remove_tree,
    set_limits,
    shorter_times_note,
    wait_and_remove,
)
from agent.core.cluster.pod import QosClass
from agent.core.cluster.pod_index import PodIndex
from agent.core.cluster.qos import pod_qos_class
from agent.kube.objects.pods_file import load_pods
from agent.settings import Settings, load_settings


def ids() -> dict[tuple[str, str], tuple[str, str]]:
    return {(load.pod, load.container): (f"uid-{load.pod}", f"{n:064x}") for n, load in enumerate(LOADS)}


def test_pods_of_the_demo_are_pods_that_the_agent_takes(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_text(json.dumps(demo_pods(LOADS, ids())))
    pods = load_pods(path)
    assert [pod.name for pod in pods] == ["steady", "bursty", "contended", "throttled", "growing"]
    index = PodIndex(pods)
    for load in LOADS:
        uid, container_id = ids()[load.pod, load.container]
        pod = index.pod(uid)
        assert pod is not None
        # The class that Kubernetes would work out is the branch of the tree in which the demo puts it.
        assert pod_qos_class(pod) is load.qos
        named = index.container(container_id)
        assert named is not None
        assert (named[0].name, named[1]) == (load.pod, load.container)


def test_each_load_is_a_mode_that_the_program_has() -> None:
    for load in LOADS:
        mode, *arguments = load.load.split()
        assert callable(getattr(demo_load, mode))
        assert all(float(argument) > 0 for argument in arguments)


def test_settings_of_the_demo_leave_a_minute_for_the_first_recommendation() -> None:
    settings = load_settings(None, environment={}, overrides=SETTINGS)
    # Measured for 20 s, then evaluated at most 5 s later: 25 s, and as long again for a machine that is slow to start.
    span, interval = settings.recommend.min_span_seconds, settings.evaluate_interval_seconds
    assert 2 * (span + interval) <= 60
    # P75 of a window is one of several rates only where the window is longer than a rate.
    assert settings.windows.cpu_window_seconds >= 2 * settings.windows.rate_window_seconds
    assert span >= settings.windows.rate_window_seconds


def test_every_time_that_the_demo_shortens_is_named() -> None:
    settings = load_settings(None, environment={}, overrides=SETTINGS)
    note = shorter_times_note(settings, usual=Settings())
    assert note == (
        "demo: CPU window 30 s instead of 600 s, memory window 60 s instead of 1800 s, "
        "first recommendation after 20 s instead of 600 s, rates over 10 s instead of 60 s, "
        "evaluated every 5 s instead of 60 s"
    )
    assert note.count("instead of") == len(SETTINGS)


def test_a_time_that_was_given_as_usual_is_not_called_shorter() -> None:
    settings = load_settings(None, environment={}, overrides={**SETTINGS, "windows.cpuWindowSeconds": "600"})
    note = shorter_times_note(settings, usual=Settings())
    assert note is not None
    assert note.startswith("demo: memory window 60 s")
    assert shorter_times_note(Settings(), usual=Settings()) is None


LIMITED = DemoLoad(pod="p", container="c", qos=QosClass.GUARANTEED, load="x", cpu_limit="200m", memory_limit="64Mi")


def test_limits_are_written_where_the_controllers_are(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    set_limits(tmp_path, LIMITED)
    assert (tmp_path / "cpu.max").read_text() == "20000 100000"  # 200 millicores: a fifth of each period
    assert (tmp_path / "memory.max").read_text() == str(64 * 1024 * 1024)


def test_limits_are_left_out_where_the_controllers_are_not(tmp_path: Path) -> None:
    set_limits(tmp_path, LIMITED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("user", "aside"), [(0, ""), (1000, "; only root may (plimsoll run watches without)")], ids=["root", "person"]
)
def test_a_demo_that_may_not_make_its_cgroups_says_why_and_who_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, aside: str
) -> None:
    # Whether a directory can be made is the kernel's to say, and tests may run as either: only who asks is told here.
    monkeypatch.setattr(os, "geteuid", lambda: user)
    tree = DemoTree(tmp_path / "nix")
    with pytest.raises(DemoError) as refused, tree:
        pass
    where = tmp_path / "nix" / tree.cgroup_root.lstrip("/")
    assert str(refused.value) == f"the demo cannot make its cgroups: {where}: no such file or directory{aside}"
    assert not tree.pods_file.parent.exists()


def test_load_whose_cgroup_is_gone_ends_quietly(tmp_path: Path) -> None:
    demo_load.main([str(tmp_path / "gone"), "steady", "0.5"])


# -- the janitor -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_remove_tree_removes_all_directories_below(tmp_path: Path) -> None:
    (tmp_path / "tree/a/b/c").mkdir(parents=True)
    (tmp_path / "tree/a/d").mkdir()
    assert remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_remove_tree_of_what_is_not_there_is_done() -> None:
    assert remove_tree(Path("/plimsoll-not-there"))


def test_remove_tree_gives_up_on_what_holds_on(tmp_path: Path) -> None:
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/file").write_text("")  # a plain directory with a file in it, like a cgroup with a process
    assert not remove_tree(tmp_path / "tree", seconds=0)


def test_janitor_waits_for_the_end_of_the_pipe_then_removes_tree_and_scratch(tmp_path: Path) -> None:
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch/pods.json").write_text("{}")
    assert wait_and_remove(io.BytesIO(b""), tmp_path / "tree", tmp_path / "scratch") == 0
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

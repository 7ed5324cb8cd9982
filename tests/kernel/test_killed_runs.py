"""A test run that is killed leaves nothing: its programs end with it, its cgroups are removed by the next run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.dying import dying_with_us
from tests.kernel.agents import wait_for
from tests.kernel.cgroups import CgroupTree, remove_dead_trees, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")

REPOSITORY = Path(__file__).parents[2]
RUN = """
import signal, sys
from pathlib import Path
from tests.kernel.agents import AgentProcess
from tests.kernel.cgroups import CgroupTree
mount = Path(sys.argv[2])
with CgroupTree(mount) as tree:
    load = tree.spawn("kubepods/a")
    agent = AgentProcess(Path(sys.argv[1]), cgroup_root=f"/{mount.name}/{tree.name}")
    with agent:
        print(tree.base, load.pid, agent.pid, flush=True)
        signal.pause()
"""


@pytest.fixture
def mount(tree: CgroupTree) -> Path:
    """A directory of cgroups in which no other run, of another worker or checkout, looks for dead trees."""
    return tree.base


def is_over(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["KILL", "TERM"])
def test_a_run_that_is_killed_leaves_no_process_and_the_next_one_removes_its_cgroups(
    tmp_path: Path, mount: Path, number: signal.Signals
) -> None:
    command = dying_with_us(sys.executable, "-c", RUN, tmp_path, mount)
    run = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    with run.stdout:
        words = run.stdout.readline().split()
    try:
        base, children = Path(words[0]), [int(word) for word in words[1:]]
        with CgroupTree(mount) as other:
            assert base.name not in remove_dead_trees(mount), "it lives"
            assert base.is_dir()
            assert not any(map(is_over, children))
            run.send_signal(number)
            run.wait()
            wait_for(lambda: all(map(is_over, children)), "load and agent end with it")
            assert base.is_dir()
            assert base.name in remove_dead_trees(mount)
            assert not base.exists()
            assert other.base.is_dir()
    finally:
        run.kill()
        run.wait()


def test_a_process_that_outlived_its_run_is_ended_with_the_tree(tree: CgroupTree, mount: Path) -> None:
    stray = tree.spawn("a", "sleep")
    left = mount / f"plimsoll-test-{stray.pid}-{'0' * 8}"
    (left / "b").mkdir(parents=True)
    assert left.name not in remove_dead_trees(mount), "its process lives"
    (left / "b" / "cgroup.procs").write_text(str(stray.pid))
    renamed = mount / f"plimsoll-test-{_free_pid()}-{'1' * 8}"
    (renamed / "c").mkdir(parents=True)
    (renamed / "c" / "cgroup.procs").write_text(str(stray.pid))
    assert renamed.name in remove_dead_trees(mount)
    assert stray.wait(60) == -signal.SIGKILL
    assert not renamed.exists()
    remove_dead_trees(mount)  # its process is no more, and it may be gone already
    assert not left.exists()


def _free_pid() -> int:
    """A number that no process has, and none will have soon: the kernel gives them out in turn."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid

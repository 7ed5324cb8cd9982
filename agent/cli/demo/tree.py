"""``plimsoll run --demo``: a kubelet-like tree of real cgroups with real loads, and its certain removal.

A janitor process of its own session waits for the end of a pipe whose other end this process holds. Whatever ends this
process, Ctrl-C, SIGTERM or SIGKILL, the kernel closes the pipe, and the janitor kills the loads and removes the tree.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self

from agent.core.cluster.pod import Partition, QosClass
from agent.sensing.cgroup_path import Driver, Runtime, container_cgroup_path, pod_cgroup_path

if TYPE_CHECKING:
    from agent.settings import Settings

MIB: Final = 1024 * 1024
_LOAD_PROGRAM: Final = Path(__file__).with_name("load.py")
REMOVAL_SECONDS: Final = 10.0
"""How long the janitor tries; processes killed by the kernel leave their cgroup within milliseconds."""

SETTINGS: Final = {
    "windows.cpuWindowSeconds": 30.0,  # three rounds of the bursty load
    "windows.rateWindowSeconds": 10.0,  # one round of it
    "windows.memoryWindowSeconds": 60.0,  # the least that is allowed
    "recommend.minSpanSeconds": 20.0,
    "evaluateIntervalSeconds": 5.0,
}
"""Recommendations begin within half a minute, and may fall once the first whole minute is known."""


class DemoError(Exception):
    """The demo cannot be set up here; the message says why and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoLoad:
    """One container of the demo."""

    pod: str
    container: str
    qos: QosClass
    load: str
    """A mode of ``agent.cli.demo.load``, with its arguments."""
    cpu_request: str | None = None
    cpu_limit: str | None = None
    memory_request: str | None = None
    memory_limit: str | None = None


LOADS: Final = (
    DemoLoad(
        pod="steady", container="web", qos=QosClass.BURSTABLE, load="steady 0.15", cpu_request="150m",
        memory_request="64Mi",
    ),
    DemoLoad(
        pod="bursty", container="batch", qos=QosClass.BURSTABLE, load="bursty 2 8", cpu_request="100m",
        memory_request="64Mi",
    ),
    DemoLoad(
        pod="contended", container="left", qos=QosClass.BURSTABLE, load="pinned 0.9", cpu_request="500m",
        memory_request="32Mi",
    ),
    DemoLoad(
        pod="contended", container="right", qos=QosClass.BURSTABLE, load="pinned 0.9", cpu_request="250m",
        memory_request="32Mi",
    ),
    DemoLoad(
        pod="throttled", container="api", qos=QosClass.GUARANTEED, load="steady 0.5", cpu_request="200m",
        cpu_limit="200m", memory_request="64Mi", memory_limit="64Mi",
    ),
    DemoLoad(
        pod="growing", container="cache", qos=QosClass.BEST_EFFORT, load="growing 2 256",
    ),
)  # fmt: skip


def demo_pods(loads: tuple[DemoLoad, ...], ids: dict[tuple[str, str], tuple[str, str]]) -> dict[str, object]:
    """Return the pods as ``kubectl get pods -o json`` has them; ids: (pod, container) -> (pod uid, container id)."""
    items: list[dict[str, object]] = []
    for pod in dict.fromkeys(load.pod for load in loads):
        members = [load for load in loads if load.pod == pod]
        items.append(
            {
                "metadata": {"name": pod, "namespace": "demo", "uid": ids[pod, members[0].container][0]},
                "spec": {
                    "containers": [
                        {
                            "name": load.container,
                            "resources": {
                                "requests": _quantities(load.cpu_request, load.memory_request),
                                "limits": _quantities(load.cpu_limit, load.memory_limit),
                            },
                        }
                        for load in members
                    ]
                },
                "status": {
                    "phase": "Running",
                    "qosClass": str(members[0].qos),
                    "containerStatuses": [
                        {"name": load.container, "containerID": "containerd://" + ids[pod, load.container][1]}
                        for load in members
                    ],
                },
            }
        )
    return {"apiVersion": "v1", "kind": "List", "items": items}


def shorter_times_note(settings: Settings, *, usual: Settings) -> str | None:
    """Return the sentence that names every time that is shorter in the demo than usual; None = there is none."""
    times = (
        ("CPU window", settings.windows.cpu_window_seconds, usual.windows.cpu_window_seconds),
        ("memory window", settings.windows.memory_window_seconds, usual.windows.memory_window_seconds),
        ("first recommendation after", settings.recommend.min_span_seconds, usual.recommend.min_span_seconds),
        ("rates over", settings.windows.rate_window_seconds, usual.windows.rate_window_seconds),
        ("evaluated every", settings.evaluate_interval_seconds, usual.evaluate_interval_seconds),
    )
    shorter = [f"{name} {now:g} s instead of {default:g} s" for name, now, default in times if now < default]
    return f"demo: {', '.join(shorter)}" if shorter else None


def _quantities(cpu: str | None, memory: str | None) -> dict[str, str]:
    return {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}


class DemoTree:
    """The tree, its loads and its janitor; a context manager that leaves nothing behind."""

    def __init__(self, mount: Path, loads: tuple[DemoLoad, ...] = LOADS) -> None:
        # Not the pid alone: another container with the same mount may have the same, and would lose its tree to us.
        self.cgroup_root = f"/plimsoll-demo-{os.getpid()}-{secrets.token_hex(4)}"
        self._mount, self._loads = mount, loads
        self._directory = mount / self.cgroup_root.lstrip("/")
        self._scratch = Path(tempfile.mkdtemp(prefix="plimsoll-demo-"))
        self.pods_file = self._scratch / "pods.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._janitor: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            undone.callback(self.close)
            try:
                # First the janitor: from the first directory on there is someone who removes it.
                self._janitor = subprocess.Popen(
                    [sys.executable, "-m", "agent.cli.demo.tree", str(self._directory), str(self._scratch)],
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                )
                self._directory.mkdir()
                self._build()
            except OSError as error:
                why = f"{error.filename or self._directory}: {(error.strerror or type(error).__name__).lower()}"
                as_root = "" if os.geteuid() == 0 else "; only root may (plimsoll run watches without)"
                raise DemoError(f"the demo cannot make its cgroups: {why}{as_root}") from error
            undone.pop_all()
        return self

    def _build(self) -> None:
        ids: dict[tuple[str, str], tuple[str, str]] = {}
        uids = {pod: _uid(number) for number, pod in enumerate(dict.fromkeys(load.pod for load in self._loads))}
        for number, load in enumerate(self._loads):
            uid, container_id = uids[load.pod], f"{number + 1:064x}"
            ids[load.pod, load.container] = (uid, container_id)
            pod_path = pod_cgroup_path(
                driver=Driver.CGROUPFS,
                cgroup_root=self.cgroup_root,
                partition=Partition.DEFAULT,
                qos=load.qos,
                pod_uid=uid,
            )
            path = container_cgroup_path(
                driver=Driver.CGROUPFS,
                runtime=Runtime.CONTAINERD,
                cgroup_root=self.cgroup_root,
                partition=Partition.DEFAULT,
                qos=load.qos,
                pod_uid=uid,
                container_id=container_id,
            )
            self._make(path)
            for limited in (pod_path, path):  # as kubelet and runtime do; the kernel counts throttling where cpu.max is
                set_limits(self._mount / limited.lstrip("/"), load)
            self._spawn(self._mount / path.lstrip("/"), load)
        self.pods_file.write_text(json.dumps(demo_pods(self._loads, ids), indent=2))

    def _make(self, path: str) -> None:
        """Make every level with the controllers this hierarchy has, as the kubelet does."""
        here = self._mount
        for part in path.strip("/").split("/"):
            _enable_controllers(here)
            here /= part
            here.mkdir(exist_ok=True)

    def _spawn(self, directory: Path, load: DemoLoad) -> None:
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-S", "-E", str(_LOAD_PROGRAM), str(directory), *load.load.split()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def close(self) -> None:
        """Make the janitor remove everything, and wait for it."""
        if self._janitor is not None and self._janitor.stdin is not None:
            self._janitor.stdin.close()
            self._janitor.wait()
            self._janitor = None
        shutil.rmtree(self._scratch, ignore_errors=True)
        for process in self._processes:
            process.kill()  # also one that had not yet entered its cgroup
            process.wait()
        self._processes.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number + 1:012d}"


def _enable_controllers(directory: Path) -> None:
    available = (directory / "cgroup.controllers").read_text().split()
    for controller in ("cpu", "memory"):
        if controller in available:
            # Refused where processes live in an inner cgroup (a delegated root): the demo then has fewer signals.
            with contextlib.suppress(OSError):
                (directory / "cgroup.subtree_control").write_text(f"+{controller}")


def set_limits(directory: Path, load: DemoLoad) -> None:
    """Write a load's limits into a cgroup, as far as its controllers are there."""
    if load.cpu_limit is not None and (directory / "cpu.max").exists():
        millicores = int(load.cpu_limit.removesuffix("m"))
        (directory / "cpu.max").write_text(f"{millicores * 100} 100000")
    if load.memory_limit is not None and (directory / "memory.max").exists():
        (directory / "memory.max").write_text(str(int(load.memory_limit.removesuffix("Mi")) * MIB))


# -- the janitor's side ------------------------------------------------------------------------------------------------


def remove_tree(directory: Path, *, seconds: float = REMOVAL_SECONDS) -> bool:
    """Kill every process below a cgroup and remove it with all its children; False = something held on."""
    deadline = time.monotonic() + seconds
    while directory.exists():
        _kill_all(directory)
        for path in sorted((path for path in directory.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):  # still populated: tried again until the deadline
                path.rmdir()
        with contextlib.suppress(OSError):
            directory.rmdir()
        if time.monotonic() > deadline:
            return not directory.exists()
        time.sleep(0.01)
    return True


def _kill_all(directory: Path) -> None:
    try:
        switch = os.open(directory / "cgroup.kill", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(switch, b"1")
        finally:
            os.close(switch)
    except OSError:
        # Kernels before 5.14 have no cgroup.kill.
        for procs in directory.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                for pid in procs.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)


def wait_and_remove(held: IO[bytes], directory: Path, scratch: Path) -> int:
    """Wait until the other end of ``held`` is closed, then remove the tree and the scratch directory."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # its one task is to outlive whoever gets these
    held.read()
    done = remove_tree(directory)
    if not done:
        print(f"plimsoll: {directory} could not be removed: something still runs in it", file=sys.stderr)
    shutil.rmtree(scratch, ignore_errors=True)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(wait_and_remove(sys.stdin.buffer, Path(sys.argv[1]), Path(sys.argv[2])))

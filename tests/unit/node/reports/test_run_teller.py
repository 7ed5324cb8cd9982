"""Runs as a node tells of them: from containers that went, with what their pod says of the end."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.pod import Pod
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.history.workloads.job_run import JobRun, RunFigures
from agent.core.window.policy import WindowPolicy
from agent.node.reports.client import WebhookAnswer, WebhookAway
from agent.node.reports.patient_posts import REFUSED_SECONDS
from agent.node.reports.run_teller import (
    AGAIN_SECONDS,
    EXIT_SECONDS,
    OLDEST_SECONDS,
    POST_SECONDS,
    UNKNOWN_SECONDS,
    RunTeller,
)
from agent.node.reports.runs_file import RunsFile, WaitingRun
from agent.node.reports.starts import EndedStart
from agent.node.sampling.run_ends import UNKNOWN_NS, YOUNG_NS, RunEnds, newest_within
from agent.node.sampling.unit_table import WatchedUnit
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from tests.pods import container, make_pod
from tests.window_rows import NS, memory, sample

MIB = 1 << 20
JOB = {"kind": "Job", "name": "report-29923320", "uid": "job", "controller": True}
CREATED = "2026-11-23T02:00:00Z"
POD = "kubepods/podu1"


def status(**fields: Any) -> dict[str, Any]:
    terminated = {"exitCode": 0, "reason": "Completed", **fields}
    return of_container({"terminated": terminated})


def of_container(state: dict[str, Any]) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "app", "containerID": "containerd://c1", "state": state}]}


RUNNING = of_container({"running": {"startedAt": CREATED}})
"""What the kubelet told last, where it has not told of the end."""


def run_pod(*further: Any, status: Any = None, uid: str = "u1") -> Pod:
    metadata = {"name": "report-x", "uid": uid, "creationTimestamp": CREATED, "ownerReferences": [JOB]}
    limited = container("app", {"memory": "64Mi"}, {"memory": "400Mi"})
    return make_pod(limited, *further, metadata=metadata, status=status)


class Poster:
    """Answers as a test wants it."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.status = 200

    def post(self, path: str, text: str) -> WebhookAnswer:
        assert path == "/v1/runs"
        if not self.status:
            raise WebhookAway("no answer")
        self.bodies.append(json.loads(text))
        body = b'{"taken": 0, "refused": [{"row": 0, "reason": "why"}]}'
        return WebhookAnswer(status=self.status, body=body, retry_after_seconds=None)

    def close(self) -> None:
        """Nothing is open."""

    @property
    def runs(self) -> list[Any]:
        return [run for body in self.bodies for run in body["runs"]]


class World:
    """A node whose cgroups are files, so that the moment of each reading is the test's."""

    def __init__(self, mount: Path) -> None:
        self.mount, self.now_ns = mount, 1000 * NS
        self.rings = RingFile.open(None, RingGeometry(max_slots=4), boot_id="boot")
        self.ends = RunEnds(mount=mount, rings=self.rings, clock_ns=lambda: self.now_ns)
        self.pods: list[Pod] = [run_pod()]
        self.poster = Poster()
        (mount / POD).mkdir(parents=True)
        self.begin_anew()

    def begin_anew(self) -> None:
        """The agent's start."""
        self.teller = RunTeller(
            ends=self.ends,
            node="node-1",
            pods=lambda: self.pods,
            policy=lambda: WindowPolicy(capacity_millicores=4000),
            poster=self.poster,  # type: ignore[arg-type]
            file=RunsFile(self.mount / "runs", "boot"),
        )

    def wait(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS)
        self.teller.turn()

    def begin(
        self, *, is_new: bool = True, name: str | None = None, kind: UnitKind = UnitKind.CONTAINER
    ) -> WatchedUnit:
        path = f"{POD}/c1"
        (self.mount / path).mkdir(exist_ok=True)
        self.peak(5 * MIB)
        unit = WatchedUnit(
            slot=self.rings.attach(path, 7, now_monotonic_ns=1),
            inode=7,
            identity=UnitIdentity(cgroup_path=f"/{path}", kind=kind, pod_uid="u1", container_id="c1"),
            resources=UnitResources(),
        )
        self.ends.came(unit, is_new=is_new)
        return unit

    def peak(self, amount: int, path: str = f"{POD}/c1") -> None:
        (self.mount / path / "memory.peak").write_text(f"{amount}\n")

    def end(self, unit: WatchedUnit) -> None:
        self.ends.went(unit)
        self.rings.release(unit.slot)

    def run(self, seconds: float = 3.0, peak_mib: int = 300) -> None:
        """One run from its beginning to its end."""
        unit = self.begin()
        self.now_ns += round(seconds * NS)
        self.peak(peak_mib * MIB)
        self.ends.look()
        self.end(unit)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_run_is_told_when_its_exit_is_known(world: World) -> None:
    world.run()
    world.wait(0.1)
    assert world.poster.runs == []
    world.pods = [run_pod(status=status())]
    world.wait(0.9)
    [body] = world.poster.bodies
    assert body["node"] == "node-1"
    [run] = body["runs"]
    assert (run["kind"], run["workload"], run["pod"]) == ("CronJob", "report", "report-x")
    assert (run["container"], run["pod"], run["podUid"]) == ("app", "report-x", "u1")
    assert (run["durationSeconds"], run["endedAgeSeconds"], run["exitCode"]) == (3.0, 1.0, 0)
    assert run["memoryPeakBytes"] == run["memoryNeedBytes"] == 300 * MIB
    world.now_ns += 119 * NS
    report = Workload(namespace="shop", kind="CronJob", name="report")
    said = "report-29923320, ended 2 min ago: took 3 s, memory 300MiB, exit 0"
    assert world.teller.last_of(report, "app") == (said,)
    assert world.teller.last_of(report, "other") == ()
    world.wait(POST_SECONDS)
    assert len(world.poster.bodies) == 1


def test_a_container_that_no_status_names_at_its_beginning_is_a_run_all_the_same(world: World) -> None:
    # The API has the pod long before its container: until a status names it, it is taken for the pod's sandbox.
    unit = world.begin(kind=UnitKind.SANDBOX)
    world.now_ns += 3 * NS
    world.peak(300 * MIB)
    world.end(unit)
    world.pods = [run_pod(status=status())]
    world.wait(1.0)
    [run] = world.poster.runs
    assert (run["container"], run["memoryPeakBytes"]) == ("app", 300 * MIB)


def test_a_run_shorter_than_any_reading_has_what_its_pod_kept(world: World) -> None:
    unit = world.begin()
    world.now_ns += NS // 5
    (world.mount / POD / "cpu.stat").write_text("usage_usec 120000\n")
    world.peak(200 * MIB, POD)
    world.end(unit)
    world.pods = [run_pod(status=status())]
    world.wait(1.0)
    [run] = world.poster.runs
    assert (run["durationSeconds"], run["cpuSeconds"], run["memoryPeakBytes"]) == (0.2, 0.12, 200 * MIB)
    assert run["cpuMeanMillicores"] == 600.0


def test_of_a_pod_of_several_containers_the_pods_own_figures_are_nobodys(world: World) -> None:
    world.pods = [run_pod(container("other"), status=status())]
    world.peak(900 * MIB, POD)
    world.run()
    world.wait(1.0)
    assert world.poster.runs[0]["memoryPeakBytes"] == 300 * MIB


def test_readings_of_the_rings_count(world: World) -> None:
    unit = world.begin()
    for second in range(1, 13):
        world.now_ns += NS
        world.rings.append_raw(unit.slot, sample(world.now_ns / NS, second * 500_000))
    world.end(unit)
    world.pods = [run_pod(status=status())]
    world.wait(1.0)
    [run] = world.poster.runs
    assert (run["cpuSeconds"], run["cpuP75Millicores"], run["cpuMeanMillicores"]) == (6.0, 500.0, 500.0)


@pytest.mark.parametrize("known_mib", [None, 380])
def test_a_killed_run_tells_what_was_too_little(world: World, known_mib: int | None) -> None:
    unit = world.begin()
    world.now_ns += NS
    world.end(unit)
    if known_mib is not None:
        world.teller.killed(unit.identity, memory_bytes=known_mib * MIB, monotonic_ns=world.now_ns + NS)
        world.pods = [run_pod(status=RUNNING)]
        world.wait(0.0)
        world.wait(EXIT_SECONDS + 0.1)  # the kubelet has not told: the kernel did
    else:
        world.pods = [run_pod(status=status(exitCode=137, reason="OOMKilled"))]
        world.wait(1.0)
    [run] = world.poster.runs
    assert run["memoryAtKillBytes"] == (known_mib or 400) * MIB
    assert run["exitCode"] == 137
    assert "memoryNeedBytes" not in run


def test_a_kill_of_another_run_is_not_this_ones(world: World) -> None:
    unit = world.begin()
    world.teller.killed(unit.identity, memory_bytes=1, monotonic_ns=world.now_ns - NS)
    world.teller.killed(UnitIdentity(cgroup_path="/x", kind=UnitKind.OTHER), memory_bytes=1, monotonic_ns=world.now_ns)
    world.end(unit)
    world.pods = [run_pod(status=RUNNING)]
    world.wait(0.0)
    world.wait(EXIT_SECONDS + 0.1)
    assert "memoryAtKillBytes" not in world.poster.runs[0]


def test_a_container_that_no_pod_names_is_forgotten(world: World) -> None:
    world.pods = [make_pod(container("app"))]
    world.run()
    world.wait(0.0)
    world.wait(UNKNOWN_SECONDS)
    world.pods = [run_pod(status=status())]
    world.wait(1.0)
    assert world.poster.bodies == []


def test_a_pod_that_went_is_remembered(world: World) -> None:
    world.pods = [run_pod(status=status())]
    world.wait(1.0)
    world.pods = []
    world.run()
    world.wait(1.0)
    assert len(world.poster.runs) == 1


def test_starts_are_told_in_the_same_posts(world: World) -> None:
    figures = RunFigures(duration_seconds=70.0, cpu_seconds=30.0, cpu_largest_millicores=1800.0)
    metadata = {"name": "web-x", "uid": "u2", "ownerReferences": [{**JOB, "kind": "StatefulSet", "name": "web"}]}
    start = EndedStart(pod=make_pod(container("app"), metadata=metadata), container="app", figures=figures, ended_ns=0)
    started = [[start], []]

    class Starts:
        def ended(self, now_ns: int) -> list[EndedStart]:
            return started.pop(0)

        def used(self, uid: str, container: str) -> RunFigures | None:
            return figures if (uid, container) == ("u2", "app") else None

    assert world.teller.start_used("u2", "app") is None
    world.teller._starts = Starts()  # type: ignore[assignment]
    assert world.teller.start_used("u2", "app") is figures
    world.teller.turn()
    [run] = world.poster.runs
    assert {name: run[name] for name in ("kind", "workload", "container", "pod", "podUid", "start")} == {
        "kind": "StatefulSet",
        "workload": "web",
        "container": "app",
        "pod": "web-x",
        "podUid": "u2",
        "start": True,
    }
    assert (run["durationSeconds"], run["cpuLargestMillicores"]) == (70.0, 1800.0)


def test_what_is_not_taken_is_told_again_later(world: World) -> None:
    world.pods = [run_pod(status=status())]
    world.poster.status = 0
    world.run()
    world.wait(0.5)
    world.poster.status = 503
    world.wait(AGAIN_SECONDS)
    world.poster.status = 200
    world.wait(2 * AGAIN_SECONDS - 0.1)
    assert len(world.poster.runs) == 1
    world.wait(0.2)
    assert len(world.poster.runs) == 2
    assert world.poster.runs[1]["endedAgeSeconds"] == pytest.approx(0.5 + 3 * AGAIN_SECONDS + 0.1)


def test_a_webhook_that_knows_no_runs_is_left_alone(world: World) -> None:
    world.pods = [run_pod(status=status())]
    world.poster.status = 404
    world.run()
    world.wait(0.5)
    world.run()
    world.wait(REFUSED_SECONDS - 10)
    assert len(world.poster.bodies) == 1
    world.wait(20)
    assert len(world.poster.bodies) == 2


def test_what_was_not_told_before_the_agents_end_is_told_after_its_start(world: World) -> None:
    world.pods = [run_pod(status=status())]
    world.poster.status = 0
    world.run()
    world.wait(0.5)  # nobody takes it
    world.run()
    world.teller.stop()  # and of this one nobody was told
    world.poster.status = 200
    world.begin_anew()
    world.wait(7.0)
    assert [run["endedAgeSeconds"] for run in world.poster.runs] == [10.5, 7.0]
    assert not (world.mount / "runs").exists()


def test_an_agent_that_is_killed_while_it_tells_leaves_what_it_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pods = [run_pod(status=status())]
    rows: list[int] = []

    def hang(path: str, text: str) -> WebhookAnswer:
        rows.append(len(RunsFile(world.mount / "runs", "boot").read()))
        raise WebhookAway("no answer")

    monkeypatch.setattr(world.poster, "post", hang)
    world.run()
    world.wait(0.5)
    assert rows == [1]


def test_a_run_that_ended_while_no_agent_looked_is_told_once_pods_are_known(world: World) -> None:
    unit = world.begin()
    for second in range(1, 13):
        world.now_ns += NS
        world.rings.append_raw(unit.slot, sample(world.now_ns / NS, second * 500_000))
    world.rings.append_memory(unit.slot, memory(world.now_ns / NS, set_peak=300 * MIB, lifetime_peak=300 * MIB))
    world.ends = RunEnds(mount=world.mount, rings=world.rings, clock_ns=lambda: world.now_ns)
    world.pods = []
    world.begin_anew()
    world.now_ns += 60 * NS
    world.ends.left(f"/{POD}/c1", unit.slot)  # nothing of Kubernetes' by its name
    path = "kubepods/burstable/podaaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee/" + "c" * 64
    world.ends.left(f"/{path}", unit.slot)
    world.wait(UNKNOWN_SECONDS + 1)
    ended = status()
    ended["containerStatuses"][0]["containerID"] = "containerd://" + "c" * 64
    world.pods = [run_pod(status=ended, uid="aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")]
    world.wait(1.0)
    [run] = world.poster.runs
    assert (run["durationSeconds"], run["cpuSeconds"], run["memoryPeakBytes"]) == (11.0, 5.5, 300 * MIB)
    assert run["endedAgeSeconds"] == 60 + UNKNOWN_SECONDS + 2


@pytest.mark.parametrize("text", ["", "{", '{"format": "plimsoll-runs", "version": 99}'])
def test_runs_that_are_not_understood_are_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs").write_text(text)
    file = RunsFile(tmp_path / "runs", "boot")
    assert file.read() == ()
    file.keep(())
    assert not (tmp_path / "runs").exists()


def test_runs_of_another_boot_are_passed_over_and_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    workload = Workload(namespace="shop", kind="CronJob", name="report")
    row = JobRun(workload=workload, container="app", run="r", ended_unix_seconds=0.0, duration_seconds=3.0)
    runs = (WaitingRun(pod="report-x", pod_uid="u1", ended_ns=5, row=row),)
    RunsFile(tmp_path / "runs", "boot").keep(runs)
    assert RunsFile(tmp_path / "runs", "boot").read() == runs
    assert RunsFile(tmp_path / "runs", "other").read() == ()
    RunsFile(tmp_path / "missing" / "runs", "boot").keep(runs)
    memory = RunsFile(None, "boot")
    memory.keep(runs)
    assert memory.read() == ()


def test_what_could_not_be_told_for_hours_is_forgotten(world: World) -> None:
    world.pods = [run_pod(status=status())]
    world.poster.status = 0
    world.run()
    world.wait(0.5)
    world.poster.status = 200
    world.wait(OLDEST_SECONDS + 1)
    assert world.poster.bodies == []


def open_below(folder: Path) -> int:
    """Return how many files below a folder are open: others come and go, as what an earlier test left is collected."""
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself, or it was closed meanwhile
            links.append(str(descriptor.readlink()))
    return sum(link.startswith(f"{folder}/") for link in links)


def test_files_of_the_young_alone_are_open(world: World) -> None:
    assert open_below(world.mount) == 0
    unit = world.begin()
    assert open_below(world.mount) == 1
    world.now_ns += YOUNG_NS
    world.peak(9 * MIB)
    world.ends.look()
    assert open_below(world.mount) == 0
    world.ends.run_pods = frozenset({"u1"})
    world.end(unit)
    [ended] = world.ends.take()
    assert (ended.memory_peak_bytes, ended.is_from_beginning) == (9 * MIB, True)
    world.begin()
    world.begin()  # made anew under its name: the old one's file is closed
    assert open_below(world.mount) == 1
    world.ends.close()
    assert open_below(world.mount) == 0


def test_of_containers_that_are_no_runs_nothing_is_kept(world: World) -> None:
    old, other = world.begin(is_new=False), world.begin(kind=UnitKind.OTHER)
    world.now_ns += UNKNOWN_NS
    world.end(old)
    world.end(other)
    assert world.ends.take() == []


def test_what_waits_takes_no_more_memory_than_is_allowed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.pods = [run_pod(status=RUNNING)]
    world.run()
    [ended_container] = world.ends.take()
    for most, count in ((3 * ended_container.size_bytes, 3), (ended_container.size_bytes - 1, 0)):
        monkeypatch.setattr("agent.node.sampling.run_ends.MOST_BYTES", most)
        for _ in range(5):
            world.run()
        assert len(world.ends.take()) == count
    assert newest_within([1, 2, 3], lambda _: 1, 3) == [1, 2, 3]


def test_a_slot_that_is_anothers_tells_nothing(world: World) -> None:
    unit = world.begin()
    world.rings.release(unit.slot)
    world.rings.attach("kubepods/podu2/c2", 8, now_monotonic_ns=2)
    world.ends.went(unit)
    assert world.ends.take() == []

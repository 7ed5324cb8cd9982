"""Discovery on trees of plain directories, with a watcher that tests speak through.

inotify itself, and cgroups that come and go, are in tests/kernel/test_discovery_live.py.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path

import pytest

from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitKind
from agent.sensing.cgroup_path import Driver
from agent.sensing.discovery import SCAN_DEPTH, Discovery, DiscoveryError, UnitScope
from agent.sensing.inotify import (
    IN_CREATE,
    IN_DELETE,
    IN_IGNORED,
    IN_ISDIR,
    IN_MODIFY,
    IN_Q_OVERFLOW,
    Inotify,
    WatchEvent,
    parse_events,
)

A, B, C = "a" * 64, "b" * 64, "c" * 64
UID_A, UID_B = "0b1d8f52-3f0c-4a64-8d0b-6a1a5d1f6c01", "17c7e9e4-9f43-4c0b-a1cb-0f6f1c0a7e02"
POD_A, POD_B = f"kubepods/burstable/pod{UID_A}", f"kubepods/pod{UID_B}"


class FakeWatcher(Inotify):
    """A watcher whose events the test makes up; watches are known by path."""

    def __init__(self, *, room: int = 10_000) -> None:
        self.room = room
        self.numbers: dict[str, int] = {}
        self.events: list[WatchEvent] = []
        self.is_closed = False

    def fileno(self) -> int:
        return 99

    def watch_directory(self, path: str) -> int:
        if not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return self._add(path)

    def watch_file(self, path: str) -> int:
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return self._add(path)

    def unwatch(self, watch: int) -> None:
        self.numbers = {path: number for path, number in self.numbers.items() if number != watch}

    def read(self) -> list[WatchEvent]:
        events, self.events = self.events, []
        return events

    def close(self) -> None:
        self.is_closed = True

    def tell(self, path: Path, mask: int) -> None:
        """Say that a directory came or went, as the watch of its parent would."""
        self.events.append(WatchEvent(self.numbers[str(path.parent).rstrip("/")], mask | IN_ISDIR, path.name))

    def _add(self, path: str, mask: int = 0) -> int:
        path = path.rstrip("/")
        if path not in self.numbers and len(self.numbers) >= self.room:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        return self.numbers.setdefault(path, max(self.numbers.values(), default=0) + 1)


def make(root: Path, *paths: str, procs: str | None = None) -> None:
    for path in paths:
        (root / path).mkdir(parents=True, exist_ok=True)
        if procs is not None:
            (root / path / "cgroup.procs").write_text(procs)


def discover(root: Path, watcher: FakeWatcher | None = None, **settings: object) -> Discovery:
    chosen = watcher or FakeWatcher()
    return Discovery(root, open_watcher=lambda: chosen, **settings)  # type: ignore[arg-type]


def paths_of(discovery: Discovery) -> list[str]:
    return [unit.path for unit in discovery.units()]


def test_kubernetes_scope_takes_containers_of_pods_only(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{B}/nested/{C}", f"{POD_A}/{A}", f"{POD_A}/crio-conmon-{A}", f"{POD_A}/mygroup")
    make(tmp_path, f"{POD_B}/{C}", "system.slice/ssh.service", "kubepods/besteffort")
    discovery = discover(tmp_path)

    changes = discovery.relist("start")

    assert [unit.path for unit in changes.appeared] == [f"/{POD_A}/{A}", f"/{POD_A}/{B}", f"/{POD_B}/{C}"]
    assert changes.trigger == "start"
    assert changes.scope_changed
    first = changes.appeared[0]
    assert first.inode == (tmp_path / POD_A / A).stat().st_ino
    assert (first.identity.pod_uid, first.identity.qos) == (UID_A, QosClass.BURSTABLE)
    assert discovery.scope_in_force is UnitScope.KUBERNETES
    assert discovery.kubepods_root == "/kubepods"
    assert discovery.driver is Driver.CGROUPFS
    assert discovery.pod_paths() == {UID_A: f"/{POD_A}", UID_B: f"/{POD_B}"}
    assert discovery.relists == {"start": 1}


def test_kubernetes_scope_finds_kind_below_a_docker_scope(tmp_path: Path) -> None:
    root = f"system.slice/docker-{C}.scope/kubelet.slice/kubelet-kubepods.slice"
    pod = f"{root}/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{UID_A.replace('-', '_')}.slice"
    make(tmp_path, f"{pod}/cri-containerd-{A}.scope/init.scope")
    discovery = discover(tmp_path)
    discovery.relist("start")
    assert paths_of(discovery) == [f"/{pod}/cri-containerd-{A}.scope"]
    assert discovery.kubepods_root == f"/{root}"
    assert discovery.driver is Driver.SYSTEMD


def test_kubernetes_scope_finds_containers_beside_their_pods_when_drivers_differ(tmp_path: Path) -> None:
    colon = f"system.slice/containerd.service/kubepods-burstable-pod{UID_A}.slice:cri-containerd:{A}"
    make(tmp_path, colon, "kubepods.slice/kubepods-burstable.slice")
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    discovery.relist("start")
    assert paths_of(discovery) == [f"/{colon}"]
    # Their parent is watched, so that the next one is told at once.
    make(tmp_path, colon.replace(A, B))
    watcher.tell(tmp_path / colon.replace(A, B), IN_CREATE)
    assert [unit.path for unit in discovery.poll().appeared] == [f"/{colon.replace(A, B)}"]


def test_cgroup_root_narrows_what_is_seen(tmp_path: Path) -> None:
    make(tmp_path, f"inner/{POD_A}/{A}", f"{POD_B}/{B}")
    discovery = discover(tmp_path, cgroup_root="/inner")
    discovery.relist("start")
    assert paths_of(discovery) == [f"/inner/{POD_A}/{A}"]


def test_cgroup_root_may_be_given_before_systemd_unfolds_it(tmp_path: Path) -> None:
    make(tmp_path, "kubelet.slice/kubelet-kubepods.slice")
    discovery = discover(tmp_path, cgroup_root="/kubelet")
    discovery.relist("start")
    assert discovery.kubepods_root == "/kubelet.slice/kubelet-kubepods.slice"


def test_cgroup_root_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match=r"cgroup root '/nowhere': no directory .*/nowhere or .*/nowhere\.slice"):
        discover(tmp_path, cgroup_root="/nowhere")


def test_mount_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DiscoveryError, match=r"cgroup2 mount .*/none: no such directory"):
        discover(tmp_path / "none")


def test_kubernetes_scope_without_kubepods_is_empty_not_an_error(tmp_path: Path) -> None:
    make(tmp_path, "system.slice/ssh.service")
    discovery = discover(tmp_path, scope=UnitScope.KUBERNETES)
    assert not discovery.relist("start")
    assert discovery.kubepods_root is None
    assert discovery.driver is None
    assert discovery.pod_paths() == {}


def test_machine_scope_takes_services_sessions_and_containers_whole(tmp_path: Path) -> None:
    make(
        tmp_path,
        "init.scope",
        "system.slice/ssh.service/inner",
        f"system.slice/docker-{A}.scope",
        "user.slice/user-1000.slice/session-3.scope",
        "user.slice/user-1000.slice/user@1000.service/app.slice/a.service",
        f"machine.slice/libpod-conmon-{A}.scope",
        procs="1\n",
    )
    discovery = discover(tmp_path)
    discovery.relist("start")
    assert discovery.scope_in_force is UnitScope.MACHINE
    assert [(unit.path, unit.identity.kind) for unit in discovery.units()] == [
        ("/init.scope", UnitKind.SESSION),
        (f"/system.slice/docker-{A}.scope", UnitKind.STANDALONE),
        ("/system.slice/ssh.service", UnitKind.SERVICE),
        ("/user.slice/user-1000.slice/session-3.scope", UnitKind.SESSION),
        ("/user.slice/user-1000.slice/user@1000.service", UnitKind.SESSION),
    ]


def test_machine_scope_takes_any_cgroup_with_processes_once(tmp_path: Path) -> None:
    make(tmp_path, "jobs/build", procs="17\n")
    make(tmp_path, "jobs/build/step", procs="18\n")
    make(tmp_path, "jobs/idle", procs="")
    (tmp_path / "jobs/cgroup.procs").write_text("")
    discovery = discover(tmp_path)
    discovery.relist("start")
    assert [(unit.path, unit.identity.kind) for unit in discovery.units()] == [("/jobs/build", UnitKind.OTHER)]


def test_machine_scope_with_nothing_is_the_machine_as_one_unit(tmp_path: Path) -> None:
    discovery = discover(tmp_path)
    changes = discovery.relist("start")
    assert [(unit.path, unit.identity.kind) for unit in changes.appeared] == [("/", UnitKind.OTHER)]
    assert changes.appeared[0].inode == tmp_path.stat().st_ino
    assert not discovery.relist("periodic")


def test_machine_scope_looks_again_at_a_cgroup_when_processes_move_in(tmp_path: Path) -> None:
    make(tmp_path, "job", procs="")
    (tmp_path / "job/cgroup.events").write_text("populated 0\n")
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    discovery.relist("start")
    assert paths_of(discovery) == ["/"]

    make(tmp_path, "job", procs="5\n")
    watcher.events.append(WatchEvent(watcher.numbers[str(tmp_path / "job/cgroup.events")], IN_MODIFY))
    changes = discovery.poll()

    assert [unit.path for unit in changes.appeared] == ["/job"]
    assert changes.vanished == ("/",)
    # Once it is a unit it stays one, idle or not.
    make(tmp_path, "job", procs="")
    assert not discovery.relist("periodic")


def test_auto_goes_over_to_kubernetes_at_the_relist_after_kubepods_appears_and_stays(tmp_path: Path) -> None:
    make(tmp_path, "system.slice/ssh.service")
    discovery = discover(tmp_path)
    discovery.relist("start")
    make(tmp_path, f"{POD_A}/{A}")

    changes = discovery.relist("periodic")

    assert changes.scope_changed
    assert [unit.path for unit in changes.appeared] == [f"/{POD_A}/{A}"]
    assert changes.vanished == ("/system.slice/ssh.service",)
    shutil.rmtree(tmp_path / "kubepods")
    assert discovery.relist("periodic").vanished == (f"/{POD_A}/{A}",)
    assert discovery.scope_in_force is UnitScope.KUBERNETES
    assert discovery.kubepods_root is None


def test_poll_tells_of_a_pod_that_was_filled_before_its_watch(tmp_path: Path) -> None:
    make(tmp_path, "kubepods/burstable")
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    discovery.relist("start")
    make(tmp_path, f"{POD_A}/{A}")
    watcher.tell(tmp_path / POD_A, IN_CREATE)
    assert [unit.path for unit in discovery.poll().appeared] == [f"/{POD_A}/{A}"]
    # The event of the container itself comes late, and once is enough.
    watcher.tell(tmp_path / POD_A / A, IN_CREATE)
    assert not discovery.poll()


def test_poll_tells_of_a_removed_pod_and_forgets_it(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}")
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    discovery.relist("start")
    pod_watch = watcher.numbers[str(tmp_path / POD_A)]
    shutil.rmtree(tmp_path / POD_A)
    watcher.tell(tmp_path / POD_A / A, IN_DELETE)
    watcher.events.append(WatchEvent(pod_watch, IN_IGNORED))
    watcher.tell(tmp_path / POD_A, IN_DELETE)
    before = discovery.watches

    assert discovery.poll().vanished == (f"/{POD_A}/{A}",)

    assert discovery.pod_paths() == {UID_B: f"/{POD_B}"}
    assert discovery.watches == before - 1


def test_poll_takes_a_path_made_again_for_another_cgroup(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{A}")
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    old = discovery.relist("start").appeared[0]
    # Kept aside, so that the file system cannot give the inode again.
    (tmp_path / POD_A / A).rename(tmp_path / "aside")
    make(tmp_path, f"{POD_A}/{A}")
    watcher.tell(tmp_path / POD_A / A, IN_DELETE)
    watcher.tell(tmp_path / POD_A / A, IN_CREATE)

    changes = discovery.poll()

    assert changes.vanished == (old.path,)
    assert [unit.path for unit in changes.appeared] == [old.path]
    assert changes.appeared[0].inode != old.inode


def test_poll_lists_everything_anew_when_events_were_lost(tmp_path: Path) -> None:
    make(tmp_path, "kubepods")
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    discovery.relist("start")
    make(tmp_path, f"{POD_A}/{A}")
    watcher.events.append(WatchEvent(-1, IN_Q_OVERFLOW))

    changes = discovery.poll()

    assert [unit.path for unit in changes.appeared] == [f"/{POD_A}/{A}"]
    assert changes.trigger == "overflow"
    assert discovery.overflows == 1
    assert discovery.relists == {"start": 1, "overflow": 1}


def test_compare_lists_nothing_where_no_link_count_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}", "system.slice/ssh.service")
    discovery = discover(tmp_path)
    discovery.relist("start")

    def must_not_list(path: str) -> None:
        pytest.fail(f"{path} was listed")

    monkeypatch.setattr(os, "scandir", must_not_list)
    assert not discovery.compare("periodic")
    assert paths_of(discovery) == [f"/{POD_A}/{A}", f"/{POD_B}/{B}"]
    assert discovery.relists == {"start": 1}


def test_compare_walks_only_the_pods_of_a_tier_that_came_or_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [f"kubepods/burstable/pod{number:08d}-0000-4000-8000-000000000000" for number in range(4)]
    make(tmp_path, *(f"{pod}/{A}" for pod in pods[:3]))
    discovery = discover(tmp_path)
    discovery.relist("start")
    make(tmp_path, f"{pods[3]}/{A}")
    shutil.rmtree(tmp_path / pods[0])
    listed: list[str] = []
    scandir = os.scandir

    def note(path: str) -> object:
        listed.append(path.removeprefix(f"{tmp_path}/"))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", note)
    changes = discovery.compare("periodic")

    assert ([unit.path for unit in changes.appeared], changes.vanished) == ([f"/{pods[3]}/{A}"], (f"/{pods[0]}/{A}",))
    assert changes.trigger == "periodic"
    assert sorted(listed) == ["kubepods/burstable", pods[0], pods[3]]


def test_compare_asks_for_no_unit_that_was_read_just_now_and_for_every_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}")
    discovery = discover(tmp_path)
    discovery.relist("start")
    inode_of = {unit.path: unit.inode for unit in discovery.units()}
    asked: list[str] = []
    stat = os.stat

    def note(path: str, **how: bool) -> os.stat_result:
        asked.append(str(path).removeprefix(f"{tmp_path}"))
        return stat(path, **how)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", note)
        assert not discovery.compare("periodic", read={f"/{POD_A}/{A}": inode_of[f"/{POD_A}/{A}"]})
    assert f"/{POD_B}/{B}" in asked
    assert f"/{POD_A}/{A}" not in asked

    # Under the same path, and as many as before: only the unit itself can tell.
    (tmp_path / POD_A / "elsewhere").mkdir()  # keeps the old one's inode from being given anew
    (tmp_path / POD_A / A).rename(tmp_path / POD_A / "elsewhere" / A)
    make(tmp_path, f"{POD_A}/{A}")
    (tmp_path / POD_A / "elsewhere").rename(tmp_path / "elsewhere")
    changes = discovery.compare("periodic", read={f"/{POD_A}/{A}": inode_of[f"/{POD_A}/{A}"] + 1})
    assert ([unit.path for unit in changes.appeared], changes.vanished) == ([f"/{POD_A}/{A}"], (f"/{POD_A}/{A}",))


def test_compare_lists_everything_where_a_file_system_counts_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, f"{POD_A}/{A}")
    stat = os.stat

    def without_links(path: str, **how: bool) -> os.stat_result:
        fields = list(stat(path, **how))
        fields[3] = 1  # st_nlink
        return os.stat_result(fields)

    discovery = discover(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", without_links)
        discovery.relist("start")
    make(tmp_path, f"{POD_A}/{B}")
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", without_links)
        changes = discovery.compare("periodic")
    assert [unit.path for unit in changes.appeared] == [f"/{POD_A}/{B}"]


def test_compare_without_inotify_is_a_full_listing(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}")
    discovery = discover(tmp_path, FakeWatcher(room=2))
    discovery.relist("start")
    assert discovery.compare("periodic").trigger == "periodic"
    assert discovery.relists == {"start": 1, "periodic": 1}


def test_compare_of_services_is_a_full_listing(tmp_path: Path) -> None:
    make(tmp_path, "system.slice/a.service")
    discovery = discover(tmp_path, scope=UnitScope.MACHINE)
    discovery.relist("start")
    discovery.compare("periodic")
    assert discovery.relists == {"start": 1, "periodic": 1}


POD_NAMES = [
    f"{tier}/pod{number:08d}-0000-4000-8000-000000000000"
    for tier in ("kubepods", "kubepods/burstable", "kubepods/besteffort", "kubelet/kubepods/burstable")
    for number in range(3)
]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))])
def test_compare_finds_what_a_full_listing_finds(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    containers = [f"{pod}/{name}" for pod in POD_NAMES for name in (A, B, C)]
    others = ["kubepods", "system.slice/a.service", *POD_NAMES]
    make(tmp_path, *choose.sample(containers, 12))
    discovery = discover(tmp_path)  # and nothing is ever told
    discovery.relist("start")
    changed = 0
    for _ in range(40):
        for path in choose.sample(containers + others, choose.choice((0, 1, 1, 2, 4))):
            if choose.random() < 0.4 and (tmp_path / path).exists():
                shutil.rmtree(tmp_path / path)
            if choose.random() < 0.6:
                make(tmp_path, path)
        changed += bool(discovery.compare("periodic"))
        fresh = discover(tmp_path, scope=UnitScope.KUBERNETES)
        fresh.relist("start")
        assert discovery.units() == fresh.units()
        assert discovery.pod_paths() == fresh.pod_paths()
        assert discovery.tier_paths() == fresh.tier_paths()
        assert discovery.kubepods_root == fresh.kubepods_root
    assert changed > 10
    assert discovery.relists == {"start": 1}


def test_no_watches_left_means_re_listing_and_says_so(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}")
    watcher = FakeWatcher(room=2)
    discovery = discover(tmp_path, watcher)
    discovery.relist("start")

    assert paths_of(discovery) == [f"/{POD_A}/{A}", f"/{POD_B}/{B}"]
    assert discovery.fileno() is None
    assert discovery.no_watches_reason == "inotify: no watches left (fs.inotify.max_user_watches)"
    assert watcher.is_closed
    assert discovery.watches == 0
    make(tmp_path, f"{POD_A}/{C}")
    assert not discovery.poll()
    assert [unit.path for unit in discovery.relist("no_watches").appeared] == [f"/{POD_A}/{C}"]


def test_a_periodic_re_list_tries_inotify_again_and_goes_on_with_it(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}")
    watchers = [FakeWatcher(room=2), FakeWatcher(room=1000)]
    discovery = Discovery(tmp_path, open_watcher=lambda: watchers.pop(0))
    discovery.relist("start")
    assert discovery.fileno() is None
    roomy = watchers[0]

    assert not discovery.relist("periodic")  # nothing came or went
    assert discovery.fileno() == roomy.fileno()
    assert discovery.no_watches_reason is None
    assert discovery.watches > 0


def test_no_inotify_instance_left_means_re_listing_and_says_so(tmp_path: Path) -> None:
    def refuse() -> FakeWatcher:
        raise OSError(errno.EMFILE, "Too many open files")

    discovery = Discovery(tmp_path, open_watcher=refuse)
    discovery.relist("start")
    assert discovery.fileno() is None
    assert discovery.no_watches_reason == "inotify: Too many open files"


def test_units_over_the_cap_are_counted_and_the_known_ones_stay(tmp_path: Path) -> None:
    make(tmp_path, f"{POD_A}/{B}", f"{POD_A}/{C}")
    discovery = discover(tmp_path, max_units=2)
    discovery.relist("start")
    make(tmp_path, f"{POD_A}/{A}")

    assert not discovery.relist("periodic")  # although A comes first in tree order
    assert discovery.dropped == 1

    shutil.rmtree(tmp_path / POD_A / B)
    changes = discovery.relist("periodic")
    assert changes.vanished == (f"/{POD_A}/{B}",)
    assert [unit.path for unit in changes.appeared] == [f"/{POD_A}/{A}"]
    assert discovery.dropped == 0
    assert paths_of(discovery) == [f"/{POD_A}/{A}", f"/{POD_A}/{C}"]


def test_walk_ends_at_a_depth(tmp_path: Path) -> None:
    levels = [f"l{number}" for number in range(SCAN_DEPTH + 1)]
    make(tmp_path, "/".join(levels), procs="1\n")
    discovery = discover(tmp_path)
    discovery.relist("start")
    assert paths_of(discovery) == ["/"]


def test_unreadable_directories_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, f"{POD_A}/{A}", f"{POD_B}/{B}")
    scandir = os.scandir

    def refuse(path: str) -> object:  # root may list anything: the refusal cannot be made with file modes
        if path.endswith(POD_A):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    discovery = discover(tmp_path)
    discovery.relist("start")
    assert paths_of(discovery) == [f"/{POD_B}/{B}"]
    assert discovery.unreadable == 1


def test_close_twice_is_fine(tmp_path: Path) -> None:
    watcher = FakeWatcher()
    discovery = discover(tmp_path, watcher)
    discovery.close()
    discovery.close()
    assert watcher.is_closed


def test_parse_events_takes_padded_names_and_leaves_a_cut_event_out() -> None:
    # wd 3, IN_CREATE|IN_ISDIR, cookie 0, 16 bytes of name; then the overflow event; then a cut header.
    creation = bytes.fromhex("03000000 00010040 00000000 10000000") + b"abc".ljust(16, b"\0")
    overflow = bytes.fromhex("ffffffff 00400000 00000000 00000000")
    assert parse_events(creation + overflow + creation[:9]) == [
        WatchEvent(3, IN_CREATE | IN_ISDIR, "abc"),
        WatchEvent(-1, IN_Q_OVERFLOW),
    ]
    assert parse_events(creation[:-1]) == []

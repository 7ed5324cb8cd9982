"""The machine: cgroup mounts from mountinfo, the node's own rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.sensing.machine import (
    CgroupLayout,
    Machine,
    MachineError,
    find_cgroup_mount,
    has_generational_lru,
    node_name,
    parse_mounts,
    read_controllers,
    read_mounts,
)

# Lines as proc_pid_mountinfo(5) describes them; the shapes are those of Debian 12 (pure) and of systemd's hybrid mode.
ROOT = "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,errors=remount-ro\n"
PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
UNIFIED = "31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "32 30 0:28 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd\n"
    "33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 30 0:30 / /sys/fs/cgroup/memory rw shared:13 - cgroup cgroup rw,seclabel,memory,favordynmods\n"
)
HOST = "40 22 0:26 / /host/sys/fs/cgroup ro shared:9 - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("text", "layout", "v2", "v1"),
    [
        (ROOT + PURE, CgroupLayout.PURE_V2, "/sys/fs/cgroup", ()),
        (ROOT + V1 + UNIFIED, CgroupLayout.HYBRID, "/sys/fs/cgroup/unified", ("cpu", "cpuacct", "memory")),
        (ROOT + V1, CgroupLayout.V1, None, ("cpu", "cpuacct", "memory")),
        (ROOT, CgroupLayout.NONE, None, ()),
        ("", CgroupLayout.NONE, None, ()),
        (PURE + HOST, CgroupLayout.PURE_V2, "/host/sys/fs/cgroup", ()),
        (UNIFIED + PURE, CgroupLayout.PURE_V2, "/sys/fs/cgroup", ()),  # the shortest
        # Named hierarchies and mount options are no controllers.
        ("9 1 0:1 / /x rw - cgroup c rw,name=memory,release_agent=/sbin/cpu\n", CgroupLayout.NONE, None, ()),
        # Without optional fields, and with several.
        ("9 1 0:1 / /x rw - cgroup2 c rw\n", CgroupLayout.PURE_V2, "/x", ()),
        ("9 1 0:1 / /x rw shared:1 master:2 - cgroup2 c rw\n", CgroupLayout.PURE_V2, "/x", ()),
        # Cut or foreign lines are passed over.
        ("9 1 0:1 /\n - cgroup2\nnonsense\n9 1 0:1 / /x rw - cgroup2\n", CgroupLayout.NONE, None, ()),
    ],
)
def test_parse_mounts(text: str, layout: CgroupLayout, v2: str | None, v1: tuple[str, ...]) -> None:
    mounts = parse_mounts(text)
    assert mounts.layout is layout
    assert mounts.v2 == (None if v2 is None else Path(v2))
    assert mounts.v1_controllers == v1


def test_parse_mounts_undoes_octal_escapes_byte_by_byte() -> None:
    # A space, a backslash, and a letter of two bytes that stands as it is.
    text = "9 1 0:1 / /mnt/my\\040c\\134g/ü rw - cgroup2 c rw\n"
    assert parse_mounts(text).v2 == Path("/mnt/my c\\g/ü")


def test_parse_mounts_undoes_escaped_bytes_of_one_letter() -> None:
    assert parse_mounts("9 1 0:1 / /\\303\\274 rw - cgroup2 c rw\n").v2 == Path("/ü")  # UTF-8 of ü is 303 274


def test_read_mounts_takes_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_bytes(b"8 1 0:2 / /odd\xff rw - ext4 d rw\n" + PURE.encode())
    assert read_mounts(tmp_path).v2 == Path("/sys/fs/cgroup")


def test_find_cgroup_mount_takes_the_configured_one_if_it_is_one(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=f"{tmp_path}.*cgroup.controllers"):
        find_cgroup_mount(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert find_cgroup_mount(tmp_path) == tmp_path
    assert read_controllers(tmp_path) == ("cpu", "memory")


def test_node_name_is_what_the_downward_api_sets_else_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "worker-7")
    assert node_name() == "worker-7"
    monkeypatch.delenv("NODE_NAME")
    assert node_name()


# -- the node's rates --------------------------------------------------------------------------------------------------


def set_pressure(proc: Path, resource: str, usec: int | None) -> None:
    (proc / "pressure").mkdir(exist_ok=True)
    path = proc / "pressure" / resource
    if usec is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={usec}\n")


def test_first_status_at_once_has_no_rates(tmp_path: Path) -> None:
    set_pressure(tmp_path, "cpu", 100)
    status = Machine("worker-7", tmp_path).status(least_seconds=3600)
    assert (status.name, status.cpu_usage_millicores, status.cpu_waiting_ratio) == ("worker-7", None, None)
    assert status.memory_total_bytes >= status.memory_available_bytes > 0
    assert status.uptime_seconds > 0


def test_status_gives_rates_since_the_one_before(tmp_path: Path) -> None:
    set_pressure(tmp_path, "cpu", 100)
    set_pressure(tmp_path, "memory", 5)
    machine = Machine("worker-7", tmp_path)
    set_pressure(tmp_path, "cpu", 10**12)
    status = machine.status(least_seconds=0)
    # More waiting than time has passed is the whole of it.
    assert status.cpu_waiting_ratio == 1.0
    assert status.memory_waiting_ratio == 0.0
    assert status.cpu_usage_millicores is not None
    assert status.cpu_usage_millicores >= 0
    assert machine.capacity_millicores == status.cpus * 1000


def test_status_asked_again_too_soon_is_the_one_before(tmp_path: Path) -> None:
    machine = Machine("worker-7", tmp_path)
    first = machine.status(least_seconds=0)
    assert machine.status(least_seconds=3600) is first


@pytest.mark.parametrize(
    "text",
    [
        "",
        "some avg10=x total=1\n",
        "full avg10=0 avg60=0 avg300=0 total=1\n",
        "some avg10=0 avg60=0 avg300=0 total=12",  # cut: it may have been 1234
    ],
)
def test_status_without_a_pressure_that_can_be_read_has_no_waiting(tmp_path: Path, text: str) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/cpu").write_text(text)
    machine = Machine("worker-7", tmp_path)
    status = machine.status(least_seconds=0)
    assert (status.cpu_waiting_ratio, status.memory_waiting_ratio) == (None, None)


def test_status_after_a_total_that_fell_has_no_waiting(tmp_path: Path) -> None:
    set_pressure(tmp_path, "cpu", 100)
    machine = Machine("worker-7", tmp_path)
    set_pressure(tmp_path, "cpu", 50)
    assert machine.status(least_seconds=0).cpu_waiting_ratio is None


@pytest.mark.parametrize(
    ("text", "expected"), [("0x0007\n", True), ("0x0001\n", True), ("0x0000\n", False), ("?", False)]
)
def test_the_kernels_switch_tells_of_its_generations(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "enabled").write_text(text, encoding="ascii")
    assert has_generational_lru(tmp_path / "enabled") is expected
    assert not has_generational_lru(tmp_path / "of an older kernel")

"""Path parsing and building. The kubelet's own vectors run in tests/conformance; here are the rules one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Partition, QosClass
from agent.core.cluster.unit import UnitKind
from agent.sensing.cgroup_path import (
    OTHER,
    CgroupPath,
    Driver,
    PathKind,
    Runtime,
    cgroup_root_candidates,
    container_cgroup_path,
    driver_of,
    drivers_of,
    identify,
    is_monitor,
    parse_cgroup_path,
    pod_cgroup_path,
)
from tests.kubepods import kubepods_root_path

ID = "0d5a3c0e9f1b4a7c8e2d6f5b4a3c2d1e0f9e8d7c6b5a49382716051423324150"
NODE_ID = "f" * 64
UID = "6f0c1b1e-4c3d-4f0e-9a55-0b6f6d1f2a33"
SYSTEMD_UID = UID.replace("-", "_")
HASH = "5f4dcc3b5aa765d61d8327deb882cf99"


def pod(**changes: object) -> CgroupPath:
    """A container of a Burstable pod under containerd, with what is different."""
    fields: dict[str, object] = {
        "kind": PathKind.CONTAINER,
        "partition": Partition.DEFAULT,
        "qos": QosClass.BURSTABLE,
        "pod_uid": UID,
        "container_id": ID,
        "runtime": Runtime.CONTAINERD,
        **changes,
    }
    return CgroupPath(**fields)  # type: ignore[arg-type]


SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice"
SCOPE = f"cri-containerd-{ID}.scope"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(f"{SLICE}/{SCOPE}", pod(), id="systemd"),
        pytest.param(f"0::{SLICE}/{SCOPE}", pod(), id="proc line"),
        pytest.param(f"0::{SLICE}/{SCOPE} (deleted)\n", pod(), id="proc line of a removed cgroup"),
        pytest.param(f"4:cpu,cpuacct:/x\n1:name=systemd:/y\n0::{SLICE}/{SCOPE}\n", pod(), id="hybrid file"),
        pytest.param(f"/sys/fs/cgroup{SLICE}/{SCOPE}", pod(), id="with the mount in front"),
        pytest.param(f"{SLICE}/{SCOPE}/container", pod(nested="container"), id="crun child"),
        pytest.param(f"{SLICE}/{SCOPE}/init.scope/a", pod(nested="init.scope/a"), id="systemd inside"),
        pytest.param(
            f"/kubepods/burstable/pod{UID}/{ID}/kubepods/besteffort/podinner/{NODE_ID}",
            pod(runtime=None, nested=f"kubepods/besteffort/podinner/{NODE_ID}"),
            id="a cluster inside a pod is nested",
        ),
        pytest.param(
            f"/system.slice/docker-{NODE_ID}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
            f"/kubelet-kubepods-burstable-pod{SYSTEMD_UID}.slice/{SCOPE}",
            pod(),
            id="KinD seen from the host: the node's id is not the container's",
        ),
        pytest.param(
            f"/docker/{NODE_ID}/kubelet/kubepods/burstable/pod{UID}",
            pod(kind=PathKind.POD, container_id=None, runtime=None),
            id="docker in docker, cgroupfs, pod",
        ),
        pytest.param(
            f"/system.slice/containerd.service/kubepods-burstable-pod{UID}.slice:cri-containerd:{ID}",
            pod(),
            id="colons, dashes left in the UID",
        ),
        pytest.param(
            f"/kubepods-pod{SYSTEMD_UID}.slice:crio:{ID}/x",
            pod(qos=QosClass.GUARANTEED, runtime=Runtime.CRI_O, nested="x"),
            id="colons, CRI-O, nested",
        ),
        pytest.param(
            f"kubepods-burstable-pod{SYSTEMD_UID}.slice:docker:{ID}",
            pod(runtime=Runtime.DOCKER),
            id="colons, no slash in front",
        ),
        pytest.param(
            f"/kubelet-kubepods-besteffort-pod{SYSTEMD_UID}.slice:crio-conmon:{ID}",
            pod(kind=PathKind.CONMON, qos=QosClass.BEST_EFFORT, runtime=Runtime.CRI_O),
            id="colons, monitor, KinD",
        ),
        pytest.param(
            f"/kubepods/burstable/pod{UID}/crio-conmon-{ID}",
            pod(kind=PathKind.CONMON, runtime=Runtime.CRI_O),
            id="monitor, cgroupfs",
        ),
        pytest.param(
            f"/kubepods/burstable/pod{UID}/libpod-{ID}", pod(runtime=Runtime.PODMAN), id="podman's name below a pod"
        ),
        pytest.param(
            f"/kubepods/system/besteffort/pod{UID}/{ID}",
            pod(partition=Partition.SYSTEM, qos=QosClass.BEST_EFFORT, runtime=None),
            id="system partition, cgroupfs",
        ),
        pytest.param(
            f"/kubepods.slice/kubepods-system.slice/kubepods-system-pod{HASH}.slice/crio-{ID}.scope",
            pod(partition=Partition.SYSTEM, qos=QosClass.GUARANTEED, pod_uid=HASH, runtime=Runtime.CRI_O),
            id="system partition, Guaranteed, static pod",
        ),
        pytest.param(
            "/kubepods/burstable/podmy-test-uid",
            pod(kind=PathKind.POD, pod_uid="my-test-uid", container_id=None, runtime=None),
            id="arbitrary UID below kubepods",
        ),
        pytest.param(f"/kubepods/burstable/pod{SYSTEMD_UID}/{ID}", pod(runtime=None), id="underscores under cgroupfs"),
        pytest.param(
            "/kubepods/podman-thing",
            pod(kind=PathKind.POD, qos=QosClass.GUARANTEED, pod_uid="man-thing", container_id=None, runtime=None),
            id="below kubepods any UID goes",
        ),
        pytest.param(
            f"{SLICE}/foo-{ID}.scope/deeper",
            pod(kind=PathKind.UNKNOWN_CHILD, container_id=None, runtime=None, nested=f"foo-{ID}.scope/deeper"),
            id="unknown prefix",
        ),
        pytest.param(
            f"{SLICE}/mygroup/{SCOPE}",
            pod(kind=PathKind.UNKNOWN_CHILD, container_id=None, runtime=None, nested=f"mygroup/{SCOPE}"),
            id="a container is directly below its pod",
        ),
        pytest.param(
            f"{SLICE}/crio-abc.scope",
            pod(kind=PathKind.UNKNOWN_CHILD, container_id=None, runtime=None, nested="crio-abc.scope"),
            id="an id has 64 hex digits",
        ),
        pytest.param(
            "/kubelet.slice/kubelet-kubepods.slice",
            CgroupPath(kind=PathKind.KUBEPODS, partition=Partition.DEFAULT),
            id="root under KinD",
        ),
        pytest.param(
            "/kubepods/burstable",
            CgroupPath(kind=PathKind.QOS, partition=Partition.DEFAULT, qos=QosClass.BURSTABLE),
            id="tier",
        ),
        pytest.param(
            "/kubepods.slice/kubepods-system.slice/kubepods-system-besteffort.slice",
            CgroupPath(kind=PathKind.QOS, partition=Partition.SYSTEM, qos=QosClass.BEST_EFFORT),
            id="tier of the system partition",
        ),
        pytest.param(
            "/kubepods/system", CgroupPath(kind=PathKind.PARTITION, partition=Partition.SYSTEM), id="partition"
        ),
        pytest.param(f"/pod{UID}/{ID}", pod(partition=None, qos=None, runtime=None), id="no kubepods: no class"),
        pytest.param(
            f"/custom.slice/custom-pod{SYSTEMD_UID}.slice",
            pod(kind=PathKind.POD, partition=None, qos=None, container_id=None, runtime=None),
            id="no kubepods, systemd, custom root",
        ),
        pytest.param(
            f"0::/../../pod{UID}/{ID}", pod(partition=None, qos=None, runtime=None), id="private namespace: no class"
        ),
        pytest.param(
            f"/../../kubepods-burstable-pod{SYSTEMD_UID}.slice/{SCOPE}",
            pod(),
            id="private namespace, class in the name",
        ),
        pytest.param(
            f"/../../../kubepods-pod{SYSTEMD_UID}.slice/{SCOPE}",
            pod(qos=None),
            id="private namespace: never Guaranteed",
        ),
    ],
)
def test_parse_cgroup_path(path: str, expected: CgroupPath) -> None:
    assert parse_cgroup_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "0::/",
        "/system.slice/ssh.service",
        "/user.slice/user-1000.slice/session-3.scope",
        f"/docker/{ID}",
        f"/system.slice/crio-conmon-{ID}.scope",
        "/podman.slice/podman-1234.scope",
        "/pod",
        "/podium",
        "/podmy-test-uid",
        "/kubepods/burstable/pod",
        "/kubepods/burstable/pod-with-pod-inside",
        f"/kubepods/burstable/podone-pod/{ID}",
        f"/kubepods/guaranteed/pod{UID}",
        f"/kubepods/{ID}",
        "/kubepods/burstable/other",
        f"/../{SCOPE}",
        f"9:memory:/kubepods/burstable/pod{UID}/{ID}",
        f"1:name=systemd:{SLICE}/{SCOPE}",
    ],
)
def test_parse_cgroup_path_of_what_is_no_pod_is_other(path: str) -> None:
    assert parse_cgroup_path(path) == OTHER


@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(["/", "kubepods", "pod", ".slice", "-", ":", "..", "system", ID, "0::", "\n"])).map(
            "".join
        ),
    )
)
def test_parse_cgroup_path_survives_any_text(text: str) -> None:
    parsed = parse_cgroup_path(text)
    if parsed.kind is PathKind.OTHER:
        assert parsed == OTHER
    identify(text)


@given(
    driver=st.sampled_from(Driver),
    runtime=st.sampled_from(Runtime),
    qos=st.sampled_from(QosClass),
    partition=st.sampled_from(Partition),
    cgroup_root=st.sampled_from(["/", "", "/kubelet", "/a/b-c", "my_root"]),
    pod_uid=st.uuids().map(str) | st.uuids().map(lambda uid: uid.hex) | st.just("test-uid"),
)
def test_container_cgroup_path_is_read_back(
    driver: Driver, runtime: Runtime, qos: QosClass, partition: Partition, cgroup_root: str, pod_uid: str
) -> None:
    path = container_cgroup_path(
        driver=driver,
        runtime=runtime,
        qos=qos,
        partition=partition,
        cgroup_root=cgroup_root,
        pod_uid=pod_uid,
        container_id=ID,
    )
    told_by_name = driver is Driver.SYSTEMD or runtime in {Runtime.CRI_O, Runtime.PODMAN}
    assert parse_cgroup_path(path) == CgroupPath(
        kind=PathKind.CONTAINER,
        partition=partition,
        qos=qos,
        pod_uid=pod_uid,
        container_id=ID,
        runtime=runtime if told_by_name else None,
    )


def test_kubepods_root_path_below_several_components_repeats_them() -> None:
    assert kubepods_root_path(driver=Driver.SYSTEMD, cgroup_root="/a/b") == "/a.slice/a-b.slice/a-b-kubepods.slice"


def test_kubepods_root_path_escapes_dashes_for_systemd_only() -> None:
    assert kubepods_root_path(driver=Driver.SYSTEMD, cgroup_root="/my-root") == "/my_root.slice/my_root-kubepods.slice"
    assert kubepods_root_path(driver=Driver.CGROUPFS, cgroup_root="/my-root") == "/my-root/kubepods"


@pytest.mark.parametrize(
    ("driver", "cgroup_root", "expected"),
    [
        (Driver.SYSTEMD, "/", "/"),
        (Driver.CGROUPFS, "/", "/"),
        (Driver.SYSTEMD, "/custom", "/custom.slice"),
        (Driver.CGROUPFS, "/custom", "/custom"),
    ],
)
def test_kubepods_root_path_without_qos_levels_is_the_root(driver: Driver, cgroup_root: str, expected: str) -> None:
    assert kubepods_root_path(driver=driver, cgroup_root=cgroup_root, cgroups_per_qos=False) == expected


def test_pod_cgroup_path_of_a_guaranteed_pod_in_the_system_partition() -> None:
    path = pod_cgroup_path(
        driver=Driver.SYSTEMD,
        qos=QosClass.GUARANTEED,
        pod_uid="a-b",
        partition=Partition.SYSTEM,
        cgroup_root="/kubelet",
    )
    assert path == (
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-system.slice/kubelet-kubepods-system-poda_b.slice"
    )


@pytest.mark.parametrize("pod_uid", ["", "a_b", "a/b"])
def test_pod_cgroup_path_refuses_a_uid_that_names_cannot_carry(pod_uid: str) -> None:
    with pytest.raises(ValueError, match="pod UID"):
        pod_cgroup_path(driver=Driver.CGROUPFS, qos=QosClass.BURSTABLE, pod_uid=pod_uid)


def test_cgroup_root_candidates_are_as_written_and_unfolded() -> None:
    assert cgroup_root_candidates("/a/b") == ("/a/b", "/a.slice/a-b.slice")
    assert cgroup_root_candidates("/") == ("/",)


def test_driver_of_a_kubepods_path() -> None:
    assert driver_of("/kubelet.slice/kubelet-kubepods.slice") is Driver.SYSTEMD
    assert driver_of("/kubelet/kubepods") is Driver.CGROUPFS


@pytest.mark.parametrize(
    ("path", "kind", "container_id", "runtime"),
    [
        (f"{SLICE}/{SCOPE}", UnitKind.CONTAINER, ID, "containerd"),
        ("/system.slice/ssh.service", UnitKind.SERVICE, None, None),
        ("/system.slice/system-getty.slice/getty@tty1.service", UnitKind.SERVICE, None, None),
        ("/init.scope", UnitKind.SESSION, None, None),
        ("/user.slice/user-1000.slice/session-3.scope", UnitKind.SESSION, None, None),
        ("/user.slice/user-1000.slice/user@1000.service", UnitKind.SESSION, None, None),
        (f"/system.slice/docker-{ID}.scope", UnitKind.STANDALONE, ID, "docker"),
        (f"/docker/{ID}", UnitKind.STANDALONE, ID, "docker"),
        (f"/machine.slice/libpod-{ID}.scope", UnitKind.STANDALONE, ID, "podman"),
        (f"/libpod_parent/libpod-{ID}", UnitKind.STANDALONE, ID, "podman"),
        ("/machine.slice/machine-web.scope", UnitKind.STANDALONE, None, None),
        ("/lxc/web", UnitKind.STANDALONE, None, None),
        ("/lxc.payload.web", UnitKind.STANDALONE, None, None),
    ],
)
def test_identify_names_a_unit(path: str, kind: UnitKind, container_id: str | None, runtime: str | None) -> None:
    unit = identify(path)
    assert unit is not None
    assert (unit.cgroup_path, unit.kind, unit.container_id, unit.runtime) == (path, kind, container_id, runtime)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/system.slice",
        "/user.slice/user-1000.slice",
        SLICE,
        "/kubepods.slice",
        f"{SLICE}/{SCOPE}/container",
        f"{SLICE}/mygroup",
        f"{SLICE}/crio-conmon-{ID}.scope",
        f"/machine.slice/libpod-conmon-{ID}.scope",
        "/user.slice/user-1000.slice/user@1000.service/app.slice/gpg-agent.service",
        f"/system.slice/docker-{ID}.scope/init",
        "/lxc",
        "/something",
    ],
)
def test_identify_gives_none_for_what_is_no_unit_by_name(path: str) -> None:
    assert identify(path) is None


def test_is_monitor_knows_conmon_and_lxc() -> None:
    assert is_monitor(f"crio-conmon-{ID}.scope")
    assert is_monitor("lxc.monitor.web")
    assert not is_monitor(SCOPE)


@pytest.mark.parametrize(
    ("path", "kubelet", "runtime"),
    [
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope",
         Driver.SYSTEMD, Driver.SYSTEMD),
        (f"/kubepods/burstable/pod{UID}/{ID}", Driver.CGROUPFS, Driver.CGROUPFS),
        (f"/kubepods/burstable/pod{UID}/crio-{ID}", Driver.CGROUPFS, Driver.CGROUPFS),
        # The runtime takes the kubelet's systemd names literally.
        (f"/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD_UID}.slice:cri-containerd:{ID}",
         Driver.SYSTEMD, Driver.CGROUPFS),
        (f"/kubepods-burstable-pod{SYSTEMD_UID}.slice/{ID}", Driver.SYSTEMD, Driver.CGROUPFS),
        (f"/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/{ID}", Driver.SYSTEMD, Driver.CGROUPFS),
    ],
)  # fmt: skip
def test_drivers_of_a_container_are_told_by_the_pods_name_and_its_own(
    path: str, kubelet: Driver, runtime: Driver
) -> None:
    assert drivers_of(path) == (kubelet, runtime)


def test_drivers_of_what_is_no_container_of_a_pod_are_not_told() -> None:
    assert drivers_of("/system.slice/ssh.service") is None
    assert drivers_of(f"/kubepods/burstable/pod{UID}") is None

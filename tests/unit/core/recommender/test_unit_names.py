from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import Workload
from agent.core.recommender.unit_names import NoSuchUnit, called, chosen_by


def pod(namespace: str, name: str, container: str, uid: str | None = None) -> UnitIdentity:
    return UnitIdentity(
        cgroup_path=f"/kubepods/pod{uid or name}/{container}",
        kind=UnitKind.CONTAINER,
        pod_uid=uid or f"uid-{namespace}-{name}",
        container_id=f"id-{container}",
        namespace=namespace,
        pod=name,
        container=container,
    )


WEB_APP, WEB_PROXY = pod("shop", "web-1", "app"), pod("shop", "web-1", "proxy")
OTHER_WEB = pod("test", "web-1", "app")
DB = pod("shop", "db-0", "app")
NAMELESS = UnitIdentity(
    cgroup_path="/kubepods/podabc/deadbeef", kind=UnitKind.CONTAINER, pod_uid="abc", container_id="deadbeef"
)
NGINX = UnitIdentity(cgroup_path="/system.slice/nginx.service", kind=UnitKind.SERVICE)
MACHINE = UnitIdentity(cgroup_path="/", kind=UnitKind.OTHER)
ALL = (WEB_APP, WEB_PROXY, OTHER_WEB, DB, NAMELESS, NGINX, MACHINE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("shop/web-1", (WEB_APP, WEB_PROXY)),
        ("shop/web-1/proxy", (WEB_PROXY,)),
        ("db-0", (DB,)),
        ("db-0/app", (DB,)),
        ("uid-shop-web-1", (WEB_APP, WEB_PROXY)),
        ("uid-shop-web-1/app", (WEB_APP,)),
        ("abc", (NAMELESS,)),
        ("abc/deadbeef", (NAMELESS,)),
        ("deadbeef", (NAMELESS,)),
        ("nginx.service", (NGINX,)),
        ("/system.slice/nginx.service", (NGINX,)),
        ("/", (MACHINE,)),
    ],
)
def test_chosen_by_finds_what_the_name_says(name: str, expected: tuple[UnitIdentity, ...]) -> None:
    assert chosen_by(name, ALL) == expected


def test_chosen_by_a_pod_name_in_two_namespaces_is_refused_with_both() -> None:
    with pytest.raises(NoSuchUnit, match=r"web-1 may be any of 2: shop/web-1, test/web-1; allowed: one of them"):
        chosen_by("web-1", ALL)


def test_chosen_by_an_unknown_name_tells_the_nearest() -> None:
    with pytest.raises(NoSuchUnit, match=r"nothing is called shop/web-2; allowed: shop/web-1/app, shop/web-1/proxy"):
        chosen_by("shop/web-2", ALL)


def test_chosen_by_the_name_of_a_container_alone_tells_whose_it_is() -> None:
    with pytest.raises(NoSuchUnit, match=r"nothing is called sidecar; allowed: shop/web-1/sidecar$"):
        chosen_by("sidecar", (*ALL, replace(WEB_PROXY, container="sidecar")))


def test_chosen_by_a_pod_takes_what_has_no_container_of_its_own() -> None:
    whole = UnitIdentity(cgroup_path="/kubepods/podxyz", kind=UnitKind.CONTAINER, pod_uid="xyz")
    assert chosen_by("xyz", (*ALL, whole)) == (whole,)


WORKLOADS = {
    "web-7f-a": Workload(namespace="shop", kind="Deployment", name="web"),
    "web-gate-b": Workload(namespace="shop", kind="Deployment", name="web-gate"),
    "db-0": Workload(namespace="shop", kind="StatefulSet", name="db"),
    "db-1": Workload(namespace="shop", kind="StatefulSet", name="db"),
}
APP, SIDECAR = pod("shop", "web-7f-a", "app"), pod("shop", "web-7f-a", "proxy")
GATE, DB_1 = pod("shop", "web-gate-b", "app"), pod("shop", "db-1", "app")
OWNED = (APP, SIDECAR, GATE, DB, DB_1, NGINX)


def of_workload(name: str, known: tuple[UnitIdentity, ...] = OWNED) -> tuple[UnitIdentity, ...]:
    return chosen_by(name, known, workload_of=lambda unit: WORKLOADS.get(unit.pod or ""))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web", (APP, SIDECAR)),  # not web-gate, though that begins so too
        ("shop/web", (APP, SIDECAR)),
        ("Deployment/web", (APP, SIDECAR)),
        ("web/proxy", (SIDECAR,)),
        ("shop/web/proxy", (SIDECAR,)),
        ("web-7", (APP, SIDECAR)),
        ("shop/web-7", (APP, SIDECAR)),
        ("web-7/app", (APP,)),
        ("web-7*", (APP, SIDECAR)),
        ("WEB-7*/app", (APP,)),
        ("*/web-7f*", (APP, SIDECAR)),
        ("uid-shop-web-g*", (GATE,)),
        ("nginx*", (NGINX,)),
        ("/system*", (NGINX,)),
        ("db-0", (DB,)),  # its very name, though the workload has two
    ],
)
def test_chosen_by_what_means_one_pod_takes_it(name: str, expected: tuple[UnitIdentity, ...]) -> None:
    assert of_workload(name) == expected


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("db", "db may be any of 2: shop/db-0, shop/db-1; allowed: one of them"),
        ("web-*", "web-* may be any of 2: shop/web-7f-a, shop/web-gate-b; allowed: one of them"),
        ("we", "we may be any of 2: shop/web-7f-a, shop/web-gate-b; allowed: one of them"),
        ("gate", "nothing is called gate; allowed: shop/web-gate-b/app"),
        ("GATE*", "nothing is called GATE*; allowed: shop/web-gate-b/app"),
        ("wep", "nothing is called wep; allowed: shop/web-7f-a/app, shop/web-7f-a/proxy"),  # like the workload's name
        ("shop/", "nothing is called shop/; allowed: shop/db-0/app, "),
    ],
)
def test_chosen_by_what_means_several_or_none_lists_those_that_it_may_mean(name: str, told: str) -> None:
    with pytest.raises(NoSuchUnit) as caught:
        of_workload(name)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("name", ["", "//"])
def test_chosen_by_no_name_at_all_tells_the_first_few(name: str) -> None:
    with pytest.raises(NoSuchUnit, match=r"nothing is called /*; allowed: /, .*, \.\.\."):
        chosen_by(name, ALL)


def test_chosen_by_a_name_like_nothing_tells_the_first_few() -> None:
    with pytest.raises(NoSuchUnit, match=r"nothing is called zzzzzzzzzzzzzzzz; allowed: /, .*, \.\.\."):
        chosen_by("zzzzzzzzzzzzzzzz", ALL)


def test_chosen_by_nothing_watched_says_so() -> None:
    with pytest.raises(NoSuchUnit, match="nothing is called x: nothing is watched"):
        chosen_by("x", ())


def test_called_is_the_full_name_or_the_path() -> None:
    assert [called(unit) for unit in (WEB_APP, NAMELESS)] == ["shop/web-1/app", "/kubepods/podabc/deadbeef"]

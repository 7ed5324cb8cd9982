from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.choosing import NoSuchUnit, called, chosen_by
from agent.core.model import UnitIdentity, UnitKind


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
    with pytest.raises(NoSuchUnit, match=r"web-1 is the name of 2: shop/web-1, test/web-1; allowed: one of them"):
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
    assert [called(one) for one in (WEB_APP, NAMELESS)] == ["shop/web-1/app", "/kubepods/podabc/deadbeef"]

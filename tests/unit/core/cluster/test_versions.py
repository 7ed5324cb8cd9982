from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.node import Node
from agent.core.cluster.versions import (
    POD_LEVEL_RESIZE_FEATURE,
    Gates,
    Version,
    gates_of,
    parse_version,
    resize_supported,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.33.1", Version(1, 33)),
        ("v1.33.1-eks-7358c29", Version(1, 33)),
        ("1.34+", Version(1, 34)),
        ("v1.37.0-alpha.2", Version(1, 37)),
        ("v1.33", Version(1, 33)),
        ("v2.0.0", Version(2, 0)),
        (" v1.33.4+k3s1\n", Version(1, 33)),
        ("v1", None),
        ("", None),
        ("version 1.33", None),
        ("1.x", None),
        ("v1.3333333333", None),
        ("v\u0661.\u0663\u0663", None),  # digits, but not a version's
        (None, None),
    ],
)
def test_a_version_is_major_and_minor(text: str | None, version: Version | None) -> None:
    assert parse_version(text) == version


@given(st.integers(0, 999_999), st.integers(0, 999_999), st.from_regex(r"([^0-9].*)?", fullmatch=True))
def test_what_follows_the_minor_number_does_not_matter(major: int, minor: int, suffix: str) -> None:
    assert parse_version(f"v{major}.{minor}{suffix}") == Version(major, minor)
    assert str(Version(major, minor)) == f"{major}.{minor}"


@pytest.mark.parametrize(("text", "is_supported"), [("v1.32.9", False), ("v1.33.0-rc.1", True), ("junk", False)])
def test_resize_begins_with_1_33(text: str, is_supported: bool) -> None:
    assert resize_supported(text) is is_supported


def node(kubelet: str | None, *features: str, declares: bool = True, system: str = "linux") -> Node:
    return Node(
        name="n",
        kubelet_version=kubelet,
        operating_system=system,
        declared_features=frozenset(features) if declares else None,
    )


def closed(gates: Gates) -> list[str]:
    named = {
        "resize": gates.resize,
        "limit": gates.memory_limit_down,
        "pod": gates.pod_level_resize,
        "init": gates.init_containers,
    }
    return [name for name, is_open in named.items() if not is_open]


@pytest.mark.parametrize(
    ("server", "kubelet", "expected"),
    [
        ("v1.37.1", "v1.37.1", []),
        ("v1.36.2", "v1.36.2", ["init"]),
        ("v1.35.0", "v1.35.0", ["pod", "init"]),
        ("v1.33.0", "v1.33.0", ["limit", "pod", "init"]),
        ("v1.37.1", "v1.34.0", ["pod", "init"]),  # the older of the two decides
        ("v1.34.0", "v1.37.1", ["pod", "init"]),
        ("v1.32.0", "v1.33.0", ["resize", "limit", "pod", "init"]),
        ("v1.33.0", "v1.32.0", ["resize", "limit", "pod", "init"]),
        (None, "v1.37.1", ["resize", "limit", "pod", "init"]),
        ("v1.37.1", None, ["resize", "limit", "pod", "init"]),
        ("v1.37.1", "edge", ["resize", "limit", "pod", "init"]),
    ],
)
def test_gates_open_when_both_are_new_enough(server: str | None, kubelet: str | None, expected: list[str]) -> None:
    gates = gates_of(server, node(kubelet, POD_LEVEL_RESIZE_FEATURE))
    assert closed(gates) == expected
    # Where nothing can be resized at all, one sentence says it.
    assert len(gates.reasons) == (1 if "resize" in expected else len(expected))


def test_reasons_name_what_is_too_old_and_what_it_would_need() -> None:
    assert gates_of("v1.32.9", node("v1.31.0")).reasons == (
        "no resize in place: needs 1.33, the API server is v1.32.9 and the node's kubelet is v1.31.0",
    )
    assert gates_of("v1.37.0", None).reasons == (
        "no resize in place: needs 1.33, the version of the node's kubelet is not known",
    )
    assert gates_of("dev", node("v1.37.0")).reasons == (
        "no resize in place: needs 1.33, 'dev' of the API server is not understood",
    )
    assert gates_of("v1.33.0", node("v1.37.1", POD_LEVEL_RESIZE_FEATURE)).reasons[0] == (
        "memory limits are not lowered unless the container restarts: needs 1.34, the API server is v1.33.0"
    )


@pytest.mark.parametrize("declares", [True, False])
def test_a_node_that_does_not_declare_the_feature_gets_no_pod_level_resize(declares: bool) -> None:
    gates = gates_of("v1.37.1", node("v1.37.1", "Other", declares=declares))
    assert closed(gates) == ["pod"]
    assert gates.reasons == (
        "no resize of pod-level resources: the node does not declare InPlacePodLevelResourcesVerticalScaling",
    )


def test_nothing_is_resized_on_windows() -> None:
    gates = gates_of("v1.37.1", node("v1.37.1", POD_LEVEL_RESIZE_FEATURE, system="windows"))
    assert gates.reasons == ("no resize in place: the node runs Windows",)
    assert not gates.resize

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.model import Gap, Missing, Snapshot, UnitIdentity, UnitResources, UnitStatus
from agent.node.snapshot import SnapshotFormatError, from_bytes, from_json, to_bytes, to_json
from tests.snapshots import busy_node, container, cpu_window, memory_window, service, snapshot


def full_snapshot() -> Snapshot:
    cpu = cpu_window(
        None,
        gaps={Gap.CLOCK: 2, Gap.PARSE: 1},
        missing={"last_usage_millicores": Missing.GAPS, "waiting_ratio": Missing.NO_SIGNAL},
    )
    odd = container("web", "app", cpu=cpu, cpu_max_millicores=1500.5, memory_max_bytes=2**62)
    raw_name = "/system.slice/caf\udce9.service"  # a file name that is not UTF-8, as os.fsdecode gives it
    return snapshot(
        odd, service(raw_name, sample_age_seconds=None), notes=("a note\nof two lines",), at_age_seconds=0.1
    )


@pytest.mark.parametrize("original", [full_snapshot(), busy_node(), snapshot()], ids=["full", "busy", "empty"])
def test_round_trip_gives_an_equal_snapshot_with_the_same_types(original: Snapshot) -> None:
    for back in (from_json(to_json(original)), from_bytes(to_bytes(original))):
        assert back == original
        assert repr(back) == repr(original)  # 1 and 1.0 are equal, and not the same


def test_document_holds_plain_json_values_only() -> None:
    document = to_json(full_snapshot())
    assert json.loads(json.dumps(document)) == document
    assert (document["format"], document["version"]) == ("plimsoll-snapshot", 1)


def test_bytes_are_one_line_of_ascii() -> None:
    assert to_bytes(full_snapshot()).isascii()
    assert b"\n" not in to_bytes(full_snapshot())


figures = st.none() | st.floats(allow_nan=False, allow_infinity=False)
counts = st.none() | st.integers(min_value=0, max_value=2**64)
texts = st.text(max_size=20)


@given(usage=figures, ratio=figures, amount=counts, request=counts, path=texts, name=st.none() | texts, age=figures)
def test_round_trip_any_figures_and_names(
    usage: float | None,
    ratio: float | None,
    amount: int | None,
    request: int | None,
    path: str,
    name: str | None,
    age: float | None,
) -> None:
    unit = replace(
        container(),
        identity=replace(container().identity, cgroup_path=path, container=name, pod=name),
        resources=UnitResources(cpu_request_millicores=request, memory_limit_bytes=amount),
        cpu=cpu_window(last_usage_millicores=usage, throttled_ratio=ratio),
        memory=memory_window(working_set_bytes=amount),
        sample_age_seconds=age,
    )
    original = snapshot(unit, notes=(path,))
    assert from_bytes(to_bytes(original)) == original


def unit_of(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["units"][0]
    return found


REFUSALS: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("other format", lambda d: d.update(format="x"), "snapshot.format: 'x' is not 'plimsoll-snapshot'"),
    (
        "newer version",
        lambda d: d.update(version=2),
        "snapshot.version: 2 is not 1 (are the agent",
    ),
    ("no version", lambda d: d.pop("version"), "snapshot.version: None is not 1"),
    ("unknown field", lambda d: unit_of(d).update(zz=1), "snapshot.units[0]: unknown fields ['zz'], absent fields []"),
    ("absent field", lambda d: unit_of(d)["cpu"].pop("readings"), "snapshot.units[0].cpu: unknown fields [], absent"),
    ("text for number", lambda d: d["node"].update(cpus="2"), "snapshot.node.cpus: '2' is not a whole number"),
    ("true for number", lambda d: d["node"].update(cpus=True), "snapshot.node.cpus: True is not a whole number"),
    ("float for count", lambda d: d["sampler"].update(units=1.0), "snapshot.sampler.units: 1.0 is not a whole number"),
    ("null for figure", lambda d: d["node"].update(load_1m=None), "snapshot.node.load_1m: None is not a finite"),
    ("infinity", lambda d: d["node"].update(load_1m=float("inf")), "snapshot.node.load_1m: inf is not a finite"),
    ("number for text", lambda d: d["node"].update(name=7), "snapshot.node.name: 7 is not a string"),
    (
        "unknown kind",
        lambda d: unit_of(d)["identity"].update(kind="vm"),
        "snapshot.units[0].identity.kind: 'vm' is not one of container, sandbox",
    ),
    ("units no list", lambda d: d.update(units={}), "snapshot.units: {} is not a list"),
    ("unit no object", lambda d: d.update(units=[3]), "snapshot.units[0]: 3 is not an object"),
    ("gaps no object", lambda d: unit_of(d)["cpu"].update(gaps=[]), "snapshot.units[0].cpu.gaps: [] is not an object"),
    (
        "unknown gap",
        lambda d: unit_of(d)["cpu"].update(gaps={"tea": 1}),
        "snapshot.units[0].cpu.gaps: 'tea' is not one of clock",
    ),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_a_wrong_document_is_refused_with_its_place(change: Callable[[dict[str, Any]], object], message: str) -> None:
    document: dict[str, Any] = to_json(snapshot(container()))
    change(document)
    with pytest.raises(SnapshotFormatError) as caught:
        from_json(document)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_bytes_that_are_no_snapshot_are_refused(text: bytes) -> None:
    with pytest.raises(SnapshotFormatError):
        from_bytes(text)


def test_a_figure_that_is_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_bytes(snapshot(container(cpu=cpu_window(float("nan")))))


def test_a_new_field_type_without_a_written_form_is_said() -> None:
    identity: Any = UnitIdentity(cgroup_path=b"/x", kind=container().identity.kind)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes"):
        to_json(snapshot(replace(container(), identity=identity)))


def test_every_unit_field_reaches_the_document() -> None:
    document: dict[str, Any] = to_json(snapshot(container()))
    assert set(unit_of(document)) == set(UnitStatus.__slots__)

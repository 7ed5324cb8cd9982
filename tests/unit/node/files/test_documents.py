from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.recommender.recommendation import (
    Advice,
    Basis,
    Bound,
    Recommendation,
    Recommendations,
    RequestSeverity,
    Withheld,
)
from agent.core.window.snapshot import Gap, Missing, Snapshot, UnitStatus
from agent.node.files.documents import RECOMMENDATIONS, SNAPSHOT, DocumentFormatError
from tests.snapshots import busy_node, container, cpu_window, memory_window, service, snapshot


def through_text(original: Snapshot) -> Snapshot:
    return SNAPSHOT.from_json(json.loads(json.dumps(SNAPSHOT.to_json(original), allow_nan=False)))


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
    back = through_text(original)
    assert back == original
    assert repr(back) == repr(original)  # 1 and 1.0 are equal, and not the same


def test_document_holds_plain_json_values_only() -> None:
    document = SNAPSHOT.to_json(full_snapshot())
    assert json.loads(json.dumps(document)) == document
    assert (document["format"], document["version"]) == ("plimsoll-snapshot", 1)


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
    assert through_text(original) == original


def unit_of(document: dict[str, Any]) -> dict[str, Any]:
    unit: dict[str, Any] = document["units"][0]
    return unit


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
    ("no float holds it", lambda d: d["node"].update(load_1m=10**400), "snapshot.node.load_1m: 1000"),
    ("number for text", lambda d: d["node"].update(name=7), "snapshot.node.name: 7 is not a string"),
    (
        "unknown kind",
        lambda d: unit_of(d)["identity"].update(kind="vm"),
        "snapshot.units[0].identity.kind: 'vm' is not one of container, pod, tier, sandbox",
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
    document: dict[str, Any] = SNAPSHOT.to_json(snapshot(container()))
    change(document)
    with pytest.raises(DocumentFormatError) as caught:
        SNAPSHOT.from_json(document)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_figure_that_is_nan_cannot_be_read_back() -> None:
    with pytest.raises(DocumentFormatError, match="nan is not a finite number"):
        SNAPSHOT.from_json(SNAPSHOT.to_json(snapshot(container(cpu=cpu_window(float("nan"))))))


@pytest.mark.parametrize("document", [None, [], "x", 3])
def test_what_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(DocumentFormatError, match="is not a JSON object"):
        SNAPSHOT.from_json(document)


def recommendations() -> Recommendations:
    cpu = Advice(
        request=250,
        limit=None,
        withheld=None,
        severity=RequestSeverity.SHORT,
        base=100.5,
        peak=240.25,
        proposed=240.25,
        bounds=(Bound.ROUNDED,),
        is_upward_only=True,
        extra={"cpu_upper_bound_millicores": 900.0},
    )
    memory = Advice(
        request=None,
        limit=None,
        withheld=Withheld.NO_SIGNAL,
        severity=RequestSeverity.UNKNOWN,
        base=None,
        peak=None,
        proposed=None,
    )
    item = Recommendation(
        identity=container("web", "app").identity,
        workload=Workload(namespace="shop", kind="Deployment", name="web"),
        policy="cruise",
        resources=UnitResources(cpu_request_millicores=100),
        cpu_millicores=cpu,
        memory_bytes=memory,
        basis=Basis(
            cpu_readings=600,
            cpu_span_seconds=599.5,
            memory_readings=0,
            memory_span_seconds=0.0,
            sample_age_seconds=None,
            history_minutes=10,
            history_span_seconds=600.0,
            oom_kills=0,
        ),
        runtime=RuntimeProfile(runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25),
        runtime_advice=("the limit is not lowered: java reads its limit at start",),
    )
    return Recommendations(
        taken_unix_seconds=1.5,
        source="agent",
        node="n1",
        policy="cruise",
        min_span_seconds=600.0,
        max_age_seconds=60.0,
        items=(item,),
        notes=("a note",),
    )


def test_recommendations_round_trip_with_the_same_types() -> None:
    back = RECOMMENDATIONS.from_json(json.loads(json.dumps(RECOMMENDATIONS.to_json(recommendations()))))
    assert repr(back) == repr(recommendations())


def test_recommendations_a_number_is_no_yes_or_no() -> None:
    document: Any = RECOMMENDATIONS.to_json(recommendations())
    document["items"][0]["cpu_millicores"]["is_upward_only"] = 1
    with pytest.raises(DocumentFormatError, match=r"is_upward_only: 1 is not true or false"):
        RECOMMENDATIONS.from_json(document)


def test_a_new_field_type_without_a_written_form_is_said() -> None:
    identity: Any = UnitIdentity(cgroup_path=b"/x", kind=container().identity.kind)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes"):
        SNAPSHOT.to_json(snapshot(replace(container(), identity=identity)))


def test_every_unit_field_reaches_the_document() -> None:
    document: dict[str, Any] = SNAPSHOT.to_json(snapshot(container()))
    assert set(unit_of(document)) == set(UnitStatus.__slots__)

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from agent.cli.top.formats import CSV_HEADER, csv_text, json_text, openmetrics_text
from agent.core.cluster.unit import UnitResources
from agent.core.window.snapshot import Gap, Snapshot
from agent.node.files.documents import SNAPSHOT
from tests.snapshots import MIB, advised, busy_node, container, cpu_window, memory_window, service, snapshot


def csv_rows(node: Snapshot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(node))))


def samples(node: Snapshot) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = list(text_string_to_metric_families(openmetrics_text(node)))  # type: ignore[no-untyped-call]
    series = [
        (sample.name, tuple(sorted(sample.labels.items())), sample.value) for f in families for sample in f.samples
    ]
    assert len({entry[:2] for entry in series}) == len(series), "a series stands twice"
    return {(name, labels): value for name, labels, value in series}


def test_json_is_the_snapshot_and_ascii() -> None:
    assert json_text(busy_node()).isascii()
    assert SNAPSHOT.from_json(json.loads(json_text(busy_node()))) == busy_node()


def test_csv_has_a_row_per_unit_and_units_in_its_names() -> None:
    rows = csv_rows(busy_node())
    assert len(rows) == len(busy_node().units)
    assert len(set(CSV_HEADER)) == len(CSV_HEADER)
    first = rows[0]
    assert first["cpu_last_usage_millicores"] == "812.0"
    assert first["cpu_last_waiting_ratio"] == "0.34"
    assert first["memory_working_set_bytes"] == str(100 * MIB)
    assert first["cpu_request_millicores"] == "200"
    assert (first["node"], first["namespace"], first["container"], first["kind"]) == (
        "worker-7",
        "default",
        "app",
        "container",
    )


def test_csv_cell_of_a_missing_figure_is_empty_with_its_reason_at_the_end() -> None:
    (row,) = csv_rows(snapshot(service(cpu=cpu_window(12.0, gaps={Gap.CLOCK: 2, Gap.PARSE: 1}))))
    assert row["memory_working_set_bytes"] == ""
    assert row["missing"] == "memory_working_set_bytes=no_signal"
    assert row["cpu_gaps"] == "clock=2 parse=1"


def test_csv_names_with_commas_quotes_and_controls_stay_one_row() -> None:
    (row,) = csv_rows(snapshot(container('we,b"x', "a\nb\x1b[2J")))
    assert (row["pod"], row["container"]) == ('we,b"x', "a\\x0ab\\x1b[2J")


def test_openmetrics_is_valid_in_base_units_and_ends_with_eof() -> None:
    text = openmetrics_text(busy_node())
    assert text.endswith("\n# EOF\n")
    metrics = samples(busy_node())
    labels = (("container", "app"), ("namespace", "default"), ("pod", "web-7d9c5b8f4-x2x9k"))
    # P75 is 812m x 1.2 = 974.4m in the fake: 0.9744 cores
    assert metrics["plimsoll_container_cpu_usage_cores", (*labels, ("quantile", "0.75"))] == 0.9744
    assert metrics["plimsoll_container_memory_working_set_bytes", (*labels, ("quantile", "1"))] == 200 * MIB
    assert metrics["plimsoll_container_cpu_last_usage_cores", labels] == 0.812
    assert metrics["plimsoll_current_cpu_request_cores", labels] == 0.2
    assert metrics["plimsoll_node_cpu_usage_cores", ()] == 1.64
    assert metrics["plimsoll_node_pressure_ratio", (("kind", "some"), ("resource", "cpu"))] == 0.062


def test_openmetrics_of_an_empty_node_is_valid() -> None:
    assert ("plimsoll_node_cpus", ()) in samples(snapshot())


def test_openmetrics_has_no_sample_for_what_is_missing() -> None:
    unit = container(cpu=cpu_window(None, waiting_ratio=None), memory=memory_window(None), resources=UnitResources())
    names = {name for name, _ in samples(snapshot(unit))}
    assert "plimsoll_container_cpu_waiting_ratio" not in names
    assert "plimsoll_container_cpu_usage_cores" not in names
    assert "plimsoll_container_memory_last_working_set_bytes" not in names
    assert "plimsoll_container_cpu_throttled_ratio" in names  # one missing signal never blanks the others


def test_openmetrics_survives_names_full_of_quotes_and_controls() -> None:
    metrics = samples(snapshot(container('a"b\\c', "x\ny\x1b", namespace="caf\udce9")))
    labels = (("container", "x\\x0ay\\x1b"), ("namespace", "caf\\udce9"), ("pod", 'a"b\\c'))
    assert ("plimsoll_container_sample_age_seconds", labels) in metrics


def test_openmetrics_keeps_services_of_one_name_apart() -> None:
    one, two = service("/system.slice/dbus.service"), service("/user.slice/user@0.service/dbus.service")
    containers = {dict(labels).get("container") for _, labels in samples(snapshot(one, two))}
    assert {"dbus.service", "/user.slice/user@0.service/dbus.service"} <= containers


def test_openmetrics_of_a_restarted_container_gives_the_one_read_last() -> None:
    old = container(cpu=cpu_window(1.0), sample_age_seconds=30.0)
    new = container(cpu=cpu_window(2.0), sample_age_seconds=0.2)
    new = replace(new, identity=replace(new.identity, cgroup_path="/kubepods/other"))
    for units in ((old, new), (new, old)):
        metrics = samples(snapshot(*units))
        assert [v for (name, _), v in metrics.items() if name == "plimsoll_container_cpu_last_usage_cores"] == [0.002]


def test_csv_and_json_carry_what_is_recommended_or_why_nothing_is() -> None:
    node = snapshot(advised(container(), 250, "too_young"), container("bare"))
    advised_row, bare_row = csv_rows(node)
    assert advised_row["recommended_cpu_request_millicores"] == "250"
    assert (advised_row["recommended_memory_request_bytes"], advised_row["recommended_memory_withheld"]) == (
        "",
        "too_young",
    )
    assert (advised_row["recommended_policy"], bare_row["recommended_policy"]) == ("cruise", "")
    assert SNAPSHOT.from_json(json.loads(json_text(node))) == node

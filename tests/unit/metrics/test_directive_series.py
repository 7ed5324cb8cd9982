from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import WorkloadDirective
from agent.core.plan.needs.directives import NOTHING_TOLD, NodeDirectives
from agent.metrics.agent_series import Metrics
from agent.metrics.directive_series import DirectiveSeries
from tests.directives import directed, directive


def page(directives: NodeDirectives) -> dict[str, float]:
    metrics = Metrics(version="0", commit="", sampler="native")
    metrics.register(DirectiveSeries(lambda: directives))
    by_name = {}
    for family in parse_text(metrics.page("text/plain", "").body.decode()):
        for sample in family.samples:
            if sample.name.startswith("plimsoll_directives_"):
                name = sample.name.removeprefix("plimsoll_directives_")
                by_name[" ".join((name, *sample.labels.values()))] = sample.value
    return by_name


def test_the_age_is_absent_until_something_was_told() -> None:
    assert page(NOTHING_TOLD) == {
        "workloads told": 0.0,
        "workloads left_alone": 0.0,
        "workloads cpu_frozen": 0.0,
        "workloads memory_frozen": 0.0,
        "workloads shrink_barred": 0.0,
        "paused": 0.0,
        "left_out": 0.0,
    }


def test_everything_told_is_counted() -> None:
    def of(name: str, **fields: object) -> WorkloadDirective:
        return directive(Workload(namespace="shop", kind="Deployment", name=name), **fields)

    directives = directed(
        of("a", cpu_frozen_for="HPA"),
        of("b", cpu_frozen_for="HPA", memory_frozen_for="HPA"),
        of("c", left_alone_for="VPA", stop_shrinking_seconds=60.0),
        age=12.5,
        pause="upgrade",
    )
    assert page(directives) == {
        "age_seconds": 12.5,
        "workloads told": 3.0,
        "workloads left_alone": 1.0,
        "workloads cpu_frozen": 2.0,
        "workloads memory_frozen": 1.0,
        "workloads shrink_barred": 1.0,
        "paused": 1.0,
        "left_out": 0.0,
    }

"""What Helm makes of templates/monitoring: fits the chart's own pods and Services, and refuses what cannot work."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from agent.webhook.certificates.options import CertificateOptions
from tests import yaml_texts
from tests.cluster.binaries import KUBERNETES
from tests.cluster.chart import CHART, NAMESPACE, ChartError, helm
from tests.monitoring.rule_files import DASHBOARD_FILES, alerts, rules

pytestmark = pytest.mark.cluster
KINDS: Final = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
ALL: Final[dict[str, Any]] = {
    part: {"enabled": True} for part in ("podMonitor", "serviceMonitor", "rules", "dashboards")
}


def render(monitoring: dict[str, Any], *, kinds: tuple[str, ...] = KINDS, **values: Any) -> list[dict[str, Any]]:
    """Return all objects of the chart with these values, for a cluster that has these kinds of the operator."""
    known = [word for kind in kinds for word in ("--api-versions", f"monitoring.coreos.com/v1/{kind}")]
    text = helm(
        *("template", "plimsoll", str(CHART), f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}", *known),
        "--values=-",
        stdin=json.dumps({"monitoring": monitoring, **values}),
    )
    return [manifest for manifest in yaml_texts.load_all(text) if manifest is not None]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in objects if manifest["kind"] == kind]


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    return render(ALL, mode="enforce", enforceNodes={"pool": "canary"})


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_by_default_there_is_nothing_of_it() -> None:
    manifests = render({}, kinds=())
    assert not [manifest for manifest in manifests if manifest["kind"] in KINDS]
    assert not [manifest for manifest in manifests if "grafana_dashboard" in manifest["metadata"].get("labels", {})]


def test_pod_monitor_selects_every_agent_and_a_port_that_it_has(objects: list[dict[str, Any]]) -> None:
    (monitor,) = of_kind(objects, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    agents = of_kind(objects, "DaemonSet")
    assert len(agents) == 2  # with enforceNodes: those that enforce, and the others
    for agent in agents:
        template = agent["spec"]["template"]
        assert selects(monitor["spec"]["selector"]["matchLabels"], template["metadata"]["labels"])
        ports = [port["name"] for container in template["spec"]["containers"] for port in container.get("ports", ())]
        assert endpoint["port"] in ports
    for other in (*of_kind(objects, "Deployment"), *of_kind(objects, "StatefulSet")):
        labels = other["spec"]["template"]["metadata"]["labels"]
        assert not selects(monitor["spec"]["selector"]["matchLabels"], labels)
    assert {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"} in endpoint["relabelings"]
    assert endpoint["honorLabels"] is True


def test_service_monitor_selects_the_webhook_and_believes_its_certificate(objects: list[dict[str, Any]]) -> None:
    (monitor,) = of_kind(objects, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    services = [
        manifest
        for manifest in of_kind(objects, "Service")
        if selects(monitor["spec"]["selector"]["matchLabels"], manifest["metadata"]["labels"])
    ]
    (service,) = services
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.{NAMESPACE}.svc"
    authority = endpoint["tlsConfig"]["ca"]["configMap"]
    (config_map,) = [
        manifest for manifest in of_kind(objects, "ConfigMap") if manifest["metadata"]["name"] == authority["name"]
    ]
    assert config_map["metadata"]["namespace"] == monitor["metadata"]["namespace"]
    for agent in of_kind(objects, "DaemonSet"):  # which believe the same
        sources = [source for volume in agent["spec"]["template"]["spec"]["volumes"] for source in _sources(volume)]
        assert [source["items"] for source in sources if source["name"] == authority["name"]] == [
            [{"key": authority["key"], "path": "ca.crt"}]
        ]


def _sources(volume: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ConfigMaps of a projected volume."""
    return [source["configMap"] for source in volume.get("projected", {}).get("sources", ()) if "configMap" in source]


def test_without_the_webhook_nothing_looks_for_it() -> None:
    assert of_kind(render(ALL, webhook={"enabled": False}), "ServiceMonitor") == []


def test_rule_object_has_every_rule_with_the_runbook_where_it_is(objects: list[dict[str, Any]], tmp_path: Path) -> None:
    (rule_object,) = of_kind(objects, "PrometheusRule")
    shown = [rule for group in rule_object["spec"]["groups"] for rule in group["rules"]]
    assert len(shown) == len(rules())
    base = "https://example.org/docs/RUNBOOK.md"
    values = {**ALL, "rules": {"enabled": True, "runbookUrl": base, "disabled": ["PlimsollFlapping"]}}
    (rule_object,) = of_kind(render(values), "PrometheusRule")
    shown = [rule for group in rule_object["spec"]["groups"] for rule in group["rules"]]
    names = {rule["alert"] for rule in shown if "alert" in rule}
    assert names == alerts().keys() - {"PlimsollFlapping"}
    for rule in shown:
        if "alert" in rule:
            assert rule["annotations"]["runbook_url"] == f"{base}#{rule['alert'].lower()}"
            assert rule["annotations"]["summary"] == alerts()[rule["alert"]]["annotations"]["summary"]
    if shutil.which("promtool"):
        file = tmp_path / "rules.yaml"
        file.write_text(json.dumps(rule_object["spec"]), encoding="utf-8")
        done = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("limit", "bytes_at"),
    [
        ("128Mi", 120_795_955),
        ("512Mi", 483_183_821),
        ("1Gi", 966_367_642),
        ("1.5G", 1_350_000_000),
        (2**28, 241_591_910),
    ],
)
def test_memory_alert_stands_at_nine_tenths_of_the_limit_that_is_set(limit: str | int, bytes_at: int) -> None:
    expression = memory_alerts({"limits": {"memory": limit}})[0]["expr"]
    assert expression == alerts()["PlimsollAgentMemoryHigh"]["expr"].replace("> 241591910 ", f"> {bytes_at} ")


@pytest.mark.parametrize("limits", [None, {"memory": None, "cpu": "1"}])
def test_without_a_limit_nothing_is_said_of_the_agents_memory(limits: dict[str, Any] | None) -> None:
    assert memory_alerts({"limits": limits}) == []


def memory_alerts(resources: dict[str, Any]) -> list[dict[str, Any]]:
    shown = chart_rules(agent={"resources": resources})
    assert len(shown) >= len(rules()) - 1
    return [rule for rule in shown if rule.get("alert") == "PlimsollAgentMemoryHigh"]


def chart_rules(**values: Any) -> list[dict[str, Any]]:
    (rule_object,) = of_kind(render({"rules": {"enabled": True}}, **values), "PrometheusRule")
    return [rule for group in rule_object["spec"]["groups"] for rule in group["rules"]]


@pytest.mark.parametrize(
    ("source", "settings", "certificate_days", "authority_days"),
    [
        ("built-in", {}, "14", "30"),
        ("built-in", {"leafDays": 30}, "5", "30"),
        ("built-in", {"leafDays": 825, "authorityDays": 825}, "14", "30"),
        ("built-in", {"leafDays": 0.75, "authorityDays": 60}, "0.125", "10"),
        ("built-in", {"expiryWarningDays": 7}, "7", "30"),
        ("built-in", {"expiryWarningDays": 0}, "0", "30"),
        ("secret", {"expiryWarningDays": 7, "leafDays": 30, "authorityDays": 60}, "7", "30"),
    ],
)
def test_alerts_of_expiry_stand_below_what_is_left_when_the_leader_renews(
    source: str, settings: dict[str, Any], certificate_days: str, authority_days: str
) -> None:
    """The first as the webhook's own fault has it: at most a sixth of a built-in life, of which a third is left."""
    given = {"secretName": "tls", "caBundle": "-----BEGIN CERTIFICATE-----"} if source == "secret" else {}
    webhook = {"certificate": {"source": source, **given}, "settings": {"certificate": settings}}
    expressions = {rule.get("alert"): rule["expr"] for rule in chart_rules(webhook=webhook)}
    for alert, usual, days in (
        ("PlimsollCertificateExpiring", "14", certificate_days),
        ("PlimsollAuthorityExpiring", "30", authority_days),
    ):
        assert expressions[alert] == alerts()[alert]["expr"].replace(f"< {usual} *", f"< {days} *")


def test_alerts_of_expiry_go_by_the_programs_defaults() -> None:
    options = CertificateOptions()
    assert options.expiry_warning_days == 14 <= options.leaf_days / 6
    assert options.authority_days / 6 >= 30
    expressions = {rule.get("alert"): rule["expr"] for rule in chart_rules()}
    for alert in ("PlimsollCertificateExpiring", "PlimsollAuthorityExpiring"):
        assert expressions[alert] == alerts()[alert]["expr"]


def test_dashboards_come_unchanged_in_maps_that_grafana_s_sidecar_takes(objects: list[dict[str, Any]]) -> None:
    maps = [
        config_map
        for config_map in of_kind(objects, "ConfigMap")
        if config_map["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    dashboards = {name: json.loads(text) for config_map in maps for name, text in config_map["data"].items()}
    assert dashboards == {f"plimsoll-{file.name}": json.loads(file.read_text()) for file in DASHBOARD_FILES}


def test_labels_and_annotations_are_handed_on() -> None:
    labels = {"release": "prometheus"}
    manifests = render(
        {
            "podMonitor": {"enabled": True, "labels": labels},
            "serviceMonitor": {"enabled": True, "labels": labels},
            "rules": {"enabled": True, "labels": labels},
            "dashboards": {"enabled": True, "labels": labels, "annotations": {"grafana_folder": "Plimsoll"}},
        }
    )
    marked = [
        manifest for manifest in manifests if manifest["metadata"].get("labels", {}).get("release") == "prometheus"
    ]
    assert sorted(manifest["kind"] for manifest in marked) == sorted([*KINDS, *["ConfigMap"] * 3])
    folders = [manifest["metadata"]["annotations"] for manifest in marked if manifest["kind"] == "ConfigMap"]
    assert folders == [{"grafana_folder": "Plimsoll"}] * 3


@pytest.mark.parametrize(
    ("monitoring", "kinds", "words"),
    [
        ({"podMonitor": {"enabled": True}}, (), "monitoring.podMonitor.enabled needs the kind PodMonitor"),
        ({"rules": {"enabled": True}}, ("PodMonitor",), "monitoring.rules.enabled needs the kind PrometheusRule"),
        (
            {"podMonitor": {"enabled": True, "intervalSeconds": 10, "scrapeTimeoutSeconds": 20}},
            KINDS,
            "monitoring.podMonitor.scrapeTimeoutSeconds is 20 and intervalSeconds is 10",
        ),
        (
            {"rules": {"enabled": True, "disabled": ["PlimsolFlapping"]}},
            KINDS,
            "monitoring.rules.disabled names PlimsolFlapping, and there is no such alert",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_set(
    monitoring: dict[str, Any], kinds: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ChartError) as caught:
        render(monitoring, kinds=kinds)
    assert words in str(caught.value)

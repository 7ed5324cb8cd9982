"""The chart's values: documented, held by the schema, of the same defaults as the program, refused where they clash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.settings import Settings, load_settings
from agent.settings.keys import keys
from agent.webhook.https import LEAVE_SECONDS
from agent.webhook.openapi import document
from agent.webhook.settings import WebhookSettings, load_webhook_settings
from tests.chart import generate
from tests.chart.documented_values import documented_values
from tests.chart.value_rules import RULES
from tests.cluster import chart
from tests.cluster.binaries import KUBERNETES
from tests.cluster.chart import ChartError, helm, rendered

POSTGRESQL: dict[str, Any] = {"webhook": {"postgresql": {"existingSecret": "database"}}}


# Documents


def test_every_value_is_documented() -> None:
    assert [one.key for one in documented_values() if len(one.text) < 10] == []


def test_schema_and_table_are_as_the_generator_writes_them() -> None:
    hint = "run: python -m tests.chart.generate"
    assert generate.SCHEMA.read_text() == generate.schema_text(), hint
    assert generate.SETTINGS.read_text() == generate.settings_text(), hint
    assert generate.README.read_text() == generate.readme_text(generate.README.read_text()), hint


def test_every_rule_is_about_a_value() -> None:
    assert set(RULES) <= {one.key for one in documented_values()}


def test_every_object_of_the_schema_is_closed_but_for_kubernetes_own() -> None:
    schema = json.loads(generate.SCHEMA.read_text())
    open_ones = sorted(_open_objects(schema, ""))
    own = {"global", "affinity", "topologySpreadConstraints", "metricsFrom", "valueFrom"}
    assert [one for one in open_ones if not own & set(one.split("/"))] == []


def _open_objects(schema: Any, path: str) -> list[str]:
    if isinstance(schema, list):
        return [found for index, one in enumerate(schema) for found in _open_objects(one, f"{path}/{index}")]
    if not isinstance(schema, dict):
        return []
    here = [path] if schema.get("type") == "object" and "additionalProperties" not in schema else []
    return [*here, *(found for key, one in schema.items() for found in _open_objects(one, f"{path}/{key}"))]


# Defaults


def differences(given: Any, default: Any, root: type) -> dict[str, Any]:
    """Give the settings that differ, by their key in the file."""

    def value(settings: Any, name: str, section: str) -> Any:
        return getattr(getattr(settings, section) if section else settings, name)

    return {
        key: value(given, spec.name, spec.section)
        for key, spec in keys(root).items()
        if value(given, spec.name, spec.section) != value(default, spec.name, spec.section)
    }


def settings_file(
    template: str, folder: Path, values: Mapping[str, Any] | None = None, name: str = "settings.yaml"
) -> Path:
    [one] = rendered(values)[template]
    file = folder / f"{template.replace('/', '-')}-{name}"
    file.write_text(one["data"][name])
    return file


def agent_settings(folder: Path, values: Mapping[str, Any] | None = None, name: str = "settings.yaml") -> Settings:
    return load_settings(settings_file("agent/settings", folder, values, name), environment={})


def webhook_settings(folder: Path, values: Mapping[str, Any] | None = None) -> WebhookSettings:
    return load_webhook_settings(settings_file("webhook/settings", folder, values), environment={})


def test_agent_differs_from_the_programs_defaults_by_where_it_runs_and_by_nothing_else(tmp_path: Path) -> None:
    different = differences(agent_settings(tmp_path), load_settings(None, environment={}), Settings)
    assert {key: str(value) for key, value in different.items()} == {
        "cgroup.mount": "/host/sys/fs/cgroup",
        "kubernetes.api": "on",
        "report.caFile": "/var/run/secrets/plimsoll/ca.crt",
        "report.tokenFile": "/var/run/secrets/plimsoll/token",
        "report.url": "https://plimsoll-webhook.plimsoll.svc",
        "serving.address": "0.0.0.0",  # noqa: S104  the pod's own network
        # For root these are the program's own defaults; the pod's user is told.
        **({} if "state.directory" not in different else {"state.directory": "/var/lib/plimsoll"}),
        **({} if "serving.socket" not in different else {"serving.socket": "/run/plimsoll/agent.sock"}),
    }


def test_webhook_has_the_programs_defaults(tmp_path: Path) -> None:
    given, default = webhook_settings(tmp_path), WebhookSettings()
    different = differences(given, default, WebhookSettings)
    protected = different.pop("arbiter.protectedNamespaces", default.arbiter.protected_namespaces)
    assert set(protected.split(",")) == set(default.arbiter.protected_namespaces.split(","))
    # What the default would do takes rights that a value opens.
    assert {key: str(value) for key, value in different.items()} == {"buffers.mode": "off"}


def test_values_that_stand_for_settings_have_the_programs_defaults() -> None:
    values = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    agent, webhook = Settings(), WebhookSettings()
    assert values["mode"] == agent.act.mode
    assert values["agent"]["port"] == agent.serving.port
    assert {*values["excludedNamespaces"], "plimsoll"} == set(agent.act.excluded_namespaces.split(","))
    assert values["podLimits"]["writeCgroups"] == agent.pod_limits.write_cgroups
    assert values["podLimits"]["qosReservedWrite"] == agent.pod_limits.qos_reserved_write
    assert values["evictions"]["enabled"] == (webhook.arbiter.mode == "enforce")
    assert values["webhook"]["certificate"]["source"] == webhook.certificate.source
    deployment = chart.only("Deployment", "webhook/deployment")
    assert (
        deployment["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] == webhook.listening.port
    )
    grace_seconds = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_seconds >= 5 + LEAVE_SECONDS + webhook.listening.end_seconds


# What values do


def test_every_setting_goes_through_to_its_program(tmp_path: Path) -> None:
    agent = agent_settings(
        tmp_path, {"settings": {"sampling": {"intervalSeconds": 2}, "report": {"queueBytes": 1 << 24}}}
    )
    assert (agent.sampling.interval_seconds, agent.report.queue_bytes) == (2.0, 1 << 24)
    webhook = webhook_settings(tmp_path, {"webhook": {"settings": {"access": {"rows": 100}}}})
    assert webhook.access.rows == 100


def test_shared_sections_hold_for_the_webhook_unless_it_says_otherwise(tmp_path: Path) -> None:
    values: dict[str, Any] = {"settings": {"recommend": {"policy": "vpa"}, "bounds": {"minCpuMillicores": 5}}}
    assert webhook_settings(tmp_path, values).recommend.policy == "vpa"
    values["webhook"] = {"settings": {"recommend": {"policy": "crane"}}}
    both = webhook_settings(tmp_path, values)
    assert (both.recommend.policy, both.bounds.min_cpu_millicores) == ("crane", 5)


@pytest.mark.parametrize("mode", ["off", "recommend", "enforce", False])
def test_mode_is_the_same_for_agent_and_webhook(tmp_path: Path, mode: Any) -> None:
    word = mode or "off"
    assert agent_settings(tmp_path, {"mode": mode}).act.mode == word
    assert webhook_settings(tmp_path, {"mode": mode}).act.mode == word


def test_some_nodes_enforce_and_new_pods_wait_for_the_rest(tmp_path: Path) -> None:
    values = {"mode": "enforce", "enforceNodes": {"pool": "canary", "zone": "a"}}
    assert agent_settings(tmp_path, values).act.mode == "recommend"
    assert agent_settings(tmp_path, values, "enforce.yaml").act.mode == "enforce"
    assert webhook_settings(tmp_path, values).act.mode == "recommend"
    rest, canary = rendered(values)["agent/daemonset"]
    terms = [_node_terms(one) for one in (canary, rest)]
    assert terms[0] == [[("pool", "In", "canary"), ("zone", "In", "a")]]
    assert terms[1] == [[("pool", "NotIn", "canary")], [("zone", "NotIn", "a")]]
    assert rest["spec"]["selector"] != canary["spec"]["selector"]


def _node_terms(daemon_set: Any) -> list[list[tuple[str, str, str]]]:
    affinity = daemon_set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [[(one["key"], one["operator"], *one["values"]) for one in term["matchExpressions"]] for term in terms]


def test_excluded_namespaces_reach_everything_that_would_touch_a_pod(tmp_path: Path) -> None:
    values = {"excludedNamespaces": ["kube-system", "payments"]}
    assert set(agent_settings(tmp_path, values).act.excluded_namespaces.split(",")) == {
        "kube-system", "payments", "plimsoll",
    }  # fmt: skip
    assert "payments" in webhook_settings(tmp_path, values).act.excluded_namespaces.split(",")
    assert "payments" in webhook_settings(tmp_path, values).arbiter.protected_namespaces.split(",")
    hook = rendered(values)["webhook/registration"][0]["webhooks"][0]
    assert "payments" in hook["namespaceSelector"]["matchExpressions"][0]["values"]
    fence = rendered(values)["fence/resizes"][0]
    assert "'payments'" in json.dumps(fence["spec"]["validations"])


def test_the_chart_follows_its_namespace() -> None:
    text = json.dumps(rendered(namespace="elsewhere"))
    assert "system:serviceaccount:elsewhere:plimsoll-agent" in text
    assert "plimsoll-webhook.elsewhere.svc" in text
    assert '"namespace": "plimsoll"' not in text


def test_replicas_follow_the_database() -> None:
    assert rendered()["webhook/deployment"][0]["spec"]["replicas"] == 1
    assert rendered(POSTGRESQL)["webhook/deployment"][0]["spec"]["replicas"] == 2
    assert rendered(POSTGRESQL)["webhook/deployment"][0]["spec"]["strategy"]["type"] == "RollingUpdate"
    assert "webhook/volume" not in rendered(POSTGRESQL)


def test_reader_may_read_whatever_the_webhook_shows() -> None:
    role = chart.only("ClusterRole", "webhook/reader")
    [urls] = [rule["nonResourceURLs"] for rule in role["rules"]]
    shown = [
        path for path, verbs in json.loads(document())["paths"].items() if path.startswith("/v1/") and "get" in verbs
    ]
    assert len(shown) > 3
    assert [path for path in shown if not any(fnmatchcase(path, url) for url in urls)] == []


# Bad input: the sentence that says what to set

CLASHES: dict[str, tuple[dict[str, Any], str]] = {
    "sqlite-two-replicas": ({"webhook": {"replicas": 2}}, "set webhook.postgresql.existingSecret"),
    "enforce-no-certificate": (
        {"mode": "enforce", "webhook": {"certificate": {"source": "secret"}}},
        "mode is enforce and webhook.certificate.source is secret, but there is no certificate: set "
        "webhook.certificate.secretName",
    ),
    "secret-no-bundle": (
        {"webhook": {"certificate": {"source": "secret", "secretName": "tls"}}},
        "set webhook.certificate.caBundle",
    ),
    "cert-manager-no-issuer": (
        {"webhook": {"certificate": {"source": "cert-manager"}}},
        "set webhook.certificate.issuerRef.name",
    ),
    "bundle-unused": (
        {"webhook": {"certificate": {"caBundle": "-----BEGIN CERTIFICATE-----"}}},
        "set webhook.certificate.source=secret",
    ),
    "read-only-state": ({"agent": {"state": {"hostPath": "/sys/fs/plimsoll"}}}, "set a directory such as /var/lib"),
    "whole-folder-state": ({"agent": {"state": {"hostPath": "/var/"}}}, "set a directory of its own"),
    "database-elsewhere": (
        {"webhook": {"settings": {"database": {"url": "/data/webhook.db"}}}},
        "webhook.settings.database.url cannot be set here: set webhook.postgresql.existingSecret",
    ),
    "state-elsewhere": ({"settings": {"state": {"directory": "/data"}}}, "set agent.state.hostPath"),
    "mode-twice": ({"settings": {"act": {"mode": "enforce"}}}, "settings.act.mode cannot be set here: set mode"),
    "node-name": ({"settings": {"nodeName": "x"}}, "settings.nodeName cannot be set here; it comes from the pod"),
    "cgroups-closed": ({"settings": {"podLimits": {"writeCgroups": True}}}, "which opens what it needs"),
    "nodes-without-mode": ({"enforceNodes": {"a": "b"}}, "set mode=enforce"),
    "nodes-and-affinity": (
        {"mode": "enforce", "enforceNodes": {"a": "b"}, "agent": {"affinity": {"nodeAffinity": {}}}},
        "set agent.nodeSelector",
    ),
    "evictions-without-webhook": (
        {"evictions": {"enabled": True}, "webhook": {"enabled": False}},
        "set webhook.enabled=true",
    ),
    "buffers-without-webhook": ({"buffers": {"enabled": True}, "webhook": {"enabled": False}}, "webhook.enabled=true"),
    "placeholders-without-buffers": ({"buffers": {"placeholders": True}}, "set buffers.enabled=true"),
    "buffers-half-on": (
        {"webhook": {"settings": {"buffers": {"mode": "on"}}}},
        "set buffers.enabled=true, which brings the rights",
    ),
    "claim-and-postgresql": (
        {"webhook": {"postgresql": {"existingSecret": "x"}, "persistence": {"existingClaim": "y"}}},
        "leave one of them empty",
    ),
    "claim-unused": (
        {"webhook": {"persistence": {"existingClaim": "y", "enabled": False}}},
        "set webhook.persistence.enabled=true",
    ),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_values_that_clash_end_with_what_to_set(clash: str) -> None:
    values, sentence = CLASHES[clash]
    with pytest.raises(ChartError) as error:
        rendered(values)
    assert sentence in str(error.value)
    assert "nil pointer" not in str(error.value)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"mod": "enforce"}, "additional properties 'mod' not allowed"),
    "word": ({"mode": "on"}, "at '/mode': value must be one of"),
    "unknown-setting": ({"settings": {"sampling": {"interval": 1}}}, "at '/settings/sampling': additional properties"),
    "out-of-range": ({"settings": {"sampling": {"intervalSeconds": 0}}}, "at '/settings/sampling/intervalSeconds'"),
    "webhook-out-of-range": (
        {"webhook": {"settings": {"arbiter": {"workloadShareRatio": 1.5}}}},
        "at '/webhook/settings/arbiter/workloadShareRatio'",
    ),
    "port": ({"agent": {"port": 80}}, "at '/agent/port'"),
    "quantity": ({"agent": {"resources": {"limits": {"memory": "128MB"}}}}, "at '/agent/resources/limits/memory'"),
    "share": ({"agent": {"maxUnavailable": "0%"}}, "at '/agent/maxUnavailable'"),
    "digest": ({"image": {"digest": "sha256:abc"}}, "at '/image/digest'"),
    "relative": ({"agent": {"state": {"hostPath": "var/lib"}}}, "at '/agent/state/hostPath'"),
    "rule": ({"cluster": {"rules": [{"namespace": "shop"}]}}, "at '/cluster/rules/0'"),
    "toleration": ({"agent": {"tolerations": [{"key": "a", "efect": "NoSchedule"}]}}, "at '/agent/tolerations/0'"),
    "factor": ({"fence": {"factor": 0.5}}, "at '/fence/factor'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_value_is_refused_with_its_path(wrong: str) -> None:
    values, words = WRONG[wrong]
    with pytest.raises(ChartError) as error:
        rendered(values)
    assert words in str(error.value)


def test_every_setting_may_be_set_to_its_own_default(tmp_path: Path) -> None:
    """What the program takes the schema takes too, number for number."""
    closed = {"act", "cgroup", "kubernetes", "pod_limits", "report", "serving", "state"}
    settings = Settings()
    values = {
        name: {key.rpartition(".")[2]: plain for key, plain in _plain_values(settings, name).items()}
        for name in (one.name for one in fields(settings))
        if name not in closed and is_dataclass(getattr(settings, name))
    }
    sections = {_camel(name): content for name, content in values.items()}
    assert len(sections) > 10
    assert differences(agent_settings(tmp_path, {"settings": sections}), agent_settings(tmp_path), Settings) == {}


def _plain_values(settings: Settings, section: str) -> dict[str, Any]:
    made = settings.to_dict()[_camel(section)]
    assert isinstance(made, dict)
    return {key: value for key, value in made.items() if value is not None}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def test_lint_finds_nothing() -> None:
    said = helm("lint", "--strict", str(chart.CHART), f"--kube-version={KUBERNETES}", "--namespace=plimsoll")
    assert "[ERROR]" not in said
    assert "[WARNING]" not in said

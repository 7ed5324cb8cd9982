"""The chart's values: documented, held by the schema, of the same defaults as the program, refused where they clash."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from agent.core.orders.plan_options import FitRule
from agent.core.orders.profile import Profile
from agent.settings import Settings, load_settings
from agent.settings.keys import keys
from agent.webhook.http.tls_server import LEAVE_SECONDS
from agent.webhook.openapi import document
from agent.webhook.settings import WebhookSettings, load_webhook_settings
from tests import yaml_texts
from tests.chart import generate
from tests.chart.documented_values import documented_values
from tests.chart.value_rules import RULES
from tests.cluster import chart
from tests.cluster.binaries import KUBERNETES
from tests.cluster.chart import helm, rendered

POSTGRESQL: dict[str, Any] = {"webhook": {"postgresql": {"existingSecret": "database"}}}


# Documents


def test_every_value_is_documented() -> None:
    assert [entry.key for entry in documented_values() if len(entry.text) < 10] == []


def test_schema_and_table_are_as_the_generator_writes_them() -> None:
    hint = "run: python -m tests.chart.generate"
    assert generate.SCHEMA.read_text() == generate.schema_text(), hint
    assert generate.SETTINGS.read_text() == generate.settings_text(), hint
    assert generate.README.read_text() == generate.readme_text(generate.README.read_text()), hint


def test_every_rule_is_about_a_value() -> None:
    assert set(RULES) <= {entry.key for entry in documented_values()}


def test_every_object_of_the_schema_is_closed_but_for_kubernetes_own() -> None:
    schema = json.loads(generate.SCHEMA.read_text())
    open_ones = sorted(_open_objects(schema, ""))
    own = {"global", "affinity", "topologySpreadConstraints", "metricsFrom", "valueFrom", "send"}
    assert [path for path in open_ones if not own & set(path.split("/"))] == []


def _open_objects(schema: Any, path: str) -> list[str]:
    if isinstance(schema, list):
        return [place for index, part in enumerate(schema) for place in _open_objects(part, f"{path}/{index}")]
    if not isinstance(schema, dict):
        return []
    here = [path] if schema.get("type") == "object" and "additionalProperties" not in schema else []
    return [*here, *(place for key, part in schema.items() for place in _open_objects(part, f"{path}/{key}"))]


# Defaults


def differences(given: Any, default: Any, root: type) -> dict[str, Any]:
    """Return the settings that differ, by their key in the file."""

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
    [config_map] = rendered(values)[template]
    file = folder / f"{template.replace('/', '-')}-{name}"
    file.write_text(config_map["data"][name])
    return file


def agent_settings(folder: Path, values: Mapping[str, Any] | None = None, name: str = "settings.yaml") -> Settings:
    return load_settings(settings_file("agent/settings", folder, values, name), environment={})


def webhook_settings(folder: Path, values: Mapping[str, Any] | None = None) -> WebhookSettings:
    return load_webhook_settings(settings_file("webhook/settings", folder, values), environment={})


def test_agent_differs_from_the_programs_defaults_by_where_it_runs_and_by_nothing_else(tmp_path: Path) -> None:
    different = differences(agent_settings(tmp_path), load_settings(None, environment={}), Settings)
    assert {key: str(value) for key, value in different.items()} == {
        "cgroup.mount": "/host/sys/fs/cgroup",
        "clusterPauseConfigMap": "plimsoll/plimsoll",
        "clusterPauseFile": "/etc/plimsoll-cluster/pause",
        "kubernetes.api": "on",
        "report.caFile": "/var/run/secrets/plimsoll/ca.crt",
        "report.tokenFile": "/var/run/secrets/plimsoll/token",
        "report.url": "https://plimsoll-webhook.plimsoll.svc",
        "serving.address": "0.0.0.0",  # noqa: S104  the pod's own network
        "state.ringsDirectory": "/run/plimsoll-rings",
        # For root these are the program's own defaults; the pod's user is told.
        **({} if "state.directory" not in different else {"state.directory": "/var/lib/plimsoll"}),
        **({} if "serving.socket" not in different else {"serving.socket": "/run/plimsoll/agent.sock"}),
    }


@pytest.mark.parametrize(
    "values", [{}, {"webhook": {"enabled": False}}, {"mode": "enforce", "enforceNodes": {"a": "b"}}]
)
def test_every_agent_looks_for_the_clusters_pause_where_the_kubelet_puts_it(
    values: dict[str, Any], tmp_path: Path
) -> None:
    documents = rendered({**values, "cluster": {"pause": "incident 12"}})
    [rules] = documents["cluster/rules"]
    assert rules["data"] == {"pause": "incident 12"}
    for agent in documents["agent/daemonset"]:
        spec = agent["spec"]["template"]["spec"]
        [variable] = [row for row in spec["containers"][0]["env"] if row["name"] == "PLIMSOLL_SETTINGS_FILE"]
        settings = agent_settings(tmp_path, values, Path(variable["value"]).name)
        [volume] = [row for row in spec["volumes"] if row.get("configMap", {}).get("name") == rules["metadata"]["name"]]
        [mount] = [row for row in spec["containers"][0]["volumeMounts"] if row["name"] == volume["name"]]
        [item] = volume["configMap"]["items"]
        assert item["key"] == "pause"
        assert settings.cluster_pause_file == Path(mount["mountPath"], item["path"])
        place = rules["metadata"]
        assert settings.cluster_pause_config_map == f"{place['namespace']}/{place['name']}"
        # A pause is there when somebody makes one: neither the key nor the ConfigMap may be asked for.
        assert volume["configMap"]["optional"] is True
        assert "subPath" not in mount  # which is never brought up to date


def test_the_profile_is_of_agent_and_webhook_alike(tmp_path: Path) -> None:
    values = {"settings": {"profile": "document", "cruise": {"neighbourHours": 2}}}
    for settings in (agent_settings(tmp_path, values), webhook_settings(tmp_path, values)):
        assert (settings.profile, settings.cruise.neighbour_hours) == (Profile.DOCUMENT, 2)
        assert settings.plan.fit_rule is FitRule.LITERAL


def test_webhook_has_the_programs_defaults(tmp_path: Path) -> None:
    given, default = webhook_settings(tmp_path), WebhookSettings()
    different = differences(given, default, WebhookSettings)
    protected = different.pop("arbiter.protectedNamespaces", default.arbiter.protected_namespaces)
    assert set(protected.split(",")) == set(default.arbiter.protected_namespaces.split(","))
    # What the default would do takes rights that a value opens.
    assert {key: str(value) for key, value in different.items()} == {"buffers.mode": "off"}


def test_values_that_stand_for_settings_have_the_programs_defaults() -> None:
    values = yaml_texts.load((chart.CHART / "values.yaml").read_text())
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
    longest: dict[str, Any] = {"webhook": {"settings": {"listening": {"endSeconds": 12}}}}
    assert rendered(longest)
    assert grace_seconds > 5 + LEAVE_SECONDS + 12


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


def test_what_both_programs_read_is_handed_on_to_the_webhook_and_documented(tmp_path: Path) -> None:
    shared = {key.partition(".")[0] for key in keys().keys() & keys(WebhookSettings).keys()}
    entry = next(entry for entry in documented_values() if entry.key == "settings")
    assert [name for name in sorted(shared) if not re.search(rf"\b{name}\b", entry.text)] == []
    handed_on = re.search(
        r'"plimsoll.sharedSections" -}}\n(.*)\n', (chart.CHART / "templates" / "_settings.tpl").read_text()
    )
    assert handed_on is not None
    assert set(handed_on[1].split()) == shared
    webhook = webhook_settings(tmp_path, {"settings": {"guard": {"active": False}, "profile": "document"}})
    assert (webhook.guard.active, webhook.profile) == (False, Profile.DOCUMENT)


@pytest.mark.parametrize("mode", ["off", "recommend", "protect", "enforce", False])
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
    terms = [_node_terms(daemon_set) for daemon_set in (canary, rest)]
    assert terms[0] == [[("pool", "In", "canary"), ("zone", "In", "a")]]
    assert terms[1] == [[("pool", "NotIn", "canary")], [("zone", "NotIn", "a")]]
    assert rest["spec"]["selector"] != canary["spec"]["selector"]


def _node_terms(daemon_set: Any) -> list[list[tuple[str, str, str]]]:
    affinity = daemon_set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return [[(rule["key"], rule["operator"], *rule["values"]) for rule in term["matchExpressions"]] for term in terms]


def test_excluded_namespaces_reach_everything_that_would_touch_a_pod(tmp_path: Path) -> None:
    values = {"excludedNamespaces": ["kube-system", "payments"]}
    assert set(agent_settings(tmp_path, values).act.excluded_namespaces.split(",")) == {
        "kube-system", "payments", "plimsoll",
    }  # fmt: skip
    assert "payments" in webhook_settings(tmp_path, values).act.excluded_namespaces.split(",")
    assert "payments" in webhook_settings(tmp_path, values).arbiter.protected_namespaces.split(",")
    hook = rendered(values)["webhook/registration"][0]["webhooks"][0]
    assert "payments" in hook["namespaceSelector"]["matchExpressions"][0]["values"]
    opened = {"evictions": {"enabled": True}, "buffers": {"enabled": True, "placeholders": True}}
    parts = rendered(values | opened)
    for fence in ("resizes", "events", "evictions", "webhook-pods"):
        policy = parts[f"fence/{fence}"][0]
        assert '"kube-system","payments","plimsoll"]' in str(policy["spec"]["validations"]).replace(" ", ""), fence


def test_the_chart_follows_its_namespace() -> None:
    text = json.dumps(rendered(namespace="elsewhere"))
    assert "system:serviceaccount:elsewhere:plimsoll-agent" in text
    assert "plimsoll-webhook.elsewhere.svc" in text
    assert '"namespace": "plimsoll"' not in text


def test_a_namespace_and_a_release_that_look_like_numbers_are_names_everywhere() -> None:
    values = {
        "namespace": {"create": True},
        "buffers": {"enabled": True},
        "monitoring": {part: {"enabled": True} for part in ("podMonitor", "serviceMonitor", "rules", "dashboards")},
        "webhook": {
            **POSTGRESQL["webhook"],
            "report": {"enabled": True},
            "certificate": {"source": "cert-manager", "issuerRef": {"name": "ours"}},
        },
    }
    kinds = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
    known = [word for kind in kinds for word in ("--api-versions", f"monitoring.coreos.com/v1/{kind}")]

    text = helm(
        "template", "123", str(chart.CHART), "--namespace=456", f"--kube-version={KUBERNETES}", "--values=-", *known,
        stdin=json.dumps(values),
    )  # fmt: skip
    objects = [manifest for manifest in yaml_texts.load_all(text) if manifest is not None]

    assert {manifest["kind"] for manifest in objects} >= {"Namespace", "Certificate", *kinds}
    assert "456" in str(objects)
    assert [value for value in _values(objects) if value in (123, 456)] == []


@pytest.mark.parametrize(
    "values",
    [
        {"postgresql": {"existingSecret": "123", "key": "456", "caKey": "123"}},
        {"persistence": {"existingClaim": "123"}},
    ],
)
def test_names_of_a_database_that_look_like_numbers_are_names(values: dict[str, Any]) -> None:
    deployment = rendered({"webhook": values})["webhook/deployment"]
    assert "123" in str(deployment)
    assert [value for value in _values(deployment) if value in (123, 456)] == []


def _values(value: Any) -> Iterator[Any]:
    """Give whatever stands in objects, names of fields left out."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if parts is None:
        yield value
    else:
        for part in parts:
            yield from _values(part)


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


def test_only_the_forgetter_may_have_history_forgotten_and_is_there_when_asked_for() -> None:
    forgotten = [path for path, methods in json.loads(document())["paths"].items() if "delete" in methods]
    assert len(forgotten) == 2

    def may_forget(values: dict[str, Any]) -> set[str]:
        return {
            manifest["metadata"]["name"]
            for parts in rendered(values).values()
            for manifest in parts
            for rule in manifest.get("rules") or ()
            if "delete" in rule.get("verbs", ())
            and all(any(fnmatchcase(path, url) for url in rule.get("nonResourceURLs", ())) for path in forgotten)
        }

    enabled: dict[str, Any] = {"webhook": {"forgetter": {"enabled": True}}}
    assert may_forget({}) == set()
    assert may_forget(enabled) == {"plimsoll-webhook-forgetter"}
    assert may_forget({"webhook": {"enabled": False, **enabled["webhook"]}}) == set()


def test_only_the_importer_may_hand_over_history_and_is_there_when_asked_for() -> None:
    def may_import(values: dict[str, Any]) -> set[str]:
        return {
            manifest["metadata"]["name"]
            for parts in rendered(values).values()
            for manifest in parts
            for rule in manifest.get("rules") or ()
            if any(fnmatchcase("/v1/history", url) for url in rule.get("nonResourceURLs", ()))
        }

    enabled: dict[str, Any] = {"webhook": {"importer": {"enabled": True}}}
    assert may_import({}) == set()
    assert may_import(enabled) == {"plimsoll-webhook-importer"}
    assert may_import({"webhook": {"enabled": False, **enabled["webhook"]}}) == set()


def test_empty_sections_of_settings_are_as_if_they_were_not_there() -> None:
    """As people leave them when they comment out what was below."""
    assert rendered({"settings": None, "webhook": {"settings": None}, "excludedNamespaces": None}) == rendered(
        {"excludedNamespaces": []}
    )


def test_further_kinds_of_buffers_may_be_read_and_watched() -> None:
    def rules(**buffers: Any) -> list[Any]:
        values = {"buffers": {"enabled": True, **buffers}}
        [rights] = [row["rules"] for row in rendered(values)["webhook/rights-buffers"] if row["kind"] == "ClusterRole"]
        return list(rights)

    rollouts = {"apiGroup": "argoproj.io", "resource": "rollouts"}
    with_them = rules(scalables=[rollouts, {"apiGroup": "x.io", "resource": "sets"}])
    added = [rule for rule in with_them if rule not in rules()]
    assert added == [
        {"apiGroups": ["argoproj.io"], "resources": ["rollouts"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["x.io"], "resources": ["sets"], "verbs": ["get", "list", "watch"]},
    ]
    # Their scale is asked for under the rule that holds for every kind.
    assert {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]} in with_them


def test_names_are_asked_for_at_the_ports_of_every_distributions_dns() -> None:
    """OpenShift's DNS pods listen on 5353, and network policies hold what is behind the Service."""
    for template in ("agent/network", "webhook/network"):
        for values, ports in (({}, [53, 5353]), ({"networkPolicy": {"dnsPorts": [1053]}}, [1053])):
            [first, *_] = rendered(values)[template][0]["spec"]["egress"]
            assert first == {"ports": [{"port": port, "protocol": name} for port in ports for name in ("UDP", "TCP")]}


def test_cert_managers_secret_stands_in_nobodys_way() -> None:
    """It outlives the release; under the name of the chart's own none with built-in could be installed later."""
    issued: dict[str, Any] = {"webhook": {"certificate": {"source": "cert-manager", "issuerRef": {"name": "ours"}}}}
    own = [manifest["metadata"]["name"] for manifest in rendered()["webhook/kept"] if manifest["kind"] == "Secret"]
    [certificate] = rendered(issued)["webhook/certificate"]
    assert [certificate["spec"]["secretName"]] != own
    [settings] = rendered(issued)["webhook/settings"]
    assert yaml_texts.load(settings["data"]["settings.yaml"])["certificate"] == {
        "source": "secret",
        "secret": certificate["spec"]["secretName"],
    }
    [read] = [
        rule["resourceNames"]
        for manifest in rendered(issued)["webhook/rights"]
        for rule in manifest.get("rules", [])
        if rule.get("resources") == ["secrets"]
    ]
    assert read == [certificate["spec"]["secretName"]]


def test_every_setting_may_be_set_to_its_own_default(tmp_path: Path) -> None:
    """What the program takes the schema takes too, number for number."""
    closed = {"act", "cgroup", "kubernetes", "pod_limits", "report", "serving", "state"}
    settings = Settings()
    values = {
        name: {key.rpartition(".")[2]: plain for key, plain in _plain_values(settings, name).items()}
        for name in (field.name for field in fields(settings))
        if name not in closed and is_dataclass(getattr(settings, name))
    }
    sections = {_camel(name): content for name, content in values.items()}
    assert len(sections) > 10
    assert differences(agent_settings(tmp_path, {"settings": sections}), agent_settings(tmp_path), Settings) == {}


def _plain_values(settings: Settings, section: str) -> dict[str, Any]:
    content = settings.to_dict()[_camel(section)]
    assert isinstance(content, dict)
    return {key: value for key, value in content.items() if value is not None}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def test_lint_finds_nothing() -> None:
    said = helm("lint", "--strict", str(chart.CHART), f"--kube-version={KUBERNETES}", "--namespace=plimsoll")
    assert "[ERROR]" not in said
    assert "[WARNING]" not in said

"""Values that clash, or are wrong by themselves: Helm refuses them at template time and says what to set."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.cluster.chart import ChartError, rendered

AUTHORITY: Final = "-----BEGIN CERTIFICATE-----"
REFUSING: Final = {"fence": {"unannotated": "refuse"}}
AGENTS_ONLY: Final = {"webhook": {"enabled": False}}


def certificate(**values: Any) -> dict[str, Any]:
    return {"webhook": {"certificate": values}}


def webhook_settings(**values: Any) -> dict[str, Any]:
    return {"webhook": {"settings": values}}


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
    "rings-on-a-disk": ({"agent": {"state": {"ringsHostPath": "/var/lib/plimsoll"}}}, "set a directory in memory"),
    "whole-run-rings": ({"agent": {"state": {"ringsHostPath": "/run/"}}}, "set a directory in memory"),
    "whole-folder-state": ({"agent": {"state": {"hostPath": "/var/"}}}, "set a directory of its own"),
    "published-and-not-enabled": (
        {"webhook": {"vpa": {"publish": "enforced"}}},
        "set webhook.vpa.enabled=true, or webhook.vpa.publish=off",
    ),
    "rules-without-webhook": (
        {"cluster": {"rules": [{"kind": "Deployment", "mode": "off"}]}, **AGENTS_ONLY},
        "the annotations plimsoll.dev/mode and plimsoll.dev/policy on namespaces and pods instead",
    ),
    "scalables-without-buffers": (
        {"buffers": {"scalables": [{"apiGroup": "x.io", "resource": "sets"}]}},
        "set buffers.enabled=true",
    ),
    "kept-without-buffers": ({"buffers": {"keepStatusFrom": ["karpenter"]}}, "set buffers.enabled=true"),
    "enforce-and-refuse": ({"mode": "enforce", **REFUSING}, "or fence.unannotated=allow"),
    "protect-and-refuse": ({"mode": "protect", **REFUSING}, "fence.unannotated is refuse and mode is protect"),
    "enforce-rule-and-refuse": (
        {"cluster": {"rules": [{"kind": "Deployment", "mode": "enforce"}]}, **REFUSING},
        "or fence.unannotated=allow",
    ),
    "agent-unreachable": (
        {"settings": {"serving": {"address": "127.0.0.1"}}},
        "settings.serving.address is 127.0.0.1, where no probe reaches the pod: leave it out, or set 0.0.0.0",
    ),
    "webhook-unreachable": (
        webhook_settings(listening={"address": "localhost"}),
        "webhook.settings.listening.address is localhost, where no probe reaches the pod",
    ),
    "killed-before-its-end": (
        webhook_settings(listening={"endSeconds": 13}),
        "the pod is killed 20 s after it is told to end, of which that may have 12: set 12 or less",
    ),
    "certificate-for-another-service": (
        webhook_settings(certificate={"service": "other"}),
        "webhook.settings.certificate.service cannot be set here; its name is plimsoll-webhook",
    ),
    "another-registration": (
        webhook_settings(certificate={"configuration": "other"}),
        "webhook.settings.certificate.configuration cannot be set here; its name is plimsoll",
    ),
    "jobs-read-without-the-right": (
        webhook_settings(cluster={"readsJobs": True}),
        "webhook.settings.cluster.readsJobs cannot be set here: set webhook.readJobs, which brings the right as well",
    ),
    "vpas-without-the-rights": (
        webhook_settings(vpaObjects={"enabled": True}),
        "webhook.settings.vpaObjects.enabled cannot be set here: set webhook.vpa.enabled",
    ),
    "vpas-published-without-the-rights": (
        webhook_settings(vpaObjects={"publish": "enforced"}),
        "webhook.settings.vpaObjects.publish cannot be set here: set webhook.vpa.publish",
    ),
    "targets-without-the-right": (
        webhook_settings(hpa={"preserve": "follow"}),
        "webhook.settings.hpa.preserve cannot be set here: set webhook.hpa.preserve",
    ),
    "prices-that-are-not-mounted": (
        webhook_settings(cost={"file": "/prices.csv"}),
        "webhook.settings.cost.file cannot be set here: set webhook.prices, which mounts it",
    ),
    "restored-at-once": (
        {"namespace": {"create": True}, "uninstall": {"restore": True}},
        "which would restore all pods and end the agents at once: set one of the two to false",
    ),
    "issuer-unused": (certificate(issuerRef={"name": "ours"}), "set webhook.certificate.source=cert-manager"),
    "bundle-replaced": (
        certificate(source="cert-manager", issuerRef={"name": "ours"}, caBundle=AUTHORITY),
        "leave webhook.certificate.caBundle empty",
    ),
    "label-of-the-charts": (
        {"labels": {"app.kubernetes.io/name": "x"}},
        "labels has app.kubernetes.io/name, which the chart sets itself: set a key of your own",
    ),
    "label-that-selects": ({"labels": {"plimsoll.dev/part": "agent"}}, "labels has plimsoll.dev/part"),
    "label-of-a-monitor": (
        {"monitoring": {"podMonitor": {"labels": {"helm.sh/chart": "x"}}}},
        "monitoring.podMonitor.labels has helm.sh/chart",
    ),
    "label-twice": (
        {"labels": {"team": "a"}, "monitoring": {"rules": {"labels": {"team": "b"}}}},
        "monitoring.rules.labels has team, which labels has too: set it in one of the two",
    ),
    "database-elsewhere": (
        {"webhook": {"settings": {"database": {"url": "/data/webhook.db"}}}},
        "webhook.settings.database.url cannot be set here: set webhook.postgresql.existingSecret",
    ),
    "state-elsewhere": ({"settings": {"state": {"directory": "/data"}}}, "set agent.state.hostPath"),
    "rings-elsewhere": ({"settings": {"state": {"ringsDirectory": "/data"}}}, "set agent.state.ringsHostPath"),
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


def test_a_cluster_that_is_too_old_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        ChartError, match=r"requires kubeVersion: >=1\.33\.0-0 .* incompatible with Kubernetes v1\.32\.9"
    ):
        rendered(version="1.32.9")
    for taken in ("1.33.0", "v1.33.13-eks-1"):
        assert rendered(version=taken)


def test_a_policy_that_older_servers_lack_is_refused_in_a_sentence() -> None:
    values = {"buffers": {"enabled": True, "keepStatusFrom": ["karpenter"]}, "webhook": {"enabled": True}}
    with pytest.raises(ChartError, match=r"Kubernetes v1\.35\.9: MutatingAdmissionPolicies are there from 1\.36 on"):
        rendered(values, version="1.35.9")
    assert rendered(values, version="1.36.0")["fence/buffer-status"]


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


SOMEBODY_ELSES: Final = (
    "/var", "/var/", "/var/lib", "/var/lib/", "/var//lib", "/var/lib/../lib", "/opt", "/srv", "/var/opt",
    "/var/lib/kubelet", "/var/lib/kubelet/plimsoll", "/var/lib/containerd", "/var/lib/docker/volumes",
    "/var/lib/rancher", "/var/lib/rancher/k3s", "/var/lib/etcd", "/var/lib/cni", "/opt/cni", "/opt/cni/bin",
    "/var/log", "/var/log/plimsoll", "/var/run/plimsoll", "/run/plimsoll", "/run/containerd", "/etc/kubernetes",
    "/usr/local/plimsoll", "/tmp/plimsoll", "/root/plimsoll", "/dev/shm/plimsoll",
)  # fmt: skip
OWN: Final = (
    "/var/lib/plimsoll",
    "/var/lib/kubelet-plimsoll",
    "/var/lib/plimsoll/agent",
    "/opt/plimsoll",
    "/srv/plimsoll",
)


@pytest.mark.parametrize("path", SOMEBODY_ELSES)
def test_state_goes_into_no_directory_of_somebody_else(path: str) -> None:
    with pytest.raises(ChartError, match=r"agent\.state\.hostPath is .*: (it is given .* )?set a directory"):
        rendered({"agent": {"state": {"hostPath": path}}})


@pytest.mark.parametrize("path", OWN)
def test_state_goes_into_a_directory_of_its_own(path: str) -> None:
    [daemon_set] = rendered({"agent": {"state": {"hostPath": path}}})["agent/daemonset"]
    volumes = {volume["name"]: volume for volume in daemon_set["spec"]["template"]["spec"]["volumes"]}
    assert volumes["state"]["hostPath"]["path"] == path


@pytest.mark.parametrize("section", ["agent", "webhook", "cluster", "monitoring", "networkPolicy", "fence"])
def test_section_that_was_left_empty_is_named(section: str) -> None:
    with pytest.raises(ChartError, match=f"missing property '{section}'"):
        rendered({section: None})

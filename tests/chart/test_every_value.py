"""Every value of the chart does something: whatever is documented changes what is rendered when it is set."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Final

import pytest

from tests.chart.documented_values import documented_values
from tests.cluster.binaries import KUBERNETES
from tests.cluster.chart import CHART, NAMESPACE, RELEASE, helm

Values = dict[str, Any]

KINDS: Final = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
BUFFERS: Final[Values] = {"buffers": {"enabled": True}}
POSTGRESQL: Final[Values] = {"webhook": {"postgresql": {"existingSecret": "database"}}}
OWN_CERTIFICATE: Final[Values] = {
    "webhook": {
        "certificate": {"source": "secret", "secretName": "tls", "caBundle": "-----BEGIN CERTIFICATE-----\nMIIB\n"}
    }
}
ISSUED: Final[Values] = {"webhook": {"certificate": {"source": "cert-manager", "issuerRef": {"name": "ours"}}}}
REPORTED: Final[Values] = {"webhook": {"report": {"enabled": True}}}
RESTORED: Final[Values] = {"uninstall": {"restore": True}}
TOLERATION: Final = [{"key": "dedicated", "operator": "Exists"}]
LABELS: Final = {"example.com/team": "x"}
ENVIRONMENT: Final = [{"name": "TZ", "value": "UTC"}]
HOSTS: Final = [{"ip": "10.0.0.9", "hostnames": ["other"]}]
SPREAD: Final = [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
PRICES: Final = "EndTimestamp,InstanceID\n,n1\n"
MORE: Final = {"requests": {"memory": "512Mi"}}


def shown(part: str) -> Values:
    return {"monitoring": {part: {"enabled": True}}}


CHANGES: Final[dict[str, tuple[Any, Values]]] = {
    "mode": ("off", {}),
    "enforceNodes": ({"pool": "canary"}, {"mode": "enforce"}),
    "excludedNamespaces": (["kube-system"], {}),
    "settings": ({"sampling": {"intervalSeconds": 2}}, {}),
    "image.repository": ("registry.example/plimsoll", {}),
    "image.tag": ("1", {}),
    "image.digest": ("sha256:" + "a" * 64, {}),
    "image.pullPolicy": ("Always", {}),
    "imagePullSecrets": ([{"name": "registry"}], {}),
    "labels": (LABELS, {}),
    "namespace.create": (True, {}),
    "agent.port": (9999, {}),
    "agent.nodeSelector": (LABELS, {}),
    "agent.tolerations": (TOLERATION, {}),
    "agent.affinity": ({"nodeAffinity": {}}, {}),
    "agent.resources": (MORE, {}),
    "agent.maxUnavailable": (1, {}),
    "agent.priorityClassName": ("system-node-critical", {}),
    "agent.state.hostPath": ("/opt/plimsoll", {}),
    "agent.state.ringsHostPath": ("/dev/shm/plimsoll", {}),
    "agent.seLinuxOptions": ({"type": "spc_t"}, {}),
    "agent.podAnnotations": (LABELS, {}),
    "agent.env": (ENVIRONMENT, {}),
    "agent.hostAliases": (HOSTS, {}),
    "fence.unannotated": ("allow", {}),
    "fence.factor": (10, {}),
    "fence.floor.cpu": ("10m", {}),
    "fence.floor.memory": ("10Mi", {}),
    "podLimits.writeCgroups": (True, {}),
    "podLimits.qosReservedWrite": (True, {}),
    "evictions.enabled": (True, {}),
    "buffers.enabled": (True, {}),
    "buffers.placeholders": (True, BUFFERS),
    "buffers.scalables": ([{"apiGroup": "argoproj.io", "resource": "rollouts"}], BUFFERS),
    "buffers.schedulers": (["volcano"], {"buffers": {"enabled": True, "placeholders": True}}),
    "buffers.keepStatusFrom": (["system:serviceaccount:kube-system:karpenter"], BUFFERS),
    "webhook.enabled": (False, {}),
    "webhook.replicas": (3, POSTGRESQL),
    "webhook.settings": ({"access": {"rows": 100}}, {}),
    "webhook.readJobs": (True, {}),
    "webhook.prices": (PRICES, {}),
    "webhook.vpa.enabled": (True, {}),
    "webhook.vpa.publish": ("enforced", {"webhook": {"vpa": {"enabled": True}}}),
    "webhook.hpa.preserve": ("follow", {}),
    "webhook.postgresql.existingSecret": ("database", {}),
    "webhook.postgresql.key": ("other", POSTGRESQL),
    "webhook.postgresql.caKey": ("ca.crt", POSTGRESQL),
    "webhook.postgresql.port": (6432, POSTGRESQL),
    "webhook.forgetter.enabled": (True, {}),
    "webhook.importer.enabled": (True, {}),
    "webhook.report.enabled": (True, {}),
    "webhook.report.schedule": ("@weekly", REPORTED),
    "webhook.report.output": ("html", REPORTED),
    "webhook.report.send": ({"image": "mailer"}, REPORTED),
    "webhook.persistence.enabled": (False, {}),
    "webhook.persistence.size": ("1Gi", {}),
    "webhook.persistence.storageClass": ("fast", {}),
    "webhook.persistence.existingClaim": ("mine", {}),
    "webhook.persistence.keep": (True, {}),
    # None of the three may be without what the others may not have: what goes with it is set together with it.
    "webhook.certificate.source": ("secret", {}),
    "webhook.certificate.secretName": ("other", OWN_CERTIFICATE),
    "webhook.certificate.caBundle": ("-----BEGIN CERTIFICATE-----\nMIIC\n", OWN_CERTIFICATE),
    "webhook.certificate.issuerRef.name": ("others", ISSUED),
    "webhook.certificate.issuerRef.kind": ("ClusterIssuer", ISSUED),
    "webhook.certificate.issuerRef.group": ("example.com", ISSUED),
    "webhook.namespaceSelector": ([{"key": "sized", "operator": "Exists"}], {}),
    "webhook.resources": (MORE, {}),
    "webhook.nodeSelector": (LABELS, {}),
    "webhook.tolerations": (TOLERATION, {}),
    "webhook.affinity": ({"podAntiAffinity": {}}, {}),
    "webhook.topologySpreadConstraints": (SPREAD, {}),
    "webhook.priorityClassName": ("other", {}),
    "webhook.podAnnotations": (LABELS, {}),
    "webhook.env": (ENVIRONMENT, {}),
    "webhook.hostAliases": (HOSTS, {}),
    "cluster.pause": ("incident", {}),
    "cluster.rules": ([{"kind": "Deployment", "mode": "off"}], {}),
    "uninstall.restore": (True, {}),
    "uninstall.skipUnreachable": (True, RESTORED),
    "uninstall.timeoutSeconds": (60, RESTORED),
    "networkPolicy.enabled": (False, {}),
    "networkPolicy.metricsFrom": ([{"podSelector": {}}], {}),
    "networkPolicy.dnsPorts": ([53], {}),
    "networkPolicy.apiServer.ports": ([6443], {}),
    "networkPolicy.apiServer.cidrs": (["10.0.0.0/8"], {}),
    "flowControl.enabled": (False, {}),
    "flowControl.concurrencyShares": (20, {}),
    **{
        f"monitoring.{part}.{key}": (value, {} if key == "enabled" else shown(part))
        for part, values in {
            "podMonitor": {"enabled": True, "intervalSeconds": 60, "scrapeTimeoutSeconds": 5, "labels": LABELS},
            "serviceMonitor": {"enabled": True, "intervalSeconds": 60, "scrapeTimeoutSeconds": 5, "labels": LABELS},
            "rules": {
                "enabled": True,
                "labels": LABELS,
                "disabled": ["PlimsollFlapping"],
                "runbookUrl": "https://example.org/RUNBOOK.md",
            },
            "dashboards": {"enabled": True, "labels": LABELS, "annotations": LABELS},
        }.items()
        for key, value in values.items()
    },
}
"""By the value's path: what it is set to, and beside which others, without which it would mean nothing. No value is
excepted: one that changed nothing would be a promise that nobody keeps."""


@functools.cache
def _text(values: str) -> str:
    known = [word for kind in KINDS for word in ("--api-versions", f"monitoring.coreos.com/v1/{kind}")]
    return helm(
        *("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}", *known),
        "--values=-",
        stdin=values,
    )


def objects(values: Values) -> str:
    """Render all; checksums of settings, which change with any of them, are left out, as are comments."""
    text = _text(json.dumps(values, sort_keys=True))
    return re.sub(r"^\s*(#.*|checksum/.*)$", "", text, flags=re.M)


def merged(values: Values, more: Values) -> Values:
    both = {**values, **more}
    return {
        key: merged(values[key], more[key])
        if isinstance(values.get(key), dict) and isinstance(more.get(key), dict)
        else value
        for key, value in both.items()
    }


def nested(key: str, value: Any) -> Values:
    tree: Any = value
    for word in reversed(key.split(".")):
        tree = {word: tree}
    return dict(tree)


def test_no_value_is_left_out_and_none_is_set_to_its_default() -> None:
    defaults = {entry.key: entry.default for entry in documented_values()}
    assert CHANGES.keys() == defaults.keys()
    assert [key for key, (value, _) in CHANGES.items() if value == defaults[key]] == []


@pytest.mark.parametrize("key", CHANGES)
def test_value_changes_what_is_rendered(key: str) -> None:
    value, beside = CHANGES[key]
    together = OWN_CERTIFICATE if key == "webhook.certificate.source" else {}
    assert objects(merged(merged(beside, together), nested(key, value))) != objects(beside)

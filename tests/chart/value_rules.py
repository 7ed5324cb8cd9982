"""What each value of the chart may be, as JSON Schema, beyond the type that its default shows."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_NAME: Final = "^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_OR_EMPTY: Final = "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$"
_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"


def one_of(*words: Any) -> Schema:
    return {"enum": list(words)}


def text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


def number(low: float, high: float, kind: str = "integer") -> Schema:
    return {"type": kind, "minimum": low, "maximum": high}


def closed(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


ANY: Final[Schema] = {"type": "object"}
"""A type of Kubernetes' own that the API server judges better than a copy of its schema would."""
TEXT: Final[Schema] = {"type": "string"}
NAMED: Final = {**closed(name=text(_NAME)), "required": ["name"]}
LABELS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 63}}
ANNOTATIONS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
QUANTITY: Final = text(_QUANTITY)
AMOUNTS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"anyOf": [QUANTITY, {"type": "number", "minimum": 0}]},
}
RESOURCES: Final = closed(requests=AMOUNTS, limits=AMOUNTS)
TOLERATIONS: Final = list_of(
    closed(
        key=TEXT,
        operator=one_of("Exists", "Equal"),
        value=TEXT,
        effect=one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),
        tolerationSeconds={"type": "integer"},
    )
)
ENVIRONMENT: Final = list_of(
    {**closed(name=text("^[A-Za-z_][A-Za-z0-9_]*$"), value=TEXT, valueFrom=ANY), "required": ["name"]}
)
HOST_ALIASES: Final = list_of({**closed(ip=TEXT, hostnames=list_of(TEXT)), "required": ["ip", "hostnames"]})
SELECTOR_TERMS: Final = list_of(
    {
        **closed(key=TEXT, operator=one_of("In", "NotIn", "Exists", "DoesNotExist"), values=list_of(TEXT)),
        "required": ["key", "operator"],
    }
)
NAMESPACES: Final[Schema] = {**list_of(text("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")), "uniqueItems": True}

RULES: Final[dict[str, Schema]] = {
    # A bare off is false in YAML 1.1.
    "mode": one_of("off", "recommend", "protect", "enforce", False),
    "enforceNodes": LABELS,
    "excludedNamespaces": NAMESPACES,
    "settings": {"$ref": "#/$defs/settings"},
    "image.repository": text(r"^[^\s@\"'`]+$"),
    "image.tag": text(r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$"),
    "image.digest": text("^(sha256:[0-9a-f]{64})?$"),
    "image.pullPolicy": one_of("Always", "IfNotPresent", "Never"),
    "imagePullSecrets": list_of(NAMED),
    "labels": LABELS,
    "agent.port": number(1024, 65_535),
    "agent.nodeSelector": LABELS,
    "agent.tolerations": TOLERATIONS,
    "agent.affinity": ANY,
    "agent.resources": RESOURCES,
    "agent.maxUnavailable": {"anyOf": [number(1, 5000), text("^([1-9][0-9]?|100)%$")]},
    "agent.priorityClassName": text(_OR_EMPTY),
    "agent.state.hostPath": text("^(/.+)?$"),
    "agent.state.ringsHostPath": text("^(/.+)?$"),
    "agent.seLinuxOptions": closed(user=TEXT, role=TEXT, type=TEXT, level=TEXT),
    "agent.podAnnotations": ANNOTATIONS,
    "agent.env": ENVIRONMENT,
    "agent.hostAliases": HOST_ALIASES,
    "fence.unannotated": one_of("", "allow", "refuse"),
    "fence.factor": number(1, 1_000_000, "number"),
    "fence.floor.cpu": QUANTITY,
    "fence.floor.memory": QUANTITY,
    "buffers.scalables": list_of(
        {**closed(apiGroup=TEXT, resource=text("^[a-z][-a-z0-9]*$")), "required": ["apiGroup", "resource"]}
    ),
    "buffers.schedulers": {**list_of(text(_NAME)), "uniqueItems": True},
    "buffers.keepStatusFrom": {**list_of(text("^[^\\s'\"]+$")), "uniqueItems": True},
    "webhook.replicas": {"type": ["integer", "null"], "minimum": 1, "maximum": 20},
    "webhook.vpa.publish": one_of("off", "enforced", False),
    "webhook.hpa.preserve": one_of("off", "follow", "restore", False),
    "webhook.settings": {"$ref": "#/$defs/webhookSettings"},
    "webhook.postgresql.existingSecret": text(_OR_EMPTY),
    "webhook.postgresql.key": text("^[-._a-zA-Z0-9]+$"),
    "webhook.postgresql.caKey": text("^[-._a-zA-Z0-9]*$"),
    "webhook.postgresql.port": number(1, 65_535),
    "webhook.report.schedule": text(r"^(@[a-z]+|\S+( \S+){4})$"),
    "webhook.report.output": one_of("md", "html"),
    "webhook.report.send": ANY,
    "webhook.persistence.size": QUANTITY,
    "webhook.persistence.existingClaim": text(_OR_EMPTY),
    "webhook.certificate.source": one_of("built-in", "secret", "cert-manager"),
    "webhook.certificate.secretName": text(_OR_EMPTY),
    "webhook.certificate.caBundle": text(r"^(\s*-----BEGIN CERTIFICATE-----[\s\S]*)?$"),
    "webhook.certificate.issuerRef.kind": one_of("Issuer", "ClusterIssuer"),
    "webhook.namespaceSelector": SELECTOR_TERMS,
    "webhook.resources": RESOURCES,
    "webhook.nodeSelector": LABELS,
    "webhook.tolerations": TOLERATIONS,
    "webhook.affinity": ANY,
    "webhook.topologySpreadConstraints": list_of(ANY),
    "webhook.priorityClassName": text(_OR_EMPTY),
    "webhook.podAnnotations": ANNOTATIONS,
    "webhook.env": ENVIRONMENT,
    "webhook.hostAliases": HOST_ALIASES,
    "cluster.rules": {
        **list_of(
            {
                **closed(
                    namespace=TEXT,
                    kind=TEXT,
                    name=TEXT,
                    mode=one_of("off", "recommend", "protect", "enforce", False),
                    policy=one_of("cruise", "vpa", "crane", "plimsoll"),
                    startupBoost={"anyOf": [TEXT, {"const": False}]},  # its grammar is the webhook's to judge
                    enforceShare=text(r"^\d{1,3}(\.\d{1,2})? ?%$"),
                    windows=TEXT,  # and so is this
                ),
                "anyOf": [{"required": [key]} for key in ("mode", "policy", "startupBoost", "enforceShare", "windows")],
            }
        ),
        "maxItems": 500,
    },
    "uninstall.timeoutSeconds": number(10, 86_400),
    "networkPolicy.metricsFrom": list_of(ANY),
    # An empty list would be every port.
    "networkPolicy.dnsPorts": {**list_of(number(1, 65_535)), "minItems": 1},
    "networkPolicy.apiServer.ports": {**list_of(number(1, 65_535)), "minItems": 1},
    "networkPolicy.apiServer.cidrs": list_of(text("^[0-9a-fA-F.:]+/[0-9]{1,3}$")),
    "flowControl.concurrencyShares": number(1, 1000),
    "monitoring.podMonitor.intervalSeconds": number(5, 300),
    "monitoring.podMonitor.scrapeTimeoutSeconds": number(1, 300),
    "monitoring.podMonitor.labels": LABELS,
    "monitoring.serviceMonitor.intervalSeconds": number(5, 300),
    "monitoring.serviceMonitor.scrapeTimeoutSeconds": number(1, 300),
    "monitoring.serviceMonitor.labels": LABELS,
    "monitoring.rules.labels": LABELS,
    "monitoring.rules.disabled": {**list_of(TEXT), "uniqueItems": True},
    "monitoring.dashboards.labels": LABELS,
    "monitoring.dashboards.annotations": ANNOTATIONS,
}
"""By the value's path. A value without one is a boolean or a text, as its default says."""

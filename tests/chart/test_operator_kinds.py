"""PodMonitor, ServiceMonitor, PrometheusRule and Certificate on a real API server that has these kinds' definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests import yaml_texts
from tests.chart.operator_kinds import ensure_definitions
from tests.chart.release import Release, listed
from tests.cluster.api import ApiError, Json
from tests.cluster.binaries import KUBERNETES
from tests.cluster.chart import CHART, NAMESPACE, RELEASE, helm
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS: Final = ("PodMonitor", "ServiceMonitor", "PrometheusRule", "Certificate")
ON: Final[dict[str, Any]] = {
    "monitoring": {
        **{part: {"enabled": True} for part in ("podMonitor", "serviceMonitor", "rules", "dashboards")},
    },
    "webhook": {"certificate": {"source": "cert-manager", "issuerRef": {"name": "ours"}}},
}
OTHERWISE: Final[dict[str, Any]] = {
    "monitoring": {
        "podMonitor": {"enabled": True, "labels": {"release": "x"}, "intervalSeconds": 60, "scrapeTimeoutSeconds": 30},
        "serviceMonitor": {"enabled": True, "labels": {"release": "x"}},
        "rules": {
            "enabled": True,
            "labels": {"role": "alerts"},
            "disabled": ["PlimsollNodeHot"],
            "runbookUrl": "https://runbooks.example",
        },
    },
    "mode": "enforce",
    "enforceNodes": {"pool": "canary"},
    "webhook": {
        "postgresql": {"existingSecret": "db"},
        "certificate": {
            "source": "cert-manager",
            "secretName": "own",
            "issuerRef": {"name": "ours", "kind": "ClusterIssuer"},
        },
    },
}


@pytest.fixture(scope="module")
def served(release: Release) -> Iterator[Release]:
    """A cluster that has the kinds, and no release."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    admin, definitions = release.plane.admin, ensure_definitions()
    for definition in definitions:
        admin.create(DEFINITIONS, definition)
    own = Release(release.plane)
    for manifest in examples(definitions):
        wait_for(lambda manifest=manifest: own.collection(manifest) is not None, "the kind is known")  # type: ignore[misc]
        listed(admin, str(own.collection(manifest)))
    yield own
    for definition in definitions:
        path = f"{DEFINITIONS}/{definition['metadata']['name']}"
        admin.delete(path)
        wait_for(lambda path=path: not admin.exists(path), "the kind is gone")  # type: ignore[misc]


def examples(definitions: list[Json]) -> list[Json]:
    """Return something of each kind."""
    return [
        {
            "apiVersion": f"{definition['spec']['group']}/{version['name']}",
            "kind": definition["spec"]["names"]["kind"],
            "metadata": {"namespace": NAMESPACE},
        }
        for definition in definitions
        for version in definition["spec"]["versions"]
    ]


def made(values: dict[str, Any]) -> list[Json]:
    """Return the chart's objects of these kinds."""
    known = [word for kind in KINDS[:3] for word in ("--api-versions", f"monitoring.coreos.com/v1/{kind}")]
    text = helm(
        "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--kube-version={KUBERNETES}", *known,
        "--values=-", stdin=json.dumps(values),
    )  # fmt: skip
    return [manifest for manifest in yaml_texts.load_all(text) if manifest is not None and manifest["kind"] in KINDS]


def tried(release: Release, manifest: Json) -> Json:
    """Have the server judge an object, strictly, and store nothing."""
    path = f"{release.collection(manifest)}/{manifest['metadata']['name']}"
    query = {"dryRun": "All", "fieldManager": "tests", "fieldValidation": "Strict", "force": "true"}
    return release.plane.admin.patch(path, manifest, "application/apply-patch+yaml", **query)


@pytest.mark.parametrize("values", [ON, OTHERWISE], ids=["defaults", "everything-set"])
def test_server_takes_every_object_of_other_peoples_kinds(served: Release, values: dict[str, Any]) -> None:
    manifests = made(values)
    assert sorted(manifest["kind"] for manifest in manifests) == sorted(KINDS)
    for manifest in manifests:
        assert tried(served, manifest)["spec"].keys() >= manifest["spec"].keys(), manifest["kind"]


def test_a_field_that_the_kind_has_not_is_refused(served: Release) -> None:
    for manifest in made(ON):
        manifest["spec"]["nonsense"] = True
        with pytest.raises(ApiError, match="nonsense"):
            tried(served, manifest)


def test_helm_installs_and_removes_them(served: Release) -> None:
    served.install(ON)
    paths = [f"{served.collection(manifest)}/{manifest['metadata']['name']}" for manifest in made(ON)]
    assert [path for path in paths if not served.plane.admin.exists(path)] == []
    served.uninstall()
    assert [path for path in paths if served.plane.admin.exists(path)] == []

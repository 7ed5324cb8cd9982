"""The chart as a release on a control plane: installed, upgraded, uninstalled by Helm; and all that a cluster holds."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cluster.api import Api, ApiError, Json, is_awaited
from tests.cluster.chart import CHART, NAMESPACE, RELEASE, helm
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace
from tests.cluster.processes import wait_for

_PASSING: Final = frozenset({"events", "componentstatuses"})
"""Kinds of which objects come and go by themselves."""
_LEFT: Final = "autoscaling.x-k8s.io"
"""Helm leaves the CustomResourceDefinitions of crds/, and with them their kind: people's objects hang on them."""

ObjectKey = tuple[str, str, str]
"""Path of the kind, namespace, name."""


@dataclass(slots=True)
class Release:
    """What Helm is told, as people tell it."""

    plane: ControlPlane
    kinds: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.plane.admin.exists(f"/api/v1/namespaces/{NAMESPACE}"):
            create_namespace(self.plane, NAMESPACE)

    def install(self, values: Mapping[str, Any] | None = None, chart: Path = CHART) -> None:
        self._run("install", values, chart)

    def upgrade(self, values: Mapping[str, Any] | None = None, chart: Path = CHART) -> None:
        self._run("upgrade", values, chart)

    def rollback(self) -> None:
        helm("rollback", RELEASE, *self._where())

    def uninstall(self, *options: str) -> None:
        helm("uninstall", RELEASE, *options, *self._where())

    def status(self) -> str:
        status: str = json.loads(helm("status", RELEASE, "-o=json", *self._where()))["info"]["status"]
        return status

    def _run(self, verb: str, values: Mapping[str, Any] | None, chart: Path = CHART) -> None:
        # Without values Helm would take those of the release before.
        fresh = ("--reset-values",) if verb == "upgrade" else ()
        helm(verb, RELEASE, str(chart), "--values=-", *fresh, *self._where(), stdin=json.dumps(values or {}))

    def _where(self) -> tuple[str, ...]:
        return f"--namespace={NAMESPACE}", f"--kubeconfig={self.plane.kubeconfig}"

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        command = [str(self.plane.kubectl), f"--kubeconfig={self.plane.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def collection(self, manifest: Json) -> str | None:
        """Return the path of the objects of a manifest's kind in its namespace; None = the cluster has no such kind."""
        key = manifest["apiVersion"], manifest["kind"]
        if key not in self.kinds:
            # A definition made a moment ago shows after the others do: what is not known is asked for each time.
            self.kinds.update(
                {(version, kind): (path, is_spaced) for version, kind, path, is_spaced in kinds_of(self.plane.admin)}
            )
        if key not in self.kinds:
            return None
        path, is_spaced = self.kinds[key]
        if not is_spaced:
            return path
        head, _, resource = path.rpartition("/")
        return f"{head}/namespaces/{manifest['metadata']['namespace']}/{resource}"


def kinds_of(api: Api) -> Iterator[tuple[str, str, str, bool]]:
    """Give every kind that can be listed: apiVersion, kind, path of its objects, whether it is namespaced.

    A group whose definitions were made or taken away a moment ago is named before, or after, it is served: it has none.
    """
    groups = ["/api/v1", *(f"/apis/{row['preferredVersion']['groupVersion']}" for row in api.get("/apis")["groups"])]
    for group in groups:
        try:
            resources = api.get(group)["resources"]
        except ApiError as error:
            if error.status != 404:
                raise
            continue
        for resource in resources:
            if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] not in _PASSING:
                version = group.removeprefix("/apis/").removeprefix("/api/")
                yield version, resource["kind"], f"{group}/{resource['name']}", resource["namespaced"]


def listed(api: Api, path: str) -> list[Json]:
    """List objects; a kind whose definition has just changed is initialized for a moment, and says 429 until then."""
    answers: list[list[Json]] = []

    def is_answered() -> bool:
        answers.append(api.items(path))
        return True

    wait_for(lambda: is_awaited(is_answered, http.client.TOO_MANY_REQUESTS), f"{path} is served")
    return answers[-1]


def everything(api: Api) -> set[ObjectKey]:
    """Return all that the cluster holds, but for what comes and goes by itself."""
    keys: set[ObjectKey] = set()
    for _, _, path, _ in kinds_of(api):
        try:
            items = listed(api, path)
        except ApiError as error:
            if error.status not in (404, 405):
                raise
            continue
        keys |= {(path, document["metadata"].get("namespace", ""), document["metadata"]["name"]) for document in items}
    return {key for key in keys if _LEFT not in key[2] and _LEFT not in key[0]}

"""The chart as Helm renders it, for tests that put parts of it into a cluster or read them; and Helm itself."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests import yaml_texts
from tests.cluster.api import Json
from tests.cluster.binaries import KUBERNETES, require

CHART: Final = Path(__file__).parents[2] / "charts" / "plimsoll"
RELEASE: Final = "plimsoll"
NAMESPACE: Final = "plimsoll"
AGENT: Final = ("cluster/namespace", "agent/account", "agent/rights")
FENCE: Final = ("fence/resizes", "fence/taint", "fence/events", "fence/priority")
WEBHOOK: Final = (
    "cluster/rules", "webhook/account", "webhook/rights", "webhook/reader", "webhook/kept", "fence/registration",
)  # fmt: skip
EVICTIONS: Final = ("webhook/rights-evictions", "fence/evictions")
REGISTRATION: Final = ("webhook/registration",)

_SOURCE: Final = re.compile(r"^# Source: plimsoll/(?:templates/)?(.+)\.yaml$", re.M)


class ChartError(Exception):
    """Helm refused; its words."""


def helm(*arguments: str, stdin: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run the pinned Helm and give what it prints.

    Raises:
        ChartError: It ended with another code than 0.
        BinaryError: It is not built.
    """
    command = [str(require("helm")), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise ChartError(done.stderr.strip() or done.stdout.strip())
    return done.stdout


def rendered(
    values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE, version: str = KUBERNETES
) -> dict[str, list[Json]]:
    """Render the whole chart; once per session for the same values.

    Args:
        values: Over those of values.yaml.
        namespace: The release's.
        version: Of Kubernetes, for which it is rendered.

    Returns:
        Fresh objects by template below templates/ (``agent/rights``), in Helm's order of installation.

    Raises:
        ChartError: Helm refused the values; its words.
    """
    parts: dict[str, list[Json]] = {}
    for document in _documents(json.dumps(values or {}, sort_keys=True), namespace, version):
        source = _SOURCE.search(document)
        content = yaml_texts.load(document)
        if source is not None and content is not None:
            parts.setdefault(source[1], []).append(content)
    return parts


@functools.cache
def _documents(values: str, namespace: str, version: str) -> Sequence[str]:
    text = helm(
        "template", RELEASE, str(CHART), f"--namespace={namespace}", f"--kube-version={version}", "--values=-",
        stdin=values,
    )  # fmt: skip
    return re.split(r"^---$", text, flags=re.M)


def parts(*names: str, values: Mapping[str, Any] | None = None, namespace: str = NAMESPACE) -> list[Json]:
    """Return the objects of some templates, with a Namespace object where its template is among them.

    Raises:
        KeyError: A template renders nothing with these values.
    """
    by_template = rendered({"namespace": {"create": True}, **(values or {})}, namespace=namespace)
    return [manifest for name in names for manifest in by_template[name]]


def only(kind: str, *names: str, values: Mapping[str, Any] | None = None) -> Json:
    """Return the one object of a kind among some templates'."""
    [manifest] = [part for part in parts(*names, values=values) if part["kind"] == kind]
    return manifest

"""What krew installs ``kubectl plimsoll`` by: an archive with a launcher, and the manifest that names it.

The launcher runs the released package of the same version in an environment of its own, so that one archive serves
every machine and every Python. The manifest holds the archive's sum, so both are made together, at a release.

Source:
    What a manifest must have: ``internal/index/validation`` of krew; plugins need a LICENSE in the archive (its guide).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

NAME = "plimsoll"
PROGRAM = f"kubectl-{NAME}"
API_VERSION = "krew.googlecontainertools.github.com/v1alpha2"
_LAUNCHER = """\
#!/bin/sh
# kubectl plimsoll, as krew installs it: runs the package plimsoll {version} in an environment of its own.
set -eu
package='plimsoll[webhook]=={version}'
if command -v uvx >/dev/null 2>&1; then
    exec uvx --quiet --from "$package" {program} "$@"
fi
if command -v pipx >/dev/null 2>&1; then
    exec pipx run --spec "$package" {program} "$@"
fi
echo "kubectl plimsoll: neither uv nor pipx is on the PATH; allowed: install one of them, or pip install '$package'" >&2
exit 2
"""


def archive(version: str, root: Path) -> bytes:
    """Return the archive, the same bytes each time."""
    launcher = _LAUNCHER.format(version=version, program=PROGRAM).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content, mode in (
            (PROGRAM, launcher, 0o755),
            ("LICENSE", (root / "LICENSE").read_bytes(), 0o644),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def manifest(version: str, url: str, content: bytes) -> str:
    """Return the manifest for an archive that can be had at a URL."""
    platform = {
        "selector": {"matchLabels": {"os": "linux"}},
        "uri": url,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bin": PROGRAM,
        "files": [{"from": PROGRAM, "to": "."}, {"from": "LICENSE", "to": "."}],
    }
    document = {
        "apiVersion": API_VERSION,
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Requests and limits that pods need, and why",
            "description": "Asks Plimsoll through the API server: the agent of a node or pod (top, why, plan, events, "
            "pause) and the webhook (workloads, policy, buffers, gitops).",
            "caveats": "Needs uv or pipx on the PATH. Rights: charts/plimsoll/README.md, kubectl plimsoll.",
            "platforms": [platform],
        },
    }
    text: str = yaml.safe_dump(document, sort_keys=False, width=120)
    return text


def faults(document: Mapping[str, Any]) -> list[str]:
    """Return what krew would refuse in a manifest, a line each."""
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    refusals = [
        f"{what} is {value!r}"
        for what, value, is_right in (
            ("apiVersion", document.get("apiVersion"), document.get("apiVersion") == API_VERSION),
            ("kind", document.get("kind"), document.get("kind") == "Plugin"),
            ("name", metadata.get("name"), re.fullmatch(r"[\w-]+", str(metadata.get("name") or "")) is not None),
            ("version", spec.get("version"), re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.]+)?", str(spec.get("version")))),
            (
                "shortDescription",
                spec.get("shortDescription"),
                re.fullmatch(r"[^\r\n]{1,50}", str(spec.get("shortDescription") or "")),
            ),
            ("platforms", spec.get("platforms"), bool(spec.get("platforms"))),
        )
        if not is_right
    ]
    for platform in spec.get("platforms") or ():
        labels = (platform.get("selector") or {}).get("matchLabels") or {}
        pairs = [(file.get("from"), file.get("to")) for file in platform.get("files", [{}])]
        refusals += [
            f"{what} is {platform.get(what)!r}"
            for what, is_right in (
                ("uri", str(platform.get("uri", "")).startswith("https://")),
                ("sha256", re.fullmatch(r"[a-f0-9]{64}", str(platform.get("sha256"))) is not None),
                ("bin", bool(platform.get("bin"))),
                ("selector", bool(labels) and labels.keys() <= {"os", "arch"}),
                ("files", bool(pairs) and all(start and end for start, end in pairs)),
            )
            if not is_right
        ]
    return refusals

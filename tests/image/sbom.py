"""The bill of materials: every package of Debian and distribution of Python in the image, as CycloneDX 1.6 JSON.

It says what was put in by name; libraries that a wheel brings inside itself (OpenBLAS in numpy, libpq in psycopg) are
not told apart. It has no time of its own, and its number follows from what it lists: the same image has the same bill.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from email.message import Message
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

Json = dict[str, Any]

NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "https://plimsoll.dev/sbom")
SPDX: Final = {
    "mit": "MIT",
    "mit license": "MIT",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd-2-clause": "BSD-2-Clause",
    "apache-2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "mit-0": "MIT-0",
    "mpl-2.0": "MPL-2.0",
    "psf-2.0": "PSF-2.0",
    "isc": "ISC",
    "expat": "MIT",
    "zlib": "Zlib",
    "public-domain": "",
}
"""What metadata calls a licence, in small letters, to its SPDX identifier; empty = has none."""


def document(main: Json, components: Iterable[Json], architecture: str) -> str:
    """Return the whole bill.

    Args:
        main: The component that the image is made for.
        components: All others.
        architecture: Of the image, by Debian's name.
    """
    others = sorted(components, key=lambda entry: str(entry["bom-ref"]))
    image: Json = {
        **main,
        "type": "container",
        "bom-ref": f"image:{main['name']}@{main['version']}?arch={architecture}",
        "components": [main],
    }
    listed = json.dumps([image, others], sort_keys=True)
    whole = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, listed)}",
        "version": 1,
        "metadata": {"component": image},
        "components": others,
        "dependencies": [
            {"ref": image["bom-ref"], "dependsOn": [main["bom-ref"]]},
            {"ref": main["bom-ref"], "dependsOn": [other["bom-ref"] for other in others]},
        ],
    }
    return json.dumps(whole, indent=2) + "\n"


def debian_components(root: Path, sums: Mapping[str, str]) -> list[Json]:
    """Return Debian's packages as their notes in the image tell of them.

    Args:
        root: With ``var/lib/dpkg/status.d``.
        sums: SHA-256 of the archive by package.
    """
    components = []
    for note in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = dict(line.partition(": ")[::2] for line in note.read_text().splitlines() if re.match(r"[A-Z]", line))
        name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}&distro=debian-12"
        file = root / "usr/share/doc" / name / "copyright"
        names = licences_of(file.read_text(errors="replace")) if file.is_file() else []
        components.append(component(name, version, purl, [licence(text) for text in names], sums.get(name)))
    return components


def licences_of(text: str) -> list[str]:
    """Return the short names in a copyright file of Debian's machine-readable kind; of another kind, none."""
    if "/copyright-format/1.0" not in text:
        return []
    names = re.findall(r"^License:[ \t]*(\S[^\n]*)$", text, re.M)
    return sorted({name.strip() for name in names})


def python_components(metadata: Iterable[Message], sums: Mapping[str, tuple[str, str]]) -> list[Json]:
    """Return distributions as their metadata tells of them.

    Args:
        metadata: Of each.
        sums: Version and SHA-256 of the wheel by name, as in the lock.
    """
    known = {normal(name): digest for name, (_version, digest) in sums.items()}
    components = []
    for message in metadata:
        name, version = str(message["Name"]), str(message["Version"])
        purl = f"pkg:pypi/{normal(name)}@{quote(version)}"
        components.append(component(name, version, purl, python_licences(message), known.get(normal(name))))
    return components


def python_licences(metadata: Message) -> list[Json]:
    """Return what a distribution says of its licence: an SPDX expression, else a short name, else its classifiers."""
    expression = metadata["License-Expression"]
    if expression:
        return [{"expression": str(expression)}]
    text = str(metadata["License"] or "").strip()
    if text and "\n" not in text and len(text) <= 60:
        return [licence(text)]
    marks = [str(mark) for mark in metadata.get_all("Classifier", []) if str(mark).startswith("License ::")]
    names = [mark.rpartition(" :: ")[2] for mark in marks]
    return [licence(name) for name in names if name != "OSI Approved"]


def licence(name: str) -> Json:
    """Return a licence by its SPDX identifier where that is known, else by its name."""
    identifier = SPDX.get(name.lower())
    return {"license": {"id": identifier} if identifier else {"name": name}}


def normal(name: str) -> str:
    """Return a distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def component(name: str, version: str, purl: str, licences: list[Json], digest: str | None) -> Json:
    """Return one entry."""
    entry: Json = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licences:
        entry["licenses"] = licences
    if digest is not None:
        entry["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return entry

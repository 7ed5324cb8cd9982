"""The bill of materials names everything that is in the image, in a form that other programs read."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.image import debian, distributions
from tests.image.layers import native_architecture
from tests.image.layout import Image, version
from tests.image.sbom import document, licences_of, normal, python_licences


def test_it_is_valid_cyclonedx(image: Image) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(image.sbom.read_text()) is None


def test_it_names_everything_by_version_and_checksum(
    image: Image, root: Path, packages: tuple[debian.Package, ...]
) -> None:
    whole = json.loads(image.sbom.read_text())
    components = {component["purl"].split("?")[0]: component for component in whole["components"]}
    for package in packages:
        names = [component for component in components.values() if component["name"] == package.name]
        assert [component["version"] for component in names] == [package.version]
        assert names[0]["hashes"] == [{"alg": "SHA-256", "content": package.sha256}]
    folders = {path.name for path in (root / distributions.PLACE).glob("*.dist-info")}
    locked = distributions.read_requirements(distributions.requirements_of(native_architecture()).read_text())
    assert len(folders) == len(locked) + 1
    for name, (release, digest) in locked.items():
        component = components[f"pkg:pypi/{normal(name)}@{release}"]
        assert component["hashes"][0]["content"] == digest
        assert component["licenses"], name
    assert whole["metadata"]["component"]["components"][0]["purl"] == f"pkg:pypi/plimsoll@{version()}"


def test_the_same_contents_have_the_same_number_and_others_another() -> None:
    main = {"type": "library", "bom-ref": "a", "name": "a", "version": "1", "purl": "pkg:pypi/a@1"}
    other = {**main, "bom-ref": "b", "name": "b"}
    number, again, changed = (
        json.loads(document(main, parts, "amd64"))["serialNumber"] for parts in ([main, other], [other, main], [main])
    )
    assert number == again != changed


def test_licences_are_read_where_they_are_written_down() -> None:
    machine = (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: MIT\n text\n"
    )
    assert licences_of(machine) == ["MIT"]
    assert licences_of("This is free software. License: see below\n") == []
    metadata = Message()
    metadata["Classifier"] = "License :: OSI Approved :: MIT License"
    assert python_licences(metadata) == [{"license": {"id": "MIT"}}]
    metadata["License"] = "BSD-3-Clause"
    assert python_licences(metadata) == [{"license": {"id": "BSD-3-Clause"}}]
    metadata["License-Expression"] = "MIT OR Apache-2.0"
    assert python_licences(metadata) == [{"expression": "MIT OR Apache-2.0"}]

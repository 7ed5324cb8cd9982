"""What the image is: a valid layout, and files that hold nothing but what agent and webhook need."""

from __future__ import annotations

import email
import hashlib
import json
import os
import re
import stat
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

from tests.image import debian, distributions
from tests.image.cache import REPOSITORY
from tests.image.conftest import sha256_of
from tests.image.layers import OWN_FOLDERS, SBOM, UID
from tests.image.layout import Image, version
from tests.image.lock import runtime_requirements
from tests.image.running import configuration, document, place
from tests.image.sbom import normal

Json = dict[str, Any]

MOST_COMPRESSED_BYTES = 60e6
MOST_UNPACKED_BYTES = 200e6
FORBIDDEN_PROGRAMS = (
    "sh",
    "bash",
    "dash",
    "busybox",
    "gcc",
    "cc",
    "ld",
    "as",
    "pip",
    "pip3",
    "apt-get",
    "dpkg",
    "su",
    "mount",
)


def manifest_of(image: Image) -> Json:
    index = json.loads((image.layout / "index.json").read_text())
    assert len(index["manifests"]) == 1
    return document(image, index["manifests"][0])


def test_every_blob_is_what_its_name_says_and_nothing_lies_about(image: Image) -> None:
    index = json.loads((image.layout / "index.json").read_text())
    manifest = manifest_of(image)
    named = [index["manifests"][0], manifest["config"], *manifest["layers"]]
    for descriptor in named:
        blob = place(image, descriptor)
        assert sha256_of(blob) == blob.name
        assert blob.stat().st_size == descriptor["size"]
    blobs = {path.name for path in (image.layout / "blobs/sha256").iterdir()}
    assert blobs == {descriptor["digest"].removeprefix("sha256:") for descriptor in named}
    assert index["manifests"][0]["digest"] == image.digest
    assert json.loads((image.layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}


def test_the_configuration_names_the_layers_by_what_they_unpack_to(image: Image) -> None:
    manifest, config = manifest_of(image), configuration(image)
    for descriptor, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        unpacked = subprocess.run(["gzip", "-dc", place(image, descriptor)], stdout=subprocess.PIPE, check=True).stdout
        assert f"sha256:{hashlib.sha256(unpacked).hexdigest()}" == diff_id
    assert len(config["history"]) == len(manifest["layers"]) == 3


def test_umoci_reads_it(image: Image) -> None:
    done = subprocess.run(
        ["umoci", "stat", "--json", "--image", f"{image.layout}:{version()}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len([entry for entry in json.loads(done.stdout)["history"] if not entry.get("empty_layer")]) == 3


def test_the_archive_is_read_by_containerd_and_by_docker(image: Image) -> None:
    with tarfile.open(image.archive) as tar:
        names = tar.getnames()
        listing = tar.extractfile("manifest.json")
        assert listing is not None
        (manifest,) = json.loads(listing.read())
    assert {"oci-layout", "index.json", manifest["Config"], *manifest["Layers"]} <= set(names)
    assert manifest["RepoTags"] == [f"plimsoll:{version()}"]
    index = json.loads((image.layout / "index.json").read_text())
    names_given = index["manifests"][0]["annotations"]
    assert names_given["io.containerd.image.name"] == f"docker.io/library/plimsoll:{version()}"


def test_it_runs_as_its_own_user_and_says_what_it_is(image: Image) -> None:
    config = configuration(image)["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["/usr/bin/plimsoll"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert labels["version"] == version()
    assert labels["licenses"] == "Apache-2.0"


def test_it_is_small(image: Image) -> None:
    assert image.compressed_bytes < MOST_COMPRESSED_BYTES
    assert image.unpacked_bytes < MOST_UNPACKED_BYTES


def test_no_file_lends_rights_or_can_be_written_to(image: Image) -> None:
    for descriptor in manifest_of(image)["layers"]:
        with tarfile.open(place(image, descriptor)) as tar:
            for member in tar:
                assert not member.mode & (stat.S_ISUID | stat.S_ISGID), member.name
                assert "SCHILY.xattr.security.capability" not in member.pax_headers, member.name
                is_own = member.name in OWN_FOLDERS
                assert (member.uid, member.gid) == ((UID, UID) if is_own else (0, 0)), member.name
                assert member.mtime == 0, member.name
                if not member.issym() and member.name not in {"tmp", "var/tmp"}:
                    assert not member.mode & 0o022, member.name


def test_no_shell_no_compiler_no_installer(root: Path) -> None:
    assert sorted(path.name for path in (root / "usr/bin").iterdir()) == ["plimsoll", "python3", "python3.11"]
    programs = [path for path in root.rglob("*") if path.name in FORBIDDEN_PROGRAMS and os.access(path, os.X_OK)]
    assert [path for path in programs if path.is_file()] == []
    modules = {path.name for path in (root / distributions.PLACE).iterdir()}
    assert not modules & {"pip", "setuptools", "kubernetes", "matplotlib", "pyarrow", "pytest", "hypothesis"}


def test_only_what_is_imported_is_there(root: Path) -> None:
    names = [str(path.relative_to(root)) for path in root.rglob("*")]
    assert [name for name in names if re.search(r"/tests?/|\.(a|h|c|pyi|pyx|deb|whl)$|/man/|/locale/", name)] == []
    assert [name for name in names if name.startswith(("var/cache", "var/lib/apt", "root/", "home/"))] == []


def test_modules_are_compiled_without_times_and_are_those_of_the_sources(root: Path) -> None:
    sources = list((root / "usr").rglob("*.py"))
    count = 0
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
        if compiled.is_file():
            content = compiled.read_bytes()
            assert content[4:8] == b"\x01\0\0\0", compiled
            assert str(root).encode() not in content
            count += 1
    assert count > 0.97 * len(sources)
    assert (root / distributions.PLACE / "agent/cli/__pycache__/main.cpython-311.pyc").is_file()


def test_every_program_and_library_finds_the_libraries_it_names(root: Path) -> None:
    there = {path.name for path in root.rglob("*.so*")}
    missing = []
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    programs = [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]
    for path in programs:
        done = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True)
        needed = re.findall(r"^\s+NEEDED\s+(\S+)$", done.stdout, re.M)
        missing += [f"{path.relative_to(root)}: {name}" for name in needed if name not in there]
    assert len(programs) > 50
    assert missing == []


def test_the_locks_hold_what_the_project_asks_for() -> None:
    wanted = {normal(re.split(r"[\s<>=~!\[;]", requirement, maxsplit=1)[0]) for requirement in runtime_requirements()}
    assert "kubernetes" not in wanted
    for architecture in debian.ARCHITECTURES:
        locked = distributions.read_requirements(distributions.requirements_of(architecture).read_text())
        assert wanted <= {normal(name) for name in locked}
        assert len(debian.read_lock(architecture)) >= 20
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        requires = tomllib.load(file)["build-system"]["requires"]
    names = {re.split(r"[<>=]", requirement, maxsplit=1)[0] for requirement in requires}
    assert names <= {normal(line.split("==")[0]) for line in distributions.BUILD_REQUIREMENTS.read_text().splitlines()}


def test_both_architectures_have_the_same_versions() -> None:
    versions, other = (
        {name: release for name, (release, _) in distributions.read_requirements(path.read_text()).items()}
        for path in map(distributions.requirements_of, debian.ARCHITECTURES)
    )
    assert versions == other


def test_the_dockerfile_says_the_same(image: Image) -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    config = configuration(image)["config"]
    assert re.search(r"^USER (\S+)$", final, re.M)[1] == config["User"]  # type: ignore[index] # None fails too
    assert json.loads(re.search(r"^ENTRYPOINT (.*)$", final, re.M)[1]) == config["Entrypoint"]  # type: ignore[index]
    assert re.search(r"^ENV (.*)$", final, re.M)[1].split() == config["Env"]  # type: ignore[index]
    assert re.search(r"^WORKDIR (.*)$", final, re.M)[1] == config["WorkingDir"]  # type: ignore[index]
    labels = dict(re.findall(r'(org\.\S+)="(.*?)"', final))
    assert labels | {"org.opencontainers.image.version": version()} == {
        **config["Labels"],
        "org.opencontainers.image.revision": "${REVISION}",
    }
    assert re.findall(r"^COPY --from=build /layers/(\w+)/ /$", final, re.M) == ["debian", "python", "plimsoll"]
    assert final.startswith("\nFROM scratch\n")
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", text, re.M)


def test_the_docker_context_holds_what_the_wheel_is_made_of() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    exceptions = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert set(distributions.SOURCES) | {"tests/image"} == exceptions


def test_licences_are_in_the_image(root: Path) -> None:
    for note in (root / "var/lib/dpkg/status.d").iterdir():
        assert (root / "usr/share/doc" / note.name / "copyright").is_file(), note.name
    place = root / distributions.PLACE
    for metadata in place.glob("*.dist-info/METADATA"):
        files = email.message_from_bytes(metadata.read_bytes()).get_all("License-File", [])
        for name in files:
            assert list(metadata.parent.rglob(Path(name).name)), (metadata, name)


def test_the_bill_of_materials_lies_in_the_image(image: Image, root: Path) -> None:
    assert (root / SBOM).read_bytes() == image.sbom.read_bytes()

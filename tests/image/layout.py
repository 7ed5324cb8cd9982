"""An image as files: an OCI layout, and one archive of it that containerd, podman and docker read alike.

No registry, daemon or root is needed: layers are tars, the rest is JSON named by its checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.image.cache import REPOSITORY
from tests.image.layers import SBOM, UID, Archive, Layer

Json = dict[str, Any]

NAME: Final = "plimsoll"
ENTRYPOINT: Final = ("/usr/bin/plimsoll",)
USER: Final = f"{UID}:{UID}"
ENVIRONMENT: Final = {"PATH": "/usr/bin", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}
"""numpy's BLAS would start a thread per CPU of the node; Plimsoll multiplies no matrices."""
MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A written image."""

    layout: Path
    """Folder with ``index.json``."""
    archive: Path
    """One tar with all of it, for ``ctr images import``, ``podman load`` and ``docker load``."""
    sbom: Path
    digest: str
    """Of the manifest: ``sha256:...``."""
    reference: str
    """Name and tag in the archive."""
    compressed_bytes: int
    unpacked_bytes: int


def version() -> str:
    """Return Plimsoll's version from its one home."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        release: str = tomllib.load(file)["project"]["version"]
    return release


def description() -> str:
    """Return the project's one line."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        summary: str = tomllib.load(file)["project"]["description"]
    return summary


def created(environment: Mapping[str, str] = os.environ) -> str:
    """Return the time that the image says it was made at: SOURCE_DATE_EPOCH, else the beginning of time."""
    seconds = int(environment.get("SOURCE_DATE_EPOCH") or 0)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def labels(revision: str | None) -> dict[str, str]:
    """Return the labels.

    Args:
        revision: The commit, where it is known.
    """
    image_labels = {
        "org.opencontainers.image.title": "Plimsoll",
        "org.opencontainers.image.description": description(),
        "org.opencontainers.image.version": version(),
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    return image_labels if revision is None else {**image_labels, "org.opencontainers.image.revision": revision}


def configuration(layers: Sequence[tuple[Layer, Archive]], architecture: str, revision: str | None) -> Json:
    """Return the image's configuration."""
    moment = created()
    return {
        "architecture": architecture,
        "os": "linux",
        "created": moment,
        "config": {
            "User": USER,
            "Entrypoint": list(ENTRYPOINT),
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "WorkingDir": "/",
            "Labels": labels(revision),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{archive.diff_id}" for _, archive in layers]},
        "history": [{"created": moment, "created_by": f"tests.image: {layer.name}"} for layer, _ in layers],
    }


def write_image(layers: Sequence[Layer], architecture: str, folder: Path, revision: str | None = None) -> Image:
    """Write layout, archive and bill of materials into a folder; what is there of an image before goes.

    Args:
        layers: Lowest first.
        architecture: By Debian's name, which is OCI's too.
        folder: Made where it is missing.
        revision: The commit, for the labels.
    """
    parts = [(layer, layer.archive()) for layer in layers]
    layout = folder / "oci"
    shutil.rmtree(layout, ignore_errors=True)
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for _, archive in parts:
        # A link where that can be: three hundred megabytes less to write.
        copy_or_link(archive.path, blobs / archive.digest)
    config = blob(blobs, configuration(parts, architecture, revision), CONFIG_TYPE)
    listed = [
        {"mediaType": LAYER_TYPE, "digest": f"sha256:{archive.digest}", "size": archive.size} for _, archive in parts
    ]
    whole = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": listed}
    manifest = blob(blobs, whole, MANIFEST_TYPE)
    reference = f"{NAME}:{version()}"
    manifest |= {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {
            "org.opencontainers.image.ref.name": version(),
            # As containerd writes the short name out.
            "io.containerd.image.name": f"docker.io/library/{reference}",
        },
    }
    write_json(layout / "index.json", {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [manifest]})
    write_json(layout / "oci-layout", {"imageLayoutVersion": "1.0.0"})
    stem = f"{NAME}-{version()}-{architecture}"
    target = folder / f"{stem}.tar"
    docker = {
        "Config": f"blobs/sha256/{digest_in(config)}",
        "RepoTags": [reference],
        "Layers": [f"blobs/sha256/{archive.digest}" for _, archive in parts],
    }
    write_archive(layout, docker, target)
    sbom = folder / f"{stem}.cdx.json"
    shutil.copyfile(layers[-1].tree / SBOM, sbom)
    return Image(
        layout=layout,
        archive=target,
        sbom=sbom,
        digest=str(manifest["digest"]),
        reference=reference,
        compressed_bytes=sum(archive.size for _, archive in parts),
        unpacked_bytes=sum(archive.unpacked_bytes for _, archive in parts),
    )


def write_archive(layout: Path, docker: Json, target: Path) -> None:
    """Pack a layout as one tar, with the listing that docker's loader looks for beside the layout's own."""
    unfinished = target.with_name(f".{target.name}-{os.getpid()}")
    listing = json.dumps([docker]).encode()
    with tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(layout.rglob("*")):
            info = tarfile.TarInfo(str(path.relative_to(layout)))
            if path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size = path.stat().st_size
                with path.open("rb") as content:
                    tar.addfile(info, content)
        info = tarfile.TarInfo("manifest.json")
        info.size = len(listing)
        tar.addfile(info, io.BytesIO(listing))
    unfinished.rename(target)


def blob(blobs: Path, content: Json, media_type: str) -> Json:
    """Write a document under the name of its checksum, and give the descriptor."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest()
    (blobs / digest).write_bytes(text)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(text)}


def digest_in(descriptor: Json) -> str:
    """Return a descriptor's checksum without its kind."""
    return str(descriptor["digest"]).partition(":")[2]


def write_json(path: Path, content: Json) -> None:
    """Write a document."""
    path.write_text(json.dumps(content, sort_keys=True) + "\n")


def copy_or_link(source: Path, target: Path) -> None:
    """Give a file a second name, or on another file system a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)

"""A container of the image on this machine, as the chart runs it: runc, uid 65532, no capability, read-only root."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.archives import extract_all
from tests.cluster.processes import Process
from tests.image.layout import Image

Json = dict[str, Any]

NAMESPACES: Final = ("pid", "mount", "ipc", "uts")
"""The network stays this machine's: what is served is asked from outside."""
LOADS_ALL: Final = """
import importlib, sys
from agent.cli.verb_table import VERBS
import agent.node.daemon, agent.webhook.assembly, agent.webhook.http.routes, agent.webhook.certificates.certificates
for verb in VERBS.values():
    importlib.import_module(verb.module)
import agent.webhook.store.database.engine
import psycopg, sqlite3, ssl, curses, numpy
assert ssl.create_default_context().cert_store_stats()["x509_ca"] > 100
assert psycopg.pq.__impl__ == "binary", psycopg.pq.__impl__
curses.setupterm("xterm-256color", 1)
print(sys.flags.isolated, numpy.dot([1.0], [2.0]))
"""

IMPORTS_ALL: Final = """
import importlib, os, pkgutil, sys, warnings
warnings.simplefilter("ignore")
places = [place for place in sys.path if place.endswith("dist-packages")]
found = [one.name for one in pkgutil.iter_modules(places)]
names, failed = [], []
while found:
    name = found.pop()
    if name.rpartition(".")[2] in ("__main__", "testing", "testclient", "_shimmed_dist_utils") or name == "agent":
        continue
    names.append(name)
    try:
        module = importlib.import_module(name)
    except ImportError:  # of what its package calls optional, and the image has not
        continue
    except BaseException as error:
        failed.append(f"{name}: {error!r}")
        continue
    found += [one.name for one in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}.")]
print(len(names) > 500, "numpy.ma.core" in sys.modules, *failed)
"""
"""Imports whatever modules of others there are beside Python's own, but those that want what no user has."""
"""Loads every verb and whatever is of C, in the image's own Python; prints ``1 2.0``."""


def unpack(image: Image, root: Path) -> None:
    """Unpack every layer, as a runtime does.

    Args:
        image: By its own manifest: only what that names is looked at.
        root: Made.
    """
    root.mkdir(parents=True)
    manifest = document(image, json.loads((image.layout / "index.json").read_text())["manifests"][0])
    for layer in manifest["layers"]:
        with tarfile.open(place(image, layer), "r:gz") as tar:
            extract_all(tar, root, "tar")


def place(image: Image, descriptor: Json) -> Path:
    """Return the file of a blob."""
    kind, _, digest = str(descriptor["digest"]).partition(":")
    return image.layout / "blobs" / kind / digest


def document(image: Image, descriptor: Json) -> Json:
    """Read a blob that is JSON."""
    content: Json = json.loads(place(image, descriptor).read_text())
    return content


def configuration(image: Image) -> Json:
    """Return the image's configuration."""
    manifest = document(image, json.loads((image.layout / "index.json").read_text())["manifests"][0])
    return document(image, manifest["config"])


def manifest_platform(image: Image) -> Json:
    """Return what the index says of the machine that the image is for."""
    platform: Json = json.loads((image.layout / "index.json").read_text())["manifests"][0]["platform"]
    return platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """How containers of one unpacked image are run."""

    runc: Path
    root: Path
    config: Json
    """The image's."""
    folder: Path
    """For bundles and runc's state."""

    def bundle(self, name: str, arguments: Sequence[str], binds: Mapping[Path, str], env: Mapping[str, str]) -> Path:
        """Write what runc reads.

        Args:
            name: Of the container.
            arguments: After the image's entry point.
            binds: Folder of this machine to its place inside, read-only unless that ends in ``:rw``.
            env: Beside the image's.
        """
        bundle = self.folder / name
        bundle.mkdir()
        user, _, group = self.config["config"]["User"].partition(":")
        mounts: list[Json] = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
        ]
        for source, target in binds.items():
            path, _, mode = target.partition(":")
            options = ["rbind", "nosuid", "nodev", mode or "ro"]
            mounts.append({"destination": path, "type": "bind", "source": str(source), "options": options})
        nothing: dict[str, list[str]] = {kind: [] for kind in ("bounding", "effective", "permitted", "ambient")}
        document = {
            "ociVersion": "1.0.2",
            "hostname": name,
            "root": {"path": str(self.root), "readonly": True},
            "process": {
                "terminal": False,
                "user": {"uid": int(user), "gid": int(group)},
                "args": [*self.config["config"]["Entrypoint"], *arguments],
                "env": [*self.config["config"]["Env"], *(f"{key}={value}" for key, value in env.items())],
                "cwd": self.config["config"]["WorkingDir"],
                "capabilities": nothing,
                "noNewPrivileges": True,
            },
            "mounts": mounts,
            "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
        }
        (bundle / "config.json").write_text(json.dumps(document))
        return bundle

    def command(self, verb: str, *words: str | Path) -> list[str | Path]:
        """Return a command of runc."""
        return [self.runc, "--root", self.folder / "state", verb, *words]

    def run(
        self,
        name: str,
        *arguments: str,
        entrypoint: Sequence[str] | None = None,
        binds: Mapping[Path, str] | None = None,
    ) -> tuple[int, str]:
        """Run a container to its end; give exit code and output.

        Args:
            name: Of the container.
            arguments: After the entry point.
            entrypoint: In place of the image's.
            binds: As ``bundle`` takes them.
        """
        bundle = self.bundle(name, arguments, binds or {}, {})
        if entrypoint is not None:
            config = json.loads((bundle / "config.json").read_text())
            config["process"]["args"] = [*entrypoint, *arguments]
            (bundle / "config.json").write_text(json.dumps(config))
        words = [str(word) for word in self.command("run", "--bundle", bundle, name)]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.returncode, done.stdout

    @contextmanager
    def running(
        self,
        name: str,
        *arguments: str,
        binds: Mapping[Path, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Iterator[Process]:
        """Have a container run inside the block; its log is ``NAME.log`` in the folder."""
        bundle = self.bundle(name, arguments, binds or {}, env or {})
        process = Process(name, self.command("run", "--bundle", bundle, name), self.folder / f"{name}.log")
        try:
            yield process
        finally:
            subprocess.run(self.command("kill", name, "TERM"), capture_output=True, check=False)
            process.stop()
            subprocess.run(self.command("delete", "--force", name), capture_output=True, check=False)

    def inside(self, name: str, *arguments: str) -> tuple[int, str]:
        """Run the image's command in a running container, as ``kubectl exec`` does."""
        words = self.command("exec", name, *self.config["config"]["Entrypoint"], *arguments)
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.returncode, done.stdout

    def process_ids(self, name: str) -> list[int]:
        """Return the process ids of a running container, this machine's counting."""
        done = subprocess.run(self.command("ps", "--format", "json", name), capture_output=True, text=True, check=True)
        process_ids: list[int] = json.loads(done.stdout)
        return process_ids

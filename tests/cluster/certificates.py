"""An authority of the tests' own, and what it signs: by the openssl program, for there is nothing to install then."""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DAYS: Final = 30
"""A run takes minutes; a cluster left running for somebody to look at takes days."""
KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
"""Elliptic curves: ten milliseconds a key, where RSA takes up to a second."""


class CertificateError(Exception):
    """openssl is missing or refused; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder; the files it signs lie beside it, named by their purpose."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"]
        self._pair = self._request("ca", [("CN", "plimsoll-tests")], extensions, signed=False)

    @property
    def certificate(self) -> Path:
        """The authority's certificate: what clients and servers are given to trust."""
        return self._pair.certificate

    def client(self, common_name: str, organisations: Iterable[str] = ()) -> KeyPair:
        """Sign a client: the API server takes the common name as the user, the organisations as its groups."""
        subject = [*(("O", name) for name in organisations), ("CN", common_name)]
        return self._request(f"client-{file_name(common_name)}", subject, leaf("clientAuth"))

    def server(self, common_name: str, names: Iterable[str]) -> KeyPair:
        """Sign a server for DNS names and addresses alike."""
        alternatives = ",".join(f"{'IP' if is_address(name) else 'DNS'}:{name}" for name in dict.fromkeys(names))
        extensions = [*leaf("serverAuth"), f"subjectAltName={alternatives}"]
        return self._request(f"server-{file_name(common_name)}", [("CN", common_name)], extensions)

    def signing_keys(self) -> KeyPair:
        """Return the key that signs service accounts' tokens, and its public half in the certificate's place."""
        pair = KeyPair(certificate=self._folder / "service-accounts.pub", key=self._folder / "service-accounts.key")
        run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-out", pair.key])
        run(["openssl", "pkey", "-in", pair.key, "-pubout", "-out", pair.certificate])
        return pair

    def _request(
        self, name: str, subject: list[tuple[str, str]], extensions: list[str], *, signed: bool = True
    ) -> KeyPair:
        pair = KeyPair(certificate=self._folder / f"{name}.crt", key=self._folder / f"{name}.key")
        settings = self._folder / f"{name}.cnf"
        # A file of our own: the system's would add its idea of extensions, and is not there on every machine.
        lines = ["[req]", "distinguished_name = subject", "x509_extensions = extensions", "prompt = no", "[subject]"]
        lines += [f"{index}.{key} = {value}" for index, (key, value) in enumerate(subject)]
        lines += ["[extensions]", "subjectKeyIdentifier = hash", *(line.replace("=", " = ", 1) for line in extensions)]
        settings.write_text("\n".join(lines) + "\n")
        by: list[str | Path] = ["-CA", self._pair.certificate, "-CAkey", self._pair.key] if signed else []
        files: list[str | Path] = ["-config", settings, "-keyout", pair.key, "-out", pair.certificate]
        run(["openssl", "req", "-x509", "-sha256", "-days", str(DAYS), *KEY, *by, *files])
        return pair


def leaf(usage: str) -> list[str]:
    """Return the extensions of a certificate that signs nothing."""
    return [
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        f"extendedKeyUsage={usage}",
        "authorityKeyIdentifier=keyid",
    ]


def file_name(common_name: str) -> str:
    """Return a name fit for a file: ``system:node:a`` is ``system-node-a``."""
    return "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in common_name)


def is_address(name: str) -> bool:
    """Tell an IP address from a DNS name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def run(command: list[str | Path]) -> None:
    """Run openssl.

    Raises:
        CertificateError: It is not there, older than 3, or refused.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CertificateError("cluster: openssl not found; apt-get install -y openssl") from error
    if done.returncode != 0:
        words = " ".join(done.stderr.split())[-300:]
        raise CertificateError(f"cluster: {' '.join(map(str, command[:3]))} failed (openssl 3 is needed): {words}")

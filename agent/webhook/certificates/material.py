"""A serving certificate with its key and the authorities that vouch for it: read from PEM and checked. No I/O."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes, PublicKeyTypes

from agent.kube.client.errors import one_line

R = TypeVar("R")

LONGEST_PEM: Final = 1 << 20
_LONGEST_PATH: Final = 8


class MaterialError(ValueError):
    """PEM that is not understood, does not fit together or is not good now; one line, never with a key in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """One certificate, as far as its keeping asks."""

    pem: bytes = field(repr=False)
    not_before_unix_seconds: float
    not_after_unix_seconds: float

    def elapsed_ratio(self, now_unix_seconds: float) -> float:
        """Return how much of its life is over: 0 at its beginning, 1 at its end."""
        life_seconds = max(self.not_after_unix_seconds - self.not_before_unix_seconds, 1.0)
        return (now_unix_seconds - self.not_before_unix_seconds) / life_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What is served, and what vouches for it."""

    leaf: Certificate
    chain_pem: bytes = field(repr=False)
    """The leaf first, then what leads to an authority."""
    key_pem: bytes = field(repr=False)
    authorities: tuple[Certificate, ...] = ()
    """Who is trusted to sign, the one that signs now first; empty = not known here."""
    authority_key_pem: bytes | None = field(default=None, repr=False)
    """Of the first authority; None = not known here."""
    is_by_first: bool = False
    """The first authority has signed the leaf."""
    names: frozenset[str] = frozenset()
    """DNS names and addresses that the leaf is for, as it spells them."""

    @property
    def bundle_pem(self) -> bytes:
        """Return the authorities as caBundle holds them."""
        return b"".join(authority.pem for authority in self.authorities)


def read_material(
    *,
    chain_pem: bytes | None,
    key_pem: bytes | None,
    authorities_pem: bytes | None = None,
    authority_key_pem: bytes | None = None,
    names: Sequence[str],
    now_unix_seconds: float,
) -> Material:
    """Read what is to be served, and check that it can be.

    Args:
        chain_pem: The certificate, then what leads to its authority.
        key_pem: Its key, not encrypted.
        authorities_pem: Who vouches for it; None = not known, not checked.
        authority_key_pem: The first authority's key.
        names: DNS names that the certificate must be for.
        now_unix_seconds: It must be good at this time.
    """
    chain = _certificates(chain_pem, "the certificate")
    leaf = chain[0]
    key = _key(key_pem, "the certificate's key")
    if _public_bytes(key.public_key()) != _public_bytes(leaf.public_key()):
        raise MaterialError("the key is not the certificate's")
    shown = _certificate(leaf)
    if not shown.not_before_unix_seconds <= now_unix_seconds < shown.not_after_unix_seconds:
        raise MaterialError(
            f"the certificate is good from {_moment(shown.not_before_unix_seconds)} "
            f"to {_moment(shown.not_after_unix_seconds)} only"
        )
    stated = _names(leaf)
    missing = [name for name in names if not _is_for(stated, name)]
    if missing:
        raise MaterialError(f"the certificate is not for {', '.join(missing)}")
    authorities = _certificates(authorities_pem, "the authority") if authorities_pem is not None else []
    if authorities and not _leads_to(chain, authorities):
        raise MaterialError("the certificate is by none of the authorities")
    if authority_key_pem is not None and authorities:
        authority_key = _key(authority_key_pem, "the authority's key")
        if _public_bytes(authority_key.public_key()) != _public_bytes(authorities[0].public_key()):
            raise MaterialError("the authority's key is not the first authority's")
    return Material(
        leaf=shown,
        chain_pem=b"".join(_pem(certificate) for certificate in chain),
        key_pem=key_pem or b"",
        authorities=tuple(_certificate(authority) for authority in authorities),
        authority_key_pem=authority_key_pem,
        is_by_first=bool(authorities) and _is_by(leaf, authorities[0]),
        names=stated,
    )


def read_key(pem: bytes) -> PrivateKeyTypes:
    """Read a key that was checked before."""
    return _key(pem, "the key")


def _certificates(pem: bytes | None, what: str) -> list[x509.Certificate]:
    if not pem:
        raise MaterialError(f"{what} is missing")
    return _understood(lambda: x509.load_pem_x509_certificates(_bounded(pem)), what)


def _key(pem: bytes | None, what: str) -> PrivateKeyTypes:
    if not pem:
        raise MaterialError(f"{what} is missing")
    return _understood(lambda: serialization.load_pem_private_key(_bounded(pem), password=None), what)


def _bounded(pem: bytes) -> bytes:
    if len(pem) > LONGEST_PEM:
        raise ValueError(f"{len(pem)} bytes (at most {LONGEST_PEM})")
    return pem


def _understood(read: Callable[[], R], what: str) -> R:
    try:
        return read()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise MaterialError(f"{what} is not understood: {one_line(str(error))[:200]}") from error


def _certificate(certificate: x509.Certificate) -> Certificate:
    return Certificate(
        pem=_pem(certificate),
        not_before_unix_seconds=certificate.not_valid_before_utc.timestamp(),
        not_after_unix_seconds=certificate.not_valid_after_utc.timestamp(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _public_bytes(key: CertificatePublicKeyTypes | PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _names(leaf: x509.Certificate) -> frozenset[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    dns = names.get_values_for_type(x509.DNSName)
    return frozenset((*dns, *(str(address) for address in names.get_values_for_type(x509.IPAddress))))


def _is_for(stated: frozenset[str], name: str) -> bool:
    lowered = {stated_name.lower() for stated_name in stated}
    return name.lower() in lowered or f"*.{name.lower().partition('.')[2]}" in lowered


def _leads_to(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    current = chain[0]
    for _ in range(_LONGEST_PATH):
        if current in authorities or any(_is_by(current, authority) for authority in authorities):
            return True
        above = next((issuer for issuer in chain if issuer != current and _is_by(current, issuer)), None)
        if above is None:
            return False
        current = above
    return False


def _is_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _moment(unix_seconds: float) -> str:
    return datetime.datetime.fromtimestamp(unix_seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

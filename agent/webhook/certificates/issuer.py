"""Making authorities and certificates: elliptic curve P-256, which every API server takes. No I/O.

An authority's name carries the time of its making, so that old and new ones are told apart by people and by verifiers.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agent.webhook.certificates.material import MaterialError, read_key

CLOCKS_DIFFER_SECONDS: Final = 300.0
"""What is made here is good from so long ago: other machines' clocks may be behind."""
_LONGEST_COMMON_NAME: Final = 64


def make_authority(*, now_unix_seconds: float, life_seconds: float) -> tuple[bytes, bytes]:
    """Return an authority that signs itself, good from now on: its certificate and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"plimsoll-webhook {_time(now_unix_seconds):%Y-%m-%dT%H:%M:%S.%f}")]
    )
    certificate = (
        _begun(name, name, key.public_key(), now_unix_seconds, now_unix_seconds + life_seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)


def make_leaf(
    *,
    authority_pem: bytes,
    authority_key_pem: bytes,
    names: Sequence[str],
    now_unix_seconds: float,
    life_seconds: float,
) -> tuple[bytes, bytes]:
    """Return a serving certificate and its key, PEM; it is never good for longer than its authority."""
    authority = x509.load_pem_x509_certificate(authority_pem)
    signing = read_key(authority_key_pem)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise MaterialError("the authority's key is not of an elliptic curve")
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now_unix_seconds + life_seconds, authority.not_valid_after_utc.timestamp())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:_LONGEST_COMMON_NAME])])
    certificate = (
        _begun(name, authority.subject, key.public_key(), now_unix_seconds, end)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_unix_seconds: float, end: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now_unix_seconds - CLOCKS_DIFFER_SECONDS))
        .not_valid_after(_time(end))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _time(unix_seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(unix_seconds, datetime.UTC)

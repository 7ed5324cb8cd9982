"""Service accounts' tokens as an API server signs them, and the keys that it publishes."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from agent.webhook.http.tokens import SigningKeys, Token

AGENT = "system:serviceaccount:plimsoll:plimsoll-agent"
AUDIENCE = "plimsoll-webhook"
_DIGESTS = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
_CURVES: dict[str, tuple[str, ec.EllipticCurve]] = {
    "ES256": ("P-256", ec.SECP256R1()),
    "ES384": ("P-384", ec.SECP384R1()),
    "ES512": ("P-521", ec.SECP521R1()),
}


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def number(value: int) -> str:
    return encoded(value.to_bytes((value.bit_length() + 7) // 8))


@dataclass(frozen=True)
class Signer:
    """One signing key of an API server."""

    key_id: str
    algorithm: str
    key: Any

    def token(self, claims: Mapping[str, object], **header: object) -> str:
        head = {"alg": self.algorithm, "kid": self.key_id, **header}
        signed = f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(claims).encode())}"
        return f"{signed}.{encoded(self._sign(signed.encode()))}"

    def _sign(self, signed: bytes) -> bytes:
        digest = _DIGESTS[self.algorithm[2:]]
        if self.algorithm.startswith("RS"):
            signature: bytes = self.key.sign(signed, padding.PKCS1v15(), digest)
            return signature
        size = (self.key.curve.key_size + 7) // 8
        return b"".join(part.to_bytes(size) for part in decode_dss_signature(self.key.sign(signed, ec.ECDSA(digest))))

    def published(self) -> dict[str, str]:
        head = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        numbers = self.key.public_key().public_numbers()
        if self.algorithm.startswith("RS"):
            return {**head, "kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
        size = (self.key.curve.key_size + 7) // 8
        x, y = (encoded(coordinate.to_bytes(size)) for coordinate in (numbers.x, numbers.y))
        return {**head, "kty": "EC", "crv": _CURVES[self.algorithm][0], "x": x, "y": y}


@functools.cache
def signer(algorithm: str = "RS256", key_id: str = "key-1") -> Signer:
    """Return a key; the same for the same arguments."""
    if algorithm.startswith("RS"):
        return Signer(key_id, algorithm, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return Signer(key_id, algorithm, ec.generate_private_key(_CURVES[algorithm][1]))


def claims(*, node: object = "node-a", **changes: object) -> dict[str, object]:
    """Return what an agent's token says."""
    return {
        "aud": [AUDIENCE],
        "exp": 5000.0,
        "iss": "https://kubernetes.default.svc",
        "sub": AGENT,
        "kubernetes.io": {
            "namespace": "plimsoll",
            "node": {"name": node, "uid": "u"},
            "pod": {"name": f"agent-{node}", "uid": f"uid-{node}"},
        },
        **changes,
    }


class AnyWord(SigningKeys):
    """Keys for whom every word is a token, signed as it should be: what is tried is what comes after."""

    def __init__(self) -> None:
        pass

    def look(self, text: str, *, audience: str, now_unix_seconds: float) -> Token:
        return Token(algorithm="RS256", key_id="key-1", signed=b"", signature=b"", bearer=text.encode())

    def is_signed(self, token: Token) -> bool:
        return True

    def refresh(self) -> bool:
        return False

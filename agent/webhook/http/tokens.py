"""Tokens looked into before anybody is asked about them: shape, audience, account, expiry, and the signature. Webhook.

Every token that may be good is a service account's, made by a TokenRequest for the webhook's audience: agents' by their
pods, people's by ``kubectl create token``. Opaque tokens of other authenticators are not for this audience, and are not
taken. What is not such a token costs microseconds and no question; that of a good signature is likely good, and the API
server is asked, as it alone knows what was revoked. Its keys are those that it publishes at /openid/v1/jwks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from agent.kube.client.api import JWKS_PATH, Api
from agent.kube.client.errors import KubeError

log = logging.getLogger(__name__)

MOST_HEADER_CHARACTERS: Final = 2048
MOST_SIGNATURE_CHARACTERS: Final = 2048
LATE_SECONDS: Final = 300.0
"""By which the webhook's clock may be ahead: tokens are renewed long before they end, and the API server judges."""
REFRESH_SECONDS: Final = 10.0
"""Between two questions for the keys, as when tokens name one that is not known."""
AWAY_SECONDS: Final = 60.0
"""The same after one that was refused."""
MOST_KEYS: Final = 64
_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:[a-z0-9.-]{1,63}:[a-z0-9.-]{1,253}")
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: Final[Mapping[str, ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
_CURVE_OF: Final[Mapping[str, str]] = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", *_CURVE_OF})

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""


class _Named(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Kubernetes(msgspec.Struct):
    node: _Named = msgspec.field(default_factory=_Named)
    pod: _Named = msgspec.field(default_factory=_Named)


class _Payload(msgspec.Struct):
    aud: str | list[str]
    exp: float
    sub: str
    kubernetes: _Kubernetes = msgspec.field(default_factory=_Kubernetes, name="kubernetes.io")


class _Key(msgspec.Struct):
    kty: str
    kid: str = ""
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""


class _KeySet(msgspec.Struct):
    keys: list[_Key]


_HEADER: Final = msgspec.json.Decoder(_Header)
_PAYLOAD: Final = msgspec.json.Decoder(_Payload)


class NotAToken(ValueError):  # noqa: N818
    """A token that cannot be good; one line for its bearer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token that may be good."""

    algorithm: str
    key_id: str
    signed: bytes
    signature: bytes
    bearer: bytes
    """Whose it says it is: account, node and pod, as a hash."""


def look(text: str, *, audience: str, now_unix_seconds: float) -> Token:
    """Read a token.

    Raises:
        NotAToken: It is none of a service account for this audience, or it has ended.
    """
    parts = text.split(".")
    if len(parts) != 3:
        raise NotAToken("this is no service account's token; allowed: one that kubectl create token makes")
    if len(parts[0]) > MOST_HEADER_CHARACTERS or len(parts[2]) > MOST_SIGNATURE_CHARACTERS:
        raise NotAToken("the token is malformed")
    try:
        header = _HEADER.decode(_bytes(parts[0]))
        payload = _PAYLOAD.decode(_bytes(parts[1]))
        signature = _bytes(parts[2])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NotAToken("the token is malformed") from None
    if header.alg not in _ALGORITHMS:
        raise NotAToken("the token is signed in a way that is not allowed")
    if audience not in ([payload.aud] if isinstance(payload.aud, str) else payload.aud):
        raise NotAToken(f"the token is not for audience {audience}")
    if _SERVICE_ACCOUNT.fullmatch(payload.sub) is None:
        raise NotAToken("the token is not of a service account")
    if not payload.exp > now_unix_seconds - LATE_SECONDS:
        raise NotAToken("the token has expired")
    place = payload.kubernetes
    bearer = msgspec.json.encode([payload.sub, place.node.name, place.pod.uid])
    return Token(
        algorithm=header.alg,
        key_id=header.kid,
        signed=f"{parts[0]}.{parts[1]}".encode(),
        signature=signature,
        bearer=hashlib.sha256(bearer).digest(),
    )


class SigningKeys:
    """The API server's published keys; for any thread, ``refresh`` for one that may wait."""

    def __init__(self, api: Api, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any; every service account may get ``/openid/v1/jwks`` by default."""
        self._api, self._clock = api, clock
        self._keys: Mapping[str, PublicKey] = {}
        self._lock = threading.Lock()
        self._not_before_seconds: float | None = None
        self._is_told = False

    @property
    def count(self) -> int:
        """Count the keys that are known."""
        return len(self._keys)

    def look(self, text: str, *, audience: str, now_unix_seconds: float) -> Token:
        """Read a token; raise NotAToken as the function does."""
        return look(text, audience=audience, now_unix_seconds=now_unix_seconds)

    def is_signed(self, token: Token) -> bool | None:
        """Return whether a signature is the API server's; None = it cannot be told: the key is not known."""
        key = self._keys.get(token.key_id)
        return None if key is None else _is_good(key, token)

    def refresh(self) -> bool:
        """Ask for the keys, if that was not done lately; True = they were had anew."""
        with self._lock:
            now = self._clock()
            if self._not_before_seconds is not None and now < self._not_before_seconds:
                return False
            self._not_before_seconds = now + REFRESH_SECONDS
            try:
                keys = _keys_of(self._api.call("GET", JWKS_PATH))
            except (KubeError, ValueError, msgspec.MsgspecError) as error:
                self._not_before_seconds = now + AWAY_SECONDS
                if not self._is_told:
                    self._is_told = True
                    message = "the API server's keys cannot be had: tokens are asked about unchecked"
                    log.warning(message, extra={"cause": str(error)})
                return False
            self._is_told = False
            self._keys = keys
            return True


def _keys_of(document: object) -> dict[str, PublicKey]:
    """Read a set of keys; those that are not understood are left out."""
    public_keys: dict[str, PublicKey] = {}
    for key in msgspec.convert(document, _KeySet).keys[:MOST_KEYS]:
        try:
            public_key = _key_of(key)
        except ValueError:
            continue
        if public_key is not None and key.kid:
            public_keys[key.kid] = public_key
    return public_keys


def _key_of(key: _Key) -> PublicKey | None:
    if key.kty == "RSA":
        return rsa.RSAPublicNumbers(_number(key.e), _number(key.n)).public_key()
    if key.kty == "EC" and key.crv in _CURVES:
        return ec.EllipticCurvePublicNumbers(_number(key.x), _number(key.y), _CURVES[key.crv]).public_key()
    return None


def _is_good(key: PublicKey, token: Token) -> bool:
    digest = _HASHES[token.algorithm[2:]]
    try:
        if isinstance(key, rsa.RSAPublicKey):
            if not token.algorithm.startswith("RS"):
                return False
            key.verify(token.signature, token.signed, padding.PKCS1v15(), digest)
            return True
        if _CURVE_OF.get(token.algorithm) != _curve_name(key):
            return False
        size = (key.curve.key_size + 7) // 8
        if len(token.signature) != 2 * size:
            return False
        numbers = (int.from_bytes(token.signature[:size]), int.from_bytes(token.signature[size:]))
        key.verify(encode_dss_signature(*numbers), token.signed, ec.ECDSA(digest))
    except (InvalidSignature, ValueError):
        return False
    return True


def _curve_name(key: ec.EllipticCurvePublicKey) -> str | None:
    return next((name for name, curve in _CURVES.items() if curve.name == key.curve.name), None)


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text))


def _bytes(text: str) -> bytes:
    """Read base64url without padding, and nothing else."""
    if _BASE64URL.fullmatch(text) is None:
        raise ValueError("not base64url")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not base64url") from error

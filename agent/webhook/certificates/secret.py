"""The Secret that holds the serving certificate: watched by every replica, written by the leader of a built-in one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.kube.client.api import MERGE_PATCH
from agent.kube.client.errors import ApiError
from agent.kube.objects.json_reader import ConvertError, Reader
from agent.kube.watch.reflector import WatchSource
from agent.webhook.certificates.material import Material, read_material
from agent.webhook.cluster.one_object import OneObject, WatchMeans

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
_KEYS: Final = (CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEY)
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretData:
    """The Secret as the API server has it."""

    resource_version: str
    data: Mapping[str, bytes] = field(repr=False)
    """Of the keys that matter here."""


class SecretWatch(OneObject[SecretData]):
    """Keeps the Secret in step; one thread asks."""

    def __init__(self, means: WatchMeans, namespace: str, name: str) -> None:
        self._api, self._namespace = means.api, namespace
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        super().__init__(
            means,
            name,
            WatchSource(
                name="certificate",
                path=self._collection,
                read=secret_from_json,
                is_same=lambda secret, other: secret.data == other.data,
            ),
        )

    def write(self, material: Material, before: SecretData | None) -> bool:
        """Write what is to be served and who signs, in the place of what was read; other keys and labels stay.

        Returns:
            False = somebody else wrote meanwhile: the watch brings it.
        """
        data = {key: base64.b64encode(value).decode() for key, value in data_of(material).items()}
        try:
            if before is None:
                metadata = {"name": self.name, "namespace": self._namespace}
                body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
                self._api.call("POST", self._collection, body=body)
            else:
                patch = {"metadata": {"resourceVersion": before.resource_version}, "data": data}
                self._api.call("PATCH", f"{self._collection}/{self.name}", body=patch, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == _CONFLICT or (error.status == _NOT_FOUND and before is not None):
                return False
            raise
        return True


def material_of(data: Mapping[str, bytes], *, names: Sequence[str], now_unix_seconds: float) -> Material:
    """Read what a Secret's data serve."""
    return read_material(
        chain_pem=data.get(CERTIFICATE),
        key_pem=data.get(KEY),
        authorities_pem=data.get(AUTHORITIES) or None,
        authority_key_pem=data.get(AUTHORITY_KEY) or None,
        names=names,
        now_unix_seconds=now_unix_seconds,
    )


def data_of(material: Material) -> dict[str, bytes]:
    """Return a Secret's data."""
    return {
        CERTIFICATE: material.chain_pem,
        KEY: material.key_pem,
        AUTHORITIES: material.bundle_pem,
        AUTHORITY_KEY: material.authority_key_pem or b"",
    }


def secret_from_json(document: object) -> SecretData:
    """Read a Secret.

    Raises:
        ConvertError: It is not understood; no value of it is shown.
    """
    top = Reader(document, "")
    data: dict[str, bytes] = {}
    texts = top.child("data")
    for key in _KEYS:
        if not texts.has(key):
            continue
        try:
            data[key] = base64.b64decode(texts.text(key) or "", validate=True)
        except (binascii.Error, ValueError) as error:
            msg = f"data.{key}: not base64"
            raise ConvertError(msg) from error
    return SecretData(resource_version=top.child("metadata").required_text("resourceVersion"), data=data)

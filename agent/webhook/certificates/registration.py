"""caBundle of the MutatingWebhookConfiguration: watched by every replica, kept by the leader, and only that field."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from agent.kube.client.api import JSON_PATCH
from agent.kube.client.errors import ApiError
from agent.kube.objects.json_reader import Reader
from agent.kube.watch.reflector import WatchSource
from agent.webhook.cluster.one_object import OneObject, WatchMeans

PATH: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_CHANGED: Final = (404, 409, 422)
"""What a patch is answered with whose tests no longer hold (422), or whose object is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWebhook:
    """One webhook of the configuration."""

    name: str
    bundle_pem: bytes | None
    """None = there is none, or it is no base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookConfiguration:
    """The configuration, as far as the certificate asks."""

    webhooks: tuple[RegisteredWebhook, ...]


class Registration(OneObject[WebhookConfiguration]):
    """The configuration as the API server has it; one thread asks."""

    def __init__(self, means: WatchMeans, name: str) -> None:
        self._api, self._clock = means.api, means.clocks.monotonic
        super().__init__(
            means,
            name,
            WatchSource(
                name="registration",
                path=PATH,
                read=configuration_from_json,
                is_same=lambda configuration, other: configuration == other,
            ),
        )
        self._standing: tuple[bytes, float] | None = None
        """A bundle that stands everywhere, and since when that is seen."""

    def fault(self) -> str | None:
        """Return why admissions cannot come here; None = nothing is known against it."""
        if not self.is_listed or self.current() is not None:
            return None
        return super().fault() or f"there is no MutatingWebhookConfiguration {self.name}: no pod is sized"

    def stands(self, bundle_pem: bytes) -> bool:
        """Return whether the bundle stands in every webhook; for any thread."""
        configuration = self.current()
        return (
            configuration is not None
            and bool(configuration.webhooks)
            and all(webhook.bundle_pem == bundle_pem for webhook in configuration.webhooks)
        )

    def standing_seconds(self, bundle_pem: bytes) -> float | None:
        """Return for how long the bundle was seen to stand everywhere, by this process; None = it does not."""
        if not self.stands(bundle_pem):
            self._standing = None
            return None
        if self._standing is None or self._standing[0] != bundle_pem:
            self._standing = bundle_pem, self._clock()
        return self._clock() - self._standing[1]

    def ensure(self, bundle_pem: bytes) -> bool:
        """Write the bundle where it is not; only that field is touched.

        Returns:
            Whether something was written; the watch shows it a moment later.
        """
        configuration = self.current()
        if configuration is None or self.stands(bundle_pem):
            return False
        value = base64.b64encode(bundle_pem).decode()
        operations: list[dict[str, str]] = []
        for index, webhook in enumerate(configuration.webhooks):
            if webhook.bundle_pem != bundle_pem:
                # The test keeps the patch from another webhook, should the list have changed meanwhile.
                operations.append({"op": "test", "path": f"/webhooks/{index}/name", "value": webhook.name})
                operations.append({"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": value})
        if not operations:
            return False
        try:
            self._api.call("PATCH", f"{PATH}/{self.name}", body=operations, content_type=JSON_PATCH)
        except ApiError as error:
            if error.status in _CHANGED and error.reason != "Forbidden":
                return False  # the watch brings what it is now
            raise
        return True


def configuration_from_json(document: object) -> WebhookConfiguration:
    """Read a MutatingWebhookConfiguration."""
    return WebhookConfiguration(
        webhooks=tuple(
            RegisteredWebhook(
                name=webhook.required_text("name"), bundle_pem=_decoded(webhook.child("clientConfig").text("caBundle"))
            )
            for webhook in Reader(document, "").items("webhooks")
        )
    )


def _decoded(text: str | None) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if text is not None else None
    except (ValueError, binascii.Error):
        return None

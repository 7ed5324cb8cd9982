"""What can be set of the webhook's serving certificate; the docstring under each field is its documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from agent.core.numbers.allowed_range import Between, Unset


class CertificateSource(StrEnum):
    """Where the serving certificate comes from."""

    BUILT_IN = "built-in"
    """The leader makes an authority and a certificate, renews both and registers the authority."""
    SECRET = "secret"  # noqa: S105  a kind of object, no password
    """A Secret that somebody else keeps (cert-manager, an administrator); nothing is registered."""
    FILES = "files"
    """Files, such as a mounted Secret; nothing is registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateOptions:
    """The webhook's serving certificate."""

    source: CertificateSource = CertificateSource.BUILT_IN
    """built-in: made and renewed by the leader; secret: a Secret of somebody else; files: PEM files. In the latter two
    cases caBundle is somebody else's too."""
    secret: str = "plimsoll-webhook-certificate"  # noqa: S105  its name
    """The Secret (tls.crt, tls.key, ca.crt; built-in: ca.key) in the webhook's namespace."""
    authority_config_map: str = "plimsoll-webhook-authority"
    """The ConfigMap in the webhook's namespace into whose ca.crt the leader puts whom agents are to trust, with sources
    built-in and secret. It is never made here."""
    certificate_file: Annotated[Path | None, Unset("only read with source files")] = None
    """PEM file of the certificate and what leads to its authority; read again when it changes."""
    key_file: Annotated[Path | None, Unset("only read with source files")] = None
    """PEM file of its key."""
    service: str = "plimsoll-webhook"
    """The Service by which the API server calls: the certificate is for SERVICE.NAMESPACE.svc."""
    further_names: Annotated[str | None, Unset("none beside the Service's")] = None
    """DNS names and addresses that a built-in certificate is for as well, separated by commas."""
    configuration: str = "plimsoll"
    """The MutatingWebhookConfiguration whose caBundle the leader keeps."""
    leaf_days: Annotated[float, Between(0.001, 825)] = 90.0
    """Days that a certificate is good; it is replaced after two thirds of them."""
    authority_days: Annotated[float, Between(0.01, 7300)] = 730.0
    """Days that an authority is good; its successor is made after two thirds of them."""
    propagation_seconds: Annotated[float, Between(0, 86_400)] = 120.0
    """Seconds that a new authority stands in caBundle before a certificate by it is served: all API servers know it."""
    overlap_seconds: Annotated[float, Between(0, 31_536_000)] = 86_400.0
    """Seconds that an old authority stays in caBundle after the last certificate by it was replaced: all replicas have
    taken the new one."""
    expiry_warning_days: Annotated[float, Between(0, 365)] = 14.0
    """A certificate with fewer days left than this, which nobody replaces, is a fault."""
